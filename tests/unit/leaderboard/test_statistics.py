import math

import numpy as np
import pytest
from scipy.special import stdtrit

from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.statistics import (
    Estimate,
    Statistic,
    VarianceEstimate,
    crossed_mean,
    exp_or_infinity,
    iqm,
    mean,
    mean_over_subsets,
    median,
    performance_profile,
    run_interval,
    t_quantile,
    two_way_variance,
    worst_decile,
)


def _scores(runs: int, bodies: int, step: int) -> DoubleArray:
    run, body = np.mgrid[:runs, :bodies]
    return ((run * step + body * 61 + run * body % 7) % 97) / 10.0


def _shared_effect(rng: np.random.Generator, runs: int, bodies: int = 20) -> DoubleArray:
    """Return scores whose runs are good or bad on all bodies at once; their mean is 0."""
    difficulty = np.linspace(-3.0, 3.0, bodies)
    noise = 0.3 * rng.standard_normal((runs, bodies))
    scores: DoubleArray = difficulty + rng.standard_normal((runs, 1)) + noise
    return scores


def test_point_estimates_by_hand() -> None:
    scores = np.array([[0.0, 2.0, 10.0, 4.0], [4.0, 2.0, 0.0, 2.0]])
    assert mean(scores) == 3.0
    # Means over runs: 2, 2, 5, 3. The median of all eight scores would be 2.
    assert median(scores) == 2.5
    # 0 0 | 2 2 2 4 | 4 10
    assert iqm(scores) == 2.5


def test_powers_too_large_for_a_float_are_infinite() -> None:
    assert exp_or_infinity(1e4) == math.inf
    assert exp_or_infinity(700.0) == pytest.approx(math.exp(700.0))
    assert exp_or_infinity(-1e4) == 0.0


def test_estimates_move_to_another_scale_with_their_intervals() -> None:
    assert Estimate(1.0, 0.0, 2.0).transformed(math.exp) == Estimate(
        math.e, 1.0, pytest.approx(math.e**2)
    )
    assert Estimate(0.0, None, None).transformed(math.exp) == Estimate(1.0, None, None)


def test_whole_scores_are_trimmed() -> None:
    # A quarter of seven scores is 1.75: one is cut at either end, not one and three quarters.
    assert iqm(np.array([[-100.0, 1.0, 2.0, 3.0, 4.0, 10.0, 1000.0]])) == 4.0
    assert iqm(np.array([[1.0], [5.0], [9.0]])) == 5.0  # nothing is cut


def test_worst_decile_counts_a_tenth_of_the_bodies_rounded_up() -> None:
    scores = np.arange(20.0)[None, :].repeat(2, axis=0)
    assert worst_decile(scores) == 0.5
    assert worst_decile(scores[:, :11]) == 0.5
    assert worst_decile(scores[:, :10]) == 0.0
    # Bodies are bad on average over runs, not in one unlucky run: means 5 and 1.
    assert worst_decile(np.array([[0.0, 1.0], [10.0, 1.0]])) == 1.0


def test_subsets_of_runs_by_hand() -> None:
    scores = np.array([[0.0, 3.0], [2.0, 1.0], [7.0, 5.0]])
    # Means of runs 1 and 2: 1, 2; of 1 and 3: 3.5, 4; of 2 and 3: 4.5, 3.
    assert mean_over_subsets(scores, 2, worst_decile) == (1.0 + 3.5 + 3.0) / 3.0
    assert mean_over_subsets(scores, 3, worst_decile) == worst_decile(scores)


def test_of_many_subsets_of_runs_a_thousand_count() -> None:
    scores = np.random.default_rng(1).normal(size=(18, 7))  # 48,620 subsets of nine runs
    drawn = []

    def noted(part: DoubleArray) -> float:
        drawn.append([scores[:, 0].tolist().index(value) for value in part[:, 0]])
        return mean(part)

    found = mean_over_subsets(scores, 9, noted)
    assert len(drawn) == 1_000
    assert all(len(set(runs)) == 9 for runs in drawn)
    assert mean_over_subsets(scores, 9, mean) == found  # the same subsets each time
    assert found == pytest.approx(mean(scores), abs=0.02)
    counts = np.bincount(np.concatenate(drawn))  # each run in a half, with a deviation of 16
    assert len(counts) == 18
    assert counts.min() > 420
    assert counts.max() < 580
    drawn.clear()
    mean_over_subsets(scores[:12], 6, noted)  # 924 subsets
    assert len(set(map(tuple, drawn))) == len(drawn) == 924


def test_profile_does_not_count_scores_at_the_threshold() -> None:
    scores = np.array([[1.0, 2.0], [2.0, 3.0]])
    profile = performance_profile(scores, np.array([0.0, 1.0, 2.0, 2.5, 3.0]))
    assert profile.tolist() == [1.0, 0.75, 0.25, 0.25, 0.0]


# Mean, median and interquartile mean by `rliable.metrics` 1.2.0 (`aggregate_mean`,
# `aggregate_median`, `aggregate_iqm`), installed without its dependencies beside numpy 2.4.6 and
# scipy 1.17.1, of the scores that the two tests below make.
RLIABLE = {
    (3, 10, 37): (4.483333333333334, 4.233333333333333, 4.5375),
    (5, 10, 53): (4.702, 4.67, 4.7),
}
RLIABLE_OF_NORMALS = {
    (1, 1): (0.345584192064786, 0.345584192064786, 0.345584192064786),
    (1, 7): (-0.3215611058320408, -0.2741378553622176, -0.3116053446672587),
    (1, 20): (-0.15893948850583778, -0.2994734287683981, -0.261914473614368),
    (3, 1): (-0.032215687734406806, -0.032215687734406806, -0.032215687734406785),
    (3, 7): (0.20992741827270267, 0.27658668857032515, 0.30438226679561153),
    (3, 20): (0.123667766809422, 0.013905694519083894, 0.17744241133995672),
    (10, 1): (-0.07398960040144024, -0.07398960040144024, -0.09262190298515334),
    (10, 7): (0.04830770813887808, 0.0007143935562639633, 0.05596330363906067),
    (10, 20): (-0.14827098162889776, -0.14025551487450327, -0.15324759950936603),
}


@pytest.mark.parametrize(("shape", "expected"), RLIABLE.items())
def test_point_estimates_equal_stored_ones_of_rliable(
    shape: tuple[int, int, int], expected: tuple[float, ...]
) -> None:
    scores = _scores(*shape)
    found = mean(scores), median(scores), iqm(scores)
    assert found == pytest.approx(expected, rel=1e-14)


def test_profile_equals_a_stored_one_of_rliable() -> None:
    profile = performance_profile(_scores(3, 10, 37), np.array([0.0, 2.5, 5.1, 9.6]))
    assert profile.tolist() == pytest.approx([0.9666666666666667, 0.7, 0.43333333333333335, 0.0])


@pytest.mark.parametrize(("shape", "expected"), RLIABLE_OF_NORMALS.items())
def test_point_estimates_of_normals_equal_stored_ones_of_rliable(
    shape: tuple[int, int], expected: tuple[float, ...]
) -> None:
    scores = np.random.default_rng(shape[0] * shape[1]).normal(size=shape)
    found = mean(scores), median(scores), iqm(scores)
    assert found == pytest.approx(expected, rel=1e-12)


def test_quantiles_of_students_t() -> None:
    # Any printed table of the distribution.
    assert t_quantile(1) == pytest.approx(12.706, abs=5e-4)
    assert t_quantile(2) == pytest.approx(4.303, abs=5e-4)
    assert t_quantile(9) == pytest.approx(2.262, abs=5e-4)
    assert t_quantile(1e9) == pytest.approx(1.960, abs=5e-4)


def test_interval_of_the_mean_is_the_t_interval_of_the_runs_means() -> None:
    # Means 10, 12, 17; their mean is 13 and their variance (9 + 1 + 16) / 2 = 13.
    scores = np.array([[5.0, 15.0], [12.0, 12.0], [0.0, 34.0]])
    half = 4.302652729911275 * (13.0 / 3.0) ** 0.5
    found = run_interval(scores, mean)
    assert found.value == 13.0
    assert (found.low, found.high) == pytest.approx((13.0 - half, 13.0 + half), rel=1e-9)


def test_jackknife_by_hand() -> None:
    # Medians of means: all runs (1, 2, 3) -> 2; without the first 2; without the second 1. Their
    # mean is 1.5, the variance (1 / 2) * (0.25 + 0.25), the standard error 0.5.
    found = run_interval(np.array([[0.0, 1.0, 5.0], [2.0, 3.0, 1.0]]), median)
    half = 12.706204736432095 * 0.5
    assert found.value == 2.0
    assert (found.low, found.high) == pytest.approx((2.0 - half, 2.0 + half), rel=1e-9)


@pytest.mark.parametrize("statistic", [mean, median, iqm, worst_decile])
def test_one_run_has_no_interval_and_equal_runs_have_one_of_no_width(statistic: Statistic) -> None:
    scores = np.array([[0.25, 0.5, 1.5, 2.25]])
    value = statistic(scores)
    assert run_interval(scores, statistic) == Estimate(value, None, None)
    equal = run_interval(scores.repeat(3, axis=0), statistic)
    assert (equal.low, equal.high) == (equal.value, equal.value)


@pytest.mark.parametrize("statistic", [mean, median, iqm])
@pytest.mark.parametrize("runs", [3, 5, 10])
def test_interval_over_runs_covers_when_a_run_is_good_on_all_bodies_at_once(
    runs: int, statistic: Statistic
) -> None:
    rng = np.random.default_rng(runs)
    found = [run_interval(_shared_effect(rng, runs), statistic) for _ in range(1000)]
    # All three statistics of the symmetric distribution have the expectation 0.
    covered = np.mean([e.low is not None and e.low <= 0.0 <= (e.high or 0.0) for e in found])
    assert covered == pytest.approx(0.95, abs=0.02)


def test_intervals_over_runs_bodies_and_both_by_hand() -> None:
    # Run means 2 and 4, body means 1, 3, 5; what is left is -1, 0, 1 and 1, 0, -1.
    scores = np.array([[-1.0, 2.0, 5.0], [3.0, 4.0, 5.0]])
    found = crossed_mean(scores, np.arange(3))
    runs, bodies, noise = 2.0 / 2.0, 4.0 / 3.0, 4.0 / 2.0 / 6.0
    assert found.value == 3.0
    assert found.runs.high == pytest.approx(3.0 + 12.706204736 * runs**0.5)
    assert found.bodies.high == pytest.approx(3.0 + 4.3026527299 * bodies**0.5)
    degrees = (runs + bodies) ** 2 / (runs**2 / 1.0 + bodies**2 / 2.0)
    half = t_quantile(degrees) * (runs + bodies - noise) ** 0.5
    assert half < 12.706204736 * runs**0.5  # so the longer one is shown
    assert found.both == found.runs
    # Two bodies of a cluster vary as one.
    clustered = crossed_mean(scores, np.array([0, 0, 1]))
    squares = 2.0 * 2.0 * (2.0**2 / 9.0)
    assert clustered.bodies.high == pytest.approx(3.0 + 12.706204736 * squares**0.5)


EFFECTS = np.array([-1.5, -0.5, 0.5, 1.5])  # variance 5 / 3
INTERACTION = np.outer([1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0])  # in no run's or body's mean


def test_the_interval_over_both_is_that_of_the_crossed_analysis_of_variance() -> None:
    scores = 5.0 + EFFECTS[:, None] + EFFECTS + INTERACTION
    # Mean squares of runs and bodies 4 * 5 / 3, of the rest 16 / 9; all over 16.
    variance = (20.0 / 3.0 + 20.0 / 3.0 - 16.0 / 9.0) / 16.0
    # In units of a 48th: 20 each for runs and bodies, 16 / 3 for the rest.
    degrees = (104.0 / 3.0) ** 2 / (20.0**2 / 3.0 * 2.0 + (16.0 / 3.0) ** 2 / 9.0)
    half = stdtrit(degrees, 0.975) * variance**0.5
    found = crossed_mean(scores, np.arange(4))
    assert half > 3.1824463053 * (5.0 / 12.0) ** 0.5  # so neither part is shown instead
    assert (found.both.low, found.both.high) == pytest.approx((5.0 - half, 5.0 + half))
    assert found.widest == found.both
    assert crossed_mean(scores[:, :1], np.zeros(1, np.int64)).widest.low is not None
    # Bodies that come twice are no more evidence.
    twice = crossed_mean(scores.repeat(2, axis=1), np.arange(4).repeat(2))
    assert (twice.both.low, twice.both.high) == pytest.approx((5.0 - half, 5.0 + half))


def test_the_variance_over_both_is_never_less_than_a_part() -> None:
    small, large = VarianceEstimate(1.0, 2.0), VarianceEstimate(4.0, 3.0)
    common = [VarianceEstimate(2.0, 6.0)]
    degrees = 4.0**2 / (4.0**2 / 3.0 + 1.0 / 2.0 + 2.0**2 / 6.0)
    assert two_way_variance(small, large, common) == pytest.approx((4.0, degrees))
    assert two_way_variance(large, small, common) == pytest.approx((4.0, degrees))
    # Two methods have an interaction each.
    common = [VarianceEstimate(0.25, 6.0), VarianceEstimate(0.25, 12.0)]
    degrees = 4.5**2 / (4.0**2 / 3.0 + 1.0 / 2.0 + 0.25**2 / 6.0 + 0.25**2 / 12.0)
    assert two_way_variance(large, small, common) == pytest.approx((4.5, degrees))


def test_interval_over_both_covers_when_runs_and_bodies_are_drawn_anew() -> None:
    rng = np.random.default_rng(0)
    clusters, covered = np.repeat(np.arange(15), 2), 0
    for _ in range(5000):
        own = rng.standard_normal(15)[clusters] + 0.3 * rng.standard_normal((4, 30))
        both = crossed_mean(own + 0.5 * rng.standard_normal((4, 1)), clusters).both
        assert both.low is not None
        assert both.high is not None
        covered += both.low <= 0.0 <= both.high
    # Four runs and 15 geometries give 0.955; by chance 5,000 draws differ from it by 0.003.
    assert covered / 5000 == pytest.approx(0.955, abs=0.01)
