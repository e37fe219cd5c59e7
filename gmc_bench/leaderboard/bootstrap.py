"""Bootstrap of mean, median and interquartile mean, stratified by body.

A resample draws runs anew for every body, as if the scores of one run on two bodies had nothing
to do with each other. That holds where every body has weights of its own. Where one policy drives
all bodies it does not, and the intervals are too short; see `statistics.run_interval`.
"""

from typing import NamedTuple

import numba
import numpy as np

from gmc_bench.core.types import DoubleArray, IntArray
from gmc_bench.leaderboard.statistics import (
    CONFIDENCE,
    TRIMMED_SHARE,
    Estimate,
    iqm,
    mean,
    median,
)

RESAMPLES = 10_000

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


class BootstrapEstimates(NamedTuple):
    """Three statistics of one score matrix with percentile intervals."""

    mean: Estimate
    median: Estimate
    iqm: Estimate


class Resamples(NamedTuple):
    """Three statistics of each resample, (S,) each."""

    mean: DoubleArray
    median: DoubleArray
    iqm: DoubleArray


def stratified_estimates(
    scores: DoubleArray, *, resamples: int = RESAMPLES, seed: int = 0, draws: int | None = None
) -> BootstrapEstimates:
    """Return mean, median and interquartile mean with 95 % percentile intervals.

    Args:
        scores: (R, B), runs and bodies.
        resamples: how many times to resample.
        seed: of the resampling; equal seeds give equal intervals, whatever the number of threads.
        draws: as in `resample`.

    Returns:
        The estimates; without intervals for a single run.
    """
    values = (mean(scores), median(scores), iqm(scores))
    if len(scores) < 2:
        return BootstrapEstimates(*(Estimate(value, None, None) for value in values))
    tail = (1.0 - CONFIDENCE) / 2.0
    found = resample(scores, resamples=resamples, seed=seed, draws=draws)
    low, high = np.quantile(np.stack(found), [tail, 1.0 - tail], axis=1)
    return BootstrapEstimates(
        *(Estimate(v, float(a), float(b)) for v, a, b in zip(values, low, high, strict=True))
    )


def resample(
    scores: DoubleArray, *, resamples: int = RESAMPLES, seed: int = 0, draws: int | None = None
) -> Resamples:
    """Return the statistics of resamples that draw runs with replacement, body by body.

    Args:
        scores: (R, B), runs and bodies.
        resamples: S, how many times to resample.
        seed: of the random numbers.
        draws: runs drawn per body; R - 1 by default, but at least 1. Drawing R runs, as rliable
            does, makes the intervals too short by sqrt((R - 1) / R), 18 % for three runs.

    Returns:
        Mean, median over bodies of the mean over draws, and interquartile mean of each resample.

    Source:
        Rao and Wu 1988, Resampling inference with complex survey data (R - 1 draws); stratified as
        rliable's `StratifiedBootstrap`. The random numbers are SplitMix64 (Steele et al. 2014) of
        seed, resample, body and draw, so that no thread depends on another.
    """
    runs = scores.shape[0]
    values = np.ascontiguousarray(scores.T, dtype=np.float64)  # (B, R): one body's runs together
    order = np.argsort(values, axis=None, kind="stable")
    ranks = np.empty(values.size, dtype=np.int64)
    ranks[order] = np.arange(values.size)
    out = np.empty((3, resamples))
    draws = max(runs - 1, 1) if draws is None else draws
    key = np.uint64(seed % 2**64)
    cut = int(TRIMMED_SHARE * len(values) * draws)
    _resample(values, ranks.reshape(values.shape), values.ravel()[order], draws, cut, key, out)
    return Resamples(*out)


@numba.njit(cache=True, inline="always")
def _mix(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@numba.njit(cache=True, parallel=True, nogil=True)
def _resample(
    values: DoubleArray,
    ranks: IntArray,
    ordered: DoubleArray,
    draws: int,
    cut: int,
    seed: np.uint64,
    out: DoubleArray,
) -> None:
    """Write the statistics of each resample to `out` (3, S).

    A resample is a count for each of the pooled scores, which are sorted once (`ordered`), so
    that a trimmed mean (less `cut` scores at either end) is one pass over the counts.
    """
    bodies, runs = values.shape
    drawn = bodies * draws
    for sample in numba.prange(out.shape[1]):
        # Mixed twice, because resamples of neighbouring seeds would otherwise share a stream.
        state = _mix(_mix(seed + _GOLDEN) + _GOLDEN * np.uint64(sample))
        counts = np.zeros(ordered.shape[0], dtype=np.int32)
        means = np.empty(bodies)
        for body in range(bodies):
            total = 0.0
            for _ in range(draws):
                state += _GOLDEN
                # The upper half times R, without division; its bias is below R / 2^32.
                run = np.int64(((_mix(state) >> np.uint64(32)) * np.uint64(runs)) >> np.uint64(32))
                counts[ranks[body, run]] += 1
                total += values[body, run]
            means[body] = total / draws
        middle, place = 0.0, 0
        for rank in range(ordered.shape[0]):
            if counts[rank]:
                kept = min(place + counts[rank], drawn - cut) - max(place, cut)
                if kept > 0:
                    middle += kept * ordered[rank]
                place += counts[rank]
        out[0, sample] = means.mean()
        out[1, sample] = np.median(means)
        out[2, sample] = middle / (drawn - 2 * cut)
