"""Measurements on finished policies that suites ask for beside returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gmc_bench.core.errors import ConfigError
from gmc_bench.robots.friction import FRICTION_PAIRS, FrictionPair, FrictionRule

if TYPE_CHECKING:
    from gmc_bench.tasks.spec import Task

Velocity = tuple[float, float, float]
"""Forward and lateral velocity in the yaw frame, m/s, and yaw rate, rad/s."""
Condition = tuple[str, str | None, Velocity]
"""Friction, name of the direction (`None`: straight ahead) and command."""
Heading = Literal["held", "free"]
"""Whether a robot that is told to go straight ahead is turned back to where it headed at the
start, by the yaw rate of `VelocityCommand.heading_gain`, or left alone."""


DIRECTIONS: Mapping[str, Velocity] = {
    "backward": (-0.5, 0.0, 0.0),
    "left": (0.0, 0.3, 0.0),
    "right": (0.0, -0.3, 0.0),
    "turn-left": (0.0, 0.0, 0.5),
    "turn-right": (0.0, 0.0, -0.5),
}
"""Commands beside straight ahead, by name. Positive is forward, to the left, and turning left."""


@dataclass(frozen=True, kw_only=True)
class FrictionMeasurement:
    """Walks straight ahead on several frictions, and in every direction on one of them.

    Results of measurements that differ in anything are never pooled.

    Raises:
        ConfigError: there is no time, no environment or no friction.
    """

    num_envs: int
    """Environments per robot and friction."""
    seconds: float
    """Time that each of them runs, s."""
    forward: float
    """Commanded velocity, straight ahead, m/s."""
    rule: FrictionRule = "two-state"
    """How a pair becomes one coefficient."""
    heading: Heading = "held"
    """Whether the command holds the heading."""
    noise: bool = False
    """Whether observations are noisy, as in training."""
    pairs: Mapping[str, FrictionPair] = field(default_factory=lambda: FRICTION_PAIRS)
    """Frictions by name."""
    directions: Mapping[str, Velocity] = field(default_factory=lambda: DIRECTIONS)
    """Commands beside straight ahead, by name. A command without a yaw rate holds the heading as
    `heading` says."""
    direction_pair: str = "nominal"
    """Friction on which robots go in these directions; none of them where it is not measured."""

    def __post_init__(self) -> None:
        if self.num_envs < 1 or not self.seconds > 0.0 or not self.pairs:
            raise ConfigError(
                f"friction is measured over some time of at least one environment on at least one "
                f"friction, got {self.seconds} s, {self.num_envs} environments and "
                f"{len(self.pairs)} frictions; raise them"
            )

    @property
    def conditions(self) -> list[Condition]:
        """Everything that is measured, in order; straight ahead comes first."""
        found: list[Condition] = [(name, None, (self.forward, 0.0, 0.0)) for name in self.pairs]
        if self.direction_pair in self.pairs:
            found += [(self.direction_pair, *command) for command in self.directions.items()]
        return found

    def control_steps(self, task: "Task", num_robots: int) -> int:
        """Return the control steps of all environments together."""
        steps = task.control_steps(self.seconds)
        return steps * self.num_envs * num_robots * len(self.conditions)

    def heading_of(self, command: Velocity) -> Heading:
        """Return whether a command holds the heading: never where it asks for a turn."""
        return "free" if command[2] else self.heading
