"""Pictures of one analysed table, as SVG files; the same analysis always gives the same bytes.

Text is drawn as outlines of a font that matplotlib brings along, so that a picture looks the same
everywhere. The name of a method decides its colour and dashes, in every picture; only a row that
would look like another row of the same picture gets a different look.
"""

import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gmc_bench.core.escape import one_line
from gmc_bench.core.types import BoolArray, DoubleArray
from gmc_bench.leaderboard.analysis import Curve, RowAnalysis, TableAnalysis
from gmc_bench.leaderboard.learning_curve import thinned
from gmc_bench.leaderboard.statistics import Estimate
from gmc_bench.leaderboard.tables import GENERATOR
from gmc_bench.records.drawing import COLOURS, DASHES, fixed_style, picture_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SVG_MARK = f"<!-- {GENERATOR} -->"
CURVES_NAME = "learning-curves.svg"
PROFILES_NAME = "performance-profiles.svg"
SCORES_NAME = "scores.svg"
BODIES_NAME = "bodies.svg"
IMPROVEMENT_NAME = "improvement.svg"

_KNOWN = {
    "recmorph": ("vermilion", 0),
    "recmorph-bigru": ("vermilion", 1),
    "recmorph-bilstm": ("vermilion", 2),
    "recmorph-bimamba2": ("vermilion", 3),
    "metamorph": ("blue", 0),
    "metamorph-star": ("blue", 1),
    "modumorph": ("green", 0),
    "smr": ("green", 1),
    "swat": ("pink", 0),
    "nervenet": ("sky", 0),
    "gcnt": ("orange", 0),
    "mi-hgnn": ("orange", 1),
    "bot": ("brown", 0),
    "mlp": ("grey", 0),
    "mlp-10m": ("grey", 1),
}

_STYLE: dict[str, Any] = {
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.labelsize": 10,
    "svg.fonttype": "path",
    "svg.hashsalt": "gmc-bench",
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
}
_INK = "#333333"
_FAINT = "#9A9A9A"
_LABEL_CHARACTERS = 30
_MAX_LINES = 16  # more lines cannot be told apart; the others are drawn in grey
_MAX_NAMED_BODIES = 45
_MAX_BODY_CHARACTERS = 18
_MAX_NUMBERED_ROWS = 20  # more than so many columns leave no room for numbers
_ROW_INCHES = 0.34
_MARKED_POINTS = 30  # up to so many points are drawn as dots, so that a short curve is visible
_OUTLIER_SHARE = 1.25  # of the 98th percentile; scores above share one colour
_AXIS_MARGIN = 0.75  # of the range of the points: longer intervals end in an arrow
_LABEL_INCHES = 0.17  # between labels of neighbouring lines
_FRAME_INCHES = 0.8  # of the height of a picture, for title and labels of the x axis


class _Style(NamedTuple):
    colour: str
    dashes: tuple[float, ...]


def draw_figures(analysis: TableAnalysis) -> dict[str, bytes]:
    """Draw a table: learning curves, profiles, scores, bodies and pairs of methods.

    Only complete rows are drawn. A picture with nothing to show is left out: all of them without
    complete rows, learning curves if no run has one, pairs with fewer than two rows.

    Args:
        analysis: what the pictures show; rows are drawn best first.

    Returns:
        SVG files by name: `learning-curves.svg`, `performance-profiles.svg`, `scores.svg`,
        `bodies.svg` and `improvement.svg`, in that order.
    """
    rows = analysis.rows
    if not rows:
        return {}
    drawings = {
        CURVES_NAME: _draw_curves if any(row.curve is not None for row in rows) else None,
        PROFILES_NAME: _draw_profiles,
        SCORES_NAME: _draw_scores,
        BODIES_NAME: _draw_bodies,
        IMPROVEMENT_NAME: _draw_improvement if len(rows) > 1 else None,
    }
    pictures = {}
    for name, draw in drawings.items():
        if draw is not None:
            with fixed_style(_STYLE):
                pictures[name] = _svg(draw(analysis))
    return pictures


def row_labels(rows: Sequence[RowAnalysis]) -> list[str]:
    """Return short names that tell rows apart: the method, and what else is needed.

    Args:
        rows: rows of one table.

    Returns:
        One label per row: method; with the preset, version and settings where methods repeat.
    """
    keys = [row.row.key for row in rows]
    candidates = [
        [key.method for key in keys],
        [f"{key.method} ({key.preset})" for key in keys],
        [f"{key.method} ({key.preset}, {key.config_digest[:8]})" for key in keys],
        [
            f"{key.method} v{key.method_version} ({key.preset}, {key.config_digest[:8]})"
            for key in keys
        ],
    ]
    counts = [Counter(names) for names in candidates]
    labels = []
    for place in range(len(keys)):
        level = next((n for n in range(len(counts)) if counts[n][candidates[n][place]] == 1), -1)
        labels.append(_cut_name(candidates[level][place]))
    # Methods whose ids differ only behind what fits.
    repeated = Counter(labels)
    return [
        f"{label} #{place}" if repeated[label] > 1 else label
        for place, label in enumerate(labels, 1)
    ]


def _cut_name(label: str) -> str:
    """Return a label that is short enough, with its settings, which tell rows apart."""
    name, _, settings = one_line(label).partition(" (")
    room = _LABEL_CHARACTERS - len(settings) - 2
    if not settings or room < 1:
        return _shorten(label, _LABEL_CHARACTERS)
    return f"{_shorten(name, room)} ({settings}"


def _bodies_of(analysis: TableAnalysis) -> str:
    return "zero-shot test bodies" if analysis.table.split == "test" else "train bodies"


def _shorten(text: str, characters: int) -> str:
    plain = one_line(text)
    return plain if len(plain) <= characters else f"{plain[: characters - 1]}…"


def _new_axes(width: float, height: float) -> "tuple[Figure, Axes]":
    # A bare figure instead of pyplot keeps no global state and needs no display.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _svg(figure: "Figure") -> bytes:
    return picture_bytes(figure, "svg").replace(b"<svg ", f"{SVG_MARK}\n<svg ".encode(), 1)


def _styles(rows: Sequence[RowAnalysis]) -> list[_Style]:
    return [_Style(COLOURS[colour], DASHES[dashes]) for colour, dashes in row_styles(rows)]


def row_styles(rows: Sequence[RowAnalysis]) -> list[tuple[str, int]]:
    """Return the style of each row: a name in `COLOURS` and a place in `DASHES`.

    It differs between rows as long as there are styles left.
    """
    methods = [row.row.key.method for row in rows]
    repeated = [method in methods[:place] for place, method in enumerate(methods)]
    # Names that own a style choose first, further rows of a method last.
    order = sorted(range(len(rows)), key=lambda n: (repeated[n], methods[n] not in _KNOWN, n))
    chosen: dict[int, tuple[str, int]] = {}
    for place in order:
        wishes = _wishes(methods[place])
        free = (slot for slot in wishes if slot not in chosen.values())
        chosen[place] = next(free, wishes[0])
    return [chosen[place] for place in range(len(rows))]


def _wishes(method: str) -> list[tuple[str, int]]:
    """Return all pairs of colour and dashes, the one that the name decides first."""
    slots = [(colour, dashes) for dashes in range(len(DASHES)) for colour in COLOURS]
    spare = [slot for slot in slots if slot not in _KNOWN.values()]
    start = zlib.crc32(method.encode()) % len(spare)
    first = _KNOWN.get(method, spare[start])
    same_colour = [slot for slot in slots if slot[0] == first[0] and slot in spare]
    return [first, *same_colour, *spare[start:], *spare[:start], *slots]


def _draw_curves(analysis: TableAnalysis) -> "Figure":
    from matplotlib.ticker import EngFormatter

    drawn: list[tuple[str, _Style, Curve]] = []
    others: list[Curve] = []
    for label, style, row in zip(
        row_labels(analysis.rows), _styles(analysis.rows), analysis.rows, strict=True
    ):
        if row.curve is None:
            continue
        curve = _thinned(row.curve)
        if len(drawn) < _MAX_LINES:
            drawn.append((label, style, curve))
        else:
            others.append(curve)
    figure, axes = _new_axes(8.4, max(4.2, 0.24 * len(drawn) + 1.4))
    for curve in others:
        axes.plot(curve.env_steps, curve.mean, color=_FAINT, linewidth=0.7, alpha=0.6, zorder=1)
    band = 0.18 if len(drawn) <= 4 else 0.5 / len(drawn)
    for _, style, curve in drawn:
        if curve.low is None or curve.high is None:  # a single run
            continue
        axes.fill_between(
            curve.env_steps, curve.low, curve.high, color=style.colour, alpha=band, linewidth=0
        )
    for place, (_, style, curve) in enumerate(drawn):
        axes.plot(
            curve.env_steps,
            curve.mean,
            color=style.colour,
            dashes=style.dashes or (None, None),
            linewidth=1.7,
            marker="o" if len(curve.env_steps) <= _MARKED_POINTS else None,
            markersize=3.5,
            zorder=3 + len(drawn) - place,
        )
    curves = [*others, *(curve for _, _, curve in drawn)]
    axes.set_ylim(_visible_returns(curves))
    axes.set_xlim(0, max(float(curve.env_steps[-1]) for curve in curves))
    _label_ends(axes, drawn, figure.get_figheight() - _FRAME_INCHES)
    axes.set_xlabel("Env steps")
    axes.set_ylabel("Mean training return")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    has_bands = any(curve.low is not None for _, _, curve in drawn)
    title = "Learning curves" + ("; bands: 95 % intervals over runs" if has_bands else "")
    axes.set_title(title + ("; grey: lower ranks" if others else ""), loc="left")
    return figure


def _thinned(curve: Curve) -> Curve:
    kept = thinned(len(curve.env_steps))
    return replace(curve, **{name: v[kept] for name, v in vars(curve).items() if v is not None})


def _visible_returns(curves: Sequence[Curve]) -> tuple[float, float]:
    # The bands of two or three runs can be far wider than all curves together.
    means = np.concatenate([curve.mean for curve in curves])
    ends = [end for curve in curves for end in (curve.low, curve.high) if end is not None]
    widest, low, high = _padded(means, 0.3), *_padded(np.concatenate([means, *ends]), 0.03)
    return max(widest[0], low), min(widest[1], high)


def _padded(values: DoubleArray, share: float) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    margin = share * (high - low) or 0.1 * abs(high) or 1.0
    return low - margin, high + margin


def _label_ends(axes: "Axes", drawn: Sequence[tuple[str, _Style, Curve]], height: float) -> None:
    """Name each line beside its end; labels are moved apart and tied to their line.

    Args:
        axes: with its final limits.
        drawn: label, look and curve of each line.
        height: of the axes, inches.
    """
    bottom, top = axes.get_ylim()
    right = axes.get_xlim()[1]
    ends = [(float(curve.mean[-1]) - bottom) / (top - bottom) for _, _, curve in drawn]
    places = _spread(ends, _LABEL_INCHES / height)
    for (label, style, curve), end, place in zip(drawn, ends, places, strict=True):
        axes.annotate(
            label,
            xy=(float(curve.env_steps[-1]) / right, end),
            xytext=(1.06, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            color=style.colour,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": style.colour,
                "linewidth": 0.8,
                "relpos": (0.0, 0.5),
                "shrinkA": 0.0,
                "shrinkB": 0.0,
            },
        )


def _spread(places: Sequence[float], gap: float) -> list[float]:
    """Move places inside 0..1 apart by `gap`, as little as possible, keeping their order."""
    from scipy.optimize import isotonic_regression

    gap = min(gap, 1.0 / max(len(places) - 1, 1))
    order = np.argsort(places, kind="stable")
    gaps = gap * np.arange(len(places))
    # Without its share of the gaps a place must only not fall.
    levels = isotonic_regression(np.asarray(places)[order] - gaps).x
    moved = np.empty(len(places))
    moved[order] = np.clip(levels, 0.0, 1.0 - gap * (len(places) - 1)) + gaps
    return [float(place) for place in moved]


def _draw_profiles(analysis: TableAnalysis) -> "Figure":
    import pandas as pd
    import seaborn as sns

    labels = row_labels(analysis.rows)
    styles = _styles(analysis.rows)
    shown = min(len(labels), _MAX_LINES)
    figure, axes = _new_axes(8.4, max(4.2, 0.21 * shown + 1.6))
    for profile in analysis.profiles[shown:]:
        axes.plot(analysis.profile_scores, profile, color=_FAINT, linewidth=0.7, alpha=0.6)
    frame = pd.DataFrame(
        {
            "score": np.tile(analysis.profile_scores, shown),
            "share": analysis.profiles[:shown].ravel(),
            "label": np.repeat(labels[:shown], len(analysis.profile_scores)),
        }
    )
    sns.lineplot(
        frame,
        x="score",
        y="share",
        hue="label",
        style="label",
        palette={label: style.colour for label, style in zip(labels, styles, strict=True)},
        dashes={label: style.dashes for label, style in zip(labels, styles, strict=True)},
        errorbar=None,
        estimator=None,
        linewidth=1.7,
        ax=axes,
    )
    axes.set_ylim(0, 1.02)
    axes.set_xlim(float(analysis.profile_scores[0]), float(analysis.profile_scores[-1]))
    axes.set_xlabel("Score τ")
    axes.set_ylabel("Share of runs × bodies with a score > τ")
    axes.set_title(f"Performance profiles on {_bodies_of(analysis)}", loc="left")
    sns.move_legend(axes, "center left", bbox_to_anchor=(1.0, 0.5), title=None, frameon=False)
    return figure


def _draw_scores(analysis: TableAnalysis) -> "Figure":
    rows = analysis.rows
    figure, axes = _new_axes(8.4, max(2.4, _ROW_INCHES * len(rows) + 1.3))
    run_means = [row.scores.mean(axis=1) for row in rows]
    points = np.concatenate([*run_means, [row.iqm.value for row in rows]])
    left, right = _padded(points, _AXIS_MARGIN)
    shown = [(row.crossed.widest, row.iqm) for row in rows]
    ends = [end for pair in shown for part in pair for end in (part.low, part.high)]
    known = [end for end in ends if end is not None]
    span = float(np.ptp(points)) or 1.0
    left = max(left, min([*known, float(points.min())]) - 0.04 * span)
    right = min(right, max([*known, float(points.max())]) + 0.04 * span)
    drawn = zip(rows, _styles(rows), run_means, shown, strict=True)
    for place, (row, style, means, (mean, iqm)) in enumerate(drawn):
        axes.axhline(place, color="#EEEEEE", linewidth=0.8, zorder=0)
        axes.scatter(means, np.full(len(means), place), s=7, color=_FAINT, linewidths=0, zorder=2)
        for part, shift, marker, face in (
            (mean, -0.17, "o", style.colour),
            (iqm, 0.17, "D", "white"),
        ):
            y = place + shift
            _draw_interval(axes, part, y, (left, right), style.colour)
            axes.plot(part.value, y, marker=marker, color=style.colour, mfc=face, ms=5.5, zorder=4)
        axes.text(
            1.02,
            place,
            row.group,
            transform=axes.get_yaxis_transform(),
            va="center",
            color=_INK,
            family="monospace",
        )
    axes.set_xlim(left, right)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), row_labels(rows))
    axes.grid(visible=False, axis="y")
    interval = ""
    if known:  # letters are about seeds and bodies, and so is the interval of the mean
        widest = "seeds and bodies" if analysis.bodies_are_sampled else "seeds"
        interval = f"; 95 % intervals over {widest} (●), over seeds (◇)"
    axes.set_xlabel(f"Score on {_bodies_of(analysis)}{interval}")
    axes.set_title("Mean (●) and IQM (◇); dots: runs", loc="left")
    axes.text(1.02, 1.0, "group", transform=axes.transAxes, va="bottom", color=_INK, fontsize=8)
    return figure


def _draw_interval(
    axes: "Axes", found: Estimate, y: float, limits: tuple[float, float], colour: str
) -> None:
    """Draw the interval of a score, if there is one, and an arrow where it leaves the axes."""
    if found.low is None or found.high is None:
        return
    left, right = limits
    ends = [max(found.low, left), min(found.high, right)]
    axes.plot(ends, [y, y], color=colour, linewidth=1.6, zorder=3)
    for beyond, x, arrow in ((found.low < left, left, "<"), (found.high > right, right, ">")):
        if beyond:
            axes.plot(x, y, marker=arrow, color=colour, ms=5, clip_on=False)


def _draw_bodies(analysis: TableAnalysis) -> "Figure":
    import pandas as pd
    import seaborn as sns

    rows = analysis.rows
    bodies = rows[0].bodies
    frame = pd.DataFrame([row.scores.mean(axis=0) for row in rows], index=row_labels(rows))
    order = np.argsort(frame.to_numpy().mean(axis=0), kind="stable")
    frame = frame.iloc[:, order]
    named = len(bodies) <= _MAX_NAMED_BODIES
    figure, axes = _new_axes(
        max(6.4, min(11.0, 2.6 + 0.24 * len(bodies))),
        max(2.2, 0.27 * len(rows) + (2.3 if named else 1.2)),
    )
    scores = frame.to_numpy()
    highest = float(scores.max())
    # One easy body must not leave a single colour to all others.
    top = min(highest, _OUTLIER_SHARE * float(np.percentile(scores, 98.0)))
    if top <= 0.0:
        top = highest
    sns.heatmap(
        frame,
        cmap="viridis",
        vmin=min(float(scores.min()), 0.0),
        vmax=top,
        cbar_kws={
            "label": "Mean score over runs",
            "pad": 0.02,
            "extend": "max" if top < highest else "neither",
            "extendfrac": 0.02,
        },
        linewidths=0.6 if named else 0.0,
        xticklabels=False,
        yticklabels=True,
        rasterized=not named,
        ax=axes,
    )
    axes.set_title("Score by body, hardest body left", loc="left")
    axes.set_ylabel("")
    axes.tick_params(axis="y", rotation=0, length=0)
    if named:
        names = [_shorten(bodies[place], _MAX_BODY_CHARACTERS) for place in order]
        axes.set_xticks(np.arange(len(names)) + 0.5, names, rotation=90, fontsize=7)
    else:
        axes.set_xlabel(f"{len(bodies)} {_bodies_of(analysis)}")
    return figure


def _draw_improvement(analysis: TableAnalysis) -> "Figure":
    import pandas as pd
    import seaborn as sns

    labels = row_labels(analysis.rows)
    count = len(labels)
    values = np.full((count, count), np.nan)
    apart = np.zeros((count, count), dtype=bool)
    for pair in analysis.comparisons:
        values[pair.first, pair.second] = pair.probability_of_improvement.value
        values[pair.second, pair.first] = 1.0 - pair.probability_of_improvement.value
        apart[pair.first, pair.second] = apart[pair.second, pair.first] = pair.significant
    numbered = count <= _MAX_NUMBERED_ROWS
    cell = 0.46 if numbered else 0.27
    figure, axes = _new_axes(max(4.6, cell * count + 3.4), max(3.4, cell * count + 2.0))
    sns.heatmap(
        pd.DataFrame(values, index=labels, columns=labels),
        cmap="PuOr",
        vmin=0.0,
        vmax=1.0,
        square=True,
        linewidths=0.6,
        cbar_kws={"label": "P(row beats column)", "shrink": 0.7, "pad": 0.02},
        xticklabels=True,
        yticklabels=True,
        ax=axes,
    )
    axes.grid(visible=False)
    axes.set_facecolor("#EEEEEE")  # the diagonal
    if numbered:
        _number_cells(axes, values, apart)
    axes.tick_params(axis="x", rotation=90, length=0)
    axes.tick_params(axis="y", rotation=0, length=0)
    axes.set_title("Probability of improvement", loc="left")
    if numbered and apart.any():
        axes.set_xlabel("Bold: means can be told apart")
    return figure


def _number_cells(axes: "Axes", values: DoubleArray, apart: BoolArray) -> None:
    for (y, x), value in np.ndenumerate(values):
        if math.isnan(value):
            continue
        dark = abs(value - 0.5) > 0.32  # ends of the colour map
        axes.text(
            x + 0.5,
            y + 0.5,
            _share_text(float(value)),
            ha="center",
            va="center",
            fontsize=8,
            fontweight="bold" if apart[y, x] else "normal",
            color="white" if dark else _INK,
        )


def _share_text(share: float) -> str:
    if share in (0.0, 1.0):
        return f"{share:.0f}"
    if share < 0.005:
        return "<.01"
    return ">.99" if share >= 0.995 else f"{share:.2f}"[1:]
