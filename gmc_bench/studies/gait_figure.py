"""Gaits side by side: which limbs touch the ground, and the phases and angles of the joints."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gmc_bench.core.errors import ConfigError
from gmc_bench.records.drawing import COLOURS, fixed_style, picture_bytes
from gmc_bench.records.store import write_atomic
from gmc_bench.studies.gait import SETTLING, Gait, GaitMetrics, gait_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 3.0
"""s of an episode that a picture shows."""

_STYLE = {"axes.titlesize": 10, "axes.labelsize": 9, "font.size": 8}
_INK = "#333333"
_FAINT = "#BBBBBB"
_MAX_LINES = 6  # angles that are drawn in colour, of the joints that move most
_COLUMN_INCHES = 4.4
_ROW_INCHES = 0.17  # of one limb or joint


def plot_gait(
    gaits: Sequence[tuple[str, Gait]],
    path: Path,
    *,
    start: float = SETTLING,
    seconds: float = SHOWN,
) -> None:
    """Draw gaits side by side, one column each; the same gaits give the same bytes.

    From above: bars while a limb touches the ground, for every limb that ever does; the phase of
    each joint, see `joint_phases`; the angles of the six joints that move most in colour, those of
    all others in grey. Phases and the numbers above a column are those of the whole episode after
    its settling time, not of the part that is shown.

    Args:
        gaits: name of the policy, and what was recorded of it.
        path: a PNG file; it is seen whole or not at all.
        start: where the part that is shown begins, s.
        seconds: how long it is.

    Raises:
        ConfigError: there is no gait, or an episode ends before `start`.
        StorageError: the file cannot be written.
    """
    if not gaits:
        raise ConfigError("a picture of gaits was asked for without a gait; give at least one")
    with fixed_style(_STYLE):
        write_atomic(path, picture_bytes(_draw(gaits, start, start + seconds), dpi=130))


def _draw(gaits: Sequence[tuple[str, Gait]], start: float, stop: float) -> "Figure":
    from matplotlib.figure import Figure

    found = [gait_metrics(gait, settling=start) for _, gait in gaits]
    feet = max(1, *(len(item.feet) for item in found))
    joints = max(len(gait.joints) for _, gait in gaits)
    heights = [max(0.8, _ROW_INCHES * feet), max(0.8, _ROW_INCHES * joints), 1.5]
    figure = Figure(
        figsize=(_COLUMN_INCHES * len(gaits) + 0.6, sum(heights) + 1.9), layout="constrained"
    )
    grid = figure.subplots(3, len(gaits), squeeze=False, height_ratios=heights)
    largest = max(float(np.abs(gait.part(start, stop).angles).max()) for _, gait in gaits)
    for column, ((label, gait), metrics) in enumerate(zip(gaits, found, strict=True)):
        contact, phase, angle = grid[:, column]
        contact.set_title(f"{label}: {gait.body}\n{_numbers(metrics)}", loc="left")
        _draw_contact(contact, gait.part(start, stop), metrics, start)
        image = _draw_phases(phase, gait, start, stop)
        _draw_angles(angle, gait.part(start, stop), start)
        angle.set_ylim(-1.05 * (largest or 1.0), 1.05 * (largest or 1.0))
        for axes in (contact, phase, angle):
            axes.set_xlim(start, stop)
            axes.spines[["top", "right"]].set_visible(False)
        angle.set_xlabel("Time (s)")
    grid[0, 0].set_ylabel("Limbs on the ground")
    grid[1, 0].set_ylabel("Joint phases")
    grid[2, 0].set_ylabel("Joint angles (rad)")
    bar = figure.colorbar(image, ax=grid[1].tolist(), pad=0.01, aspect=12)
    bar.set_ticks([-np.pi, 0.0, np.pi], labels=["-π", "0", "π"])
    return figure


def _numbers(metrics: GaitMetrics) -> str:
    parts = [f"{metrics.mean_speed:.2f} m/s"]
    if np.isfinite(metrics.stride_frequency):
        parts += [f"{metrics.stride_frequency:.2f} Hz", f"regularity {metrics.regularity:.2f}"]
    if np.isfinite(metrics.mean_phase_coherence):
        parts.append(f"coherence {metrics.mean_phase_coherence:.2f}")
    return ", ".join(parts)


def _draw_contact(axes: "Axes", gait: Gait, metrics: GaitMetrics, start: float) -> None:
    colours = list(COLOURS.values())
    names = []
    for place, limb in enumerate(metrics.feet):
        edges = np.diff(np.concatenate([[0], gait.contact[:, limb].astype(np.int64), [0]]))
        begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
        bars = [
            (start + first * gait.control_dt, (last - first) * gait.control_dt)
            for first, last in zip(begins.tolist(), ends.tolist(), strict=True)
        ]
        axes.broken_barh(bars, (place - 0.36, 0.72), color=colours[limb % len(colours)], lw=0)
        names.append(f"{gait.limbs[limb]}  {metrics.duty_factors[limb]:.0%}")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="x", labelbottom=False)
    if not names:
        axes.text(0.5, 0.5, "never", transform=axes.transAxes, ha="center", color=_INK)


def _draw_phases(axes: "Axes", gait: Gait, start: float, stop: float) -> Any:
    # Phases need the whole motion: those of a few seconds alone are wrong near the ends.
    phases = gait.part(start).phases[: gait.part(start, stop).length]
    image = axes.imshow(
        phases.T,
        aspect="auto",
        cmap="twilight",
        vmin=-np.pi,
        vmax=np.pi,
        interpolation="nearest",
        extent=(start, start + len(phases) * gait.control_dt, len(gait.joints) - 0.5, -0.5),
    )
    axes.set_yticks(range(len(gait.joints)), gait.joints)
    axes.grid(visible=False)
    axes.tick_params(axis="x", labelbottom=False)
    return image


def _draw_angles(axes: "Axes", gait: Gait, start: float) -> None:
    time = start + (np.arange(gait.length) + 1) * gait.control_dt
    order = np.argsort(-gait.angles.std(axis=0), kind="stable")
    for joint in order[_MAX_LINES:].tolist():
        axes.plot(time, gait.angles[:, joint], color=_FAINT, linewidth=0.7, zorder=1)
    for joint, colour in zip(order[:_MAX_LINES].tolist(), COLOURS.values(), strict=False):
        name = gait.joints[joint]
        axes.plot(time, gait.angles[:, joint], color=colour, linewidth=1.3, label=name, zorder=2)
    axes.legend(ncols=3, fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.32), frameon=False)
