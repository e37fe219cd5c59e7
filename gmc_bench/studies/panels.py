"""Panels side by side in one PNG file; the same drawing always gives the same bytes."""

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")

_DOTS_PER_INCH = 100
_STYLE: Any = {
    "font.family": "DejaVu Sans",  # the font that matplotlib brings along
    "font.size": 9,
    "axes.titlesize": 10,
    "grid.color": "#E4E4E4",
    "text.parse_math": False,
}


def draw_panels(
    items: Sequence[T],
    draw: Callable[["Axes", T], None],
    *,
    inches: tuple[float, float],
    columns: int,
    margin: float = 0.0,
    finish: Callable[["Figure"], object] = lambda _: None,
) -> bytes:
    """Draw a panel for each item, row by row.

    Args:
        items: what panels show, at least one.
        draw: fills the panel of an item.
        inches: width and height of a panel.
        columns: panels side by side, at most.
        margin: inches beside the panels.
        finish: adds what concerns the whole figure, after all panels.

    Returns:
        A PNG file.
    """
    import seaborn as sns
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(len(items), columns)
    rows = -(-len(items) // columns)
    with sns.axes_style("whitegrid"), rc_context(_STYLE):
        size = (inches[0] * columns + margin, inches[1] * rows)
        figure = Figure(figsize=size, dpi=_DOTS_PER_INCH, layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).flatten()
        for axes, item in zip(panels, items, strict=False):
            draw(axes, item)
        for axes in panels[len(items) :]:
            axes.set_visible(False)
        finish(figure)
        picture = io.BytesIO()
        figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()
