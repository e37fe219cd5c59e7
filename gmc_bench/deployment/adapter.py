"""Between a robot's own readings and a policy's tokens, in plain numpy.

The same code serves the simulated robot and any other: it knows joint order, reference pose,
action scale and limits, and nothing about simulation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, DoubleArray, FloatArray
from gmc_bench.deployment.interface import Manifest, RobotInterface, TokenFormat
from gmc_bench.tokens.actuators import NUM_ACTUATORS


@dataclass(frozen=True, kw_only=True, eq=False)
class Readings:
    """What a robot reports at one control step; joints in its native order.

    Tuples and lists of numbers do as well as arrays.
    """

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
    """(12,) float64, N m; for the emergency stop; the policy does not observe them."""


_AXES = (3, "one for each axis of the base's frame")
_JOINTS = (NUM_ACTUATORS, "one for each joint, in the order of the robot's joint_names")
_COMMAND = (3, "forward and lateral velocity, m/s, and yaw rate, rad/s")
READ: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "base_linear_velocity": _AXES,
        "base_angular_velocity": _AXES,
        "gravity": _AXES,
        "joint_angles": _JOINTS,
        "joint_velocities": _JOINTS,
        "joint_torques": _JOINTS,
    }
)
"""How many numbers each reading has, and which."""
_SEEN = [(name, expected) for name, expected in READ.items() if name != "joint_torques"]


def as_numbers(given: Any, what: str, expected: tuple[int, str]) -> Array:
    """Return an array as it is, and a tuple or list as one.

    Args:
        given: N numbers, which need not be finite.
        what: they are, e.g. `the reading gravity`, for messages.
        expected: N, and which numbers, as in `READ`.

    Returns:
        (N,) integers or floats.

    Raises:
        ConfigError: they are no numbers, or not N.
    """
    count, which = expected
    found = _as_array(given)
    if found is not None and found.shape == (count,):
        return found
    got = shown(given) if found is None else f"the shape {found.shape}"
    raise ConfigError(f"{what} must be numbers of the shape ({count},), got {got}; give {which}")


def _as_array(given: Any) -> Array | None:
    """Return numbers as an array, and nothing of what is none."""
    try:
        found = np.asarray(given)
    except (TypeError, ValueError, RuntimeError):  # rows of unequal length, tensors of a GPU
        return None
    return found if found.dtype.kind in "fiu" else None


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
            command: (3,) numbers, forward and lateral velocity, m/s, and yaw rate, rad/s.

        Returns:
            (1, L, F) float32, raw features, zero in padding.

        Raises:
            ConfigError: the command, or a reading that the policy sees, is no numbers, or not as
                many as there should be.
        """
        robot = self.interface
        read = {
            name: as_numbers(getattr(readings, name), f"the reading {name}", expected)
            for name, expected in _SEEN
        }
        angles = self.to_shared(read["joint_angles"])
        lower, upper = robot.soft_limits[:, 0], robot.soft_limits[:, 1]
        values = {
            "base_linear_velocity": read["base_linear_velocity"],
            "base_angular_velocity": read["base_angular_velocity"],
            "gravity": read["gravity"],
            "command": as_numbers(command, "the command", _COMMAND),
            "joint_offset": (angles - robot.default_angles)[:, None],
            "joint_velocity": self.to_shared(read["joint_velocities"])[:, None],
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
            actions: (L,) float32, in the shared order; those of padding are ignored, and may be
                left out.

        Returns:
            (12,) float64, rad, in the native order; nan for an action that is not finite.

        Raises:
            ConfigError: they are no numbers, or not as many as the policy has tokens or the robot
                joints; then the last action stays.
        """
        robot, length = self.interface, self.layout.num_tokens
        given = _as_array(actions)
        if given is None or given.shape != (NUM_ACTUATORS,):  # without padding they do, too
            returned = (length, "what the policy returned for this robot")
            given = as_numbers(actions, "actions", returned)
        wanted = np.asarray(given[:NUM_ACTUATORS], np.float64)
        # An infinite action must not look like a large one: the policy is broken.
        wanted = np.where(np.isfinite(wanted), wanted, np.nan)
        self.action = np.clip(wanted, -self._clip, self._clip)
        targets: DoubleArray = robot.default_angles + robot.action_scale * self.action
        return targets[robot.native]
