"""Pictures of a study's table, as PNG files; the same outcomes always give the same bytes."""

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from gmc_bench.records.drawing import COLOURS
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.studies import outcome as read
from gmc_bench.studies.friction_table import METRICS, friction_number
from gmc_bench.studies.outcome import Number, Outcome, learning_curve_of, runs_of, summarize
from gmc_bench.studies.panels import draw_panels
from gmc_bench.studies.schema import Study
from gmc_bench.studies.table import PROBES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_PANEL_INCHES = (5.6, 3.8)
_MAX_COLUMNS = 3


def draw_curves(study: Study, outcomes: Sequence[Outcome]) -> bytes:
    """Draw learning curves, a panel per task and a line per arm, mean and 95 % interval."""
    tasks = list(dict.fromkeys(outcome.task for outcome in outcomes))

    def draw(axes: "Axes", task: str) -> None:
        for arm, colour in zip(study.arms, cycle(COLOURS.values()), strict=False):
            curve = learning_curve_of(runs_of(outcomes, task, arm))
            if curve is None:
                continue
            axes.plot(curve.env_steps, curve.mean, color=colour, label=arm.label, linewidth=1.6)
            if curve.low is not None and curve.high is not None:
                axes.fill_between(curve.env_steps, curve.low, curve.high, color=colour, alpha=0.15)
        axes.set(title=task, xlabel="Env steps", ylabel="Training return")
        if axes.lines:
            axes.legend(frameon=False)

    return _panels(study.title, tasks, draw)


def draw_siblings(study: Study, outcomes: Sequence[Outcome]) -> bytes:
    """Draw canonical, permuted and worst-decile returns of every arm, a panel per task."""
    names = (("canonical", "canonical"), ("permuted", "permuted"), ("tail", "worst decile"))
    groups = [(label, read.measured(name)) for name, label in names]

    def draw(axes: "Axes", task: str) -> None:
        here = [item for item in outcomes if item.task == task]
        arms = [
            (arm.parts["Trained on"], [item for item in here if item.arm.name == arm.name])
            for arm in study.arms
        ]
        _bars(axes, arms, groups)
        axes.set(title=task, ylabel="Return")

    return _panels(study.title, list(dict.fromkeys(item.task for item in outcomes)), draw)


def draw_probes(study: Study, outcomes: Sequence[Outcome]) -> bytes:
    """Draw every probe before and after communication, a panel per probe."""

    def draw(axes: "Axes", label: str) -> None:
        name, factor = next((item[1], item[4]) for item in PROBES if item[0] == label)
        stages = [
            (stage, read.measured(f"{name}_{stage}", factor)) for stage in ("before", "after")
        ]
        tasks = list(dict.fromkeys(item.task for item in outcomes))
        _bars(axes, [(t, [i for i in outcomes if i.task == t]) for t in tasks], stages)
        axes.set(title=label)

    return _panels(study.title, [probe[0] for probe in PROBES], draw)


def draw_friction(study: Study, outcomes: Sequence[Outcome]) -> bytes:
    """Draw every metric on the three frictions, a panel per metric and a bar per method."""
    methods = list(dict.fromkeys(outcome.arm.label for outcome in outcomes))
    arms = [(name, [run for run in outcomes if run.arm.label == name]) for name in methods]

    def draw(axes: "Axes", heading: str) -> None:
        name = next(item[1] for item in METRICS if item[0] == heading)
        groups = [(f"{label} friction", friction_number(label, name)) for label in FRICTION_PAIRS]
        _bars(axes, arms, groups)
        axes.set(title=heading)

    return _panels(study.title, [metric[0] for metric in METRICS], draw, columns=2)


def _bars(
    axes: "Axes",
    arms: Sequence[tuple[str, Sequence[Outcome]]],
    groups: Sequence[tuple[str, Number]],
) -> None:
    """Draw a bar per arm in every group: the mean over runs, with a dot per run."""
    width = 0.8 / max(len(arms), 1)
    for index, ((label, runs), colour) in enumerate(
        zip(arms, cycle(COLOURS.values()), strict=False)
    ):
        places = np.arange(len(groups)) + (index - (len(arms) - 1) / 2) * width
        means = [summarize(runs, number) for _, number in groups]
        heights = [found.mean if found else 0.0 for found in means]
        axes.bar(places, heights, width * 0.92, color=colour, alpha=0.6, label=label)
        for place, (_, number) in zip(places, groups, strict=True):
            dots = [value for run in runs if (value := number(run)) is not None]
            axes.plot([place] * len(dots), dots, "o", color=colour, markersize=4)
    axes.set_xticks(range(len(groups)), [name for name, _ in groups])
    axes.axhline(0.0, color="#4D4D4D", linewidth=0.8)
    axes.legend(frameon=False)


def _panels(
    title: str,
    names: Sequence[str],
    draw: Callable[["Axes", str], None],
    *,
    columns: int = _MAX_COLUMNS,
) -> bytes:
    return draw_panels(
        names,
        draw,
        inches=_PANEL_INCHES,
        columns=columns,
        title=title,
    )
