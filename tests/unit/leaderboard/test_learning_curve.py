import numpy as np
import pytest

from gmc_bench.leaderboard.learning_curve import common_curves, curve_area, mean_curve, thinned
from gmc_bench.leaderboard.statistics import Estimate
from gmc_bench.records.schema import CurvePoint


def _curve(*points: tuple[int, float | None]) -> list[CurvePoint]:
    return [
        CurvePoint(
            env_steps=step,
            mean_return=value,
            mean_length=None if value is None else 1.0,
            episodes=1,
        )
        for step, value in points
    ]


def test_runs_meet_on_the_steps_of_all_without_extrapolation() -> None:
    steps, curves = common_curves(
        [
            _curve((0, None), (10, 0.0), (20, 10.0), (40, 50.0)),
            _curve((0, 7.0), (20, 4.0), (30, None), (38, 13.0)),
        ]
    )
    # From the later start, 10, to the earlier end, 38; the null at 30 is no point.
    assert steps.tolist() == [10, 20, 38]
    assert steps.dtype == np.int64
    np.testing.assert_allclose(curves, [[0.0, 10.0, 46.0], [5.5, 4.0, 13.0]], rtol=1e-14)


def test_area_is_the_mean_return_over_the_steps_covered() -> None:
    steps = np.array([10, 20, 40])
    # Trapezoids 10 * 5 + 20 * 20 = 450 and 10 * 2 + 20 * 8 = 180 over 30 steps: 15 and 6.
    area = curve_area(steps, np.array([[0.0, 10.0, 30.0], [4.0, 0.0, 16.0]]))
    assert area is not None
    assert area.value == pytest.approx(10.5, rel=1e-14)
    half = 12.706204736432095 * 4.5  # standard error: (15 - 6) / 2
    assert (area.low, area.high) == pytest.approx((10.5 - half, 10.5 + half), rel=1e-9)


def test_band_is_the_t_interval_at_each_point() -> None:
    curve = mean_curve(np.array([1, 2]), np.array([[10.0, 1.0], [12.0, 1.0], [17.0, 1.0]]))
    assert curve is not None
    assert curve.low is not None
    assert curve.high is not None
    half = 4.302652729911275 * (13.0 / 3.0) ** 0.5
    assert curve.mean.tolist() == [13.0, 1.0]
    np.testing.assert_allclose(curve.low, [13.0 - half, 1.0], rtol=1e-9)
    np.testing.assert_allclose(curve.high, [13.0 + half, 1.0], rtol=1e-9)


def test_long_curves_are_thinned_out_evenly_to_their_ends() -> None:
    assert thinned(3).tolist() == [0, 1, 2]
    assert thinned(200).tolist() == list(range(200))
    assert thinned(399)[[0, 1, -2, -1]].tolist() == [0, 2, 396, 398]
    assert np.diff(thinned(399)).tolist() == [2] * 199


def test_one_run_has_a_curve_without_a_band() -> None:
    steps, curves = common_curves([_curve((1, 2.0), (3, 4.0))])
    curve = mean_curve(steps, curves)
    assert curve is not None
    assert curve.mean.tolist() == [2.0, 4.0]
    assert (curve.low, curve.high) == (None, None)
    assert curve_area(steps, curves) == Estimate(3.0, None, None)


def test_one_common_point_has_no_area() -> None:
    steps, curves = common_curves([_curve((1, 2.0), (2, 4.0)), _curve((2, 6.0), (3, 4.0))])
    curve = mean_curve(steps, curves)
    assert curve is not None
    assert (curve.env_steps.tolist(), curve.mean.tolist()) == ([2], [5.0])
    assert curve_area(steps, curves) is None


@pytest.mark.parametrize(
    "curves",
    [
        [_curve()],
        [_curve((1, None))],
        [_curve((1, 1.0)), _curve((1, None))],
        [_curve((1, 1.0), (2, 1.0)), _curve((3, 1.0), (4, 1.0))],
    ],
)
def test_runs_with_nothing_in_common_have_no_curve(curves: list[list[CurvePoint]]) -> None:
    steps, common = common_curves(curves)
    assert mean_curve(steps, common) is None
    assert curve_area(steps, common) is None
