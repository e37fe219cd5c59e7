"""Evolution of bodies by selection: its settings, and which bodies of a generation survive.

Training is not part of this; see `gmc_bench.experiments.evolution`.
"""

import math
from collections import Counter
from dataclasses import dataclass
from statistics import fmean

from gmc_bench.core.errors import ConfigError

Lineage = tuple[int, ...]
"""Number of a founder, then for each mutation since the number of the child; from 1, because
numpy's seeds do not tell a zero at the end from nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evolution:
    """Settings of an evolution. Equal settings give equal bodies, on one kind of processor.

    Raises:
        ConfigError: a number is out of range.
    """

    seed: int = 1
    """Seed of founders, mutations and training."""
    population: int = 160
    """Bodies of a generation."""
    survivors: int = 40
    """Bodies that stay for the next generation and have children."""
    kin: int = 4
    """Most survivors that descend from one founder."""
    generations: int = 8
    """How often the population trains."""
    env_steps: int = 266_240
    """Control steps of each generation, over all environments."""
    num_envs: int = 256
    """Parallel environments."""

    def __post_init__(self) -> None:
        if not 0 < self.survivors < self.population:
            raise ConfigError(
                f"{self.survivors} of {self.population} bodies were to survive; at least one "
                f"must, and at least one must not"
            )
        for name in ("kin", "generations", "env_steps", "num_envs"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name!r} must be at least 1, got {getattr(self, name)}")
        if self.seed < 0:
            raise ConfigError(f"'seed' must not be negative, got {self.seed}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """A population that has trained."""

    number: int
    """From 1."""
    lineages: tuple[Lineage, ...]
    returns: tuple[float, ...]
    """Training return of each body; minus infinity where no episode has finished."""
    births: int
    """Founders and children that were numbered so far, rejected ones included."""

    @property
    def ranked(self) -> tuple[Lineage, ...]:
        """The bodies, the highest return first."""
        order = sorted(range(len(self.returns)), key=lambda k: (-self.returns[k], k))
        return tuple(self.lineages[k] for k in order)

    @property
    def mean_return(self) -> float:
        """Mean over the bodies with a finished episode; not-a-number where there is none."""
        finished = [value for value in self.returns if math.isfinite(value)]
        return fmean(finished) if finished else math.nan

    def survivors(self, settings: Evolution) -> tuple[Lineage, ...]:
        """Return the best bodies, with at most `settings.kin` of each founder's descendants.

        Where that leaves places free, the best of the others take them.
        """
        relatives: Counter[int] = Counter()
        first: list[Lineage] = []
        others: list[Lineage] = []
        for lineage in self.ranked:
            relatives[lineage[0]] += 1
            (first if relatives[lineage[0]] <= settings.kin else others).append(lineage)
        return tuple([*first, *others][: settings.survivors])
