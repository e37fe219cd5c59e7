"""Everything the tables, figures and pages say about one table beyond plain means.

Only complete rows are analysed. A statistic never averages over what is missing: a row with a
missing seed, body or metric has no entry here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from gmc_bench.core.errors import RecordError
from gmc_bench.core.types import BoolArray, DoubleArray
from gmc_bench.leaderboard.aggregate import ComparisonTable, Row
from gmc_bench.leaderboard.bootstrap import RESAMPLES, stratified_estimates
from gmc_bench.leaderboard.comparison import (
    holm,
    letter_groups,
    mean_difference,
    probability_of_improvement,
)
from gmc_bench.leaderboard.learning_curve import Curve, common_curves, curve_area, mean_curve
from gmc_bench.leaderboard.references import Scale, find_scale
from gmc_bench.leaderboard.statistics import (
    Estimate,
    iqm,
    mean,
    median,
    performance_profile,
    run_interval,
    worst_decile,
)
from gmc_bench.records.schema import Split
from gmc_bench.records.store import StoredRecord

__all__ = [
    "REFERENCE_METHOD",
    "Comparison",
    "Curve",
    "Estimate",
    "RowAnalysis",
    "TableAnalysis",
    "analyse",
]

REFERENCE_METHOD = "mlp"
"""Preferred single-robot reference: a plain network per body."""
PROFILE_POINTS = 201
_PROFILE_MARGIN = 0.02  # of the range, so that every profile starts at 1 and ends at 0


@dataclass(frozen=True, eq=False)
class RowAnalysis:
    """One complete row; every interval but the `_bootstrap` ones is over runs."""

    row: Row
    seeds: tuple[int, ...]
    """(R,), rows of the score matrices."""
    bodies: tuple[str, ...]
    """(B,), zero-shot test bodies by name: columns of `scores`. A single-robot reference, which
    has none, has its train bodies here, and all that follows is about them."""
    scores: DoubleArray
    """(R, B), mean return over the deterministic episodes of a body."""
    train_bodies: tuple[str, ...]
    """(M,), by name."""
    train_scores: DoubleArray
    """(R, M)."""
    mean: Estimate
    median: Estimate
    """Median over bodies of the mean over runs."""
    iqm: Estimate
    """Interquartile mean of all R * B scores."""
    mean_bootstrap: Estimate
    """Interval from a bootstrap stratified by body, as published tables give it; too short where
    one policy drives all bodies. So are the next two."""
    median_bootstrap: Estimate
    iqm_bootstrap: Estimate
    worst_decile: Estimate
    """Mean over the tenth of bodies with the lowest mean over runs."""
    curve_area: Estimate | None
    """Area under the learning curve / env steps it covers, in units of the return; `None` when
    the runs have less than two points in common."""
    curve: Curve | None
    """`None` when the runs have no point in common."""
    group: str
    """Letters; rows that share one cannot be told apart. Empty for a reference."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two rows of a table."""

    first: int
    """Index into `TableAnalysis.rows`; less than `second`, so the first row ranks better."""
    second: int
    difference: Estimate
    """Mean score of the first minus the second. The interval is for this pair alone."""
    probability_of_improvement: Estimate
    """That a run of the first beats a run of the second on a body."""
    distinguishable: bool
    """The means differ, after Holm's correction over all pairs of the table."""


@dataclass(frozen=True, eq=False)
class TableAnalysis:
    """Statistics of one table."""

    table: ComparisonTable
    rows: tuple[RowAnalysis, ...]
    """Complete rows only, in the order of the table: best mean first."""
    comparisons: tuple[Comparison, ...]
    """All pairs, sorted by `first`, then `second`."""
    profile_scores: DoubleArray
    """(T,), thresholds in units of the score, equally spaced."""
    profiles: DoubleArray
    """(len(rows), T), share of a row's R * B scores above each threshold."""
    reference: RowAnalysis | None
    """The single-robot row that others are shown against."""
    scale: Scale | None = None
    """Between an untrained policy and the reference; `None` without either."""


def analyse(table: ComparisonTable, *, resamples: int = RESAMPLES) -> TableAnalysis:
    """Compute all statistics of a table; equal tables give equal numbers.

    Args:
        table: comparable rows.
        resamples: of the stratified bootstrap.

    Returns:
        The analysis; without complete rows it has none.

    Raises:
        RecordError: records of one table were evaluated on different bodies.
    """
    reference = _reference(table.references, resamples)
    rows = [
        _analyse_row(row, resamples)
        for row in table.rows
        if not row.missing and row.test_score is not None
    ]
    _require_equal_bodies([*rows, *([reference] if reference else [])])
    comparisons, distinguishable = _compare(rows)
    groups = letter_groups(distinguishable)
    thresholds = _thresholds([row.scores for row in rows])
    profiles = [performance_profile(row.scores, thresholds) for row in rows]
    return TableAnalysis(
        table=table,
        rows=tuple(replace(row, group=group) for row, group in zip(rows, groups, strict=True)),
        comparisons=comparisons,
        profile_scores=thresholds,
        profiles=np.stack(profiles) if profiles else np.empty((0, PROFILE_POINTS)),
        reference=reference,
        scale=find_scale(reference.row, table.untrained) if reference else None,
    )


def _reference(candidates: Iterable[Row], resamples: int) -> RowAnalysis | None:
    complete = (row for row in candidates if not row.missing and row.train_score is not None)
    # The key decides between two presets, not the score, which would favour lucky seeds; of two
    # versions of a method, the newer one counts.
    ordered = sorted(
        complete,
        key=lambda row: (
            row.key.method != REFERENCE_METHOD,
            row.key.method,
            -row.key.method_version,
            row.key,
        ),
    )
    return _analyse_row(ordered[0], resamples) if ordered else None


def _analyse_row(row: Row, resamples: int) -> RowAnalysis:
    train_bodies, train_scores = _score_matrix(row.runs, "train")
    bodies, scores = train_bodies, train_scores
    if row.split == "test":
        bodies, scores = _score_matrix(row.runs, "test")
    bootstrap = stratified_estimates(scores, resamples=resamples)
    steps, curves = common_curves([item.record.learning_curve for item in row.runs])
    return RowAnalysis(
        row=row,
        seeds=row.seeds,
        bodies=bodies,
        scores=scores,
        train_bodies=train_bodies,
        train_scores=train_scores,
        mean=run_interval(scores, mean),
        median=run_interval(scores, median),
        iqm=run_interval(scores, iqm),
        mean_bootstrap=bootstrap.mean,
        median_bootstrap=bootstrap.median,
        iqm_bootstrap=bootstrap.iqm,
        worst_decile=run_interval(scores, worst_decile),
        curve_area=curve_area(steps, curves),
        curve=mean_curve(steps, curves),
        group="",
    )


def _score_matrix(
    runs: Sequence[StoredRecord], split: Split
) -> tuple[tuple[str, ...], DoubleArray]:
    """Return bodies by name and scores (R, bodies), without test bodies that were trained on."""
    found = [
        {
            item.body: item.mean_return
            for item in run.record.returns
            if (item.split, item.mode) == (split, "deterministic")
            and (split == "train" or not item.seen_in_train)
        }
        for run in runs
    ]
    bodies = tuple(sorted(found[0]))
    for run, scores in zip(runs, found, strict=True):
        if scores.keys() != found[0].keys():
            raise _other_bodies(run, runs[0], split)
    return bodies, np.array([[scores[body] for body in bodies] for scores in found])


def _require_equal_bodies(rows: Sequence[RowAnalysis]) -> None:
    for row in rows:
        if row.train_bodies != rows[0].train_bodies:
            raise _other_bodies(row.row.runs[0], rows[0].row.runs[0], "train")
        if row.row.controller == "shared" and row.bodies != rows[0].bodies:
            raise _other_bodies(row.row.runs[0], rows[0].row.runs[0], "test")


def _other_bodies(run: StoredRecord, other: StoredRecord, split: Split) -> RecordError:
    return RecordError(
        f"{run.path} and {other.path} list different {split} bodies, but name the same body set "
        f"{run.record.morphologies.id}; remove the one that was not made with this set"
    )


def _compare(rows: Sequence[RowAnalysis]) -> tuple[tuple[Comparison, ...], BoolArray]:
    """Return all pairs, and (N, N) which rows can be told apart."""
    pairs = list(combinations(range(len(rows)), 2))
    differences = [mean_difference(rows[i].scores, rows[j].scores) for i, j in pairs]
    rejected = holm([item.p_value for item in differences])
    distinguishable = np.zeros((len(rows), len(rows)), dtype=np.bool_)
    comparisons = []
    for (i, j), item, differ in zip(pairs, differences, rejected, strict=True):
        distinguishable[i, j] = distinguishable[j, i] = differ
        chance = probability_of_improvement(rows[i].scores, rows[j].scores)
        comparisons.append(Comparison(i, j, item.estimate, chance, differ))
    return tuple(comparisons), distinguishable


def _thresholds(scores: Sequence[DoubleArray]) -> DoubleArray:
    """Return (T,) thresholds that enclose all scores; from 0 to 1 without any score."""
    if not scores:
        return np.linspace(0.0, 1.0, PROFILE_POINTS)
    low, high = min(float(s.min()) for s in scores), max(float(s.max()) for s in scores)
    margin = _PROFILE_MARGIN * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, PROFILE_POINTS)
