import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gmc_bench.core.types import BoolArray, DoubleArray
from gmc_bench.leaderboard.comparison import (
    holm,
    letter_groups,
    mean_difference,
    probability_of_improvement,
)
from gmc_bench.leaderboard.statistics import Estimate


def _column(*values: float) -> DoubleArray:
    return np.array(values)[:, None]


def test_welch_by_hand() -> None:
    # Variances 1 and 20 / 3; of the means 1 / 3 and 5 / 3, together 2. Degrees of freedom:
    # 2^2 / ((1 / 3)^2 / 2 + (5 / 3)^2 / 3) = 216 / 53.
    found = mean_difference(_column(1, 2, 3), _column(4, 6, 8, 10))
    degrees = 216.0 / 53.0
    half = stats.t.ppf(0.975, degrees) * 2.0**0.5
    assert found.estimate.value == -5.0
    assert (found.estimate.low, found.estimate.high) == pytest.approx((-5.0 - half, -5.0 + half))
    assert found.p_value == pytest.approx(2.0 * stats.t.sf(5.0 / 2.0**0.5, degrees), rel=1e-10)


def test_welch_equals_scipys() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(3, 11)), 3.0 * rng.normal(size=(8, 11))
    expected = stats.ttest_ind(first.mean(axis=1), second.mean(axis=1), equal_var=False)
    interval = expected.confidence_interval()
    found = mean_difference(first, second)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-10)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((interval.low, interval.high))


def test_bodies_do_not_count_as_runs() -> None:
    # The same two run means, once from 1 body and once from 1,000.
    few = mean_difference(_column(1, 2), _column(3, 4))
    many = mean_difference(_column(1, 2).repeat(1000, axis=1), _column(3, 4).repeat(1000, axis=1))
    assert few.p_value == pytest.approx(many.p_value)


def test_differences_without_spread_are_decided_and_without_nan() -> None:
    assert mean_difference(_column(0.1, 0.1), _column(0.1, 0.1)).p_value == 1.0
    # The same score, but summed in another order.
    first = np.array([[0.1, 0.2, 0.3]] * 2)
    assert mean_difference(first, first[:, ::-1].copy()).p_value == 1.0
    found = mean_difference(_column(2, 2), _column(1, 1))
    assert found.p_value == 0.0
    assert found.estimate == Estimate(1.0, 1.0, 1.0)
    assert mean_difference(_column(2, 2), _column(1, 1e9)).p_value == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("first", "second"), [((1,), (2, 3)), ((1, 2), (3,)), ((1,), (2,))])
def test_a_single_run_is_compared_without_interval_and_test(
    first: tuple[float, ...], second: tuple[float, ...]
) -> None:
    found = mean_difference(_column(*first), _column(*second))
    assert found.p_value is None
    assert (found.estimate.low, found.estimate.high) == (None, None)
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
    found = probability_of_improvement(*scores).value
    assert found == pytest.approx(0.45999999999999996, rel=1e-14)  # rliable 1.2.0
    metrics = pytest.importorskip("rliable.metrics", reason="rliable is not installed")
    assert found == pytest.approx(metrics.probability_of_improvement(*scores), rel=1e-12)


def test_probability_without_spread_has_no_interval() -> None:
    ones = np.ones((3, 4))
    assert probability_of_improvement(ones, ones) == Estimate(0.5, None, None)
    assert probability_of_improvement(ones, 0.0 * ones) == Estimate(1.0, None, None)
    assert probability_of_improvement(0.0 * ones, ones) == Estimate(0.0, None, None)


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


def test_holm_by_hand() -> None:
    # 0.005 <= 0.05 / 4, 0.01 <= 0.05 / 3, but 0.03 > 0.05 / 2; 0.04 is not looked at any more.
    assert holm([0.01, 0.04, 0.03, 0.005]) == (True, False, False, True)
    assert holm([0.04, 0.01]) == (True, True)  # 0.04 is above 0.05 / 2, but the last of two
    assert holm([0.5], level=0.5) == (True,)
    assert holm([0.026, 0.026]) == (False, False)
    assert holm([]) == ()


def test_holm_passes_over_tests_that_could_not_be_done() -> None:
    assert holm([None, 0.03, None]) == (False, True, False)
    assert holm([None]) == (False,)


def test_equal_methods_are_seldom_told_apart() -> None:
    rng = np.random.default_rng(0)
    tables = 500
    false_alarms = 0
    for _ in range(tables):
        methods = rng.standard_normal((5, 3, 1)) + 0.1 * rng.standard_normal((5, 3, 10))
        pairs = combinations(methods, 2)
        false_alarms += any(holm([mean_difference(*pair).p_value for pair in pairs]))
    assert false_alarms / tables <= 0.05


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


def _letters(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z]\d*", text))


@given(
    st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.binary(min_size=5, max_size=5)))
)
def test_items_share_a_letter_exactly_when_they_cannot_be_told_apart(
    drawn: tuple[int, bytes],
) -> None:
    count, bits = drawn
    number = int.from_bytes(bits)
    pairs = list(combinations(range(count), 2))
    matrix = _matrix(count, *(pair for place, pair in enumerate(pairs) if number >> place & 1))
    letters = [_letters(text) for text in letter_groups(matrix)]
    assert all(letters)
    for i, j in pairs:
        assert bool(letters[i] & letters[j]) == (not matrix[i, j])


def test_more_groups_than_letters() -> None:
    groups = letter_groups(~np.eye(60, dtype=np.bool_))
    assert groups[51:54] == ("Z", "a2", "b2")
    assert len(set(groups)) == 60
