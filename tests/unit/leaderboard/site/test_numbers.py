"""Numbers as text: no cell grows without bound, and nothing missing looks like a number."""

import pytest

from gmc_bench.leaderboard.aggregate import Spread
from gmc_bench.leaderboard.site import numbers
from gmc_bench.leaderboard.site.numbers import MISSING, TableCell
from gmc_bench.leaderboard.statistics import Estimate


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (1234.56, 1, "1,234.6"),
        (-0.01, 1, "0.0"),
        (None, 1, "—"),
        (float("nan"), 1, "—"),
        (float("inf"), 1, "—"),
        (1e300, 1, "1.000e+300"),
    ],
)
def test_numbers_are_short_and_what_is_none_is_a_dash(
    value: float | None, digits: int, text: str
) -> None:
    assert numbers.number(value, digits) == text


def test_estimate_shows_its_interval() -> None:
    assert numbers.estimate(Estimate(10.0, 8.5, 11.5), 1) == TableCell(
        "10.0", "8.5 to 11.5", "10.0"
    )
    assert numbers.estimate(Estimate(10.0, None, None), 0) == TableCell("10", "", "10.0")
    assert numbers.estimate(Estimate(float("nan"), None, None), 0) is MISSING
    assert numbers.estimate(None, 0) is MISSING


def test_spread_of_one_seed_has_no_deviation() -> None:
    assert numbers.spread(Spread(2.0, None), 1).detail == ""
    found = numbers.spread(Spread(2.123456, 0.25), 2)
    assert (found.text, found.detail, found.sort) == ("2.12", "± 0.25", "2.123456")


def test_digits_suit_the_largest_number() -> None:
    assert numbers.digits_for([0.5, None]) == 3
    assert numbers.digits_for([0.5, -20.0]) == 1
    assert numbers.digits_for([0.5, 4000.0]) == 1  # as beside it on other pages
    assert numbers.digits_for([]) == 3


def test_a_huge_integer_stays_short() -> None:
    assert numbers.count(10**400).text == "about 10^400"
    assert numbers.count(1500) == TableCell("1,500", "", "1500")
