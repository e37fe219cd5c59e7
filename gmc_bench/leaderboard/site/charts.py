"""Geometry of the small drawings in pages; the markup is in the templates.

Colours and dashes come from classes in the style sheet, because pages forbid inline styles.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gmc_bench.core.types import DoubleArray, IntArray
from gmc_bench.leaderboard.learning_curve import thinned
from gmc_bench.leaderboard.statistics import Estimate
from gmc_bench.leaderboard.tables import NONE

BAR_WIDTH = 120.0
CHART_WIDTH = 640.0
CHART_HEIGHT = 240.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 24.0, 10.0, 30.0  # margins for the axes' labels
HEAT_STEPS = 9
MAX_LINES = 8
"""Drawn without a script, and shown at first with one."""
PLOT_DIGITS = 5  # significant digits of numbers for scripts
_SUFFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval on an axis that all rows of a table share; x in units of the drawing."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: place in units of the drawing, and label."""

    place: float
    label: str


@dataclass(frozen=True, slots=True)
class CurveChart:
    """A line with its axes; `band` is empty when there is no interval."""

    line: str
    band: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    last: str
    """The last value, as text."""


@dataclass(frozen=True, slots=True)
class ChartLine:
    """One line of a chart of several; for its look see `Series`."""

    label: str
    points: str
    colour: int
    dashes: int


@dataclass(frozen=True, slots=True)
class LinesChart:
    """Lines with common axes, and the same numbers for a page that draws them itself."""

    lines: tuple[ChartLine, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    data: dict[str, Any]
    """For JSON: `series`, each with the fields of `Series`; without a band no `low` and `high`."""


@dataclass(frozen=True, slots=True)
class HeatCell:
    """One body of a strip: level from 0 (worst) to 8 (best), or -1 without a value."""

    level: int
    body: str
    text: str


def bars(estimates: Sequence[Estimate | None]) -> list[Bar | None]:
    """Return one bar per estimate on a common axis.

    The axis reaches beyond the values by their range at most: with three seeds intervals can be
    so long that they would press all values into one point. Longer intervals are cut off.

    Args:
        estimates: `None` gives no bar.

    Returns:
        The bars, x from 0 to 120.
    """
    known = [item for item in estimates if item is not None and math.isfinite(item.value)]
    if not known:
        return [None] * len(estimates)
    values = [item.value for item in known]
    ends = [end for item in known for end in (item.low, item.high) if end is not None]
    low, high = min(values + ends), max(values + ends)
    reach = max(values) - min(values)
    if reach > 0.0:
        low, high = max(low, min(values) - reach), min(high, max(values) + reach)
    scale = _Scale(low, high, 4.0, BAR_WIDTH - 4.0)

    def bar(item: Estimate | None) -> Bar | None:
        if item is None or not math.isfinite(item.value):
            return None
        if item.low is None or item.high is None:
            return Bar(scale(item.value), None, None)
        return Bar(scale(item.value), scale(max(item.low, low)), scale(min(item.high, high)))

    return [bar(item) for item in estimates]


def curve_chart(
    env_steps: Sequence[float] | IntArray,
    values: Sequence[float] | DoubleArray,
    low: DoubleArray | None = None,
    high: DoubleArray | None = None,
) -> CurveChart | None:
    """Return a learning curve as a drawing.

    Args:
        env_steps: (G,) rising.
        values: (G,) mean training return.
        low: (G,) lower end of the band; where it is not finite, the curve has no band.
        high: (G,) upper end.

    Returns:
        The drawing with at most 200 points; `None` without any finite point.
    """
    steps, mean = np.asarray(env_steps, dtype=float), np.asarray(values, dtype=float)
    kept = np.flatnonzero(np.isfinite(mean))
    kept = kept[thinned(len(kept))]
    if not len(kept):
        return None
    steps, mean = steps[kept], mean[kept]
    edges: list[DoubleArray] = [mean]
    if low is not None and high is not None:
        low, high = low[kept], high[kept]
        if np.isfinite(low).all() and np.isfinite(high).all():
            edges += [low, high]
    x = _Scale(0.0, float(steps[-1]), LEFT, CHART_WIDTH - RIGHT)
    y = _Scale(
        min(0.0, *(float(edge.min()) for edge in edges)),
        max(0.0, *(float(edge.max()) for edge in edges)),
        CHART_HEIGHT - BOTTOM,
        TOP,
    )
    band = ""
    if len(edges) == 3:
        there = _points(x, y, steps, edges[1])
        back = _points(x, y, steps[::-1], edges[2][::-1])
        band = f"{there} {back}"
    return CurveChart(
        line=_points(x, y, steps, mean),
        band=band,
        x_ticks=x.ticks(),
        y_ticks=y.ticks(),
        last=short(float(mean[-1])),
    )


@dataclass(frozen=True, slots=True)
class Series:
    """What one line shows; arrays are (N,) each."""

    label: str
    x: DoubleArray
    y: DoubleArray
    low: DoubleArray | None = None
    high: DoubleArray | None = None
    colour: int = 0
    """Number of its colour in the style sheet, `c0` to `c7`."""
    dashes: int = 0
    """The same of its dashes, `d1` to `d3`; 0 for a solid line."""


def lines_chart(series: Sequence[Series], *, x_from: float | None = None) -> LinesChart | None:
    """Return several lines with common axes.

    Args:
        series: best first; the first eight are drawn, all are in `data`.
        x_from: where the x axis begins; by default at the least x.

    Returns:
        The drawing; `None` without any finite point.
    """
    shown = [found for item in series if (found := _finite_part(item)) is not None]
    if not shown:
        return None
    ends = [*(end for item in shown for end in (item.x.min(), item.x.max()))]
    values = [*(end for item in shown for end in (item.y.min(), item.y.max()))]
    low = float(min(ends)) if x_from is None else x_from
    x = _Scale(low, float(max(ends)), LEFT, CHART_WIDTH - RIGHT)
    y = _Scale(min(0.0, float(min(values))), float(max(values)), CHART_HEIGHT - BOTTOM, TOP)
    return LinesChart(
        lines=tuple(
            ChartLine(item.label, _points(x, y, item.x, item.y), item.colour, item.dashes)
            for item in shown[:MAX_LINES]
        ),
        x_ticks=x.ticks(),
        y_ticks=y.ticks(),
        data={"series": [_plotted(item) for item in shown]},
    )


def _finite_part(item: Series) -> Series | None:
    kept = np.flatnonzero(np.isfinite(item.x) & np.isfinite(item.y))
    kept = kept[thinned(len(kept))]
    if not len(kept):
        return None
    edges = [None if edge is None else edge[kept] for edge in (item.low, item.high)]
    if any(edge is None or not np.isfinite(edge).all() for edge in edges):
        edges = [None, None]
    low, high = edges
    return replace(item, x=item.x[kept], y=item.y[kept], low=low, high=high)


def _plotted(item: Series) -> dict[str, Any]:
    arrays = {"x": item.x, "y": item.y, "low": item.low, "high": item.high}
    found: dict[str, Any] = {
        name: [float(f"{value:.{PLOT_DIGITS}g}") for value in values.tolist()]
        for name, values in arrays.items()
        if values is not None
    }
    return {"label": item.label, "colour": item.colour, "dashes": item.dashes, **found}


def heat_strip(
    bodies: Sequence[str], scores: DoubleArray, best: DoubleArray
) -> tuple[HeatCell, ...]:
    """Return one cell per body: the score as a share of the best method's.

    Args:
        bodies: B names.
        scores: (B,) mean score of one method.
        best: (B,) highest mean score of any method of the table.

    Returns:
        The cells in the order given; a body on which nobody scores above zero has no level.
    """
    cells = []
    for body, score, top in zip(bodies, scores.tolist(), best.tolist(), strict=True):
        if top > 0.0 and math.isfinite(score):
            share = min(max(score / top, 0.0), 1.0)
            level = min(int(share * HEAT_STEPS), HEAT_STEPS - 1)
            cells.append(HeatCell(level, body, f"{short(score)}, {100.0 * share:.0f} % of best"))
        else:
            cells.append(HeatCell(-1, body, short(score)))
    return tuple(cells)


def short(value: float) -> str:
    """Return a number in few characters, e.g. `2.5M`; `—` when it is not finite."""
    if not math.isfinite(value):
        return NONE
    for size, suffix in _SUFFIXES:
        if abs(value) >= size:
            return f"{value / size:.4g}{suffix}"
    return f"{value:.4g}"


class _Scale:
    """A straight line from values to places of a drawing."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        if not high > low:  # a single value lies in the middle
            reach = max(1.0, abs(low))
            low, high = low - reach, high + reach
        self._low, self._high, self._start, self._end = low, high, start, end

    def __call__(self, value: float) -> float:
        share = (value - self._low) / (self._high - self._low)
        return round(self._start + share * (self._end - self._start), 1)

    def ticks(self) -> tuple[Tick, ...]:
        """Return two to seven round values inside the range."""
        span = self._high - self._low
        size: float = 10.0 ** math.floor(math.log10(span / 3.0))
        step = next(size * factor for factor in (10, 5, 2, 1) if span / (size * factor) >= 2.5)
        first, last = math.ceil(self._low / step), math.floor(self._high / step)
        values = [place * step for place in range(first, last + 1)]
        return tuple(Tick(self(value), short(value)) for value in values)


def _points(x: _Scale, y: _Scale, steps: DoubleArray, values: DoubleArray) -> str:
    pairs = zip(steps.tolist(), values.tolist(), strict=True)
    return " ".join(f"{x(step):g},{y(value):g}" for step, value in pairs)
