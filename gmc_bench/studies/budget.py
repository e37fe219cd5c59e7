"""Agreement of the rankings of methods after trainings of several lengths."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gmc_bench.core.table import Table
from gmc_bench.core.types import DoubleArray, IntArray
from gmc_bench.leaderboard.statistics import CONFIDENCE
from gmc_bench.records.drawing import COLOURS
from gmc_bench.records.kinship import content_means, geometry_clusters, scored
from gmc_bench.records.schema import RunRecord, Split
from gmc_bench.studies import outcome as read
from gmc_bench.studies.outcome import SCORES, Outcome, learning_curve_of, runs_of, summarize
from gmc_bench.studies.panels import draw_panels
from gmc_bench.studies.schema import Arm, Study
from gmc_bench.studies.table import INCOMPLETE, NONE, cell_text, count_runs, env_steps_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESAMPLES = 2_000
_SPLITS: dict[str, Split] = {"Train score": "train", "Test score": "test"}
_PANEL_INCHES = (4.2, 3.2)
_COLUMNS = 4


@dataclass(frozen=True)
class Agreement:
    """How far two rankings of the same methods agree."""

    tau: float
    """Kendall's: share of the pairs in the same order, less the share in the other order."""
    low: float | None
    """Of the 95 % interval over seeds and bodies; `None`, as `high`, where nothing can vary."""
    high: float | None
    same: int
    """Pairs of methods in the same order."""
    pairs: int


def kendall(first: DoubleArray, second: DoubleArray) -> DoubleArray:
    """Return Kendall's tau of numbers (..., M) and (..., M) over the last dimension.

    A pair that is equal in either counts as neither in the same order nor in the other.

    Source:
        Kendall 1938, A new measure of rank correlation (tau-a).
    """
    rows, columns = np.triu_indices(first.shape[-1], 1)
    signs = np.sign(first[..., rows] - first[..., columns])
    found: DoubleArray = (signs * np.sign(second[..., rows] - second[..., columns])).mean(axis=-1)
    return found


def agreement(
    first: Sequence[DoubleArray],
    second: Sequence[DoubleArray],
    clusters: IntArray | None = None,
) -> Agreement:
    """Compare the rankings of methods at two budgets.

    The interval is that of a bootstrap that draws whole clusters of bodies, the same for all
    methods and both budgets, and, for every method and budget on its own, runs: R - 1 of R,
    because drawing R would make it too short (Rao and Wu 1988).

    Args:
        first: of each of M methods the scores (R, B) of its runs at one budget.
        second: the same at the other; B is that of `first`.
        clusters: (B,), the number of each body's cluster, from 0; `None` where bodies are a
            fixed factor.
    """
    means = [np.array([scores.mean() for scores in side]) for side in (first, second)]
    tau = float(kendall(*means))
    rows, columns = np.triu_indices(len(first), 1)
    same = np.sign(means[0][rows] - means[0][columns]) * np.sign(means[1][rows] - means[1][columns])
    counts = int((same > 0).sum()), len(rows)
    cells = [*first, *second]
    members = _members(first[0].shape[1], clusters)
    if members.shape[1] == 1 and all(len(scores) == 1 for scores in cells):  # nothing can vary
        return Agreement(tau, None, None, *counts)
    random = np.random.default_rng(0)  # the same interval each time
    num_bodies = members.sum(axis=0)
    drawn = random.integers(len(num_bodies), size=(RESAMPLES, 1, len(num_bodies)))
    found = []
    for scores in cells:
        runs = random.integers(len(scores), size=(RESAMPLES, max(len(scores) - 1, 1), 1))
        totals = (scores @ members)[runs, drawn].sum(axis=2).mean(axis=1)
        found.append(totals / num_bodies[drawn[:, 0]].sum(axis=1))
    sides = np.stack(found[: len(first)], axis=1), np.stack(found[len(first) :], axis=1)
    tail = (1.0 - CONFIDENCE) / 2.0
    low, high = np.quantile(kendall(*sides), [tail, 1.0 - tail])
    return Agreement(tau, float(low), float(high), *counts)


def _members(num_bodies: int, clusters: IntArray | None) -> DoubleArray:
    """Return which bodies are in which cluster, (B, G) of 0 and 1; fixed bodies are one cluster."""
    labels = np.zeros(num_bodies, np.int64) if clusters is None else clusters
    return np.eye(labels.max() + 1)[labels]


def score_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per task, method and budget: returns, scores, and the place among methods."""
    headings = (
        "Task", "Method", "Budget", "Env steps", "Runs", *(name for name, _ in SCORES),
        "Place by test score",
    )  # fmt: skip
    rows = []
    for task, arm in _variants(outcomes):
        runs = runs_of(outcomes, task, arm)
        rows.append(
            (
                task, arm.parts["Method"], arm.parts["Budget"],
                env_steps_text(runs),
                count_runs(runs), *(cell_text(runs, number, 1) for _, number in SCORES),
                _place(outcomes, task, arm),
            )
        )  # fmt: skip
    return Table(headings, rows, study.title, _notes(study))


def agreement_table(study: Study, outcomes: Sequence[Outcome]) -> Table:
    """Return a row per task, score and pair of budgets: Kendall's tau and its interval."""
    headings = ("Task", "Ranked by", "Budgets", "Kendall's tau", "95 % interval", "Same order")
    rows = []
    for task in dict.fromkeys(outcome.task for outcome in outcomes):
        budgets: dict[str, list[Arm]] = {}
        for where, arm in _variants(outcomes):
            if where == task:
                budgets.setdefault(arm.parts["Budget"], []).append(arm)
        sampled = {"Test score": _clusters(outcomes, task)}  # all else is of fixed bodies
        for label, _ in SCORES:
            for one, other in itertools.combinations(budgets, 2):
                first, second = (
                    [_scores(runs_of(outcomes, task, arm), label) for arm in budgets[budget]]
                    for budget in (one, other)
                )
                cells = _cells(first, second, sampled.get(label))
                rows.append((task, label, f"{one}, {other}", *cells))
    return Table(headings, rows, f"{study.title}: agreement of rankings", _notes(study))


def draw_budgets(study: Study, outcomes: Sequence[Outcome]) -> bytes:
    """Draw learning curves, a panel per task and method and a line per budget."""
    from matplotlib.ticker import EngFormatter

    methods: dict[tuple[str, str], list[Arm]] = {}
    for task, arm in _variants(outcomes):
        methods.setdefault((task, arm.parts["Method"]), []).append(arm)

    def draw(axes: "Axes", key: tuple[str, str]) -> None:
        ends = []
        for arm, colour in zip(methods[key], itertools.cycle(COLOURS.values()), strict=False):
            curve = learning_curve_of(runs_of(outcomes, key[0], arm))
            if curve is not None:
                label = arm.parts["Budget"]
                axes.plot(curve.env_steps, curve.mean, color=colour, label=label, linewidth=1.4)
                ends.append(curve.env_steps[-1])
        axes.set(title=" ".join(key), xlabel="Env steps", ylabel="Training return", xscale="log")
        # Powers of ten would be set as mathematics, and may be none of the steps drawn here.
        axes.set_xticks(sorted(set(ends)))
        axes.minorticks_off()
        axes.xaxis.set_major_formatter(EngFormatter(places=1, sep=""))
        if axes.lines:
            axes.legend(frameon=False)

    return draw_panels(
        list(methods),
        draw,
        inches=_PANEL_INCHES,
        columns=_COLUMNS,
        title=study.title,
    )


def _variants(outcomes: Sequence[Outcome]) -> list[tuple[str, Arm]]:
    """Return the tasks and variants that there are, once each, in order."""
    found = {(outcome.task, outcome.arm.name): outcome.arm for outcome in outcomes}
    return [(task, arm) for (task, _), arm in found.items()]


def _place(outcomes: Sequence[Outcome], task: str, arm: Arm) -> str:
    """Return the place of a variant among the methods of its budget, by test score."""
    beside = [
        other
        for where, other in _variants(outcomes)
        if where == task and other.parts["Budget"] == arm.parts["Budget"]
    ]
    found = {
        other.name: summarize(runs_of(outcomes, task, other), read.test_score) for other in beside
    }
    means = [summary.mean for summary in found.values() if summary is not None]
    own = found[arm.name]
    if own is None or len(means) < len(beside):
        return NONE
    return str(1 + sum(mean > own.mean for mean in means))


def _scores(runs: Sequence[Outcome], label: str) -> DoubleArray | None:
    """Return the scores (R, B) of the runs of a variant, bodies in one order."""
    records = [run.record for run in runs if run.record is not None]
    if len(records) < len(runs):
        return None
    number = dict(SCORES)[label]
    if any(number(run) is None for run in runs):
        return np.empty((len(runs), 0))
    if label not in _SPLITS:
        return np.array([[record.training_return] for record in records], np.float64)
    return np.array([_by_body(record, _SPLITS[label]) for record in records])


def _by_body(record: RunRecord, split: Split) -> list[float]:
    """Return what `RunRecord.score` averages: bodies by name, each content once."""
    return list(content_means(scored(record.returns, split)).values())


def _clusters(outcomes: Sequence[Outcome], task: str) -> IntArray | None:
    """Return the clusters of the test bodies that count, by geometry."""
    record = next(
        (item.record for item in outcomes if item.task == task and item.record is not None), None
    )
    if record is None:
        return None
    return geometry_clusters(scored(record.returns, "test"))


def _cells(
    first: Sequence[DoubleArray | None],
    second: Sequence[DoubleArray | None],
    clusters: IntArray | None,
) -> tuple[str, str, str]:
    """Return the cells of a comparison of two budgets, or why there are none."""
    there = [[scores for scores in side if scores is not None] for side in (first, second)]
    if any(len(side) < len(first) for side in there):
        return INCOMPLETE, INCOMPLETE, INCOMPLETE
    if len(first) < 2 or any(not scores.size for side in there for scores in side):
        return NONE, NONE, NONE
    found = agreement(there[0], there[1], clusters)
    span = NONE if found.low is None else f"{found.low:+z.2f} to {found.high:+z.2f}"
    return f"{found.tau:+z.2f}", span, f"{found.same} of {found.pairs} pairs"


def _notes(study: Study) -> tuple[str, ...]:
    return (
        f"{study.question} {study.source}",
        "Mean ± sample standard deviation over runs, which differ in their seed. Scores are those "
        "of mean actions; the test score counts bodies that were not trained on. Every budget is a "
        "training of its own, whose schedules end with it.",
        "Kendall's tau: pairs of methods in the same order less pairs in the other, as a share of "
        "all pairs; 1 if both budgets rank alike, 0 if they have nothing to do with each other. "
        "Intervals: bootstrap over seeds and, of the test score, over geometries of bodies; few "
        "methods make them wide.",
    )
