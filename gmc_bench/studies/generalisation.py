"""Growth of scores on unseen bodies with the number of train bodies: lines, and where they cross.

A method's score on the unseen bodies is fitted as a straight line in log10 of the number of train
bodies, over runs; each run trains on other bodies where the set has enough. Whether a line fits is
tested against the variance over runs at equal numbers.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gmc_bench.core.table import Table
from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.statistics import CONFIDENCE
from gmc_bench.records.drawing import COLOURS
from gmc_bench.studies import outcome as read
from gmc_bench.studies.outcome import SCORES, Number, Outcome
from gmc_bench.studies.panels import draw_panels
from gmc_bench.studies.schema import Study
from gmc_bench.studies.straight_line import StraightLine, fit_straight_line
from gmc_bench.studies.table import NONE, cell_text, count_runs, env_steps_text, why_none
from gmc_bench.suites.schema import short_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

METHOD, COUNT = "Method", "Train bodies"
"""Parts of a variant."""
RESAMPLES = 2_000
_PANEL_INCHES = (4.4, 3.4)


@dataclass(frozen=True, eq=False)
class MethodRuns:
    """The runs of one method on one task, all of which are finished."""

    counts: DoubleArray
    """(R,), train bodies of each run."""
    scores: DoubleArray
    """(R,)."""


@dataclass(frozen=True)
class FittedLine:
    """score = level + slope log10(train bodies)."""

    level: float
    """At one train body."""
    slope: float
    """Gain for ten times as many bodies."""
    low: float | None
    """Of the slope's 95 % interval over runs; `None`, as `high`, with fewer than three runs."""
    high: float | None
    p_bent: float | None
    """p-value of the test for lack of fit; `None` where it cannot be done."""

    def at(self, count: float) -> float:
        """Return the score at a number of train bodies."""
        return self.level + self.slope * float(np.log10(count))


@dataclass(frozen=True)
class Crossing:
    """Where the lines of two methods meet."""

    count: float | None
    """Train bodies, inside the range that both methods have; `None` where they meet elsewhere."""
    low: float | None
    """Of the 95 % interval; `None`, as `high`, unless 95 % of the resamples cross inside."""
    high: float | None
    share: float | None
    """Of the resamples, those that cross inside; `None` where a method has a single run at some
    number of bodies, which says nothing about the variance over runs."""


def fit_line(series: MethodRuns) -> FittedLine | None:
    """Fit a line by least squares over runs, and test it for lack of fit.

    The interval of the slope is Student's, with the residual variance of the line. The F test for
    lack of fit compares the mean square of the means about the line with that of the runs about
    their means (pure error).

    Returns:
        `None` with fewer than two numbers of bodies.

    Source:
        Draper and Smith 1998, Applied regression analysis, on pure error and lack of fit.
    """
    y = series.scores
    groups = [y[series.counts == count] for count in np.unique(series.counts)]
    if len(groups) < 2:
        return None
    line = _line(series)
    low, high = line.slope_interval or (None, None)
    pure = float(sum(((group - group.mean()) ** 2).sum() for group in groups))
    p_bent, more = None, len(groups) - 2
    if more > 0 and len(y) > len(groups) and pure > 0.0:
        from scipy.stats import f

        within = pure / (len(y) - len(groups))
        bend = max(line.residual_squares - pure, 0.0) / more
        p_bent = float(f.sf(bend / within, more, len(y) - len(groups)))
    return FittedLine(line.intercept, line.slope, low, high, p_bent)


def crossing(first: MethodRuns, second: MethodRuns) -> Crossing | None:
    """Return where two lines meet, with an interval over runs.

    The interval is that of a bootstrap that draws, for each method and number of bodies on its
    own, one run less than there are (Rao and Wu 1988).

    Returns:
        `None` where a line cannot be fitted.
    """
    if any(len(np.unique(s.counts)) < 2 for s in (first, second)):
        return None
    ends = (
        max(s.counts.min() for s in (first, second)),
        min(s.counts.max() for s in (first, second)),
    )
    inside = np.log10(ends[0]), np.log10(ends[1])
    where = _meet(_line(first), _line(second))
    here = where if where is not None and inside[0] <= where <= inside[1] else None
    count = None if here is None else float(10**here)
    if any(np.unique(s.counts, return_counts=True)[1].min() < 2 for s in (first, second)):
        return Crossing(count, None, None, None)
    random = np.random.default_rng(0)
    found = [
        place
        for _ in range(RESAMPLES)
        if (place := _meet(*(_line(_resampled(s, random)) for s in (first, second)))) is not None
        and inside[0] <= place <= inside[1]
    ]
    share = len(found) / RESAMPLES
    tail = (1.0 - CONFIDENCE) / 2.0
    low = high = None
    if count is not None and share >= CONFIDENCE:
        low, high = (float(10**end) for end in np.quantile(found, [tail, 1.0 - tail]))
    return Crossing(count, low, high, share)


def _line(series: MethodRuns) -> StraightLine:
    return fit_straight_line(np.log10(series.counts), series.scores)


def _meet(first: StraightLine, second: StraightLine) -> float | None:
    """Return log10 of where two lines meet; `None` for parallel ones."""
    steeper = first.slope - second.slope
    return None if steeper == 0.0 else (second.intercept - first.intercept) / steeper


def _resampled(series: MethodRuns, random: np.random.Generator) -> MethodRuns:
    counts, scores = [], []
    for count in np.unique(series.counts):
        runs = series.scores[series.counts == count]
        drawn = runs[random.integers(len(runs), size=len(runs) - 1)]
        counts += [count] * len(drawn)
        scores += list(drawn)
    return MethodRuns(np.array(counts, np.float64), np.array(scores, np.float64))


def growth_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per task and method: its line, and whether it is one."""
    headings = (
        "Task", METHOD, "Runs", "Gain for ten times the bodies", "95 % interval", "At the fewest",
        "At the most", "A line fits",
    )  # fmt: skip
    rows = []
    for task, method in _places(outcomes):
        runs = _of(outcomes, task, method)
        series = _series(runs)
        line = None if series is None else fit_line(series)
        if series is None or line is None:
            rows.append((task, method, count_runs(runs), *[why_none(runs)] * 5))
            continue
        span = NONE if line.low is None else f"{line.low:+z,.1f} to {line.high:+z,.1f}"
        bent = NONE if line.p_bent is None else f"{_verdict(line.p_bent)} (p = {line.p_bent:.2f})"
        ends = [f"{line.at(count):z,.1f}" for count in (series.counts.min(), series.counts.max())]
        rows.append((task, method, count_runs(runs), f"{line.slope:+z,.1f}", span, *ends, bent))
    return Table(headings, rows, study.title, _notes(study))


def _verdict(p_bent: float) -> str:
    return "yes" if p_bent > 1.0 - CONFIDENCE else "no"


def score_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per task, method and number of bodies: returns, scores, and their gap."""
    headings = (
        "Task", METHOD, COUNT, "Env steps", "Runs", *(name for name, _ in SCORES), "Train - test",
    )  # fmt: skip
    rows = []
    for task, method in _places(outcomes):
        for count in _counts(outcomes):
            runs = [o for o in _of(outcomes, task, method) if o.arm.parts[COUNT] == count]
            rows.append(
                (
                    task, method, count,
                    env_steps_text(runs),
                    count_runs(runs), *(cell_text(runs, number, 1) for _, number in SCORES),
                    cell_text(runs, _gap, 1),
                )
            )  # fmt: skip
    return Table(headings, rows, f"{study.title}: scores", _notes(study))


def crossing_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per task and pair of methods: where their lines cross."""
    headings = ("Task", "Methods", "Cross at", "95 % interval", "Resamples that cross")
    rows = []
    for task in dict.fromkeys(task for task, _ in _places(outcomes)):
        methods = [method for where, method in _places(outcomes) if where == task]
        for one, other in itertools.combinations(methods, 2):
            runs = [_of(outcomes, task, method) for method in (one, other)]
            sides = [_series(of_one) for of_one in runs]
            names = f"{one}, {other}"
            if sides[0] is None or sides[1] is None:
                rows.append((task, names, *[why_none([*runs[0], *runs[1]])] * 3))
                continue
            found = crossing(sides[0], sides[1])
            if found is None:
                rows.append((task, names, NONE, NONE, NONE))
                continue
            at = "not among these numbers" if found.count is None else f"{found.count:,.0f}"
            span = NONE if found.low is None else f"{found.low:,.0f} to {found.high:,.0f}"
            share = NONE if found.share is None else f"{100.0 * found.share:.0f} %"
            rows.append((task, names, at, span, share))
    return Table(headings, rows, f"{study.title}: crossing points", _notes(study))


def draw_growth(study: Study, outcomes: Sequence[Outcome]) -> bytes:
    """Draw scores on unseen and on train bodies, a dot per run and a line per method."""
    tasks = list(dict.fromkeys(task for task, _ in _places(outcomes)))
    panels = [(task, label, number) for task in tasks for label, number in reversed(SCORES[1:])]

    def draw(axes: "Axes", panel: tuple[str, str, Number]) -> None:
        task, label, number = panel
        methods = [method for where, method in _places(outcomes) if where == task]
        for method, colour in zip(methods, itertools.cycle(COLOURS.values()), strict=False):
            runs = _of(outcomes, task, method)
            dots = [(_count(run), number(run)) for run in runs if number(run) is not None]
            if dots:
                axes.plot(*zip(*dots, strict=True), "o", color=colour, markersize=3.5, alpha=0.6)
            series = _series(runs, number)
            line = None if series is None else fit_line(series)
            if series is not None and line is not None:
                ends = [float(series.counts.min()), float(series.counts.max())]
                heights = [line.at(count) for count in ends]
                axes.plot(ends, heights, color=colour, linewidth=1.4, label=method)
        axes.set(title=f"{short_name(task)}: {label}", xlabel=COUNT, xscale="log")
        counts = sorted({_count(run) for run in outcomes if run.task == task})
        # Powers of ten would be set as mathematics.
        axes.set_xticks(counts, [f"{count:,.0f}" for count in counts])
        axes.minorticks_off()
        axes.set_ylabel("Mean return")
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)

    return draw_panels(
        panels,
        draw,
        inches=_PANEL_INCHES,
        columns=2,
        title=study.title,
    )


def _places(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((item.task, item.arm.parts[METHOD]) for item in outcomes))


def _counts(outcomes: Sequence[Outcome]) -> list[str]:
    return list(dict.fromkeys(item.arm.parts[COUNT] for item in outcomes))


def _count(outcome: Outcome) -> float:
    return float(outcome.arm.parts[COUNT].replace(",", ""))


def _of(outcomes: Sequence[Outcome], task: str, method: str) -> list[Outcome]:
    return [item for item in outcomes if (item.task, item.arm.parts[METHOD]) == (task, method)]


def _series(runs: Sequence[Outcome], number: Number = read.test_score) -> MethodRuns | None:
    """Return the runs of a method; `None` where one of them lacks the number."""
    values = [number(run) for run in runs]
    there = [value for value in values if value is not None]
    if not values or len(there) < len(values):
        return None
    return MethodRuns(np.array([_count(run) for run in runs]), np.array(there, np.float64))


def _gap(outcome: Outcome) -> float | None:
    train, test = read.train_score(outcome), read.test_score(outcome)
    return None if train is None or test is None else train - test


def _notes(study: Study) -> tuple[str, ...]:
    return (
        f"{study.question} {study.source}",
        "Mean ± sample standard deviation over runs, which differ in their seed and, where the set "
        "has enough, in the bodies that they train on. Scores are those of mean actions; the test "
        "bodies are the same for all runs.",
        "Lines: least squares of the test score over log10 of the train bodies. 'A line fits' "
        "unless the means at equal numbers lie off it by more than runs scatter (F test, 5 %); "
        "where it does not, the slope is an average over a bent curve. Crossing points are those "
        "of the lines, with an interval where nearly all resamples of runs cross between the "
        "fewest and the most bodies.",
    )
