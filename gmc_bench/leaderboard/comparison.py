"""Comparisons of methods: differences, tests corrected for their number, and letter groups.

As in `statistics`, a method is a score matrix (R, B). Methods are paired by body: all of them score
the same ones. Runs are replications of one method: a seed means nothing across methods.
"""

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations

import numpy as np

from gmc_bench.core.types import BoolArray, DoubleArray, IntArray
from gmc_bench.leaderboard.statistics import (
    CONFIDENCE,
    CrossedEstimate,
    Estimate,
    VarianceEstimate,
    body_variance,
    both_variance,
    crossed_estimate,
    crossed_noise,
    sum_variances,
    t_quantile,
)

_NOISE = 1e-12  # relative; smaller differences are rounding errors of equal numbers
_SMALLEST = 1e-5  # of the median variance; agreement by rounding would look like a special method


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """Difference of two means and the tests that it is zero."""

    estimate: CrossedEstimate
    p_runs: float | None
    """Two-sided, over other seeds on these bodies, not corrected for the number of tests; `None`
    where a method has one run."""
    p_both: float | None
    """The same over other seeds and other bodies."""


def mean_differences(
    methods: Sequence[DoubleArray], families: IntArray
) -> dict[tuple[int, int], MeanDifference]:
    """Compare the means of all pairs of methods.

    Args:
        methods: K matrices, (R_k, B) each, with the same bodies in the same order.
        families: (B,), see `statistics.body_variance`.

    Returns:
        First minus second, by the places of both, the first less than the second.
    """
    means = [scores.mean(axis=1) for scores in methods]
    own = [
        None if len(m) < 2 else VarianceEstimate(float(m.var(ddof=1)), len(m) - 1.0) for m in means
    ]
    loan = moderate(own)
    noise = [crossed_noise(scores, families) for scores in methods]
    differences = {}
    for i, j in combinations(range(len(methods)), 2):
        by_body = methods[i].mean(axis=0) - methods[j].mean(axis=0)
        value = float(methods[i].mean() - methods[j].mean())
        bodies = body_variance(by_body, families)
        over_runs = loan.of_difference((i, j), [len(methods[place]) for place in (i, j)])
        both = both_variance(over_runs, bodies, noise[i] + noise[j])
        scale = max(float(np.abs(methods[place]).max()) for place in (i, j))
        p_runs = _p_value(value, over_runs, scale)
        p_bodies, p_both = _p_value(value, bodies, scale), _p_value(value, both, scale)
        if p_runs is not None and p_bodies is not None and p_both is not None:
            p_both = max(p_runs, p_bodies, p_both)  # as its interval is never the shortest
        differences[i, j] = MeanDifference(
            crossed_estimate(value, over_runs, bodies, both), p_runs, p_both
        )
    return differences


@dataclass(frozen=True, slots=True)
class Loan:
    """Variances of methods that lend each other degrees of freedom."""

    own: Sequence[VarianceEstimate | None]
    """Of a run's mean score, by method, as it was; `None` for a method with one run."""
    variances: Sequence[float]
    """Drawn towards what is typical, by method; 0 for one with one run."""
    lent: float
    """Degrees of freedom that every method has from the others; infinite where all are alike."""

    def of_difference(self, pair: tuple[int, int], runs: Sequence[int]) -> VarianceEstimate | None:
        """Return the variance of the difference of two means; what both borrowed counts once.

        Args:
            pair: the two methods.
            runs: how many runs either mean is over.
        """
        total = math.fsum(item.degrees for item in self.own if item is not None)
        found, before = [], 0.0
        for method, count in zip(pair, runs, strict=True):
            own = self.own[method]
            if own is None:
                return None
            degrees = min(self.lent + own.degrees, total)
            found.append(VarianceEstimate(self.variances[method] / count, degrees))
            before += own.degrees
        variance, degrees = sum_variances(found)
        return VarianceEstimate(variance, min(degrees, self.lent + before, total))


def moderate(own: Sequence[VarianceEstimate | None]) -> Loan:
    """Let methods lend each other degrees of freedom, as far as their variances are alike.

    Each variance is drawn towards the one that is typical of all methods, and gains the degrees of
    freedom that this typical one is worth. How much the true variances differ is estimated from
    their scatter.

    Args:
        own: variances of a run's mean score; `None` for a method with one run.

    Returns:
        The loan; nothing is lent where fewer than two variances are known and positive.

    Source:
        Smyth 2004, Linear models and empirical Bayes methods for assessing differential expression
        (limma's `squeezeVar`).
    """
    from scipy.special import digamma, polygamma

    known = [item for item in own if item is not None]
    positive = [item.variance for item in known if item.variance > 0.0]
    if len(positive) < 2:
        return Loan(own, [0.0 if item is None else item.variance for item in own], 0.0)
    degrees = np.array([item.degrees for item in known])
    smallest = _SMALLEST * float(np.median(positive))
    logs = np.log([max(item.variance, smallest) for item in known])
    logs += np.log(degrees / 2.0) - digamma(degrees / 2.0)
    unlikeness = float(logs.var(ddof=1)) - float(polygamma(1, degrees / 2.0).mean())
    if unlikeness <= 0.0:
        pooled = math.fsum(item.variance * item.degrees for item in known) / float(degrees.sum())
        return Loan(own, [0.0 if item is None else pooled for item in own], math.inf)
    lent = 2.0 * _inverse_trigamma(unlikeness)
    typical = math.exp(logs.mean() + float(digamma(lent / 2.0)) - math.log(lent / 2.0))
    drawn = [
        0.0
        if item is None
        else (lent * typical + item.degrees * item.variance) / (lent + item.degrees)
        for item in own
    ]
    return Loan(own, drawn, lent)


def _inverse_trigamma(value: float) -> float:
    from scipy.special import polygamma

    x = 0.5 + 1.0 / value
    for _ in range(50):  # Newton's method on 1 / trigamma, as in limma
        trigamma = float(polygamma(1, x))
        step = trigamma * (1.0 - trigamma / value) / float(polygamma(2, x))
        x += step
        if -step / x < 1e-9:
            break
    return x


def _p_value(value: float, found: VarianceEstimate | None, scale: float) -> float | None:
    from scipy.special import stdtr

    if found is None:
        return None
    if abs(value) <= _NOISE * scale:
        return 1.0
    if found.variance == 0.0:  # the runs of either method are all alike, and the methods are not
        return 0.0
    return 2.0 * float(stdtr(found.degrees, -abs(value) / math.sqrt(found.variance)))


def probability_of_improvement(first: DoubleArray, second: DoubleArray) -> Estimate:
    """Return how likely a run of the first method beats one of the second on a body.

    This is the share of bodies on which it does (ties count one half), averaged over all pairs of
    one run each. It equals the Mann-Whitney probability of each body averaged over bodies.

    Args:
        first: (R1, B).
        second: (R2, B), the same bodies in the same order.

    Returns:
        The probability with its interval over runs, made on the scale of log(p / (1 - p)) so that
        it stays between 0 and 1. Without an interval when either method has one run, and when all
        runs agree (as when every run of one method wins on every body): their spread is then
        zero, which does not make the probability certain.

    Source:
        The value is rliable's. Its variance is that of DeLong et al. 1988, with runs as cases; the
        degrees of freedom are those of Brunner and Munzel 2000; for the scale see Pepe 2003, The
        statistical evaluation of medical tests for classification and prediction.
    """
    from scipy.special import expit, logit

    a, b = first[:, None, :], second[None, :, :]
    shares = ((a > b).mean(axis=2) + (a >= b).mean(axis=2)) / 2.0  # (R1, R2)
    value = float(shares.mean())
    if min(shares.shape) < 2:
        return Estimate(value, None, None)
    means = shares.mean(axis=1), shares.mean(axis=0)
    terms = [VarianceEstimate(float(m.var(ddof=1)) / len(m), len(m) - 1.0) for m in means]
    variance, degrees = sum_variances(terms)
    error = math.sqrt(variance)
    if error <= _NOISE:
        return Estimate(value, None, None)
    half = t_quantile(degrees) * error / (value * (1.0 - value))
    return Estimate(value, *(float(expit(logit(value) + side)) for side in (-half, half)))


def told_apart(
    p_values: dict[tuple[int, int], float | None], level: float = 1.0 - CONFIDENCE
) -> set[tuple[int, int]]:
    """Return which pairs differ, with at most `level` chance of any pair that does not.

    As Holm's correction, but it counts how many pairs can be equal at all: if one of K methods is
    unlike another, it cannot be that all other pairs are equal.

    Args:
        p_values: by pair of methods; `None` is a test that could not be done, because one of the
            two has a single run. It is never rejected and does not count as a test.
        level: family-wise error rate.

    Source:
        Shaffer 1986, Modified sequentially rejective multiple test procedures (procedure S2).
    """
    tested = sorted((p, pair) for pair, p in p_values.items() if p is not None)
    possible = _numbers_of_equal_pairs(len({method for _, pair in tested for method in pair}))
    rejected: set[tuple[int, int]] = set()
    for p, pair in tested:
        left = len(tested) - len(rejected)
        if p > level / max(count for count in possible if count <= left):
            break
        rejected.add(pair)
    return rejected


@cache
def _numbers_of_equal_pairs(methods: int) -> frozenset[int]:
    """Return how many pairs may be equal, for every way to part methods into groups of equals."""
    if methods <= 1:
        return frozenset({0})
    return frozenset(
        size * (size - 1) // 2 + rest
        for size in range(1, methods + 1)
        for rest in _numbers_of_equal_pairs(methods - size)
    )


def letter_groups(distinguishable: BoolArray) -> tuple[str, ...]:
    """Return letters such that two items share one exactly when they cannot be told apart.

    Args:
        distinguishable: (N, N), symmetric, diagonal false.

    Returns:
        One text per item, e.g. `a`, `ab`, `b`. Earlier items get earlier letters. From the 53rd
        group on a letter is followed by a number (`a2`) and is another letter than `a`.

    Source:
        Piepho 2004, An algorithm for a letter-based representation of all-pairwise comparisons:
        insert and absorb, without the sweep that drops letters others make superfluous.
    """
    count = len(distinguishable)
    columns = [(1 << count) - 1]  # sets of items as bits; each becomes a letter
    for i, j in combinations(range(count), 2):
        pair = 1 << i | 1 << j
        if not distinguishable[i, j]:
            continue
        broken = [column for column in columns if column & pair == pair]
        kept = [column for column in columns if column & pair != pair]
        for column in (part & ~(1 << item) for part in broken for item in (i, j)):
            if not any(column | other == other for other in kept):  # absorbed by a larger set
                kept = [other for other in kept if column | other != column] + [column]
        columns = kept
    members = sorted([item for item in range(count) if column >> item & 1] for column in columns)
    letters = [""] * count
    for place, group in enumerate(members):
        for item in group:
            letters[item] += _letter(place)
    return tuple(letters)


def _letter(place: int) -> str:
    turn, letter = divmod(place, len(string.ascii_letters))
    return string.ascii_letters[letter] + (str(turn + 1) if turn else "")
