"""Statistics of the scores of one method: point estimates, and intervals over runs and bodies.

Scores of one method are a matrix (R, B), a two-way crossed design: R runs, which differ in their
seed, times B bodies. One run is one policy that drives all bodies, and one body is as hard for all
runs, so scores are correlated along rows and along columns. The sampling units of an interval are
therefore whole runs, whole bodies or both, never single scores. `docs/statistics.md` has the
formulas and what they mean.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from gmc_bench.core.types import DoubleArray, IntArray

CONFIDENCE = 0.95
"""Coverage of every interval."""
TRIMMED_SHARE = 0.25
"""Share of the scores that the interquartile mean cuts off at either end."""
WORST_SHARE = 0.1
"""Share of the bodies that the worst decile counts, rounded up."""
MAX_SUBSETS = 1_000
"""Subsets of runs that a mean over subsets counts at most."""

_MAX_LOGARITHM = math.log(sys.float_info.max)

Statistic = Callable[[DoubleArray], float]


class VarianceEstimate(NamedTuple):
    """An estimated variance and its degrees of freedom."""

    variance: float
    degrees: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float | None
    """`None`, as `high`, where no interval can be computed, e.g. from a single run."""
    high: float | None

    def transformed(self, function: Callable[[float], float]) -> "Estimate":
        """Return it on another scale; the function must increase."""
        ends = (None if end is None else function(end) for end in (self.low, self.high))
        return Estimate(function(self.value), *ends)


def exp_or_infinity(value: float) -> float:
    """Return e to a power; infinity where that is too large for a float."""
    return math.exp(value) if value < _MAX_LOGARITHM else math.inf


def mean(scores: DoubleArray) -> float:
    """Return the mean over runs and bodies of scores (R, B)."""
    return float(scores.mean())


def log_mean(scores: DoubleArray) -> float:
    """Return the logarithm of the mean, which must be positive, of scores (R, B)."""
    return math.log(scores.mean())


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


def mean_over_subsets(scores: DoubleArray, size: int, statistic: Statistic) -> float:
    """Return the mean of a statistic over all subsets of `size` runs of scores (R, B).

    Makes statistics whose expectation depends on the number of runs comparable between methods
    that have unequal numbers of them. Where there are more than `MAX_SUBSETS`, it is the mean over
    so many that are drawn at random, the same ones each time.
    """
    runs = len(scores)
    if math.comb(runs, size) <= MAX_SUBSETS:
        subsets = [list(found) for found in combinations(range(runs), size)]
    else:
        order = np.random.default_rng(0).random((MAX_SUBSETS, runs)).argsort(axis=1)
        subsets = np.sort(order[:, :size], axis=1).tolist()
    return mean(np.array([statistic(scores[found]) for found in subsets]))


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
        statistic itself, not on the mean of the pseudo-values, which varies more for the
        interquartile mean of few runs.
    """
    value, runs = statistic(scores), len(scores)
    if runs < 2:
        return Estimate(value, None, None)
    error = float(pseudo_values(scores, statistic).std(ddof=1)) / math.sqrt(runs)
    half = t_quantile(runs - 1) * error
    return Estimate(value, value - half, value + half)


def pseudo_values(scores: DoubleArray, statistic: Statistic) -> DoubleArray:
    """Return what each run adds to a statistic of all, (R,): the pseudo-values of the jackknife.

    Their sample variance / R is the jackknife's variance of the statistic over runs. Those of the
    mean are the runs' means; that of a single run is the statistic itself.

    Args:
        scores: (R, B).
        statistic: function of a matrix of R or R - 1 rows.

    Source:
        Tukey 1958, Bias and confidence in not quite large samples.
    """
    value, runs = statistic(scores), len(scores)
    if runs < 2:
        return np.array([value])
    left_out = np.array([statistic(np.delete(scores, run, axis=0)) for run in range(runs)])
    found: DoubleArray = runs * value - (runs - 1) * left_out
    return found


@dataclass(frozen=True, slots=True)
class CrossedEstimate:
    """A mean with three intervals, which differ in the random factor: runs, bodies or both."""

    runs: Estimate
    """Over seeds, bodies fixed."""
    bodies: Estimate
    """Over bodies of the same kind, trained policies fixed."""
    both: Estimate
    """Over seeds and bodies."""

    @property
    def value(self) -> float:
        """The mean itself, the same in all three."""
        return self.runs.value

    @property
    def widest(self) -> Estimate:
        """The mean with its interval over seeds and bodies, or over seeds where there is none."""
        return self.runs if self.both.low is None else self.both

    def transformed(self, function: Callable[[float], float]) -> "CrossedEstimate":
        """Return it on another scale; the function must increase."""
        return CrossedEstimate(
            *(item.transformed(function) for item in (self.runs, self.bodies, self.both))
        )

    def with_fixed_bodies(self) -> "CrossedEstimate":
        """Return it without intervals over bodies, for bodies that are no sample of others."""
        point = Estimate(self.value, None, None)
        return CrossedEstimate(self.runs, point, point)


def crossed_mean(scores: DoubleArray, clusters: IntArray) -> CrossedEstimate:
    """Return the mean of scores (R, B) with its intervals over runs, bodies and both.

    Args:
        scores: (R, B).
        clusters: (B,), labels of bodies that vary together; equal numbers are one cluster.

    Returns:
        The mean. A single run has no interval over runs, a single cluster none over bodies.
    """
    value = mean(scores)
    runs, bodies = run_variance(scores), body_variance(scores.mean(axis=0), clusters)
    both = two_way_variance(runs, bodies, [interaction_variance(scores, clusters)])
    return crossed_estimate(value, runs, bodies, both)


def crossed_estimate(
    value: float,
    runs: VarianceEstimate | None,
    bodies: VarianceEstimate | None,
    both: VarianceEstimate | None,
) -> CrossedEstimate:
    """Return a value with its intervals over runs, over bodies and over both.

    The interval over both is replaced by the widest of the three. With few runs it could otherwise
    be narrower than one of the others, because the summed variance has more degrees of freedom
    than its terms; drawing both anew cannot be less uncertain than drawing one of them.
    """
    single = interval(value, runs), interval(value, bodies)
    joint = interval(value, both)
    if both is not None:
        joint = max((*single, joint), key=_half_width)
    return CrossedEstimate(*single, joint)


def _half_width(found: Estimate) -> float:
    return 0.0 if found.high is None else found.high - found.value


def interval(value: float, found: VarianceEstimate | None) -> Estimate:
    """Return a value with its t-interval; without an interval where the variance is unknown."""
    if found is None:
        return Estimate(value, None, None)
    half = t_quantile(found.degrees) * math.sqrt(found.variance)
    return Estimate(value, value - half, value + half)


def run_variance(scores: DoubleArray) -> VarianceEstimate | None:
    """Return the variance over runs of the mean of scores (R, B); `None` for a single run."""
    runs = len(scores)
    if runs < 2:
        return None
    return VarianceEstimate(float(scores.mean(axis=1).var(ddof=1)) / runs, runs - 1.0)


def body_variance(values: DoubleArray, clusters: IntArray) -> VarianceEstimate | None:
    """Return the variance over bodies of the mean of one number per body.

    It is cluster-robust: bodies of one cluster are drawn together and are not independent.

    Args:
        values: (B,), e.g. means over runs, or differences of two methods.
        clusters: (B,), equal numbers are one cluster.

    Returns:
        The variance with G - 1 degrees of freedom for G clusters; `None` for a single cluster.

    Source:
        Liang and Zeger 1986, Longitudinal data analysis using generalized linear models (the
        sandwich estimator of a mean of clusters, times G / (G - 1)).
    """
    sums = _cluster_sums(values[None, :] - values.mean(), clusters)[0]
    count = int(sums.size)
    if count < 2:
        return None
    squares = float((sums**2).sum())
    return VarianceEstimate(squares * count / (count - 1) / values.size**2, count - 1.0)


def interaction_variance(scores: DoubleArray, clusters: IntArray) -> VarianceEstimate:
    """Return the variance of a mean that comes from the interaction of runs and clusters.

    `run_variance` and `body_variance` both contain it. It is estimated from the residuals of the
    additive model, run mean + body mean - grand mean.

    Args:
        scores: (R, B).
        clusters: (B,), equal numbers are one cluster.

    Returns:
        The variance; 0 for a single run or a single cluster. Its degrees of freedom are those of
        the residuals, (R - 1)(G - 1) with G clusters.
    """
    runs = len(scores)
    residuals = scores - scores.mean(axis=1, keepdims=True) - scores.mean(axis=0) + scores.mean()
    sums = _cluster_sums(residuals, clusters)
    count = int(sums.shape[1])
    if runs < 2 or count < 2:
        return VarianceEstimate(0.0, 1.0)
    correction = runs / (runs - 1) * count / (count - 1)
    return VarianceEstimate(
        float((sums**2).sum()) * correction / scores.size**2, (runs - 1.0) * (count - 1.0)
    )


def two_way_variance(
    runs: VarianceEstimate | None,
    bodies: VarianceEstimate | None,
    interactions: Sequence[VarianceEstimate],
) -> VarianceEstimate | None:
    """Return the two-way cluster-robust variance of a mean, over runs and clusters of bodies.

    Args:
        runs: variance over runs, of one method or of the difference of two.
        bodies: variance over bodies.
        interactions: what these have in common, by method, see `interaction_variance`.

    Returns:
        The sum less the interactions, which it counts twice, but never less than either variance;
        `None` where one of them is not known. Its degrees of freedom are V^2 / sum(V_i^2 / d_i)
        over all of its terms, also those that are subtracted.

    Source:
        Cameron, Gelbach and Miller 2011, Robust inference with multiway clustering. Where each body
        is a cluster of its own, these are the mean squares of the crossed random-effects analysis
        of variance. Degrees of freedom: Satterthwaite 1946.
    """
    if runs is None or bodies is None:
        return None
    common = math.fsum(term.variance for term in interactions)
    total = max(runs.variance + bodies.variance - common, runs.variance, bodies.variance)
    return VarianceEstimate(total, _degrees(total, [runs, bodies, *interactions]))


def sum_variances(terms: Sequence[VarianceEstimate]) -> VarianceEstimate:
    """Return the sum of independent variances and its degrees of freedom (Satterthwaite 1946)."""
    total = math.fsum(term.variance for term in terms)
    return VarianceEstimate(total, _degrees(total, terms))


def _degrees(total: float, terms: Sequence[VarianceEstimate]) -> float:
    """Return the degrees of freedom of a variance that is a sum or difference of terms."""
    # Shares instead of squared variances, which could underflow.
    shares = [term.variance / total if total > 0.0 else 1.0 / len(terms) for term in terms]
    return 1.0 / math.fsum(
        share**2 / term.degrees for share, term in zip(shares, terms, strict=True)
    )


def _cluster_sums(values: DoubleArray, clusters: IntArray) -> DoubleArray:
    """Return sums over the bodies of each cluster, (R, B) -> (R, G) for G clusters."""
    _, index = np.unique(clusters, return_inverse=True)
    sums = np.zeros((index.max() + 1, len(values)))
    np.add.at(sums, index, values.T)
    found: DoubleArray = sums.T
    return found
