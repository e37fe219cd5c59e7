from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from gmc_bench.core.types import BoolArray, DoubleArray
from gmc_bench.leaderboard.comparison import (
    MeanComparison,
    compare_means,
    letter_groups,
    moderate_variances,
    probability_of_improvement,
    share_a_letter,
    significant_pairs,
)
from gmc_bench.leaderboard.statistics import Estimate, VarianceEstimate


def _column(*values: float) -> DoubleArray:
    return np.array(values)[:, None]


def _compared(first: DoubleArray, second: DoubleArray) -> MeanComparison:
    return compare_means([first, second], np.arange(first.shape[1]))[0, 1]


def test_two_methods_of_equal_scatter_share_their_degrees_of_freedom() -> None:
    # Both variances are 1, so nothing says that they differ: 4 degrees of freedom, as Student's
    # test; the standard error of the difference is sqrt(2 / 3).
    found = _compared(_column(-3, -2, -1), _column(0, 1, 2))
    expected = stats.ttest_ind([-3, -2, -1], [0, 1, 2])
    assert not found.of_logarithms
    assert found.contrast.value == -3.0
    assert found.p_runs == pytest.approx(expected.pvalue, rel=1e-9)
    half = stats.t.ppf(0.975, 4) * (2.0 / 3.0) ** 0.5
    assert found.contrast.runs.high == pytest.approx(-3.0 + half, rel=1e-9)


def test_without_borrowing_tests_over_seeds_are_welchs() -> None:
    methods = [_column(-1, -2, -3), _column(-4, -6, -8, -9), _column(0, -5, -10)]
    found = compare_means(methods, np.zeros(1, np.int64), borrow=False)
    for (i, j), item in found.items():
        expected = stats.ttest_ind(methods[i][:, 0], methods[j][:, 0], equal_var=False)
        assert item.p_runs == pytest.approx(expected.pvalue, rel=1e-9)
        assert item.contrast.runs.low == pytest.approx(expected.confidence_interval().low, rel=1e-9)


def test_positive_means_are_compared_by_their_logarithms() -> None:
    # Without one of its runs, the mean of the first is 2.5, 2 or 1.5; of the second 4 times that.
    found = _compared(_column(1, 2, 3), _column(4, 8, 12))
    assert found.of_logarithms
    assert found.contrast.value == pytest.approx(-np.log(4.0))
    error = (2.0 * 2.0 / 3.0 * 3.0 * np.log([2.5, 2.0, 1.5]).var()) ** 0.5
    assert found.p_runs == pytest.approx(2.0 * stats.t.sf(np.log(4.0) / error, 4))
    half = stats.t.ppf(0.975, 4) * error
    assert found.contrast.runs.high == pytest.approx(-np.log(4.0) + half)


def test_of_logarithms_too_tests_without_borrowing_have_the_variances_of_the_two_alone() -> None:
    methods = [_column(1, 2, 3), _column(4, 6, 8, 9), _column(1, 5, 9)]
    for (i, j), item in compare_means(methods, np.zeros(1, np.int64), borrow=False).items():
        sides = [methods[place][:, 0] for place in (i, j)]
        left_out = [np.log((runs.sum() - runs) / (len(runs) - 1)) for runs in sides]
        parts = [(len(each) - 1) * each.var() for each in left_out]  # of the jackknife
        degrees = sum(parts) ** 2 / sum(
            part**2 / (len(each) - 1) for part, each in zip(parts, left_out, strict=True)
        )
        value = np.log(methods[i].mean() / methods[j].mean())
        expected = 2.0 * stats.t.sf(abs(value) / sum(parts) ** 0.5, degrees)
        assert item.p_runs == pytest.approx(expected)


def test_a_unit_changes_no_comparison_of_logarithms() -> None:
    rng = np.random.default_rng(0)
    first, second = np.exp(rng.normal(size=(2, 4, 6)))
    found, scaled = _compared(first, second), _compared(first, 1e3 * second)
    assert scaled.contrast.value == pytest.approx(found.contrast.value - np.log(1e3))
    for part in ("runs", "bodies", "both"):
        before, after = getattr(found.contrast, part), getattr(scaled.contrast, part)
        assert after.high - after.value == pytest.approx(before.high - before.value)


def test_bodies_count_by_their_share_of_the_mean() -> None:
    # On two bodies each run scores 1.9 and 2.1, of the other method 40 and 40: shares 0.95 and
    # 1.05, 1 and 1, and a difference of -0.05 and 0.05, with one degree of freedom.
    first, second = np.array([[1.9, 2.1]] * 3), np.array([[40.0, 40.0]] * 3)
    first[0] += 0.02
    second[0] += 0.2
    found = _compared(first, second).contrast.bodies
    by_body = first.mean(axis=0) / first.mean() - second.mean(axis=0) / second.mean()
    half = stats.t.ppf(0.975, 1) * float((by_body**2).mean()) ** 0.5
    assert found.high is not None
    assert found.high - found.value == pytest.approx(half)


@pytest.mark.parametrize(("level", "of_logarithms"), [(-1.0, False), (2.0, False), (20.0, True)])
def test_a_mean_that_bodies_leave_near_zero_is_compared_by_difference(
    level: float, of_logarithms: bool
) -> None:
    """Over 30 bodies that scatter by 20, a mean is known to within 7.5."""
    spread = 20.0 * stats.zscore(np.arange(30.0), ddof=1)
    offs = np.array([[-5.0], [0.0], [5.0]])
    found = _compared(100.0 + offs + np.zeros(30), level + 0.01 * offs + spread)
    assert found.of_logarithms == of_logarithms
    assert found.p_both is not None
    assert found.p_both < 1e-3


@pytest.mark.parametrize("worst", [0.0, -1.0])
def test_a_run_without_a_positive_mean_is_compared_by_difference(worst: float) -> None:
    methods = [_column(1, 2, 3), _column(worst, 5, 9), _column(2, 5, 6)]
    found = compare_means(methods, np.zeros(1, np.int64))
    assert {pair: item.of_logarithms for pair, item in found.items()} == {
        (0, 1): False,
        (0, 2): True,
        (1, 2): False,
    }
    assert list(found) == [(0, 1), (0, 2), (1, 2)]
    assert found[1, 2].contrast.value == pytest.approx((worst + 14.0) / 3.0 - 13.0 / 3.0)
    # It says nothing about how the logarithms of others vary.
    assert found[0, 2] == _compared(methods[0], methods[2])


OWN = [VarianceEstimate(4.0**power, 4.0) for power in range(5)]


def test_the_prior_of_variances_is_that_of_limma() -> None:
    # s^2 = 1, 4, 16, 64, 256 with 4 degrees of freedom: log s^2 has the variance 2.5 ln(4)^2, of
    # which trigamma(2) is chance.
    found = moderate_variances(OWN)
    excess = 2.5 * np.log(4.0) ** 2 - (np.pi**2 / 6.0 - 1.0)
    assert special.polygamma(1, found.prior_degrees / 2.0) == pytest.approx(excess, rel=1e-6)
    logs = 2.0 * np.log(4.0) + np.log(2.0) - special.digamma(2.0)
    prior = np.exp(
        logs + special.digamma(found.prior_degrees / 2.0) - np.log(found.prior_degrees / 2.0)
    )
    posterior = [
        (found.prior_degrees * prior + 4.0 * 4.0**power) / (4.0 + found.prior_degrees)
        for power in range(5)
    ]
    assert found.posterior == pytest.approx(posterior)


def test_the_prior_of_variances_with_unequal_degrees_of_freedom() -> None:
    # digamma(1) is -gamma. Chance explains pi^2 / 6 of the logarithms with 2 degrees of freedom,
    # pi^2 / 2 less 4 (1 + 1/9 + 1/25 + 1/49) of the one with 9: the mean of the three.
    own = [VarianceEstimate(1.0, 2.0), VarianceEstimate(30.0, 2.0), VarianceEstimate(200.0, 9.0)]
    logs = np.log([1.0, 30.0, 200.0 * 4.5])
    logs -= [-np.euler_gamma, -np.euler_gamma, special.digamma(4.5)]
    chance = [np.pi**2 / 6.0] * 2 + [np.pi**2 / 2.0 - 4.0 * (1 + 1 / 9 + 1 / 25 + 1 / 49)]
    excess = logs.var(ddof=1) - np.mean(chance)
    found = moderate_variances(own)
    assert special.polygamma(1, found.prior_degrees / 2.0) == pytest.approx(excess, rel=1e-6)


def test_runs_that_agree_exactly_say_nothing_of_how_others_vary() -> None:
    some = [VarianceEstimate(4.0**power, 4.0) for power in range(5)]
    still = VarianceEstimate(0.0, 4.0)
    found, expected = moderate_variances([still, *some, still]), moderate_variances(some)
    assert found.prior_degrees == expected.prior_degrees
    assert found.posterior[1:-1] == expected.posterior
    assert 0.0 < found.posterior[0] == found.posterior[-1] < found.posterior[1]
    pooled = moderate_variances([still, some[0], some[0]])
    assert (pooled.posterior, pooled.prior_degrees) == ([1.0, 1.0, 1.0], np.inf)
    assert pooled.of_difference((0, 1), [5, 5]).degrees == 8.0  # of the two rows that vary
    tiny = VarianceEstimate(1e-30, 4.0)  # counts as a hundred-thousandth of the median
    least = VarianceEstimate(1e-5, 4.0)
    kept = moderate_variances([least, *[some[0]] * 4]).prior_degrees
    assert moderate_variances([tiny, *[some[0]] * 4]).prior_degrees == kept


def test_the_prior_that_two_methods_share_counts_once() -> None:
    found = moderate_variances(OWN)
    difference = found.of_difference((0, 0), [5, 5])
    assert difference is not None
    assert difference == pytest.approx((2.0 * found.posterior[0] / 5.0, found.prior_degrees + 8.0))
    assert found.prior_degrees + 8.0 < 2.0 * (found.prior_degrees + 4.0)
    # All that is known is known of the pooled variance.
    alike = moderate_variances([VarianceEstimate(1.0, 4.0)] * 3)
    assert (alike.prior_degrees, alike.of_difference((0, 1), [5, 5])) == (np.inf, (0.4, 12.0))


def test_there_is_no_prior_where_variances_are_unknown() -> None:
    known, zero = VarianceEstimate(2.0, 3.0), VarianceEstimate(0.0, 2.0)
    for own in ([None, known], [zero, zero], []):
        assert moderate_variances(own).prior_degrees == 0.0
    assert moderate_variances([None, known]).of_difference((0, 1), [1, 4]) is None


def test_more_bodies_narrow_the_interval_over_bodies_and_not_the_one_over_runs() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(3, 1)) + np.arange(4.0), rng.normal(size=(3, 1)) * np.ones(4)
    few = _compared(first, second)
    many = _compared(first.repeat(100, axis=1), second.repeat(100, axis=1))
    assert few.p_runs == pytest.approx(many.p_runs)

    def width(estimate: Estimate) -> float:
        assert estimate.low is not None
        assert estimate.high is not None
        return estimate.high - estimate.low

    assert width(many.contrast.bodies) < 0.1 * width(few.contrast.bodies)
    # Repeats in the same cluster add no evidence.
    clusters = np.arange(4).repeat(100)
    repeats = [first.repeat(100, axis=1), second.repeat(100, axis=1)]
    clustered = compare_means(repeats, clusters)[0, 1]
    assert width(clustered.contrast.bodies) == pytest.approx(width(few.contrast.bodies))


def test_what_holds_for_other_seeds_and_bodies_holds_for_other_seeds() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        runs = 10.0 ** rng.uniform(-1.0, 1.0)
        scores = [runs * rng.normal(size=(3, 1)) + rng.normal(size=(3, 9)) for _ in range(2)]
        found = _compared(*scores)
        assert found.p_runs is not None
        assert found.p_both is not None
        assert found.p_both >= found.p_runs
        for part in (found.contrast.runs, found.contrast.bodies):
            assert found.contrast.both.high >= part.high  # type: ignore[operator]


@pytest.mark.parametrize(
    ("value", "effects", "bodies", "both", "shown"),
    [
        # What both methods find hard is no difference. Of the runs 2 * 5 / 12 with 6 degrees of
        # freedom, of the bodies 5 / 12 with 3, of what these share 1 / 9 and 1 / 36 with 9 each.
        (3.0, 0.0, 5.0 / 12.0, 10.0 / 9.0, "both"),
        # 5 / 3 of the bodies with 3 degrees of freedom leave more open than all with 5.
        (6.0, -1.0, 5.0 / 3.0, 85.0 / 36.0, "bodies"),
    ],
)
def test_a_difference_beyond_seeds_and_bodies_by_hand(
    value: float, effects: float, bodies: float, both: float, shown: str
) -> None:
    runs = np.array([-1.5, -0.5, 0.5, 1.5])
    rest = np.outer([1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0])
    first = -2.0 + runs[:, None] + runs + rest
    second = -2.0 - value + runs[:, None] + effects * runs + 0.5 * rest
    found = _compared(first, second)
    parts = (5.0 / 6.0) ** 2 / 6.0 + bodies**2 / 3.0 + ((1.0 / 9.0) ** 2 + (1.0 / 36.0) ** 2) / 9.0
    degrees = both**2 / parts
    halves = {
        "bodies": stats.t.ppf(0.975, 3) * bodies**0.5,
        "both": stats.t.ppf(0.975, degrees) * both**0.5,
    }
    p = {
        "bodies": 2.0 * stats.t.sf(value / bodies**0.5, 3),
        "both": 2.0 * stats.t.sf(value / both**0.5, degrees),
    }
    assert found.p_runs == pytest.approx(2.0 * stats.t.sf(value / (5.0 / 6.0) ** 0.5, 6))
    assert max(p, key=p.__getitem__) == max(halves, key=halves.__getitem__) == shown
    assert found.p_both == pytest.approx(p[shown])
    assert found.p_both > found.p_runs
    assert found.contrast.both.high == pytest.approx(value + halves[shown])


@pytest.mark.parametrize("second", [_column(1, 1), _column(2, 2)])
def test_a_few_runs_that_are_all_equal_decide_nothing(second: DoubleArray) -> None:
    found = _compared(_column(2, 2), second)
    assert (found.p_runs, found.p_both) == (None, None)
    assert found.contrast.runs.low is found.contrast.runs.high is None
    # One of two with a spread is enough.
    found = _compared(_column(2, 2), _column(1, 1.5))
    assert found.p_runs is not None
    assert 0.0 < found.p_runs < 1.0


def test_a_difference_that_is_the_same_on_every_body_is_as_sure_as_its_runs() -> None:
    spread = np.array([[1.0], [3.0], [2.0]])
    found = _compared(np.zeros((3, 2)), spread + np.zeros(2))
    assert found.contrast.bodies == Estimate(-2.0, -2.0, -2.0)
    assert found.p_runs is not None
    assert 0.0 < found.p_runs < 1.0
    assert found.p_both == pytest.approx(found.p_runs)


def test_equal_runs_have_no_variance_whatever_their_rounding() -> None:
    found = [_compared(unit * _column(5, 5, 5), unit * _column(1, 2, 3)) for unit in (1.0, 1.46)]
    assert found[0].p_runs == pytest.approx(found[1].p_runs)
    for unit in (1.0, 1.46):
        assert _compared(unit * _column(5, 5, 5), unit * _column(6, 6, 6)).p_runs is None


def test_logarithms_beyond_seeds_and_bodies_by_hand() -> None:
    """As the differences above, in tenths of the mean, but for the jackknife over runs."""
    runs = np.array([-1.5, -0.5, 0.5, 1.5])
    rest = np.outer([1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0])
    first = 10.0 + runs[:, None] + runs + rest
    second = 5.0 + 0.5 * (runs[:, None] + 0.5 * rest)
    found = _compared(first, second)
    over_runs = 2.0 * 3.0 * np.log(1.0 - 0.1 * runs / 3.0).var()
    over_bodies, shared = 0.01 * 5.0 / 12.0, (0.01 / 9.0, 0.01 / 36.0)
    total = over_runs + over_bodies - sum(shared)
    parts = over_runs**2 / 6.0 + over_bodies**2 / 3.0 + sum(part**2 / 9.0 for part in shared)
    half = stats.t.ppf(0.975, total**2 / parts) * total**0.5
    assert found.of_logarithms
    assert found.contrast.both.high == pytest.approx(np.log(2.0) + half)
    assert found.contrast.both.high > max(found.contrast.runs.high, found.contrast.bodies.high)


def test_sums_of_equal_numbers_in_another_order_do_not_differ() -> None:
    # Runs and bodies that scatter by a millionth, so that rounding errors are no small part of it.
    first = 7.0 + 1e-6 * np.random.default_rng(0).standard_normal((3, 4))
    for scale in (1.0, -1e9):  # by logarithms and by differences
        found = [
            _compared(scale * first, scale * first[np.ix_(runs, bodies)])
            for runs in permutations(range(3))
            for bodies in permutations(range(4))
        ]
        assert any(item.contrast.value != 0.0 for item in found)
        assert {(item.p_runs, item.p_both) for item in found} == {(1.0, 1.0)}


@pytest.mark.parametrize(("first", "second"), [((1,), (2, 3)), ((1, 2), (3,)), ((1,), (2,))])
def test_a_single_run_is_compared_without_interval_and_test(
    first: tuple[float, ...], second: tuple[float, ...]
) -> None:
    found = _compared(_column(*first), _column(*second))
    assert (found.p_runs, found.p_both) == (None, None)
    assert (found.contrast.runs.low, found.contrast.both.high) == (None, None)
    assert probability_of_improvement(_column(*first), _column(*second)) == Estimate(
        0.0, None, None
    )


def test_probability_of_improvement_by_hand() -> None:
    # Body 0: wins of 3 over 2 and 0, of 1 over 0: 3 of 4. Body 1: two wins and two ties: 3 of 4.
    first = np.array([[3.0, 5.0], [1.0, 4.0]])
    second = np.array([[2.0, 4.0], [0.0, 3.9]])
    # Shares of bodies won: (2 / 2, 2 / 2), (0.5 / 2, 2 / 2).
    found = probability_of_improvement(first, second)
    assert found.value == 6.5 / 8.0
    # Means of runs: 1 and 0.625; 0.625 and 1. Either variance is 0.0703125, half of it each.
    half = 4.302652729911275 * 0.0703125**0.5 / (6.5 / 8.0 * 1.5 / 8.0)
    odds = np.exp(np.log(6.5 / 1.5) + np.array([-half, half]))
    assert (found.low, found.high) == pytest.approx(tuple(odds / (1.0 + odds)), rel=1e-9)


def test_probability_of_improvement_is_mann_whitneys_averaged_over_bodies() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 5, (4, 9)) + 0.0, rng.integers(0, 6, (3, 9)) + 0.0  # with ties
    expected = np.mean(
        [stats.mannwhitneyu(first[:, b], second[:, b]).statistic / 12.0 for b in range(9)]
    )
    assert probability_of_improvement(first, second).value == pytest.approx(expected, rel=1e-12)
    swapped = probability_of_improvement(second, first)
    assert swapped.value == pytest.approx(1.0 - expected, rel=1e-12)


def test_probability_of_improvement_equals_a_stored_one_of_rliable() -> None:
    scores = []
    for runs, step in ((3, 37), (5, 53)):
        run, body = np.mgrid[:runs, :10]
        scores.append(((run * step + body * 61 + run * body % 7) % 97) / 10.0)
    # By `probability_of_improvement` of `rliable.metrics` 1.2.0.
    expected = 0.45999999999999996
    assert probability_of_improvement(*scores).value == pytest.approx(expected, rel=1e-14)


def test_probability_without_spread_has_no_interval() -> None:
    ones = np.ones((3, 4))
    assert probability_of_improvement(ones, ones) == Estimate(0.5, None, None)
    assert probability_of_improvement(ones, 0.0 * ones) == Estimate(1.0, None, None)
    assert probability_of_improvement(0.0 * ones, ones) == Estimate(0.0, None, None)
    # All runs win on one body of five; the means of runs differ by rounding only.
    first = np.eye(1, 5).repeat(2, axis=0)
    found = probability_of_improvement(first, np.full((3, 5), 0.5))
    assert found == Estimate(pytest.approx(0.2), None, None)


@pytest.mark.parametrize("runs", [3, 10])
def test_interval_of_the_probability_covers(runs: int) -> None:
    rng = np.random.default_rng(runs)

    def draw(shift: float, sd: float) -> DoubleArray:
        noise = rng.standard_normal((runs, 15))
        scores: DoubleArray = shift + sd * rng.standard_normal((runs, 1)) + noise
        return scores

    # A difference of two scores is normal: mean 0.7, variance 1 + 1.5^2 + 2, P = Phi(0.306).
    found = [probability_of_improvement(draw(0.7, 1.0), draw(0.0, 1.5)) for _ in range(1000)]
    covered = [e.low <= 0.6202 <= (e.high or 0.0) for e in found if e.low is not None]
    assert len(covered) > 980
    assert np.mean(covered) > 0.94


def _significant(*p_values: float | None) -> list[bool]:
    count = int((2 * len(p_values)) ** 0.5) + 1
    pairs = list(combinations(range(count), 2))
    rejected = significant_pairs(dict(zip(pairs, p_values, strict=True)))
    return [pair in rejected for pair in pairs]


def test_shaffer_by_hand() -> None:
    # Three methods: if one pair differs, at most one of the others is equal. So 0.05 / 3, then
    # 0.05 / 1 twice, where Holm asks for 0.05 / 2 and 0.05 / 1.
    assert _significant(0.016, 0.049, 0.04) == [True, True, True]
    assert _significant(0.017, 0.01, 0.06) == [True, True, False]
    assert _significant(0.017, 0.017, 0.017) == [False, False, False]
    # Four: 6 equal pairs, or 3 (a group of three), 2, 1 or 0. After one rejection 3, not 5.
    assert _significant(0.008, 0.016, 0.017, 1.0, 1.0, 1.0) == [True, True, False, *[False] * 3]
    assert _significant(0.009, 0.009, 1.0, 1.0, 1.0, 1.0) == [False] * 6
    assert significant_pairs({}) == set()
    # A p-value that is the level itself is significant.
    assert _significant(1.0 - 0.95) == [True]
    # Tests that could not be done do not count: one pair of two methods is left.
    assert _significant(0.04, None, None) == [True, False, False]
    # Without the third test, both hypotheses may hold: 0.05 / 2, then 0.05.
    assert _significant(None, 0.04, 0.045) == [False] * 3
    assert _significant(None, 0.024, 0.045) == [False, True, True]


def _tables(
    count: int, runs: int, means: DoubleArray, unlike: float, variation: float | None = None
) -> tuple[float, float, float]:
    """Return the share of made-up tables with a false finding, and shares of true ones found.

    Args:
        count: tables.
        runs: per method.
        means: (K,), true scores; equal ones are equal methods.
        unlike: standard deviation of the logarithm of the methods' variances.
        variation: typical coefficient of variation of runs, which are log-normal; by default runs
            are normal with a typical standard deviation of 1, whatever the mean.

    Returns:
        False findings; true ones found by `significant_pairs`, and by Welch's test with Holm's
        correction.
    """
    rng = np.random.default_rng(runs)
    false, found, welch = 0, [], []
    equal = {(i, j): means[i] == means[j] for i, j in combinations(range(len(means)), 2)}
    for _ in range(count):
        sd = np.exp(0.5 * unlike * rng.standard_normal(len(means)))
        normal = rng.standard_normal((len(means), runs))
        if variation is None:
            noise = sd[:, None] * normal + means[:, None]
        else:
            width = np.sqrt(np.log1p((variation * sd[:, None]) ** 2))
            noise = means[:, None] * np.exp(width * normal - width**2 / 2.0)
        methods = [run[:, None] + 0.1 * rng.standard_normal((runs, 10)) for run in noise]
        pairs = compare_means(methods, np.arange(10))
        told = significant_pairs({pair: item.p_runs for pair, item in pairs.items()})
        false += any(equal[pair] for pair in told)
        unequal = [pair for pair in pairs if not equal[pair]]
        found += [pair in told for pair in unequal]
        p_values = [
            stats.ttest_ind(methods[i].mean(1), methods[j].mean(1), equal_var=False).pvalue
            for i, j in pairs
        ]
        holm = sorted(p_values)
        steps = (p > 0.05 / (len(holm) - step) for step, p in enumerate(holm))
        kept = next((step for step, stop in enumerate(steps) if stop), len(holm))
        welch += [p_values[list(pairs).index(pair)] in holm[:kept] for pair in unequal]
    return false / count, float(np.mean(found or [0.0])), float(np.mean(welch or [0.0]))


@pytest.mark.slow
def test_equal_methods_are_seldom_significant() -> None:
    false, _, _ = _tables(150, 5, np.full(5, -10.0), 1.0)
    assert false <= 0.09  # 0.05, and two standard errors of 150 tables


def test_more_pairs_are_significant_than_by_separate_tests() -> None:
    false, found, welch = _tables(60, 3, np.array([0.0, 0.0, 3.0, 3.0, 6.0]) - 20.0, 0.5)
    assert false <= 0.1
    assert found > 0.4 > 0.3 > welch


def test_runs_that_scatter_in_proportion_to_their_mean_are_told_apart() -> None:
    means = np.array([100.0, 100.0, 30.0, 30.0, 10.0])
    false, found, welch = _tables(60, 5, means, 0.5, variation=0.5)
    assert false <= 0.1
    assert found > 0.6 > 0.4 > welch


@pytest.mark.slow
@pytest.mark.parametrize("runs", [3, 5])
@pytest.mark.parametrize(
    ("variation", "unlike", "limits"),
    [
        (None, 0.0, (0.05, 0.05)),
        (None, 1.0, (0.09, 0.08)),
        (0.5, 0.0, (0.065, 0.065)),
        (0.5, 1.0, (0.11, 0.09)),
    ],
)
def test_false_findings_stay_near_five_percent(
    runs: int, variation: float | None, unlike: float, limits: tuple[float, float]
) -> None:
    # Unlike variances cost a little of the 5 %: the rates of docs/statistics.md, rounded up.
    means = np.full(5, 10.0 if variation else -10.0)  # ratios and differences
    assert _tables(1500, runs, means, unlike, variation)[0] <= limits[runs == 5]


def _matrix(count: int, *pairs: tuple[int, int]) -> BoolArray:
    matrix = np.zeros((count, count), dtype=np.bool_)
    for i, j in pairs:
        matrix[i, j] = matrix[j, i] = True
    return matrix


def test_letters_by_hand() -> None:
    assert letter_groups(_matrix(0)) == ()
    assert letter_groups(_matrix(3)) == ("a", "a", "a")
    assert letter_groups(_matrix(3, (0, 1), (0, 2), (1, 2))) == ("a", "b", "c")
    assert letter_groups(_matrix(3, (0, 2))) == ("a", "ab", "b")
    assert letter_groups(_matrix(4, (0, 2), (0, 3), (1, 3))) == ("a", "ab", "bc", "c")
    # A noisy method in the middle is like both others, which are unlike each other.
    assert letter_groups(_matrix(4, (0, 1), (0, 3), (1, 3))) == ("a", "b", "abc", "c")


@given(
    st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.binary(min_size=5, max_size=5)))
)
def test_items_share_a_letter_unless_they_differ_significantly(
    drawn: tuple[int, bytes],
) -> None:
    count, bits = drawn
    number = int.from_bytes(bits)
    pairs = list(combinations(range(count), 2))
    matrix = _matrix(count, *(pair for place, pair in enumerate(pairs) if number >> place & 1))
    groups = letter_groups(matrix)
    assert all(groups)
    for i, j in pairs:
        assert share_a_letter(groups[i], groups[j]) == (not matrix[i, j])
    # No letter's items all have another letter in common, too.
    letters = {letter for text in groups for letter in text}
    items = [{i for i in range(count) if letter in groups[i]} for letter in letters]
    assert not any(one <= other for one, other in permutations(items, 2))


def test_more_groups_than_letters() -> None:
    groups = letter_groups(~np.eye(60, dtype=np.bool_))
    assert groups[51:54] == ("Z", "a2", "b2")
    assert len(set(groups)) == 60
    assert not any(share_a_letter(*pair) for pair in combinations(groups, 2))
    # Letters with the same character or the same number are others.
    assert share_a_letter("ya2b2", "b2c")
    assert not share_a_letter("ya2", "ab2")
