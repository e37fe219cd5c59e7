"""Comparisons of methods: differences, tests corrected for their number, and letter groups.

As in `statistics`, a method is a score matrix (R, B) and runs are the unit that varies.
"""

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from gmc_bench.core.types import BoolArray, DoubleArray
from gmc_bench.leaderboard.statistics import CONFIDENCE, Estimate, t_quantile

_NOISE = 1e-12  # relative; smaller differences are rounding errors of equal numbers


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """Difference of two means and the test that it is zero."""

    estimate: Estimate
    p_value: float | None
    """Two-sided, not corrected for the number of tests; `None` where a method has one run."""


def mean_difference(first: DoubleArray, second: DoubleArray) -> MeanDifference:
    """Compare the means of two methods by Welch's t-test over the runs' means.

    Args:
        first: (R1, B).
        second: (R2, B2); runs are not paired, a seed means nothing across methods.

    Returns:
        First minus second. Without an interval and without a p-value when either has one run.

    Source:
        Welch 1947, The generalization of "Student's" problem when several different population
        variances are involved.
    """
    means = first.mean(axis=1), second.mean(axis=1)
    value = float(means[0].mean() - means[1].mean())
    if min(len(first), len(second)) < 2:
        return MeanDifference(Estimate(value, None, None), None)
    error, degrees = _welch(means[0], means[1])
    half = t_quantile(degrees) * error
    return MeanDifference(
        Estimate(value, value - half, value + half),
        _p_value(value, error, degrees, scale=float(np.abs(np.concatenate(means)).max())),
    )


def _p_value(value: float, error: float, degrees: float, scale: float) -> float:
    from scipy.special import stdtr

    if abs(value) <= _NOISE * scale:
        return 1.0
    if error == 0.0:  # the runs of either method are all alike, and the methods are not
        return 0.0
    return 2.0 * float(stdtr(degrees, -abs(value) / error))


def _welch(first: DoubleArray, second: DoubleArray) -> tuple[float, float]:
    """Return standard error and degrees of freedom of the difference of two means."""
    parts = float(first.var(ddof=1)) / len(first), float(second.var(ddof=1)) / len(second)
    total = parts[0] + parts[1]
    # Shares instead of squared variances, which could underflow.
    share = parts[0] / total if total > 0.0 else 0.5
    weights = share**2 / (len(first) - 1) + (1.0 - share) ** 2 / (len(second) - 1)
    return math.sqrt(total), 1.0 / weights


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
    error, degrees = _welch(shares.mean(axis=1), shares.mean(axis=0))
    if error <= _NOISE:
        return Estimate(value, None, None)
    half = t_quantile(degrees) * error / (value * (1.0 - value))
    return Estimate(value, *(float(expit(logit(value) + side)) for side in (-half, half)))


def holm(p_values: Sequence[float | None], level: float = 1.0 - CONFIDENCE) -> tuple[bool, ...]:
    """Return which hypotheses are rejected, with at most `level` chance of any false rejection.

    Args:
        p_values: one per hypothesis; `None` is a test that could not be done. It is never
            rejected and does not count as a test.
        level: family-wise error rate.

    Source:
        Holm 1979, A simple sequentially rejective multiple test procedure.
    """
    tested = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    rejected = [False] * len(p_values)
    for rank, (p, place) in enumerate(tested):
        if p > level / (len(tested) - rank):
            break
        rejected[place] = True
    return tuple(rejected)


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
