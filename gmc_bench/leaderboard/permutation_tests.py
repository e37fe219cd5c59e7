"""Permutation tests of recorded against repeated episodes, beyond their mean return.

A mean says nothing about single bodies: a record that gives every body the same return, or that
calls every episode one without a fall, may have the right mean. If recorded and repeated numbers
are draws from the same distributions, they are exchangeable: within a pair of the same body and
start, and among all episodes of a body. All p-values here are those of permutations of ranks, so
that one outlier neither hides the other numbers nor is mistaken for them.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from gmc_bench.core.types import DoubleArray, IntArray
from gmc_bench.records.parts import BodyReturns, Episode
from gmc_bench.tasks.spec import TIME_LIMIT

_MAX_EXCHANGES = 1000
"""Permutations of a body's episodes that are enumerated, or drawn where there are more."""


def p_value_of_outcomes(recorded: Sequence[BodyReturns], found: Sequence[BodyReturns]) -> float:
    """Return the p-value of the outcomes of bodies: differences as large as these, by chance.

    Compared are how far bodies are apart in their mean returns; the returns, lengths and ends (by
    the time limit or not) of each body; and lengths and ends over all episodes. The result is the
    smallest of their p-values times their number (Bonferroni), at most 1.

    Args:
        recorded: B bodies.
        found: the same ones in the same order, with as many episodes each.
    """
    p_values = [_of_spread(_means(recorded), _means(found))]
    for number in _NUMBERS:
        old, new = _of(recorded, number), _of(found, number)
        p_values.append(_of_bodies(old, new))
        if number is not _return:  # means of returns have limits of their own
            p_values.append(p_value_of_shift(np.concatenate(new) - np.concatenate(old)))
    return min(1.0, len(p_values) * min(p_values))


def p_value_of_shift(differences: DoubleArray) -> float:
    """Return the two-sided p-value of paired differences (N,) being symmetric about zero.

    Source:
        Wilcoxon 1945, Biometrics Bulletin 1, 80-83: the signed-rank test. Zeros are ranked, too,
        and half of their ranks count for either side (scipy's `zsplit`).
    """
    from scipy.stats import wilcoxon

    if not differences.any():
        return 1.0
    return float(wilcoxon(differences, zero_method="zsplit").pvalue)


def _of_spread(old: DoubleArray, new: DoubleArray) -> float:
    """Return the p-value of old and new numbers (B,) having the same dispersion over bodies.

    A number's score is the distance of its rank among all from the middle rank; the old and the new
    number of a body are exchanged.

    Source:
        Ansari and Bradley 1960, Annals of Mathematical Statistics 31, 1174-1189, for the scores.
    """
    ranks = _ranks(np.concatenate([old, new])[None])[0]
    out = np.abs(ranks - (len(ranks) + 1) / 2)
    return p_value_of_shift(out[len(old) :] - out[: len(old)])


def _of_bodies(old: Sequence[DoubleArray], new: Sequence[DoubleArray]) -> float:
    """Return the p-value of each body's old and new numbers having the same distribution.

    A body's statistic is the rank sum of its old numbers among all of its numbers, squared and
    divided by its variance under permutation. The null distribution of the sum over bodies is the
    Pearson type III with the mean, variance and skewness of the permutations.
    """
    total = variance = third = 0.0
    for count in {len(values) for values in old}:
        chosen = [place for place, values in enumerate(old) if len(values) == count]
        ranks = _ranks(np.array([np.concatenate([old[place], new[place]]) for place in chosen]))
        ranks -= ranks.mean(axis=1, keepdims=True)
        ranks = ranks[ranks.any(axis=1)]  # nothing to tell apart otherwise
        sums = ranks[:, _halves(count)].sum(axis=2)
        unit = np.square(sums).mean(axis=1)
        squares = np.square(sums) / unit[:, None] - 1.0
        total += float((np.square(ranks[:, :count].sum(axis=1)) / unit - 1.0).sum())
        variance += float(np.square(squares).mean(axis=1).sum())
        third += float((squares**3).mean(axis=1).sum())
    if variance < 1e-12:  # with one episode each, all exchanges look alike
        return 1.0
    from scipy.stats import pearson3

    spread = math.sqrt(variance)
    return float(pearson3.sf(total / spread, third / spread**3))


def _halves(count: int) -> IntArray:
    """Return (S, count) places of one half of 2 * count numbers: all halves, or a sample."""
    if math.comb(2 * count, count) <= _MAX_EXCHANGES:
        return np.array(list(combinations(range(2 * count), count)))
    rng = np.random.default_rng(0)
    drawn = rng.permuted(np.tile(np.arange(2 * count), (_MAX_EXCHANGES, 1)), axis=1)
    found: IntArray = drawn[:, :count]
    return found


def _ranks(values: DoubleArray) -> DoubleArray:
    """Return the ranks from 1 of each row of (B, N); equal numbers share the mean of theirs."""
    from scipy.stats import rankdata

    found: DoubleArray = rankdata(values, axis=1)
    return found


def _return(episode: Episode) -> float:
    return episode.episode_return


def _length(episode: Episode) -> float:
    return episode.length


def _ended_early(episode: Episode) -> float:
    return episode.ended != TIME_LIMIT


_NUMBERS = (_return, _length, _ended_early)


def _of(items: Sequence[BodyReturns], number: Callable[[Episode], float]) -> list[DoubleArray]:
    return [np.array([float(number(episode)) for episode in item.episodes]) for item in items]


def _means(items: Sequence[BodyReturns]) -> DoubleArray:
    return np.array([math.fsum(values) / len(values) for values in _of(items, _return)])
