"""The most useful next run: what is missing first, then what may make a difference significant."""

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gmc_bench.leaderboard.aggregate import ComparisonKey, Row
from gmc_bench.leaderboard.analysis import (
    REPEATED_LOOKS_FACTOR,
    Comparison,
    RowAnalysis,
    TableAnalysis,
)
from gmc_bench.leaderboard.comparison import body_values, run_values
from gmc_bench.leaderboard.statistics import CONFIDENCE, body_variance
from gmc_bench.leaderboard.today import is_current, is_earlier, latest
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.seeds import further_seeds
from gmc_bench.suites import SUITES


@dataclass(frozen=True, slots=True)
class NextRun:
    """One run that is worth making."""

    table: str
    """What the table is about."""
    method: str
    seed: int
    why: str
    command: str


def next_runs(analyses: Iterable[TableAnalysis], methods: Sequence[str]) -> list[NextRun]:
    """Return for every table of today's rules the runs that are worth most.

    Where only an earlier protocol was measured, that is the first run of the new one. Else it is
    what the table lacks, first a seed of the row that lacks fewest, then a method without a row;
    and one more seed of the method that raises the expected number of significant pairs most. A
    row of a method's earlier version or settings gets no more runs: a new run would not join it.

    Args:
        analyses: tables; those of earlier protocols get no more runs.
        methods: ids of all methods that a table should have.
    """
    analyses = [analysis for analysis in analyses if analysis.table.rows]
    today = {item.table.key.title for item in analyses if not is_earlier(item.table)}
    found = []
    for analysis in analyses:
        if is_earlier(analysis.table):
            first = _first_run_of_new_protocol(analysis)
            if first.table not in today:
                today.add(first.table)
                found.append(first)
            continue
        lacking = _missing_seed(analysis) or _missing_method(analysis, methods)
        found += [run for run in (lacking, _most_useful_seed(analysis)) if run is not None]
    return found


def _first_run_of_new_protocol(analysis: TableAnalysis) -> NextRun:
    """Return the first run under today's rules where only earlier ones were measured."""
    key = latest(analysis.table.key)
    asked = SUITES.get(key.suite).protocol(key.protocol, key.task).seeds
    best = analysis.table.rows[0]
    return _run(key, best, asked[0], "no run yet under today's rules, only under earlier ones")


def _missing_seed(analysis: TableAnalysis) -> NextRun | None:
    rows = [row for row in analysis.table.rows if row.absent_seeds and is_current(row)]
    if not rows:
        return None
    row = min(rows, key=lambda row: (len(row.absent_seeds), row.key))
    there = f"{len(row.seeds)} of {len(row.seeds) + len(row.absent_seeds)} seeds are there"
    return _run(analysis.table.key, row, row.absent_seeds[0], f"incomplete: {there}")


def _missing_method(analysis: TableAnalysis, methods: Sequence[str]) -> NextRun | None:
    rows = (*analysis.table.rows, *analysis.table.references)
    there = {row.key.method for row in rows if is_current(row)}
    known = {row.key.method for row in rows}
    absent = [method for method in methods if method not in there]
    asked = _record(analysis).protocol_seeds
    if not absent or not asked:
        return None
    what = "no run with today's settings yet" if absent[0] in known else "no run yet"
    why = f"{what}, as of {len(absent)} of {len(methods)} methods"
    return _run(analysis.table.key, absent[0], asked[0], why)


def _most_useful_seed(analysis: TableAnalysis) -> NextRun | None:
    """Return the extra seed that raises the expected number of significant pairs most."""
    open_pairs = [pair for pair in analysis.comparisons if not pair.significant]
    gains: list[tuple[float, int, int]] = []
    for index, row in enumerate(analysis.rows):
        left = [seed for seed in _extra_seeds(row) if seed not in row.seeds]
        pairs = [pair for pair in open_pairs if index in (pair.first, pair.second)]
        if left and pairs and is_current(row.row):
            gain = math.fsum(
                _power(analysis, pair, len(open_pairs), index)
                - _power(analysis, pair, len(open_pairs), None)
                for pair in pairs
            )
            gains.append((gain, index, left[0]))
    if not gains:
        return None
    gain, index, seed = max(gains, key=lambda item: (item[0], -item[1]))
    pairs = [pair for pair in open_pairs if index in (pair.first, pair.second)]
    best = max(pairs, key=lambda pair: _power(analysis, pair, len(open_pairs), index))
    other = analysis.rows[best.second if best.first == index else best.first].row.key.method
    chosen = analysis.rows[index].row
    why = (
        f"{len(open_pairs)} of {len(analysis.comparisons)} pairs are not told apart; this seed "
        f"is expected to add {gain:.2f}, most likely {chosen.key.method} and {other}"
    )
    return _run(analysis.table.key, chosen, seed, why)


def _power(analysis: TableAnalysis, pair: Comparison, tests: int, extra: int | None) -> float:
    """Return the power of a pair's test if its true difference is the measured one.

    Args:
        analysis: the table.
        pair: two rows.
        tests: pairs not yet significant, which share the level (Bonferroni).
        extra: index of the row that gets one more run; `None` for the runs that there are.
    """
    from scipy.special import ndtr, ndtri

    variance = 0.0
    rows = [analysis.rows[index] for index in (pair.first, pair.second)]
    for index, row in zip((pair.first, pair.second), rows, strict=True):
        runs = run_values(row.scores, of_logarithms=pair.of_logarithms)
        if len(runs) < 2:
            return 0.0
        variance += float(runs.var(ddof=1)) / (len(runs) + (index == extra))
    if analysis.bodies_are_sampled:
        first, second = (
            body_values(row.scores, of_logarithms=pair.of_logarithms).mean(axis=0) for row in rows
        )
        over_bodies = body_variance(first - second, rows[0].clusters)
        variance += 0.0 if over_bodies is None else over_bodies.variance
    if variance == 0.0:
        return 1.0
    level = (1.0 - CONFIDENCE) / REPEATED_LOOKS_FACTOR / tests
    distance = abs(pair.contrast.value) / math.sqrt(variance)
    return float(ndtr(distance - float(ndtri(1.0 - level / 2.0))))


def _extra_seeds(row: RowAnalysis) -> tuple[int, ...]:
    """Return the seeds that may be added beyond those that the protocol asks for."""
    return further_seeds(row.row.runs[0].record.protocol_seeds)


def _record(analysis: TableAnalysis) -> RunRecord:
    return analysis.table.rows[0].runs[0].record


def _run(key: ComparisonKey, run_of: Row | str, seed: int, why: str) -> NextRun:
    """Return a run of a row's method, or of one that is registered."""
    if isinstance(run_of, Row):
        method, argument = run_of.key.method, run_of.runs[0].record.method_argument
    else:
        method = argument = run_of
    command = shlex.join(
        [
            *("gmc-bench", "run", "--method", argument, "--suite", key.suite, "--task", key.task),
            *("--protocol", key.protocol, "--morphologies", key.morphologies, "--seed", str(seed)),
        ]
    )
    return NextRun(key.title, method, seed, why, command)
