"""Straight lines through measurements, by least squares."""

import math
from dataclasses import dataclass

from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.statistics import t_quantile


@dataclass(frozen=True, slots=True)
class StraightLine:
    """y = intercept + slope x."""

    intercept: float
    slope: float
    residual_squares: float
    """Sum of the squared residuals."""
    half_width: float | None
    """Of the slope's 95 % confidence interval, which is Student's, for independent residuals of
    equal spread; `None` for fewer than three points."""


def fit_straight_line(x: DoubleArray, y: DoubleArray) -> StraightLine:
    """Fit a line by least squares.

    Args:
        x: (N,), at least two different numbers.
        y: (N,).
    """
    deviation = x - x.mean()
    spread = float(deviation @ deviation)
    slope = float(deviation @ y) / spread
    intercept = float(y.mean()) - slope * float(x.mean())
    residual = y - y.mean() - slope * deviation
    squares, freedom = float(residual @ residual), len(y) - 2
    half = t_quantile(freedom) * math.sqrt(squares / freedom / spread) if freedom else None
    return StraightLine(intercept, slope, squares, half)
