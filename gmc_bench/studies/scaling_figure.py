"""Pictures of the scaling study, as PNG files; the same cells always give the same bytes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gmc_bench.records.drawing import COLOURS, DASHES
from gmc_bench.studies.panels import draw_panels
from gmc_bench.studies.scaling import QUANTITIES, Axis, Measurements, Quantity

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_INCHES = (5.4, 4.0)
_COLUMNS = 2
_SHOWN: dict[Axis, tuple[tuple[str, str], ...]] = {
    "tokens": (
        ("act-time", "act_ms"),
        ("train-time", "train_ms"),
        ("act-memory", "act_mib"),
        ("train-memory", "train_mib"),
    ),
    "bodies": (
        ("simulation", "build_s"),
        ("simulation", "build_mib"),
        ("simulation", "draw_us"),
        ("simulation", "iteration_ms"),
        ("policy", "policy_mib"),
        ("table", "graph_peak_mib"),
    ),
}
"""Kind and key of every panel."""
_GUIDES = ((1, "~ n"), (2, "~ n²"))


def draw_scaling(found: Measurements, axis: Axis) -> bytes | None:
    """Draw quantities over sizes, both logarithmic: a panel each, and a line per method.

    Faint lines show linear and quadratic growth from the smallest first value.

    Args:
        found: what was measured.
        axis: which sizes.

    Returns:
        A PNG file; `None` if nothing was measured along this axis.
    """
    shown = [
        quantity
        for place in _SHOWN[axis]
        for quantity in QUANTITIES
        if (quantity.kind, quantity.key) == place
        and any(found.series(quantity, method) for method in found.methods(quantity))
    ]
    if not shown:
        return None
    methods = sorted({method for quantity in shown for method in found.methods(quantity)} - {""})
    return draw_panels(
        shown,
        lambda axes, quantity: _draw(axes, found, quantity, methods),
        inches=_PANEL_INCHES,
        columns=_COLUMNS,
        margin=1.7,  # for the names of the methods
        finish=_name_lines,
    )


def _name_lines(figure: "Figure") -> None:
    """Name the lines of all panels beside them, each once."""
    lines: dict[str, Artist] = {
        str(line.get_label()): line
        for axes in figure.axes
        for line in axes.lines
        if not str(line.get_label()).startswith("_")
    }
    if lines:
        figure.legend(lines.values(), lines.keys(), loc="outside right upper", frameon=False)


def _draw(axes: "Axes", found: Measurements, quantity: Quantity, methods: Sequence[str]) -> None:
    first: list[tuple[int, float]] = []
    for method in found.methods(quantity):
        series = {size: y for size, y in found.series(quantity, method).items() if y > 0}
        if not series:
            continue
        first.append(next(iter(series.items())))
        colour, dashes = _look(method, methods)
        axes.plot(
            list(series), list(series.values()), color=colour, dashes=dashes,
            marker="s" if dashes else "o", markersize=3.5, linewidth=1.4,
            label=method or "_all methods",
        )  # fmt: skip
    axes.set_xscale("log", base=2 if quantity.axis == "tokens" else 10)
    axes.set_yscale("log")
    # Powers would be set as mathematics.
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_minor_formatter("")
    axes.set(title=quantity.title, ylabel=quantity.unit, xlabel=_label(quantity.axis))
    sizes = found.sizes(quantity.axis)
    if quantity.axis == "tokens":
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    else:
        axes.xaxis.set_major_formatter("{x:,g}")
    if len(sizes) > 1 and first:
        _guide(axes, sizes, min(value for _, value in first))


def _guide(axes: "Axes", sizes: Sequence[int], start: float) -> None:
    """Draw what grows with a power of the size, as far as the panel reaches."""
    low, high = axes.get_ylim()
    for power, label in _GUIDES:
        heights = start * (np.array(sizes, np.float64) / sizes[0]) ** power
        axes.plot(sizes, heights, color="#B5B5B5", linewidth=0.8, linestyle=":", label=f"_{label}")
        inside = np.flatnonzero(heights <= high)
        at = inside[-1]
        axes.annotate(label, (sizes[at], heights[at]), color="#8A8A8A", fontsize=8)
    axes.set_ylim(low, high)


def _look(method: str, methods: Sequence[str]) -> tuple[str, tuple[float, ...]]:
    colours = list(COLOURS.values())
    if method not in methods:
        return colours[6], ()
    place = methods.index(method)
    return colours[place % len(colours)], DASHES[place // len(colours) % len(DASHES)]


def _label(axis: Axis) -> str:
    return "Tokens per body" if axis == "tokens" else "Bodies"
