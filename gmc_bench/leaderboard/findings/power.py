"""Numbers of seeds that would decide a claim."""

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.findings.pools import SEEDS
from gmc_bench.leaderboard.statistics import VarianceEstimate, sum_variances, t_quantile

POWER = 0.8
"""Power of the tests that numbers of needed seeds are for."""
_MAX_SEEDS = 1_000
MIN_RUNS = 2
"""Runs of each side that an interval needs."""

Runs = Sequence[float] | DoubleArray
"""(R,), a number of each run."""


def power_text(samples: Sequence[Runs], claimed: float | None, measured: float) -> str:
    """Return how many seeds would decide, by the sample variances of the runs that there are.

    The test is that of a single pair, without correction for other pairs. Nothing is said of runs
    that are all equal, whose variance is unknown rather than zero.

    Args:
        samples: runs of one, or of the two that are compared.
        claimed: the size of the effect to be found; `None` takes the measured one.
        measured: what was found.
    """
    if all(len(set(values)) == 1 for values in samples):
        return ""
    each = " per side" if len(samples) > 1 else ""
    chance = f"in {100 * POWER:.0f} % of cases"
    needed = seeds_needed(samples, abs(measured))
    found = (
        f"{_seeds(needed)}{each} would show the difference measured here {chance}"
        if needed is not None
        else ""
    )
    if claimed is None:
        return found
    needed = seeds_needed(samples, claimed)
    if needed is None:
        return found
    if needed <= min(map(len, samples)):
        after = f"; {found}" if found else ""
        return f"an effect as large as the claim's would have shown {chance}{after}"
    return f"{_seeds(needed)}{each} would show an effect as large as the claim's {chance}"


def equivalence_power(samples: Sequence[Runs], inside: float) -> str:
    """Return how many seeds would decide if the difference is the one measured.

    Args:
        samples: runs of the two sides.
        inside: how far the measured difference is inside the margin; negative outside of it.
    """
    needed = seeds_needed(samples, abs(inside))
    if needed is None:
        return ""
    what = "that they are" if inside > 0.0 else "that they are not"
    return (
        f"{_seeds(needed)} per side would show {what} in {100 * POWER:.0f} % of cases, if the "
        f"difference is the one measured"
    )


def _seeds(needed: int) -> str:
    return f"about {needed:,} seeds" if needed <= _MAX_SEEDS else f"more than {_MAX_SEEDS:,} seeds"


def seeds_needed(samples: Sequence[Runs], size: float) -> int | None:
    """Return how many runs of each sample show an effect with `POWER`, two-sided at 5 %.

    The least n at which a noncentral t variable with noncentrality size / sqrt(sum of variances /
    n) exceeds Student's quantile that often. One sample has n - 1 degrees of freedom, two have
    Welch's.

    Args:
        samples: runs of one sample, or of two that are compared.
        size: of the effect, in the unit of the runs.

    Returns:
        At least `SEEDS`, at most `_MAX_SEEDS` + 1; `None` without two runs of each, or without an
        effect.
    """
    if size <= 0.0 or any(len(values) < MIN_RUNS for values in samples):
        return None
    variances = [float(np.var(values, ddof=1)) for values in samples]

    def enough(runs: int) -> bool:
        return _power(variances, runs, size) >= POWER

    return bisect_left(range(_MAX_SEEDS + 1), True, SEEDS, key=enough)


def _power(variances: Sequence[float], runs: int, size: float) -> float:
    """Return the power of Student's or Welch's t-test, two-sided, with so many runs per sample."""
    from scipy.stats import nct

    variance, degrees = sum_variances(
        [VarianceEstimate(value / runs, runs - 1.0) for value in variances]
    )
    if variance == 0.0:
        return 1.0
    return float(nct.sf(t_quantile(degrees), degrees, size / math.sqrt(variance)))
