"""Statistics of the scores of one method: point estimates and intervals over runs.

Scores of one method are a matrix (R, B): R runs, which differ in their seed, and B bodies. One run
is one policy that drives all bodies, so its scores rise and fall together over the bodies. Every
interval therefore takes the run, not the run on one body, as the unit that
varies. `docs/statistics.md` has the formulas and what they mean.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gmc_bench.core.types import DoubleArray

CONFIDENCE = 0.95
"""Coverage of every interval."""
TRIMMED_SHARE = 0.25
"""Share of the scores that the interquartile mean cuts off at either end."""
WORST_SHARE = 0.1
"""Share of the bodies that the worst decile counts, rounded up."""

Statistic = Callable[[DoubleArray], float]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float | None
    """`None`, as `high`, where no interval can be computed, e.g. from a single run."""
    high: float | None


def mean(scores: DoubleArray) -> float:
    """Return the mean over runs and bodies of scores (R, B)."""
    return float(scores.mean())


def median(scores: DoubleArray) -> float:
    """Return the median over bodies of the mean over runs of scores (R, B).

    Source:
        rliable's `aggregate_median`. It is not the median of all R * B scores.
    """
    return float(np.median(scores.mean(axis=0)))


def iqm(scores: DoubleArray) -> float:
    """Return the interquartile mean: the mean of the middle half of all R * B scores.

    A whole number of scores, R * B / 4 rounded down, is cut off at either end.

    Source:
        rliable's `aggregate_iqm`, which is scipy's `trim_mean(scores, 0.25, axis=None)`.
    """
    ordered = np.sort(scores, axis=None)
    cut = int(TRIMMED_SHARE * ordered.size)
    return float(ordered[cut : ordered.size - cut].mean())


def worst_decile(scores: DoubleArray) -> float:
    """Return the mean over the tenth of bodies, rounded up, with the lowest mean over runs."""
    ordered = np.sort(scores.mean(axis=0))
    return float(ordered[: math.ceil(WORST_SHARE * ordered.size)].mean())


def performance_profile(scores: DoubleArray, thresholds: DoubleArray) -> DoubleArray:
    """Return the share of all R * B scores above each threshold, (T,).

    Args:
        scores: (R, B).
        thresholds: (T,), in units of the scores.

    Source:
        rliable's `run_score_deviation`; a score equal to the threshold does not count.
    """
    above = scores.size - np.searchsorted(np.sort(scores, axis=None), thresholds, side="right")
    share: DoubleArray = above / scores.size
    return share


def t_quantile(degrees: float) -> float:
    """Return the 97.5 % quantile of Student's t: half widths of intervals in standard errors."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, (1.0 + CONFIDENCE) / 2.0))


def run_interval(scores: DoubleArray, statistic: Statistic) -> Estimate:
    """Return a statistic of all runs with its interval over runs.

    The standard error comes from the jackknife, which leaves out one whole run at a time; it is
    multiplied by Student's t with R - 1 degrees of freedom. For the mean this is the ordinary
    t-interval of the runs' means.

    Args:
        scores: (R, B).
        statistic: function of a matrix of R or R - 1 rows, e.g. `iqm`.

    Returns:
        The statistic; without an interval for a single run.

    Source:
        Tukey 1958, Bias and confidence in not quite large samples. The interval is centred on the
        statistic itself, not on the mean of the pseudo-values, which scatters more for the
        interquartile mean of few runs.
    """
    value, runs = statistic(scores), len(scores)
    if runs < 2:
        return Estimate(value, None, None)
    left_out = np.array([statistic(np.delete(scores, run, axis=0)) for run in range(runs)])
    error = math.sqrt((runs - 1) / runs * float(((left_out - left_out.mean()) ** 2).sum()))
    half = t_quantile(runs - 1) * error
    return Estimate(value, value - half, value + half)
