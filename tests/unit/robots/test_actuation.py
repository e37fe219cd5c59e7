import mujoco
import numpy as np
import pytest

from gmc_bench.core.errors import MorphologyError
from gmc_bench.robots import ANYMAL_C, GO1, GO2, ROBOTS
from gmc_bench.robots.model import compile_robot
from tests.support.actuation import (
    drive_of,
    shared_from_native,
    to_native,
    to_shared,
)

ORDERS = [(robot, order) for robot in ROBOTS.values() for order in robot.native_orders]
SDK = [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8]
DISTINCT = 0.25 * np.arange(1, 13)  # exact in binary


@pytest.mark.parametrize(
    ("robot", "order", "places"),
    [
        # Native index of every shared slot, from the tables of the sources.
        (GO1, "unitree-sdk", SDK),
        (GO1, "menagerie", SDK),
        (GO2, "menagerie-actuators", SDK),
        (GO2, "menagerie-bodies", list(range(12))),
        (GO1, "isaaclab", [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]),
        (ANYMAL_C, "isaaclab", [0, 4, 8, 2, 6, 10, 1, 5, 9, 3, 7, 11]),
        (ANYMAL_C, "urdf", list(range(12))),
    ],
)
def test_published_permutations(robot, order, places):
    assert shared_from_native(robot, order).tolist() == places


@pytest.mark.parametrize(("robot", "order"), ORDERS, ids=lambda x: getattr(x, "name", x))
def test_permutation_and_inverse_are_the_identity(robot, order):
    there, back = robot.native_places(order), shared_from_native(robot, order)
    np.testing.assert_array_equal(there[back], np.arange(12))
    np.testing.assert_array_equal(back[there], np.arange(12))
    values = np.stack([DISTINCT, -DISTINCT])
    np.testing.assert_array_equal(to_shared(robot, order, to_native(robot, order, values)), values)


@pytest.mark.parametrize(("robot", "order"), ORDERS, ids=lambda x: getattr(x, "name", x))
def test_a_motor_s_torque_arrives_at_the_native_joint(robot, order):
    compiled = compile_robot(robot)
    data = mujoco.MjData(compiled.model)
    # Written by software in its own order, through the shared order, to the engine.
    native = DISTINCT
    data.ctrl[compiled.actuators] = to_shared(robot, order, native)
    mujoco.mj_forward(compiled.model, data)
    for value, name in zip(native, robot.native_order(order), strict=True):
        dof = compiled.model.joint(name).dofadr[0]
        assert data.qfrc_actuator[dof] == value


@pytest.mark.parametrize(("robot", "order"), ORDERS, ids=lambda x: getattr(x, "name", x))
def test_an_action_s_offset_is_read_back_at_the_native_joint(robot, order):
    compiled = compile_robot(robot)
    data = mujoco.MjData(compiled.model)
    drive = drive_of(robot)
    targets = drive.targets(DISTINCT)
    data.qpos[compiled.joint_qpos] = targets
    native = to_native(robot, order, targets)
    for slot, name in enumerate(robot.native_order(order)):
        assert data.joint(name).qpos[0] == native[slot]
        shared = robot.joint_names.index(name)
        assert native[slot] == robot.pose.angles[shared] + 0.25 * DISTINCT[shared]


def test_unknown_order():
    with pytest.raises(MorphologyError, match="has no joint order 'sdk'"):
        GO1.native_places("sdk")
