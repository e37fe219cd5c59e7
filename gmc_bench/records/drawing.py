"""Drawing that looks the same everywhere: colours, style and files whose bytes do not change."""

import io
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "pink": "#CC79A7",
    "sky": "#56B4E9",
    "orange": "#E69F00",
    "grey": "#4D4D4D",
    "brown": "#661100",
}
"""Distinct with any colour blindness: Okabe and Ito's, grey and brown for black and yellow."""
DASHES: tuple[tuple[float, ...], ...] = ((), (5.0, 1.6), (1.2, 1.2), (6.0, 1.5, 1.2, 1.5))
"""Lengths of ink and gaps in line widths; empty for a solid line."""
_STYLE: Mapping[str, Any] = {
    "figure.dpi": 100,
    "font.family": "DejaVu Sans",  # the font that matplotlib brings along
    "font.size": 9,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "text.parse_math": False,  # a `$` in a name is not mathematics
}


@contextmanager
def fixed_style(changes: Mapping[str, Any]) -> Iterator[None]:
    """Draw in one style inside the block, whatever the user's settings are.

    Args:
        changes: parameters of matplotlib that differ from the common style.
    """
    # Here and not above: drawing takes a second to import, tables must not.
    import matplotlib as mpl
    import seaborn as sns

    with mpl.rc_context(), warnings.catch_warnings():
        # Names are free text: a letter that the font lacks becomes a box, which is no fault.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        mpl.rcdefaults()  # not the user's settings
        style: Any = {**sns.axes_style("whitegrid"), **_STYLE, **changes}
        mpl.rcParams.update(style)
        yield


def picture_bytes(figure: "Figure", kind: str = "png", dpi: float = 100) -> bytes:
    """Return a figure as a file: the same drawing gives the same bytes.

    Args:
        figure: drawn inside `fixed_style`.
        kind: `png` or `svg`.
        dpi: dots per inch.
    """
    said = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    picture = io.BytesIO()
    figure.savefig(picture, format=kind, dpi=dpi, metadata=said)
    return picture.getvalue()
