"""Measurements on finished policies that suites ask for beside returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gmc_bench.core.errors import ConfigError
from gmc_bench.robots.friction import FRICTION_PAIRS, FrictionPair, FrictionRule

Heading = Literal["held", "free"]
"""Whether a robot that is told to go straight ahead is turned back to where it headed at the
start, by the yaw rate of `VelocityCommand.heading_gain`, or left alone."""


@dataclass(frozen=True, kw_only=True)
class FrictionMeasurement:
    """Walks straight ahead on several frictions; unlike measurements are never put together."""

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

    def __post_init__(self) -> None:
        if self.num_envs < 1 or not self.seconds > 0.0 or not self.pairs:
            raise ConfigError(
                f"friction is measured over some time of at least one environment on at least one "
                f"friction, got {self.seconds} s, {self.num_envs} environments and "
                f"{len(self.pairs)} frictions; raise them"
            )
