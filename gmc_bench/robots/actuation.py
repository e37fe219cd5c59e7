"""The drive of a quadruped: actions to target angles to torques, and joint orders.

A reference in plain numpy for any number of environments of one robot; faster kernels are checked
against it.
"""

from dataclasses import dataclass

import numpy as np

from gmc_bench.core.types import Array, DoubleArray, IntArray
from gmc_bench.robots.schema import Robot


@dataclass(frozen=True, kw_only=True, eq=False)
class Drive:
    """The PD law of one robot with its torque limits, in the shared order.

    With action a, joint angle q and velocity v:

        target = stance + action_scale a
        torque = clip(kp (target - q) - kd v, lower(v), upper(v))

    The limits are -+ `torque_limit`. The DC-motor model also keeps torque in
    [S (-1 - v / V), S (1 - v / V)] with saturation torque S and velocity limit V.

    Source:
        isaac-sim/IsaacLab, actuators `IdealPDActuator` and `DCMotor`. Differs: above the velocity
        limit the motor brakes with up to its torque limit.
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
    velocity_limit: DoubleArray
    """(12,) float64, rad/s."""
    saturation_torque: DoubleArray
    """(12,) float64, N m."""
    dc_motor: bool = False
    """Whether the torque limit depends on the velocity."""

    def targets(self, actions: DoubleArray) -> DoubleArray:
        """Return target angles.

        Args:
            actions: (..., 12) float64, any unit.

        Returns:
            (..., 12) float64, rad.
        """
        return self.stance + self.action_scale * np.asarray(actions, dtype=np.float64)

    def limits(self, velocities: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        """Return the lowest and highest torque that the motors can give.

        Args:
            velocities: (..., 12) float64, rad/s.

        Returns:
            Two arrays (..., 12) float64, N m.
        """
        limit = np.broadcast_to(self.torque_limit, np.shape(velocities))
        if not self.dc_motor:
            return -limit, limit
        slowdown = self.saturation_torque * (np.asarray(velocities) / self.velocity_limit)
        lower = np.clip(-self.saturation_torque - slowdown, -limit, limit)
        upper = np.clip(self.saturation_torque - slowdown, -limit, limit)
        return lower, upper

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
        lower, upper = self.limits(velocities)
        return np.clip(wanted, lower, upper)


def drive_of(robot: Robot, *, dc_motor: bool = False) -> Drive:
    """Return the drive of a robot with its own gains and limits.

    Args:
        robot: the robot.
        dc_motor: whether the torque limit depends on the velocity.

    Returns:
        The drive.
    """
    joints = [link.joint for link in robot.links]
    return Drive(
        stance=np.array(robot.pose.angles),
        kp=robot.gains.kp,
        kd=robot.gains.kd,
        action_scale=robot.gains.action_scale,
        torque_limit=np.array([joint.torque_limit for joint in joints]),
        velocity_limit=np.array([joint.velocity_limit for joint in joints]),
        saturation_torque=np.array([joint.saturation_torque for joint in joints]),
        dc_motor=dc_motor,
    )


def native_from_shared(robot: Robot, order: str) -> IntArray:
    """Return the permutation p with `native = shared[..., p]`.

    Args:
        robot: the robot.
        order: one of its native orders, e.g. `unitree-sdk`.

    Returns:
        (12,) int64; native slot i holds the joint of shared slot p[i].

    Raises:
        MorphologyError: this robot has no such order.
    """
    shared = robot.joint_names
    places = [shared.index(name) for name in robot.native_order(order)]
    return np.array(places, dtype=np.int64)


def shared_from_native(robot: Robot, order: str) -> IntArray:
    """Return the permutation p with `shared = native[..., p]`, see `native_from_shared`."""
    return np.argsort(native_from_shared(robot, order))


def to_native(robot: Robot, order: str, values: Array) -> Array:
    """Reorder values per joint, (..., 12), from the shared to a native order."""
    return np.asarray(values)[..., native_from_shared(robot, order)]


def to_shared(robot: Robot, order: str, values: Array) -> Array:
    """Reorder values per joint, (..., 12), from a native to the shared order."""
    return np.asarray(values)[..., shared_from_native(robot, order)]
