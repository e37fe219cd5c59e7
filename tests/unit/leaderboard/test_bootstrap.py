from collections.abc import Iterator

import numba
import numpy as np
import pytest

from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.bootstrap import resample, stratified_estimates
from gmc_bench.leaderboard.statistics import Estimate, iqm, mean, median

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Many small resamplings are slow when their threads wait for each other on a busy machine."""
    before = numba.get_num_threads()
    numba.set_num_threads(1)
    yield
    numba.set_num_threads(before)


def _mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def _draw(scores: DoubleArray, draws: int, seed: int, sample: int) -> DoubleArray:
    """Return one resample (draws, B) in the plainest way."""
    runs, bodies = scores.shape
    state = _mix(_mix(seed + GOLDEN & MASK) + GOLDEN * sample & MASK)
    drawn = np.empty((draws, bodies))
    for body in range(bodies):
        for draw in range(draws):
            state = state + GOLDEN & MASK
            drawn[draw, body] = scores[(_mix(state) >> 32) * runs >> 32, body]
    return drawn


@pytest.mark.parametrize(("runs", "draws"), [(2, None), (3, 3), (5, None), (10, 4)])
def test_each_resample_has_the_statistics_of_its_own_scores(runs: int, draws: int | None) -> None:
    rng = np.random.default_rng(runs)
    scores = rng.normal(size=(runs, 7)).round(1)  # rounded, so that some scores are equal
    found = resample(scores, resamples=50, seed=runs, draws=draws)
    for sample in range(50):
        drawn = _draw(scores, draws or runs - 1, runs, sample)
        assert found.mean[sample] == pytest.approx(mean(drawn), rel=1e-12, abs=1e-12)
        assert found.median[sample] == pytest.approx(median(drawn), rel=1e-12, abs=1e-12)
        assert found.iqm[sample] == pytest.approx(iqm(drawn), rel=1e-12, abs=1e-12)


def test_random_numbers_are_splitmix64() -> None:
    # First outputs for the seed 1234567, as in the tests of several public implementations.
    assert _mix(1234567 + GOLDEN) == 6457827717110365317
    assert _mix(1234567 + 2 * GOLDEN & MASK) == 3203168211198807973


def test_runs_are_drawn_equally_often_and_independently_over_bodies() -> None:
    # Body 0 tells units, body 1 tens: the sum of both draws shows which runs were drawn.
    scores = np.array([[0.0, 0.0], [1.0, 10.0], [2.0, 20.0]])
    found = resample(scores, resamples=90_000, draws=1)
    counts = np.unique((2.0 * found.mean).round().astype(int), return_counts=True)
    assert counts[0].tolist() == [0, 1, 2, 10, 11, 12, 20, 21, 22]
    # Each count is binomial with mean 10,000 and standard deviation 94.
    assert np.abs(counts[1] - 10_000).max() < 400


def test_resamples_do_not_depend_on_threads_or_on_their_number() -> None:
    scores = np.random.default_rng(0).normal(size=(4, 9))
    found = []
    for threads in range(1, min(numba.config.NUMBA_NUM_THREADS, 4) + 1):
        numba.set_num_threads(threads)
        found.append(np.stack(resample(scores, resamples=301, seed=3)))
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])
    np.testing.assert_array_equal(
        np.stack(resample(scores, resamples=20, seed=3)), found[0][:, :20]
    )
    assert not np.array_equal(np.stack(resample(scores, resamples=301, seed=4)), found[0])


def test_one_draw_fewer_gives_the_variance_of_the_mean_without_bias() -> None:
    scores = np.random.default_rng(1).normal(size=(3, 40))
    # Variance of a mean over bodies of means over runs that are independent.
    unbiased = scores.var(axis=0, ddof=1).sum() / 3.0 / 40.0**2
    assert resample(scores).mean.var() == pytest.approx(unbiased, rel=0.05)
    assert resample(scores, draws=3).mean.var() == pytest.approx(unbiased * 2.0 / 3.0, rel=0.05)


# From rliable 1.2.0 (arch 7.2.0, `numpy.random.seed(0)`, 50,000 resamples): low and high of
# mean, median and interquartile mean.
RLIABLE = {
    (3, 10, 37): [(3.53667, 5.42333), (3.23333, 5.65), (3.1875, 5.80625)],
    (5, 10, 53): [(3.998, 5.396), (3.74, 5.65), (3.69231, 5.69231)],
}


@pytest.mark.parametrize(("shape", "expected"), RLIABLE.items())
def test_intervals_with_as_many_draws_as_runs_equal_stored_ones_of_rliable(
    shape: tuple[int, int, int], expected: list[tuple[float, float]]
) -> None:
    run, body = np.mgrid[: shape[0], : shape[1]]
    scores = ((run * shape[2] + body * 61 + run * body % 7) % 97) / 10.0
    found = stratified_estimates(scores, resamples=50_000, draws=shape[0])
    # Both are random; two seeds of rliable differ by up to 0.02.
    assert [(e.low, e.high) for e in found] == [pytest.approx(e, abs=0.05) for e in expected]


def test_values_are_those_of_the_scores_themselves() -> None:
    scores = np.random.default_rng(2).normal(size=(3, 8))
    found = stratified_estimates(scores, resamples=100)
    values = [estimate.value for estimate in found]
    assert values == [mean(scores), median(scores), iqm(scores)]


def test_one_run_has_no_interval_and_equal_runs_have_one_of_no_width() -> None:
    scores = np.array([[0.25, 0.5, 1.5]])
    assert stratified_estimates(scores).mean == Estimate(0.75, None, None)
    assert stratified_estimates(scores.repeat(3, axis=0), resamples=20) == (
        Estimate(0.75, 0.75, 0.75),
        Estimate(0.5, 0.5, 0.5),
        # Two of each score are drawn, and a quarter of six, one, is cut at either end.
        Estimate(iqm(scores.repeat(3, axis=0)), 0.6875, 0.6875),
    )


def _coverage(runs: int, run_sd: float, draws: int | None = None, bodies: int = 20) -> float:
    """Return how many of 1,000 intervals of the mean contain its true value, 0."""
    rng = np.random.default_rng(runs)
    difficulty = np.linspace(-3.0, 3.0, bodies)
    covered = 0
    for seed in range(1000):
        effect = run_sd * rng.standard_normal((runs, 1))
        scores = difficulty + effect + rng.standard_normal((runs, bodies))
        low, high = np.quantile(
            resample(scores, resamples=1000, seed=seed, draws=draws).mean, [0.025, 0.975]
        )
        covered += bool(low <= 0.0 <= high)
    return covered / 1000


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_stratified_interval_covers_where_bodies_are_independent(runs: int) -> None:
    assert _coverage(runs, run_sd=0.0) == pytest.approx(0.95, abs=0.02)


def test_as_many_draws_as_runs_cover_too_seldom() -> None:
    assert _coverage(3, run_sd=0.0, draws=3) < 0.92


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_stratified_interval_does_not_cover_where_a_run_drives_all_bodies(runs: int) -> None:
    # This is why the leaderboard's intervals are over runs.
    assert _coverage(runs, run_sd=1.0) < 0.8
