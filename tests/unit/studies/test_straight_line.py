"""Least squares against scipy's."""

import numpy as np
import pytest
from scipy import stats

from gmc_bench.studies.straight_line import fit_straight_line


def test_line_and_interval_are_scipys():
    random = np.random.default_rng(4)
    x = random.normal(3.0, 2.0, 7)
    y = 1.5 - 0.25 * x + random.normal(0.0, 0.3, 7)
    found, expected = fit_straight_line(x, y), stats.linregress(x, y)
    assert found.slope == pytest.approx(expected.slope)
    assert found.intercept == pytest.approx(expected.intercept)
    half = stats.t.ppf(0.975, 5) * expected.stderr
    assert found.slope_interval == pytest.approx((expected.slope - half, expected.slope + half))
    residual = y - expected.intercept - expected.slope * x
    assert found.residual_squares == pytest.approx(residual @ residual)


def test_two_points_leave_nothing_to_judge_the_scatter_by():
    found = fit_straight_line(np.array([1.0, 3.0]), np.array([2.0, 8.0]))
    assert (found.intercept, found.slope, found.slope_interval) == (-1.0, 3.0, None)
