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
    spread: float
    """Sum of the squared deviations of x from its mean."""
    num_points: int

    @property
    def slope_interval(self) -> tuple[float, float] | None:
        """Student's 95 % confidence interval, for independent residuals of equal variance.

        `None` for fewer than three points.
        """
        degrees = self.num_points - 2
        if degrees < 1:
            return None
        half = t_quantile(degrees) * math.sqrt(self.residual_squares / degrees / self.spread)
        return self.slope - half, self.slope + half


def fit_straight_line(x: DoubleArray, y: DoubleArray) -> StraightLine:
    """Fit a line by least squares.

    Args:
        x: (N,), at least two different numbers.
        y: (N,).
    """
    deviation = x - x.mean()
    spread = float(deviation @ deviation)
    slope = float(deviation @ y) / spread
    residual = y - y.mean() - slope * deviation
    intercept = float(y.mean()) - slope * float(x.mean())
    return StraightLine(intercept, slope, float(residual @ residual), spread, len(y))
