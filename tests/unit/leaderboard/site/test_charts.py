"""Geometry of the drawings."""

import numpy as np
import pytest

from gmc_bench.leaderboard.learning_curve import MAX_POINTS
from gmc_bench.leaderboard.site.charts import (
    CHART_HEIGHT,
    CHART_WIDTH,
    Series,
    bars,
    curve_chart,
    heat_strip,
    lines_chart,
    short,
)
from gmc_bench.leaderboard.statistics import Estimate
from gmc_bench.records.parts import LARGEST


def _points(text: str) -> list[tuple[float, float]]:
    pairs = (pair.split(",") for pair in text.split())
    return [(float(x), float(y)) for x, y in pairs]


def test_bars_share_an_axis() -> None:
    first, second, none = bars([Estimate(0.0, -1.0, 1.0), Estimate(2.0, 1.0, 3.0), None])
    assert none is None
    assert first is not None
    assert second is not None
    # The axis runs from -1 to 3 over 4 to 116.
    assert (first.low, first.value, first.high) == (4.0, 32.0, 60.0)
    assert (second.low, second.value, second.high) == (60.0, 88.0, 116.0)


def test_a_very_long_interval_is_cut_off() -> None:
    long, other = bars([Estimate(0.0, -1e6, 1e6), Estimate(1.0, 0.9, 1.1)])
    assert long is not None
    assert other is not None
    # Values 0 and 1 on an axis from -1 to 2.
    assert (long.low, long.value, long.high) == (4.0, 41.3, 116.0)
    assert other.value == 78.7


def test_a_single_value_lies_in_the_middle() -> None:
    (bar,) = bars([Estimate(5.0, None, None)])
    assert bar is not None
    assert (bar.value, bar.low) == (60.0, None)


def test_curve_is_thinned_and_keeps_its_ends() -> None:
    steps = np.arange(1.0, 5001.0)
    chart = curve_chart(steps, np.sqrt(steps))
    assert chart is not None
    points = _points(chart.line)
    assert len(points) == MAX_POINTS
    assert points[-1][0] == CHART_WIDTH - 24.0
    assert all(0 <= x <= CHART_WIDTH and 0 <= y <= CHART_HEIGHT for x, y in points)


def test_higher_return_is_drawn_higher() -> None:
    chart = curve_chart([1.0, 2.0], [0.0, 10.0])
    assert chart is not None
    (_, low), (_, high) = _points(chart.line)
    assert high < low


def test_band_goes_there_and_back() -> None:
    steps, mean = np.array([1, 2]), np.array([5.0, 6.0])
    chart = curve_chart(steps, mean, mean - 1.0, mean + 1.0)
    assert chart is not None
    lower_left, lower_right, upper_right, upper_left = _points(chart.band)
    assert lower_left[0] == upper_left[0] < lower_right[0] == upper_right[0]
    assert upper_left[1] < lower_left[1]


def test_a_band_that_is_wider_than_its_curve_stays_inside_the_drawing() -> None:
    mean = np.array([5.0, 6.0])
    chart = curve_chart([1.0, 2.0], mean, mean - 9.0, mean + 9.0)
    assert chart is not None
    assert all(0.0 <= y <= CHART_HEIGHT for _, y in _points(chart.band))


def test_points_without_a_return_are_left_out() -> None:
    chart = curve_chart([1.0, 2.0, 3.0], [float("nan"), 1.0, 2.0])
    assert chart is not None
    assert len(_points(chart.line)) == 2
    assert curve_chart([1.0], [float("nan")]) is None


@pytest.mark.parametrize(
    "values", [[LARGEST, -LARGEST], [0.0, 0.0], [1e-320, 2e-320], [1e20, 1e20]]
)
def test_extreme_returns_stay_inside_the_drawing(values: list[float]) -> None:
    chart = curve_chart([1.0, 2.0], values)
    assert chart is not None
    assert all(0 <= y <= CHART_HEIGHT for _, y in _points(chart.line))
    assert 1 <= len(chart.y_ticks) <= 8


def test_ticks_are_round() -> None:
    chart = curve_chart([1e6, 1e7], [0.0, 4900.0])
    assert chart is not None
    assert [tick.label for tick in chart.x_ticks] == ["0", "2M", "4M", "6M", "8M", "10M"]
    assert [tick.label for tick in chart.y_ticks] == ["0", "1k", "2k", "3k", "4k"]


def test_lines_share_their_axes_and_eight_are_drawn() -> None:
    """x from 0 to 200 over 64 to 616, y from 0 to 90 over 210 up to 10."""
    x = np.array([100.0, 200.0])
    series = [
        Series(str(k), x, np.array([0.0, 10.0 * k]), colour=k % 8, dashes=k % 4)
        for k in range(1, 10)
    ]
    chart = lines_chart(series, x_from=0.0)
    assert chart is not None
    looks = [(str(k), k % 8, k % 4) for k in range(1, 10)]
    assert [(line.label, line.colour, line.dashes) for line in chart.lines] == looks[:8]
    assert _points(chart.lines[0].points) == [(340.0, 210.0), (616.0, 187.8)]
    assert _points(chart.lines[7].points) == [(340.0, 210.0), (616.0, 32.2)]
    told = [(item["label"], item["colour"], item["dashes"]) for item in chart.data["series"]]
    assert told == looks
    from_least = lines_chart(series)
    assert from_least is not None
    assert _points(from_least.lines[0].points)[0] == (64.0, 210.0)


def test_heat_is_a_share_of_the_best() -> None:
    strip = heat_strip(["a", "b", "c"], np.array([5.0, 1.0, -2.0]), np.array([5.0, 10.0, 0.0]))
    assert [cell.level for cell in strip] == [8, 0, -1]
    assert strip[1].text == "1, 10 % of best"


def test_short_numbers() -> None:
    assert [short(v) for v in (0.0, 999.0, 2.5e6, -1500.0, float("inf"))] == [
        "0",
        "999",
        "2.5M",
        "-1.5k",
        "—",
    ]
