"""Between a robot's own readings and a policy's tokens, in plain numpy.

The same code serves the simulated robot and any other: it knows joint order, reference pose,
action scale and limits, and nothing about simulation.
"""

from dataclasses import dataclass

import numpy as np

from gmc_bench.core.types import Array, DoubleArray, FloatArray
from gmc_bench.deployment.interface import Manifest, RobotInterface, TokenFormat
from gmc_bench.tokens.actuators import NUM_ACTUATORS


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """What a robot reports at one control step; joints in its native order."""

    base_linear_velocity: DoubleArray
    """(3,) float64, m/s, base frame; a robot has to estimate it."""
    base_angular_velocity: DoubleArray
    """(3,) float64, rad/s, base frame."""
    gravity: DoubleArray
    """(3,) float64, direction of gravity, unit vector, base frame."""
    joint_angles: DoubleArray
    """(12,) float64, rad."""
    joint_velocities: DoubleArray
    """(12,) float64, rad/s."""
    joint_torques: DoubleArray
    """(12,) float64, N m; watched, not seen by the policy."""


class Adapter:
    """Makes tokens of readings and target angles of actions, and remembers the last action.

    Args:
        manifest: of the policy.
        robot: id of the robot.

    Raises:
        UnknownNameError: the policy was not trained on it.
    """

    def __init__(self, manifest: Manifest, robot: str) -> None:
        self.interface: RobotInterface = manifest.robot(robot)
        self.layout: TokenFormat = manifest.layout
        self._clip = manifest.action_clip
        self._shared = np.argsort(self.interface.native)
        self._slots = self.layout.slots
        self._scales = {name: self.layout.scale(name) for name in self._slots}
        self._fixed: FloatArray = np.zeros(
            (1, self.layout.num_tokens, self.layout.num_features), np.float32
        )
        places = self.layout.context_places
        self._fixed[0, :NUM_ACTUATORS, places] = self.interface.context.T
        self.mask = np.ones((1, self.layout.num_tokens), np.bool_)
        """(1, L) bool, True = padding."""
        self.mask[:, :NUM_ACTUATORS] = False
        self.action: DoubleArray = np.zeros(NUM_ACTUATORS)
        """(12,) float64, the last action, cut off, shared order."""

    def reset(self) -> None:
        """Forget the last action."""
        self.action = np.zeros(NUM_ACTUATORS)

    def to_shared(self, values: Array) -> Array:
        """Reorder values per joint (12,) from the native to the shared order."""
        return np.asarray(values)[self._shared]

    def tokens(self, readings: Readings, command: DoubleArray) -> FloatArray:
        """Return what the policy is shown.

        Args:
            readings: of the robot.
            command: (3,) float64, forward and lateral velocity, m/s, and yaw rate, rad/s.

        Returns:
            (1, L, F) float32, raw features, zero in padding.
        """
        robot = self.interface
        angles = self.to_shared(readings.joint_angles)
        lower, upper = robot.soft_limits[:, 0], robot.soft_limits[:, 1]
        values = {
            "base_linear_velocity": readings.base_linear_velocity,
            "base_angular_velocity": readings.base_angular_velocity,
            "gravity": readings.gravity,
            "command": command,
            "joint_offset": (angles - robot.default_angles)[:, None],
            "joint_velocity": self.to_shared(readings.joint_velocities)[:, None],
            "previous_action": self.action[:, None],
            "above_lower_limit": ((angles - lower) / (upper - lower))[:, None],
            "below_upper_limit": ((upper - angles) / (upper - lower))[:, None],
        }
        found = self._fixed.copy()
        for name, place in self._slots.items():
            found[0, :NUM_ACTUATORS, place] = self._scales[name] * values[name]
        return found

    def targets(self, actions: FloatArray) -> DoubleArray:
        """Return the target angles for the drives.

        Args:
            actions: (L,) float32, in the shared order; those of padding are ignored.

        Returns:
            (12,) float64, rad, in the native order; nan for an action that is not finite.
        """
        robot = self.interface
        wanted = np.asarray(actions[:NUM_ACTUATORS], np.float64)
        # An infinite action must not look like a large one: the policy is broken.
        wanted = np.where(np.isfinite(wanted), wanted, np.nan)
        self.action = np.clip(wanted, -self._clip, self._clip)
        targets: DoubleArray = robot.default_angles + robot.action_scale * self.action
        return targets[robot.native]
