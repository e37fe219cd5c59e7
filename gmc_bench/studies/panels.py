"""Panels side by side in one PNG file; the same drawing always gives the same bytes."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from gmc_bench.records.drawing import fixed_style, picture_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")

_STYLE = {"axes.titlesize": 10}


def draw_panels(
    items: Sequence[T],
    draw: Callable[["Axes", T], None],
    *,
    inches: tuple[float, float],
    columns: int,
    margin: float = 0.0,
    title: str = "",
    finish: Callable[["Figure"], object] = lambda _: None,
) -> bytes:
    """Draw a panel for each item, row by row.

    Args:
        items: what panels show, at least one.
        draw: fills the panel of an item.
        inches: width and height of a panel.
        columns: panels side by side, at most.
        margin: inches beside the panels.
        title: above all panels; by default there is none.
        finish: adds what concerns the whole figure, after all panels.

    Returns:
        A PNG file.
    """
    from matplotlib.figure import Figure

    columns = min(len(items), columns)
    rows = -(-len(items) // columns)
    with fixed_style(_STYLE):
        size = (inches[0] * columns + margin, inches[1] * rows)
        figure = Figure(figsize=size, layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, item in zip(panels, items, strict=False):
            draw(axes, item)
        for axes in panels[len(items) :]:
            axes.set_visible(False)
        if title:
            figure.suptitle(title)
        finish(figure)
        return picture_bytes(figure)
