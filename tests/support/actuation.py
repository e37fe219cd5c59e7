"""The drive of a quadruped in plain numpy, and joint orders: faster code is checked against it."""

from dataclasses import dataclass

import numpy as np

from gmc_bench.core.types import Array, DoubleArray, IntArray
from gmc_bench.robots.schema import Robot


@dataclass(frozen=True, kw_only=True, eq=False)
class Drive:
    """The PD law of one robot with its torque limits, in the shared order.

    With action a, joint angle q and velocity v:

        target = stance + action_scale a
        torque = clip(kp (target - q) - kd v, -limit, limit)

    Source:
        isaac-sim/IsaacLab, actuator `IdealPDActuator`.
    """

    stance: DoubleArray
    """(12,) float64, rad."""
    kp: float
    """N m/rad."""
    kd: float
    """N m s/rad."""
    action_scale: float
    """rad per unit of action."""
    torque_limit: DoubleArray
    """(12,) float64, N m."""

    def targets(self, actions: DoubleArray) -> DoubleArray:
        """Return target angles.

        Args:
            actions: (..., 12) float64, any unit.

        Returns:
            (..., 12) float64, rad.
        """
        return self.stance + self.action_scale * np.asarray(actions, dtype=np.float64)

    def torques(
        self, targets: DoubleArray, angles: DoubleArray, velocities: DoubleArray
    ) -> DoubleArray:
        """Return the motor torques; call once per physics step.

        Args:
            targets: (..., 12) float64, rad.
            angles: (..., 12) float64, rad.
            velocities: (..., 12) float64, rad/s.

        Returns:
            (..., 12) float64, N m.
        """
        wanted = self.kp * (targets - angles) - self.kd * velocities
        return np.clip(wanted, -self.torque_limit, self.torque_limit)


def drive_of(robot: Robot) -> Drive:
    """Return the drive of a robot with its own gains and limits."""
    joints = [link.joint for link in robot.links]
    return Drive(
        stance=np.array(robot.pose.angles),
        kp=robot.gains.kp,
        kd=robot.gains.kd,
        action_scale=robot.gains.action_scale,
        torque_limit=np.array([joint.torque_limit for joint in joints]),
    )


def shared_from_native(robot: Robot, order: str) -> IntArray:
    """Return the permutation p with `shared = native[..., p]`, see `Robot.native_places`."""
    return np.argsort(robot.native_places(order))


def to_native(robot: Robot, order: str, values: Array) -> Array:
    """Reorder values per joint, (..., 12), from the shared to a native order."""
    return np.asarray(values)[..., robot.native_places(order)]


def to_shared(robot: Robot, order: str, values: Array) -> Array:
    """Reorder values per joint, (..., 12), from a native to the shared order."""
    return np.asarray(values)[..., shared_from_native(robot, order)]
