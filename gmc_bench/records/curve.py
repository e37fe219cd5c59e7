"""The learning curve of one run as a picture."""

import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gmc_bench.records.schema import CurvePoint
from gmc_bench.records.store import write_atomic

EMPTY_TEXT = "not every body has finished an episode yet"
UNTRAINED_TEXT = "nothing was trained"
_TITLE_CHARACTERS = 70  # per line; matplotlib's own wrapping reads `$` as mathematics
_INCHES = (8.0, 5.0)
_DOTS_PER_INCH = 100  # 800 x 500 pixels
_MARKED_POINTS = 30  # up to so many points are drawn as dots, so that a short curve is visible
_STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": "0.8",
    "grid.color": "0.8",
    "axes.labelsize": 12,
    "axes.titlesize": 12,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "xtick.color": "0.15",
    "ytick.color": "0.15",
    "xtick.bottom": False,
    "ytick.left": False,
}


def plot_learning_curve(curve: Sequence[CurvePoint], path: Path, title: str) -> None:
    """Draw mean training return over env steps, 800 x 500 pixels.

    Points whose mean return is still null are left out. Without any point left the picture says
    so, because a run that is too short to have a curve is not an error.

    Args:
        curve: points by rising env steps; none of a run that trains nothing.
        path: PNG file to write.
        title: shown above the curve as it is, without mathematics in `$`.

    Raises:
        StorageError: the picture could not be written.
    """
    # Here and not above: drawing takes a second to import, reading records must not. One line needs
    # no seaborn, which takes another second in every run.
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    points = [(item.env_steps, item.mean_return) for item in curve if item.mean_return is not None]
    with mpl.rc_context():
        mpl.rcdefaults()  # not the user's settings
        mpl.rcParams.update(_STYLE)
        # A bare figure instead of pyplot keeps no global state and needs no display.
        figure = Figure(figsize=_INCHES, dpi=_DOTS_PER_INCH, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(textwrap.fill(title, _TITLE_CHARACTERS), parse_math=False)
        axes.set_xlabel("Env steps")
        axes.set_ylabel("Mean training return")
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        if points:
            steps, returns = zip(*points, strict=True)
            marker = "o" if len(points) <= _MARKED_POINTS else None
            axes.plot(steps, returns, marker=marker)
        else:
            axes.set(xticks=[], yticks=[])
            text = EMPTY_TEXT if curve else UNTRAINED_TEXT
            axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
    write_atomic(path, picture.getvalue())
