"""Compiled quadrupeds: the engine's model and where each joint, motor and foot is in it."""

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from gmc_bench.bodies.compiler import compile_mjcf
from gmc_bench.core.errors import MorphologyError
from gmc_bench.core.types import DoubleArray, IntArray
from gmc_bench.robots.mjcf import HeightField, build_mjcf, foot_name
from gmc_bench.robots.schema import LEGS, Robot


@dataclass(frozen=True, kw_only=True, eq=False)
class CompiledRobot:
    """A robot compiled on its ground; every array is in the shared order."""

    robot: Robot
    model: Any
    """`mujoco.MjModel`."""
    joint_qpos: IntArray
    """(12,) int64, places of the joint angles in `qpos`."""
    joint_dofs: IntArray
    """(12,) int64, places of the joint velocities in `qvel`."""
    actuators: IntArray
    """(12,) int64, places of the motors in `ctrl`."""
    foot_geoms: IntArray
    """(4,) int64, geoms of the feet, in the order of the legs."""
    base_body: int
    """Body id of the base; its free joint comes first in `qpos` and `qvel`."""

    def standing_qpos(self, height: float | None = None) -> DoubleArray:
        """Return the level base above the world's origin with the joints in the stance.

        Args:
            height: of the base's origin, m, world frame; `None` = the lowest foot just touches
                flat ground.

        Returns:
            (19,) float64, the engine's `qpos`: m, unit quaternion, rad.
        """
        qpos = np.zeros(self.model.nq)
        qpos[2] = self.robot.pose.base_height if height is None else height
        qpos[3] = 1.0
        qpos[self.joint_qpos] = self.robot.pose.angles
        return qpos

    def stance_geometry(self) -> tuple[DoubleArray, DoubleArray]:
        """Return where the joints are in the stance.

        Returns:
            Anchors (12, 3), m, and axes (12, 3), unit vectors, in the base frame and the shared
            order.
        """
        data = mujoco.MjData(self.model)
        data.qpos[:] = self.standing_qpos(0.0)
        mujoco.mj_kinematics(self.model, data)
        joints = [self.model.joint(name).id for name in self.robot.joint_names]
        # In the world's frame, which is the base's: it is at the origin.
        return data.xanchor[joints].copy(), data.xaxis[joints].copy()


def compile_robot(robot: Robot, *, terrain: HeightField | None = None) -> CompiledRobot:
    """Compile a robot on its ground, with sensors of the ground's forces, see `build_mjcf`.

    Args:
        robot: the robot.
        terrain: uneven ground; `None` = a plane at height 0.

    Returns:
        The model and its addresses.

    Raises:
        MorphologyError: MuJoCo refuses the robot; the message carries its reason.
    """
    try:
        model = compile_mjcf(build_mjcf(robot, terrain=terrain, contacts=True))
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise MorphologyError(
            f"MuJoCo cannot compile the robot {robot.name!r}: {reason}"
        ) from error
    if terrain is not None:
        model.hfield_data[:] = terrain.elevation().ravel()
    joints = [model.joint(name) for name in robot.joint_names]
    return CompiledRobot(
        robot=robot,
        model=model,
        joint_qpos=_ids(joint.qposadr[0] for joint in joints),
        joint_dofs=_ids(joint.dofadr[0] for joint in joints),
        actuators=_ids(model.actuator(name).id for name in robot.joint_names),
        foot_geoms=_ids(model.geom(foot_name(leg)).id for leg in range(len(LEGS))),
        base_body=model.body(robot.base.name).id,
    )


def _ids(numbers: Any) -> IntArray:
    return np.array([int(number) for number in numbers], dtype=np.int64)
