"""What the policy is told about a quadruped, against its description and the compiled model."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.core.errors import TokenOverflowError
from gmc_bench.robots import LEGS, ROBOTS, SEGMENTS
from gmc_bench.robots.model import compile_robot
from gmc_bench.sim.model import Scene, drive_model
from gmc_bench.tokens.actuators import ACTUATOR_PARENTS, NUM_ACTUATORS
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table

SPEC = TokenSpec(64, 1, parts="actuators")


def _tabulate(robots, spec):
    return build_table([drive_model(robot, Scene(floor="")) for robot in robots], spec)


@pytest.fixture(scope="module")
def robots():
    return [compile_robot(robot) for robot in ROBOTS.values()]


@pytest.fixture(scope="module")
def table(robots):
    return _tabulate(robots, SPEC)


def _group(table, row, name):
    group = table.spec.slice(name)
    places = [list(table.spec.context_indices).index(i) for i in range(group.start, group.stop)]
    return table.context[row, :NUM_ACTUATORS, places[0] : places[-1] + 1]


def test_the_layout_is_64_tokens_of_32_features(table):
    assert (SPEC.max_limbs, SPEC.num_features, SPEC.actions_per_token) == (64, 32, 1)
    assert SPEC.num_dynamic + SPEC.num_context == 32
    assert table.context.shape == (4, 64, SPEC.num_context)
    assert table.names == tuple(ROBOTS)


def test_twelve_tokens_are_active_and_the_others_are_padding(table):
    expected = np.arange(64) >= 12
    for mask in (table.limb_padding_mask, table.action_padding_mask[..., 0]):
        np.testing.assert_array_equal(mask, np.tile(expected, (4, 1)))
    np.testing.assert_array_equal(table.context[:, 12:], 0.0)
    np.testing.assert_array_equal(table.num_limbs, 12)
    for row in range(4):
        np.testing.assert_array_equal(_group(table, row, "active"), 1.0)
        np.testing.assert_array_equal(_group(table, row, "reserved"), 0.0)
    np.testing.assert_array_equal(table.parents[:, 12:], -2)


def test_parents_follow_the_kinematic_tree(robots, table):
    np.testing.assert_array_equal(table.parents[:, :12], np.tile(ACTUATOR_PARENTS, (4, 1)))
    for compiled in robots:
        model = compiled.model
        bodies = [model.body(link.name).id for link in compiled.robot.links]
        for token, body in enumerate(bodies):
            parent = model.body_parentid[body]
            if parent == compiled.base_body:
                assert ACTUATOR_PARENTS[token] == (-1 if token == 0 else 0)
            else:
                assert bodies[ACTUATOR_PARENTS[token]] == parent


def test_tokens_go_by_leg_then_hip_thigh_calf(robots, table):
    """Front legs lie ahead, left legs to the left, and each segment below the one before."""
    assert LEGS == ("FL", "FR", "RL", "RR")
    assert SEGMENTS == ("hip", "thigh", "calf")
    for row in range(4):
        anchors = _group(table, row, "joint_anchor").reshape(4, 3, 3) / 2.0
        np.testing.assert_array_equal(np.sign(anchors[:, :, 0]), [[1] * 3] * 2 + [[-1] * 3] * 2)
        np.testing.assert_array_equal(np.sign(anchors[:, :, 1]), [[1] * 3, [-1] * 3] * 2)
        assert (anchors[:, 2, 2] < anchors[:, 1, 2] - 0.1).all()
        axes = _group(table, row, "joint_axis").reshape(4, 3, 3)
        np.testing.assert_allclose(axes[:, 0], [[1.0, 0.0, 0.0]] * 4, atol=1e-6)
        assert (axes[:, 1:, 1] > 0.99).all()


def test_features_are_those_of_the_compiled_model(robots, table):
    for row, compiled in enumerate(robots):
        model, robot = compiled.model, compiled.robot
        data = mujoco.MjData(model)
        for token, joint in enumerate(robot.joint_names):
            data.joint(joint).qpos[0] = robot.pose.angles[token]
        data.joint("root").qpos[:] = 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0
        mujoco.mj_kinematics(model, data)
        for token, joint in enumerate(robot.joint_names):
            anchor, axis = data.joint(joint).xanchor, data.joint(joint).xaxis
            np.testing.assert_allclose(
                _group(table, row, "joint_anchor")[token], 2.0 * anchor, atol=1e-6
            )
            np.testing.assert_allclose(_group(table, row, "joint_axis")[token], axis, atol=1e-6)
        feet = data.geom_xpos[compiled.foot_geoms]
        anchors = np.array([data.joint(name).xanchor for name in robot.joint_names])
        ends = np.empty((12, 3))
        for token in range(12):
            ends[token] = feet[token // 3] if token % 3 == 2 else anchors[token + 1]
        lengths = np.linalg.norm(ends - anchors, axis=1)
        leg = lengths[1] + lengths[2]
        found = _group(table, row, "link_length")[:, 0]
        np.testing.assert_allclose(found, lengths / leg, rtol=1e-5)
        mass = model.body_mass.sum()
        links = [model.body(link.name).mass[0] for link in robot.links]
        found = _group(table, row, "link_mass")[:, 0]
        np.testing.assert_allclose(found, 10.0 * np.array(links) / mass, rtol=1e-5)
        torque = [model.actuator(name).ctrlrange[1] for name in robot.joint_names]
        found = _group(table, row, "torque_limit")[:, 0]
        np.testing.assert_allclose(found, np.array(torque) / (9.81 * mass * leg), rtol=1e-5)


def test_limits_and_stance_by_hand(table):
    row = table.names.index("go1")
    # Soft limits: the range shrunk to 90 % about its middle.
    limits = np.pi * _group(table, row, "joint_limits")[:3]
    middle, half = (4.501 - 0.686) / 2, 0.9 * (4.501 + 0.686) / 2
    np.testing.assert_allclose(limits[0], [-0.9 * 0.863, 0.9 * 0.863], rtol=1e-5)
    np.testing.assert_allclose(limits[1], [middle - half, middle + half], rtol=1e-5)
    stance = np.pi * _group(table, row, "default_angle")[:, 0]
    expected = [0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5]
    np.testing.assert_allclose(stance, expected, rtol=1e-5)
    speeds = 30.0 * _group(table, row, "velocity_limit")[:3, 0]
    np.testing.assert_allclose(speeds, [30.1, 30.1, 20.06], rtol=1e-5)


def test_no_two_robots_or_actuators_look_alike(table):
    active = table.context[:, :12].reshape(48, -1)
    assert len(np.unique(active, axis=0)) == 48


def test_features_can_be_left_out(robots, table):
    fewer = _tabulate(robots, replace(SPEC, without=("joint_limits", "link_mass")))
    assert fewer.context.shape[2] == table.context.shape[2] - 3
    for row in range(4):
        for name in ("joint_anchor", "torque_limit", "active"):
            np.testing.assert_array_equal(_group(fewer, row, name), _group(table, row, name))


@pytest.mark.parametrize(
    "spec",
    [TokenSpec(64), TokenSpec(11, 1, parts="actuators"), TokenSpec(12, 2, parts="actuators")],
)
def test_other_layouts_are_refused(robots, spec):
    with pytest.raises(TokenOverflowError, match=r"TokenSpec\(12, 1, parts='actuators'\)"):
        _tabulate(robots, spec)
