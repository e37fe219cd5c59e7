"""Commands: what tasks ask of bodies beside their reward."""

from dataclasses import dataclass

import numpy as np

from gmc_bench.core.arguments import require_number, require_vector
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import DoubleArray
from gmc_bench.tasks.motion import wrapped
from gmc_bench.tasks.spec import Range, Task

_SIDEWAYS, _TURNING = 2, 3
"""Kinds of commands, after straight ahead and straight back."""


@dataclass(frozen=True, kw_only=True)
class VelocityCommand:
    """Target velocities in the base's yaw frame, drawn uniformly and anew from time to time.

    Raises:
        ConfigError: a range is not two numbers, or a number is not finite or out of range.
    """

    forward: Range = (-0.8, 1.0)
    """m/s."""
    lateral: Range = (-0.4, 0.4)
    """m/s, to the left."""
    yaw: Range = (-0.8, 0.8)
    """rad/s."""
    standing: float = 0.05
    """Share of commands that are zero."""
    straight: float = 0.25
    """Share of commands straight ahead, at a speed from `straight_forward`; they hold their
    heading."""
    straight_forward: Range = (0.4, 1.0)
    """m/s."""
    backward: float = 0.1
    """Share of commands straight back, at a speed from `straight_backward`; they hold their
    heading."""
    straight_backward: Range = (-0.8, -0.4)
    """m/s."""
    sideways: float = 0.15
    """Share of commands with lateral velocity alone; they hold their heading."""
    turning: float = 0.15
    """Share of commands with a yaw rate alone, turns on the spot."""
    held: float = 0.5
    """Share of the other commands that hold the heading that the base has when they are given: the
    yaw rate is `heading_gain` times the heading error, at every control step."""
    heading_gain: float = 0.5
    """rad/s per rad; IsaacLab's and legged_gym's."""
    heading_limit: float = 0.8
    """rad/s, largest yaw rate of a command that holds its heading."""
    resample_s: float = 10.0
    """s between two draws."""

    def __post_init__(self) -> None:
        for name in ("standing", "straight", "backward", "sideways", "turning", "held"):
            require_number(getattr(self, name), f"the share {name!r} of a command", low=0.0)
        for name in ("forward", "lateral", "yaw", "straight_forward", "straight_backward"):
            require_vector(getattr(self, name), 2, f"{name!r} of a command")
        for name in ("heading_gain", "heading_limit"):
            require_number(getattr(self, name), f"{name!r} of a command", low=0.0)
        kinds = self.straight + self.backward + self.sideways + self.turning
        if max(kinds, self.standing, self.held) > 1.0 + 1e-9:
            raise ConfigError(
                f"shares of commands are at most 1, and so are straight, backward, sideways and "
                f"turning together, got {kinds:g} of these, standing {self.standing:g} and held "
                f"{self.held:g}"
            )

    @classmethod
    def fixed(
        cls, forward: float, lateral: float = 0.0, yaw: float = 0.0, *, held: bool = False
    ) -> "VelocityCommand":
        """Return one constant command; one that holds the heading at the start has no `yaw`."""
        return cls(
            forward=(forward, forward),
            lateral=(lateral, lateral),
            yaw=(yaw, yaw),
            standing=0.0,
            straight=0.0,
            backward=0.0,
            sideways=0.0,
            turning=0.0,
            held=float(held),
            resample_s=1e6,
        )

    @property
    def num_values(self) -> int:
        """Forward, lateral, yaw."""
        return 3

    @property
    def num_draws(self) -> int:
        """Random numbers for one command."""
        return 6

    def draw(self, uniform: DoubleArray, heading: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
        """Return new commands, see `gmc_bench.tasks.spec.Command`."""
        ranges = (self.forward, self.lateral, self.yaw)
        command = np.stack(
            [_between(limits, uniform[:, k]) for k, limits in enumerate(ranges)], axis=1
        )
        kind = np.digitize(
            uniform[:, 4], np.cumsum([self.straight, self.backward, self.sideways, self.turning])
        )
        for number, limits in enumerate((self.straight_forward, self.straight_backward)):
            rows = kind == number
            command[rows] = 0.0
            command[rows, 0] = _between(limits, uniform[rows, 0])
        command[kind == _SIDEWAYS, ::2] = 0.0
        turning = kind == _TURNING
        command[turning, :2] = 0.0
        standing = uniform[:, 3] < self.standing
        command[standing] = 0.0
        held = (kind <= _SIDEWAYS) | (uniform[:, 5] < self.held)
        return command, np.where(held & ~turning & ~standing, heading, np.nan)

    def steer(self, command: DoubleArray, kept: DoubleArray, heading: DoubleArray) -> DoubleArray:
        """Turn the commands that hold a heading back to it."""
        turned, limit = command.copy(), self.heading_limit
        holding = ~np.isnan(kept)
        missing = wrapped(kept[holding] - heading[holding])
        turned[holding, 2] = np.clip(self.heading_gain * missing, -limit, limit)
        return turned


def velocity_command(task: Task) -> VelocityCommand:
    """Return the velocity command of a task.

    Raises:
        ConfigError: it has none.
    """
    if not isinstance(task.command, VelocityCommand):
        raise ConfigError(
            f"the task {task.id!r} commands no velocities, which quadrupeds are measured and "
            f"deployed with; use one that does, e.g. a run of the suite 'quadruped-friction'"
        )
    return task.command


def _between(limits: Range, uniform: DoubleArray) -> DoubleArray:
    """Map numbers in [0, 1) to a range."""
    low, high = limits
    found: DoubleArray = low + (high - low) * uniform
    return found
