"""Everything the tables, figures and pages say about one table beyond plain means.

Only complete rows are analysed. A statistic never averages over what is missing: a row with a
missing seed, body or metric has no entry here.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gmc_bench.core.errors import RecordError
from gmc_bench.core.types import BoolArray, DoubleArray, IntArray
from gmc_bench.leaderboard.aggregate import ComparisonTable, Row, Spread
from gmc_bench.leaderboard.comparison import (
    compare_means,
    letter_groups,
    probability_of_improvement,
    significant_pairs,
)
from gmc_bench.leaderboard.learning_curve import Curve, common_curves, curve_area, mean_curve
from gmc_bench.leaderboard.references import Scale, find_scale
from gmc_bench.leaderboard.stability import Ranking, rank_stability
from gmc_bench.leaderboard.statistics import (
    CrossedEstimate,
    Estimate,
    crossed_mean,
    exp_or_infinity,
    iqm,
    mean,
    mean_over_subsets,
    median,
    performance_profile,
    run_interval,
    worst_decile,
)
from gmc_bench.records.kinship import content_means, geometry_clusters, scored
from gmc_bench.records.schema import Mode, Split
from gmc_bench.records.store import StoredRecord
from gmc_bench.records.units import metres_per_return

__all__ = [
    "REFERENCE_METHOD",
    "Comparison",
    "CrossedEstimate",
    "Curve",
    "Estimate",
    "RowAnalysis",
    "TableAnalysis",
    "analyse",
    "analyse_row",
]

REFERENCE_METHOD = "mlp"
"""Preferred single-robot reference: a plain network per body."""
REPEATED_LOOKS_FACTOR = 2.5
"""Factor on p-values of pairs with extra seeds: whoever adds runs until a difference is significant
tests it repeatedly, as in an interim analysis."""
PROFILE_POINTS = 201
_PROFILE_MARGIN = 0.02  # of the range, so that every profile starts at 1 and ends at 0


@dataclass(frozen=True, eq=False)
class RowAnalysis:
    """One complete row; every interval but those of `crossed` is over runs."""

    row: Row
    seeds: tuple[int, ...]
    """(R,), rows of the score matrices."""
    bodies: tuple[str, ...]
    """(B,), zero-shot test bodies by name: columns of `scores`. Bodies of equal content are one,
    named after the first. A single-robot reference, which has none, has its train bodies here, and
    all that follows is about them."""
    clusters: IntArray
    """(B,), labels of clusters: equal for bodies of one geometry, which are not independent."""
    scores: DoubleArray
    """(R, B), mean return over the deterministic episodes of a body."""
    sampled: DoubleArray | None
    """(R, B), the same with sampled actions; `None` where a run has none."""
    train_bodies: tuple[str, ...]
    """(M,), by name."""
    crossed: CrossedEstimate
    """Mean with intervals over runs and, of test bodies, over bodies and over both."""
    median: Estimate
    """Median over bodies of the mean over runs."""
    iqm: Estimate
    """Interquartile mean of all R * B scores."""
    worst_decile: Estimate
    """Mean over the tenth of bodies with the lowest mean over runs."""
    curve_area: Estimate | None
    """Area under the learning curve / env steps it covers, in units of the return; `None` when
    the runs have less than two points in common."""
    curve: Curve | None
    """`None` when the runs have no point in common."""
    group: str
    """Letters; rows that share one do not differ significantly over seeds and bodies. Empty for a
    reference."""
    group_here: str
    """The same over seeds on these bodies."""

    @property
    def mean(self) -> Estimate:
        """Mean of `scores` with the interval over runs."""
        return self.crossed.runs

    @property
    def num_extra_seeds(self) -> int:
        """Seeds beyond those that the protocol asks for; 0 where it leaves them open."""
        asked = self.row.runs[0].record.protocol_seeds
        return max(0, len(self.seeds) - len(asked)) if asked else 0


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two rows of a table."""

    first: int
    """Index into `TableAnalysis.rows`; less than `second`, so the first row ranks better."""
    second: int
    difference: float
    """Mean score of the first minus that of the second."""
    contrast: CrossedEstimate
    """What is tested: the same difference or that of the logarithms. Its intervals are not
    corrected for the number of pairs; there is none over bodies where these are not sampled."""
    of_logarithms: bool
    """Whether it is that of the logarithms, as of two clearly positive means."""
    probability_of_improvement: Estimate
    """That a run of the first beats a run of the second on a body."""
    p_runs: float | None
    """Two-sided p-value over other seeds, corrected for repeated looks by `REPEATED_LOOKS_FACTOR`,
    not for the number of pairs; `None` where there is no test."""
    p_both: float | None
    """The same over other seeds and bodies."""
    significant_here: bool
    """The means differ significantly over seeds on these bodies, corrected for all pairs of the
    table."""
    significant: bool
    """They differ significantly over seeds and bodies; where bodies are not sampled, as
    `significant_here`."""

    @property
    def ratio(self) -> CrossedEstimate | None:
        """Mean score of the first / that of the second, with the intervals of `contrast`.

        `None` where the means are compared by their difference.
        """
        return self.contrast.transformed(exp_or_infinity) if self.of_logarithms else None


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
    stability: tuple[Ranking, ...] = ()
    """Rankings of the rows by several statistics; the first is the table's own."""
    before_tuning: "TableAnalysis | None" = None
    """The same of all complete rows with the values before tuning; `None` where no tuned row has
    replaced one."""

    @property
    def metres_per_return(self) -> float | None:
        """Metres per unit of return; `None` where it is no distance."""
        runs = [run for row in (*self.table.rows, *self.table.references) for run in row.runs]
        return metres_per_return(runs[0].record) if runs else None

    @property
    def bodies_are_sampled(self) -> bool:
        """Whether bodies are a random factor, a sample that stands for other bodies of its kind.

        If not, they are fixed: there are no intervals over bodies, and `group` is `group_here`.
        """
        return _bodies_are_sampled(self.rows)


def analyse(table: ComparisonTable) -> TableAnalysis:
    """Compute all statistics of a table; equal tables give equal numbers.

    Args:
        table: comparable rows.

    Returns:
        The analysis; without complete rows it has none.

    Raises:
        RecordError: records of one table were evaluated on different bodies.
    """
    reference = _reference(table.references)
    rows = [
        analyse_row(row) for row in table.rows if not row.missing and row.test_score is not None
    ]
    _require_equal_bodies([*rows, *([reference] if reference else [])])
    _require_equal_contents(table)
    comparisons = _compare(rows)
    groups = [
        letter_groups(_significance_matrix(len(rows), comparisons, here=here))
        for here in (False, True)
    ]
    lettered = tuple(
        replace(row, group=group, group_here=here)
        for row, group, here in zip(rows, *groups, strict=True)
    )
    thresholds = _thresholds([row.scores for row in rows])
    profiles = [performance_profile(row.scores, thresholds) for row in rows]
    return TableAnalysis(
        table=table,
        rows=lettered,
        comparisons=comparisons,
        profile_scores=thresholds,
        profiles=np.stack(profiles) if profiles else np.empty((0, PROFILE_POINTS)),
        reference=reference,
        scale=find_scale(reference.row, table.untrained) if reference else None,
        stability=rank_stability(_statistics(lettered)),
        before_tuning=analyse(table.with_protocol_values)
        if any(not row.missing for row in table.before_tuning)
        else None,
    )


def _statistics(rows: Sequence[RowAnalysis]) -> dict[str, list[float | None]]:
    """Return by name every statistic that could rank the rows; the first one does.

    The expectation of the median and of the worst decile depends on the number of runs, because
    both are computed from bodies' means over runs. So all rows take as many runs as the row with
    the fewest.
    """
    num_runs = min((len(row.scores) for row in rows), default=0)

    def of(number: Callable[[RowAnalysis], float | None]) -> list[float | None]:
        return [number(row) for row in rows]

    return {
        "Mean": of(lambda row: row.crossed.value),
        "Median": of(lambda row: mean_over_subsets(row.scores, num_runs, median)),
        "IQM": of(lambda row: row.iqm.value),
        "Worst decile": of(lambda row: mean_over_subsets(row.scores, num_runs, worst_decile)),
        "Sampled actions": of(lambda row: None if row.sampled is None else mean(row.sampled)),
        "Train score": of(lambda row: _mean_of(row.row.train_score)),
        "Training return": of(lambda row: _mean_of(row.row.training_return)),
    }


def _mean_of(spread: Spread | None) -> float | None:
    return None if spread is None else spread.mean


def _reference(candidates: Iterable[Row]) -> RowAnalysis | None:
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
    return analyse_row(ordered[0]) if ordered else None


def analyse_row(row: Row) -> RowAnalysis:
    """Compute the statistics of one row's runs, whether seeds are missing or not.

    Args:
        row: whose runs have scores on all bodies.

    Raises:
        RecordError: its records were evaluated on different bodies.
    """
    train_bodies, scores = _score_matrix(row.runs, "train")
    bodies = train_bodies
    if row.split == "test":
        bodies, scores = _score_matrix(row.runs, "test")
    clusters = _clusters(row.runs[0], row.split)
    sampled_bodies, sampled = _score_matrix(row.runs, row.split, "stochastic")
    steps, curves = common_curves([item.record.learning_curve for item in row.runs])
    crossed = crossed_mean(scores, clusters)
    return RowAnalysis(
        row=row,
        seeds=row.seeds,
        bodies=bodies,
        clusters=clusters,
        scores=scores,
        sampled=sampled if sampled_bodies == bodies else None,
        train_bodies=train_bodies,
        # Train bodies are a fixed factor: they were not sampled to stand for others.
        crossed=crossed if row.split == "test" else crossed.with_fixed_bodies(),
        median=run_interval(scores, median),
        iqm=run_interval(scores, iqm),
        worst_decile=run_interval(scores, worst_decile),
        curve_area=curve_area(steps, curves),
        curve=mean_curve(steps, curves),
        group="",
        group_here="",
    )


def _clusters(run: StoredRecord, split: Split) -> IntArray:
    """Return cluster labels (B,), equal for bodies of one geometry; all differ if unknown."""
    return geometry_clusters(scored(run.record.returns, split))


def _score_matrix(
    runs: Sequence[StoredRecord], split: Split, mode: Mode = "deterministic"
) -> tuple[tuple[str, ...], DoubleArray]:
    """Return bodies by name and scores (R, bodies), without test bodies that were trained on.

    Bodies of equal content are one, named after the first, with the mean of their scores.
    """
    found = [content_means(scored(run.record.returns, split, mode)) for run in runs]
    bodies = tuple(found[0])
    for run, scores in zip(runs, found, strict=True):
        if scores.keys() != found[0].keys():
            if mode == "stochastic":  # it ranks nothing and may be missing
                return (), np.empty((len(runs), 0))
            raise _other_bodies(run, runs[0], split)
    return bodies, np.array([[scores[body] for body in bodies] for scores in found])


def _require_equal_bodies(rows: Sequence[RowAnalysis]) -> None:
    for row in rows:
        if row.train_bodies != rows[0].train_bodies:
            raise _other_bodies(row.row.runs[0], rows[0].row.runs[0], "train")
        if row.row.controller == "shared" and row.bodies != rows[0].bodies:
            raise _other_bodies(row.row.runs[0], rows[0].row.runs[0], "test")


def _require_equal_contents(table: ComparisonTable) -> None:
    """Raise where a body of one name is another one in some run: returns are paired by name."""
    seen: dict[tuple[Split, str], tuple[str, StoredRecord]] = {}
    for row in (*table.rows, *table.references, *table.untrained):
        for run in row.runs:
            for item in run.record.returns:
                place = (item.split, item.body)
                digest, first = seen.setdefault(place, (item.body_digest, run))
                if digest != item.body_digest:
                    raise _other_bodies(run, first, item.split)


def _other_bodies(run: StoredRecord, other: StoredRecord, split: Split) -> RecordError:
    return RecordError(
        f"{run.path} and {other.path} list different {split} bodies, but name the same body set "
        f"{run.record.morphologies.id}; remove the one that was not made with this set"
    )


def _compare(rows: Sequence[RowAnalysis]) -> tuple[Comparison, ...]:
    """Return all pairs."""
    if not rows:
        return ()
    found = compare_means([row.scores for row in rows], rows[0].clusters)
    extra = [row.num_extra_seeds > 0 for row in rows]

    def corrected(pair: tuple[int, int], p: float | None) -> float | None:
        """Return a p-value corrected for repeated looks at a pair with extra seeds."""
        repeated = extra[pair[0]] or extra[pair[1]]
        return min(1.0, REPEATED_LOOKS_FACTOR * p) if repeated and p is not None else p

    p_runs = {pair: corrected(pair, item.p_runs) for pair, item in found.items()}
    here = significant_pairs(p_runs)
    bodies_are_sampled = _bodies_are_sampled(rows)
    p_both = {
        pair: corrected(pair, item.p_both) if bodies_are_sampled else None
        for pair, item in found.items()
    }
    beyond = significant_pairs(p_both) if bodies_are_sampled else here
    return tuple(
        Comparison(
            first=i,
            second=j,
            difference=rows[i].crossed.value - rows[j].crossed.value,
            contrast=item.contrast if bodies_are_sampled else item.contrast.with_fixed_bodies(),
            of_logarithms=item.of_logarithms,
            probability_of_improvement=probability_of_improvement(rows[i].scores, rows[j].scores),
            p_runs=p_runs[i, j],
            p_both=p_both[i, j],
            significant_here=(i, j) in here,
            significant=(i, j) in beyond,
        )
        for (i, j), item in found.items()
    )


def _bodies_are_sampled(rows: Sequence[RowAnalysis]) -> bool:
    return any(row.crossed.bodies.low is not None for row in rows)


def _significance_matrix(count: int, comparisons: Sequence[Comparison], *, here: bool) -> BoolArray:
    """Return (N, N) which rows differ significantly, on these bodies (`here`) or beyond them."""
    matrix = np.zeros((count, count), dtype=np.bool_)
    for pair in comparisons:
        differ = pair.significant_here if here else pair.significant
        matrix[pair.first, pair.second] = matrix[pair.second, pair.first] = differ
    return matrix


def _thresholds(scores: Sequence[DoubleArray]) -> DoubleArray:
    """Return (T,) thresholds that enclose all scores; from 0 to 1 without any score."""
    if not scores:
        return np.linspace(0.0, 1.0, PROFILE_POINTS)
    low, high = min(float(s.min()) for s in scores), max(float(s.max()) for s in scores)
    margin = _PROFILE_MARGIN * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, PROFILE_POINTS)
