"""The robots against their published numbers."""

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.robots import LEGS, SEGMENTS, get_robot
from gmc_bench.robots.model import compile_robot

FACTS = Path(__file__).parents[4] / "shared" / "facts" / "quadrupeds.json"
CLOSE = {"rtol": 1e-2, "atol": 1e-9}  # one percent

# mass kg; hip, thigh, calf kg; feet front left and rear left at the stance, base frame, m;
# base height m; torque limits N m; front left ranges rad
MAIN = {
    "go1": (
        12.743448, (0.68, 1.009, 0.195862),
        (0.172522, 0.157429, -0.301768), (-0.265216, 0.156501, -0.292514), 0.32477,
        (23.7, 23.7, 35.55), ((-0.863, 0.863), (-0.686, 4.501), (-2.818, -0.888)),
    ),
    "go2": (
        15.017, (0.678, 1.152, 0.194),
        (0.176292, 0.172731, -0.301503), (-0.272271, 0.171769, -0.291921), 0.3235,
        (23.7, 23.7, 45.43), ((-1.0472, 1.0472), (-1.5708, 3.4907), (-2.7227, -0.83776)),
    ),
    "anymal-b": (
        30.421397, (1.42462064, 1.63497647, 0.347375069),
        (0.451298, 0.246, -0.4658), (-0.451298, 0.246, -0.4658), 0.4968,
        (80, 80, 80), ((-9.42, 9.42), (-9.42, 9.42), (-9.42, 9.42)),
    ),
    "anymal-c": (
        52.13485, (2.781, 3.071, 0.58842),
        (0.452673, 0.30116, -0.51882), (-0.452673, 0.30116, -0.51882), 0.54882,
        (80, 80, 80), ((-0.72, 0.49), (-9.42477796, 9.42477796), (-9.42477796, 9.42477796)),
    ),
}  # fmt: skip


def _feet_b(compiled):
    data = mujoco.MjData(compiled.model)
    data.qpos[:] = compiled.standing_qpos(0.0)
    mujoco.mj_kinematics(compiled.model, data)
    return data.geom_xpos[compiled.foot_geoms]


def test_the_robots_are_those_of_the_records():
    """The `morphologies_digest` that all records of quadruped-friction-v3 state."""
    digest = "0d3ff4a0621bc710e19acba1379ee5038244d923aecc26f1eba458e62ca8c5b8"
    assert load_morphologies("quadrupeds-v1").digest == digest


def test_main_numbers(robot):
    mass, links, front, rear, height, torques, ranges = MAIN[robot.name]
    compiled = compile_robot(robot)
    assert compiled.model.body_mass.sum() == pytest.approx(mass, rel=1e-6)
    masses = compiled.model.body_mass[compiled.base_body + 1 :].reshape(4, 3)
    np.testing.assert_allclose(masses, np.tile(links, (4, 1)), rtol=1e-6)
    feet = _feet_b(compiled)
    mirror = (1, -1, 1)
    np.testing.assert_allclose(
        feet, [front, np.multiply(front, mirror), rear, np.multiply(rear, mirror)], atol=1e-5
    )
    radius = robot.feet[0].radius
    assert radius - feet[:, 2].min() == pytest.approx(height, abs=1e-5)
    assert robot.pose.base_height == height
    assert tuple(link.joint.torque_limit for link in robot.links[:3]) == torques
    np.testing.assert_allclose(compiled.model.jnt_range[1:4], ranges, rtol=1e-6)


def test_stances_spread_the_hips_outward_and_bend_the_knees():
    unitree = (0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5)
    anymal = (0.0, 0.4, -0.8, 0.0, 0.4, -0.8, 0.0, -0.4, 0.8, 0.0, -0.4, 0.8)
    for name, angles, kp, kd in (
        ("go1", unitree, 25, 0.5),
        ("go2", unitree, 25, 0.5),
        ("anymal-b", anymal, 80, 2),
        ("anymal-c", anymal, 80, 2),
    ):
        robot = get_robot(name)
        assert robot.pose.angles == angles
        assert (robot.gains.kp, robot.gains.kd, robot.gains.action_scale) == (kp, kd, 0.25)


# armature kg m^2 and dry friction N m of every joint; velocity limits of hip, thigh and calf rad/s;
# share of the range that soft limits leave
JOINTS = {
    "go1": (0.01, 0.2, (30.1, 30.1, 20.06), 0.9),
    "go2": (0.01, 0.2, (30.1, 30.1, 15.7), 0.9),
    "anymal-b": (0.01, 0.1, (15.0, 15.0, 15.0), 0.95),
    "anymal-c": (0.01, 0.1, (7.5, 7.5, 7.5), 0.95),
}


def test_joints_have_these_dynamics(robot):
    armature, dry_friction, velocity_limits, soft = JOINTS[robot.name]
    joints = [link.joint for link in robot.links]
    assert {joint.armature for joint in joints} == {armature}
    assert {joint.frictionloss for joint in joints} == {dry_friction}
    assert {joint.damping for joint in joints} == {0.0}  # the drives' gain kd is the damping
    assert tuple(joint.velocity_limit for joint in joints) == 4 * velocity_limits
    assert robot.soft_limit_factor == soft


def test_all_numbers_against_the_collected_facts(robot):
    if not FACTS.is_file():
        pytest.skip(f"the collected facts are not at {FACTS}")
    facts = json.loads(FACTS.read_text())[robot.name.replace("-", "_")]
    compiled = compile_robot(robot)
    assert compiled.model.body_mass.sum() == pytest.approx(facts["total_mass"], rel=1e-6)
    _assert_inertial(robot.base.inertial, facts["base"])
    np.testing.assert_allclose(robot.base.imu, facts["base"].get("imu_site") or (0.0, 0.0, 0.0))
    expected_feet = [facts["fk_default"]["feet"][leg] for leg in LEGS]
    np.testing.assert_allclose(_feet_b(compiled), expected_feet, atol=1e-5)
    tokens = facts["tokens"]["list"]
    stance = facts["default_pose"]["isaaclab"]["q"]
    np.testing.assert_allclose(robot.pose.angles, [q for leg in LEGS for q in stance[leg]])
    for place, (link, token) in enumerate(zip(robot.links, tokens, strict=True)):
        leg, segment = LEGS[place // 3], SEGMENTS[place % 3]
        given = facts["legs"][leg][segment]
        assert (link.name, link.joint.name) == (given["body"], given["joint"])
        _assert_inertial(link.inertial, given)
        np.testing.assert_allclose(link.position, given["pos"], **CLOSE)
        np.testing.assert_array_equal(link.joint.axis, given["axis"])
        np.testing.assert_allclose(link.joint.range, given["range"], **CLOSE)
        np.testing.assert_allclose(link.joint.feature_range, token["feature_limits"], **CLOSE)
        assert link.joint.torque_limit == facts["actuator"]["torque_limit"][segment]
        assert link.joint.velocity_limit == facts["actuator"]["velocity_limit"][segment]
        passive = facts["joint_dynamics"]["recommended"]
        assert link.joint.armature == passive["armature"]
        assert link.joint.damping == passive["damping"]
        assert link.joint.frictionloss == passive["frictionloss"]
        _assert_shapes(link.shapes, given["collision"])
    _assert_shapes(robot.base.shapes, facts["base"]["collision"])
    for leg, foot in zip(LEGS, robot.feet, strict=True):
        given = facts["legs"][leg]["foot"]
        np.testing.assert_allclose(foot.position, given["pos"], **CLOSE)
        assert foot.radius == given["radius"]
    assert robot.pose.base_height == facts["fk_default"]["base_height"]
    assert robot.pose.spawn_height == facts["base_height"]["spawn_isaaclab"]
    assert robot.soft_limit_factor == facts["soft_joint_pos_limit_factor"]
    assert robot.gains.kp == facts["rl_pd"]["recommended"]["kp"]
    assert robot.gains.kd == facts["rl_pd"]["recommended"]["kd"]


def _assert_inertial(inertial, given):
    assert inertial.mass == pytest.approx(given["mass"], rel=1e-6)
    # Mirrored legs may differ from the file in its last digits only.
    np.testing.assert_allclose(inertial.com, given["com"], rtol=0, atol=2e-9)
    np.testing.assert_allclose(inertial.inertia, given["fullinertia"], rtol=0, atol=1e-10)


def _assert_shapes(shapes, given):
    assert [shape.kind for shape in shapes] == [primitive["type"] for primitive in given]
    for shape, primitive in zip(shapes, given, strict=True):
        if shape.kind == "box":
            np.testing.assert_allclose(shape.half_extents, primitive["size"])
        else:
            assert shape.radius == primitive["size"][0]
        if shape.kind == "capsule":
            ends = (*shape.start, *shape.end)
            np.testing.assert_allclose(ends, primitive["fromto"], atol=1e-12)
        elif shape.kind == "cylinder":
            middle = np.add(shape.start, shape.end) / 2
            np.testing.assert_allclose(middle, primitive["pos"], atol=1e-12)
            length = np.linalg.norm(np.subtract(shape.end, shape.start))
            assert length / 2 == pytest.approx(primitive["size"][1])
        else:
            np.testing.assert_allclose(shape.start, primitive["pos"], atol=1e-12)
