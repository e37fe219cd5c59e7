"""Numbers and estimates as text for people, and as a value to sort by."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gmc_bench.leaderboard.aggregate import Spread
from gmc_bench.leaderboard.statistics import Estimate
from gmc_bench.leaderboard.tables import NONE

MAX_PLAIN = 1e9  # larger numbers are written with an exponent, so that no cell gets too wide


@dataclass(frozen=True, slots=True)
class TableCell:
    """One number of a table."""

    text: str
    detail: str = ""
    """The interval or deviation; empty when there is none."""
    sort: str = ""
    """Full-precision value to sort by; empty sorts last."""


MISSING = TableCell(NONE)


def digits_for(values: Iterable[float | None]) -> int:
    """Return how many decimals suit all numbers of a column: 1 or 3."""
    largest = max((abs(value) for value in values if value is not None), default=0.0)
    return 1 if largest >= 10.0 else 3


def number(value: float | None, digits: int = 1) -> str:
    """Return a number as text; `—` for `None` and for what is not finite."""
    if value is None or not math.isfinite(value):
        return NONE
    if abs(value) >= MAX_PLAIN:
        return f"{value:.3e}"
    return f"{value:z,.{digits}f}"


def count(value: int | None) -> TableCell:
    """Return a whole number as a cell."""
    if value is None:
        return MISSING
    # Not more digits than fit: a record may state any integer.
    text = f"{value:,}" if abs(value) < 10**15 else f"about 10^{len(str(value)) - 1}"
    return TableCell(text, sort=str(value))


def estimate(value: Estimate | None, digits: int) -> TableCell:
    """Return an estimate with its interval as a cell."""
    if value is None or not math.isfinite(value.value):
        return MISSING
    detail = ""
    if value.low is not None and value.high is not None:
        detail = f"{number(value.low, digits)} to {number(value.high, digits)}"
    return TableCell(number(value.value, digits), detail, repr(float(value.value)))


def spread(value: Spread | None, digits: int) -> TableCell:
    """Return mean and sample standard deviation as a cell."""
    if value is None:
        return MISSING
    detail = "" if value.sd is None else f"± {number(value.sd, digits)}"
    return TableCell(number(value.mean, digits), detail, repr(float(value.mean)))
