"""Comparisons of methods: ratios of means, tests corrected for their number, and letter groups.

As in `statistics`, a method is a score matrix (R, B). Methods are paired by body: all of them score
the same ones. Runs are replications of one method: a seed means nothing across methods.
"""

import math
import re
import string
from collections.abc import Mapping, Sequence
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
    crossed_estimate,
    interaction_variance,
    interval,
    log_mean,
    mean,
    pseudo_values,
    sum_variances,
    t_quantile,
    two_way_variance,
)

_ROUNDING = 1e-12  # relative; smaller differences are rounding errors of equal numbers
_VARIANCE_FLOOR = 1e-5  # of the median; a variance of rounding errors would dominate the prior


@dataclass(frozen=True, slots=True)
class MeanComparison:
    """Two means compared: how much the first exceeds the second, and tests that they are equal."""

    contrast: CrossedEstimate
    """First minus second, of the means or of their logarithms. Its intervals are not corrected for
    the number of comparisons."""
    of_logarithms: bool
    """Whether it is that of logarithms."""
    p_runs: float | None
    """Two-sided p-value with seeds as the random factor and bodies fixed, not corrected for the
    number of tests; `None` where a method has one run, or where all runs of both are equal and
    there is no prior to moderate their variance."""
    p_both: float | None
    """The same with seeds and bodies as random factors; `None` also for bodies of one cluster."""


def compare_means(
    methods: Sequence[DoubleArray], clusters: IntArray, *, borrow: bool = True
) -> dict[tuple[int, int], MeanComparison]:
    """Compare the means of all pairs of methods, paired by body.

    Two methods whose means are clearly positive are compared by the logarithms of their means, any
    others by the means themselves. The standard deviation over runs is roughly proportional to the
    mean: that of logarithms differs much less between methods, so that the runs of one method say
    something about those of another. A mean is clearly positive if that of every run and the whole
    95 % interval over bodies are: near zero a logarithm is hardly known.

    Args:
        methods: K matrices, (R_k, B) each, with the same bodies in the same order.
        clusters: (B,), see `statistics.body_variance`.
        borrow: moderate the variances over runs, see `moderate_variances`; else tests over runs are
            Welch's, with the variances of the two methods alone.

    Returns:
        First against second, by the indices of both, the first less than the second.
    """
    everyone = dict(enumerate(methods))
    positive = {i: item for i, item in everyone.items() if _is_clearly_positive(item, clusters)}
    return _compare(everyone, clusters, borrow=borrow, of_logarithms=False) | _compare(
        positive, clusters, borrow=borrow, of_logarithms=True
    )


def _is_clearly_positive(scores: DoubleArray, clusters: IntArray) -> bool:
    over_bodies = interval(mean(scores), body_variance(scores.mean(axis=0), clusters))
    lowest = over_bodies.value if over_bodies.low is None else over_bodies.low
    return lowest > 0.0 and bool((scores.mean(axis=1) > 0.0).all())


def run_values(scores: DoubleArray, *, of_logarithms: bool) -> DoubleArray:
    """Return numbers (R,) whose mean varies over runs as the mean of scores (R, B) does.

    Args:
        scores: (R, B).
        of_logarithms: as the logarithm of that mean does; then they are the jackknife's.
    """
    return pseudo_values(scores, log_mean if of_logarithms else mean)


def body_values(scores: DoubleArray, *, of_logarithms: bool) -> DoubleArray:
    """Return numbers (R, B) whose mean varies over bodies as the mean of scores (R, B) does.

    Args:
        scores: (R, B).
        of_logarithms: as the logarithm of that mean does, by the delta method.
    """
    return scores / mean(scores) if of_logarithms else scores


def _compare(
    methods: Mapping[int, DoubleArray], clusters: IntArray, *, borrow: bool, of_logarithms: bool
) -> dict[tuple[int, int], MeanComparison]:
    """Compare all pairs of some methods on one scale; see `compare_means`."""
    statistic = log_mean if of_logarithms else mean
    values = [statistic(scores) for scores in methods.values()]
    runs = [run_values(scores, of_logarithms=of_logarithms) for scores in methods.values()]
    bodies = [body_values(scores, of_logarithms=of_logarithms) for scores in methods.values()]
    largest = [float(np.abs(found).max()) for found in bodies]
    own = [_variance_of_a_run(*each) for each in zip(runs, largest, strict=True)]
    moderated = moderate_variances(own) if borrow else _as_they_are(own)
    interactions = [interaction_variance(found, clusters) for found in bodies]
    compared = {}
    for (i, first), (j, second) in combinations(enumerate(methods), 2):
        value = values[i] - values[j]
        over_bodies = body_variance(bodies[i].mean(axis=0) - bodies[j].mean(axis=0), clusters)
        over_runs = moderated.of_difference((i, j), [len(runs[place]) for place in (i, j)])
        if over_runs is not None and over_runs.variance == 0.0:
            over_runs = None  # a few runs that are all equal do not show that every run would be
        both = two_way_variance(over_runs, over_bodies, [interactions[i], interactions[j]])
        scale = max(largest[i], largest[j])
        p_runs = _p_value(value, over_runs, scale)
        p_bodies, p_both = _p_value(value, over_bodies, scale), _p_value(value, both, scale)
        if p_runs is not None and p_bodies is not None and p_both is not None:
            p_both = max(p_runs, p_bodies, p_both)  # as its interval is never the shortest
        contrast = crossed_estimate(value, over_runs, over_bodies, both)
        compared[first, second] = MeanComparison(contrast, of_logarithms, p_runs, p_both)
    return compared


def _variance_of_a_run(runs: DoubleArray, scale: float) -> VarianceEstimate | None:
    """Return the sample variance of (R,) numbers, 0 where they differ by rounding errors only."""
    if len(runs) < 2:
        return None
    variance = float(runs.var(ddof=1))
    return VarianceEstimate(
        0.0 if variance <= (_ROUNDING * scale) ** 2 else variance, len(runs) - 1.0
    )


@dataclass(frozen=True, slots=True)
class ModeratedVariances:
    """Empirical Bayes estimates of the methods' variances, shrunk towards a common prior."""

    sample: Sequence[VarianceEstimate | None]
    """Sample variance of a run's mean score, by method; `None` for a method with one run."""
    posterior: Sequence[float]
    """Moderated variance by method: the mean of `sample` and the prior variance, weighted by their
    degrees of freedom; 0 for a method with one run."""
    prior_degrees: float
    """Degrees of freedom of the prior, which every method gains; 0 where there is no prior,
    infinite where the sample variances differ by no more than chance and are pooled."""

    def of_difference(self, pair: tuple[int, int], runs: Sequence[int]) -> VarianceEstimate | None:
        """Return the variance of the difference of two methods' means.

        Its degrees of freedom are Satterthwaite's, but at most those of both samples and of the
        prior, which both methods share and which counts once; and never more than those of all
        samples with any variance together.

        Args:
            pair: indices of the two methods.
            runs: number of runs in either mean.

        Returns:
            The variance; `None` if either method has one run.
        """
        known = [item for item in self.sample if item is not None]
        varied = [item for item in known if item.variance > 0.0]
        total = math.fsum(item.degrees for item in varied or known)
        terms, own_degrees = [], 0.0
        for method, count in zip(pair, runs, strict=True):
            own = self.sample[method]
            if own is None:
                return None
            degrees = min(self.prior_degrees + own.degrees, total)
            terms.append(VarianceEstimate(self.posterior[method] / count, degrees))
            own_degrees += own.degrees
        variance, degrees = sum_variances(terms)
        return VarianceEstimate(variance, min(degrees, self.prior_degrees + own_degrees, total))


def moderate_variances(sample: Sequence[VarianceEstimate | None]) -> ModeratedVariances:
    """Shrink sample variances towards a prior variance that is estimated from all of them.

    The prior is a scaled inverse chi-squared distribution. Its variance and degrees of freedom
    match the mean and the variance of the logarithms of the positive sample variances; those that
    are zero are shrunk towards it like the others.

    Args:
        sample: variances of a run's mean score, by method; `None` for a method with one run.

    Returns:
        The moderated variances; without a prior (`prior_degrees` 0, the sample variances as they
        are) where fewer than two variances are known and positive.

    Source:
        Smyth 2004, Linear models and empirical Bayes methods for assessing differential expression
        (limma's `squeezeVar`).
    """
    from scipy.special import digamma, polygamma

    # Runs that are all equal, e.g. without any fall, have no logarithm of their variance.
    known = [item for item in sample if item is not None and item.variance > 0.0]
    if len(known) < 2:
        return _as_they_are(sample)
    degrees = np.array([item.degrees for item in known])
    floor = _VARIANCE_FLOOR * float(np.median([item.variance for item in known]))
    logs = np.log([max(item.variance, floor) for item in known])
    logs += np.log(degrees / 2.0) - digamma(degrees / 2.0)
    # Variance of the logarithms of the true variances: observed less what sampling explains.
    excess = float(logs.var(ddof=1)) - float(polygamma(1, degrees / 2.0).mean())
    if excess <= 0.0:
        pooled = math.fsum(item.variance * item.degrees for item in known) / float(degrees.sum())
        return ModeratedVariances(
            sample, [0.0 if item is None else pooled for item in sample], math.inf
        )
    prior_degrees = 2.0 * _inverse_trigamma(excess)
    half = prior_degrees / 2.0
    prior = math.exp(logs.mean() + float(digamma(half)) - math.log(half))
    posterior = [
        0.0
        if item is None
        else (prior_degrees * prior + item.degrees * item.variance) / (prior_degrees + item.degrees)
        for item in sample
    ]
    return ModeratedVariances(sample, posterior, prior_degrees)


def _as_they_are(sample: Sequence[VarianceEstimate | None]) -> ModeratedVariances:
    """Return sample variances without a prior."""
    return ModeratedVariances(
        sample, [0.0 if item is None else item.variance for item in sample], 0.0
    )


def _inverse_trigamma(value: float) -> float:
    """Return x such that trigamma(x) = value > 0."""
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
    if abs(value) <= _ROUNDING * scale:
        return 1.0
    if found.variance == 0.0:  # the difference is the same on every body
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
        runs agree (as when every run of one method wins on every body): their variance is then
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
    if error <= _ROUNDING:
        return Estimate(value, None, None)
    half = t_quantile(degrees) * error / (value * (1.0 - value))
    return Estimate(value, *(float(expit(logit(value) + side)) for side in (-half, half)))


def significant_pairs(p_values: dict[tuple[int, int], float | None]) -> set[tuple[int, int]]:
    """Return the pairs that differ significantly, at the family-wise error rate 1 - `CONFIDENCE`.

    That is the chance of at least one pair of equal methods among those returned.

    A step-down procedure like Holm's, but it uses that hypotheses about pairs are logically
    related: once two of K methods differ, not all other pairs can be equal.

    Args:
        p_values: by pair of methods; `None` where there is no test, because one of the two has a
            single run, or no run varies. Such a pair is not significant and does not count as a
            test.

    Source:
        Shaffer 1986, Modified sequentially rejective multiple test procedures: the one commonly
        called S1, which asks how many pairs can be equal after so many rejections of any pairs; S2
        would ask after these rejections.
    """
    tested = sorted((p, pair) for pair, p in p_values.items() if p is not None)
    methods = len({method for _, pair in tested for method in pair})
    # Fewer can be equal at once only where the equality of two pairs is tested as a third.
    possible = (
        _possible_true_nulls(methods)
        if len(tested) == methods * (methods - 1) // 2
        else frozenset(range(1, len(tested) + 1))
    )
    rejected: set[tuple[int, int]] = set()
    for p, pair in tested:
        left = len(tested) - len(rejected)
        if p > (1.0 - CONFIDENCE) / max(count for count in possible if count <= left):
            break
        rejected.add(pair)
    return rejected


@cache
def _possible_true_nulls(methods: int) -> frozenset[int]:
    """Return the possible numbers of true null hypotheses, equal pairs, among so many methods.

    One number for every partition of the methods into groups of equals.
    """
    if methods <= 1:
        return frozenset({0})
    return frozenset(
        size * (size - 1) // 2 + rest
        for size in range(1, methods + 1)
        for rest in _possible_true_nulls(methods - size)
    )


def letter_groups(significant: BoolArray) -> tuple[str, ...]:
    """Return a compact letter display: two items share a letter unless they differ significantly.

    Args:
        significant: (N, N), which pairs differ significantly; symmetric, diagonal false.

    Returns:
        One text per item, e.g. `a`, `ab`, `b`. Earlier items get earlier letters. From the 53rd
        group on a letter is followed by a number (`a2`) and is another letter than `a`.

    Source:
        Piepho 2004, An algorithm for a letter-based representation of all-pairwise comparisons:
        insert and absorb, without the sweep that drops letters others make superfluous.
    """
    count = len(significant)
    columns = [(1 << count) - 1]  # sets of items as bits; each becomes a letter
    for i, j in combinations(range(count), 2):
        pair = 1 << i | 1 << j
        if not significant[i, j]:
            continue
        broken = [column for column in columns if column & pair == pair]
        kept = [column for column in columns if column & pair != pair]
        for column in (part & ~(1 << item) for part in broken for item in (i, j)):
            if not any(column | other == other for other in kept):  # absorbed by a larger set
                kept.append(column)
        columns = kept
    members = sorted([item for item in range(count) if column >> item & 1] for column in columns)
    letters = [""] * count
    for place, group in enumerate(members):
        for item in group:
            letters[item] += _letter(place)
    return tuple(letters)


def share_a_letter(first: str, second: str) -> bool:
    """Say whether two items, given by their texts of `letter_groups`, are in a common group."""
    return bool(_letters(first) & _letters(second))


def _letters(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z]\d*", text))


def _letter(place: int) -> str:
    turn, letter = divmod(place, len(string.ascii_letters))
    return string.ascii_letters[letter] + (str(turn + 1) if turn else "")
