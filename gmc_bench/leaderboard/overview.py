"""Overview of all boards: methods x tasks, with what is missing stated, and never averaged over.

A column is a board: a suite's task under its default protocol and bodies, or another table that has
official runs under today's rules. A cell is one method's row there. Ranks in one column say nothing
about another, so there is no mean over columns.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gmc_bench.leaderboard.aggregate import Row
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.references import NO_ACTION
from gmc_bench.leaderboard.statistics import Estimate
from gmc_bench.leaderboard.today import is_current, is_earlier
from gmc_bench.suites import SUITES
from gmc_bench.suites.schema import short_name

BOARD_SUITES = ("unimal-v1", "larger-bodies-v1", "closed-loop-v1", "quadruped-friction-v3")
"""Suites whose tasks have a column even before anything was run."""
_HEADINGS = {
    "unimal-v1": "Flat terrain",
    "larger-bodies-v1": "Larger bodies",
    "closed-loop-v1": "Closed loops",
    "quadruped-friction-v3": "Quadrupeds",
}
"""Of the first task of each suite."""
_TASKS = {
    "incline": "Incline",
    "exploration": "Exploration",
    "obstacles": "Obstacles",
    "vt": "Variable terrain",
}

Status = Literal["ranked", "incomplete", "not run"]


@dataclass(frozen=True, eq=False)
class Column:
    """One board."""

    suite: str
    task: str
    protocol: str
    morphologies: str
    heading: str
    """Short name, e.g. `Incline`."""
    analysis: TableAnalysis | None
    """Its table; `None` while nothing was run."""
    floor: float | None
    """Score without any action, where it was measured."""

    @property
    def num_pairs(self) -> int:
        """Number of pairs of ranked rows."""
        return len(self.analysis.comparisons) if self.analysis else 0

    @property
    def num_significant(self) -> int:
        """Number of those pairs that differ significantly."""
        pairs = self.analysis.comparisons if self.analysis else ()
        return sum(pair.significant for pair in pairs)


@dataclass(frozen=True)
class OverviewCell:
    """One method on one board."""

    status: Status
    seeds: int
    """Seeds that were run."""
    asked: int
    """Seeds that a complete row has; 0 for a cell without a run."""
    score: Estimate | None = None
    """Mean return of mean actions on the bodies that rank, with its widest 95 % interval; `None`
    for an incomplete row, because nothing is averaged over missing seeds."""
    metres: float | None = None
    """The score as a distance; `None` where a return is none."""
    share: Estimate | None = None
    """Normalised train score: 0 is the floor of the table's scale, 1 is a specialist per body;
    `None` where one of the two was not measured."""
    rank: int | None = None
    """From 1, ties share the better one; of ranked rows only."""
    group: str = ""
    """Letters; ranked rows of one column that share one do not differ significantly."""
    verified: bool = False


@dataclass(frozen=True, eq=False)
class Overview:
    """Methods x boards."""

    columns: tuple[Column, ...]
    methods: tuple[str, ...]
    """Ids, ordered by their ranks in the first column, then in the second and so on (unranked ones
    last), then by the number of runs."""
    cells: dict[tuple[str, int], OverviewCell]
    """By method and index of the column; there is one for each pair of them."""

    @property
    def num_complete(self) -> int:
        """Number of cells of complete rows."""
        return sum(cell.status == "ranked" for cell in self.cells.values())

    @property
    def num_started(self) -> int:
        """Number of cells with at least one run."""
        return sum(cell.status != "not run" for cell in self.cells.values())

    @property
    def num_pairs(self) -> int:
        """Number of pairs of ranked rows, over all columns."""
        return sum(column.num_pairs for column in self.columns)

    @property
    def num_significant(self) -> int:
        """Number of those pairs that differ significantly."""
        return sum(column.num_significant for column in self.columns)


def make_overview(analyses: Iterable[TableAnalysis], methods: Sequence[str]) -> Overview:
    """Return the matrix of methods and boards.

    Args:
        analyses: tables; those of earlier protocols do not count.
        methods: ids that have a row even if nothing of them was run, see `rules.ranked_methods`.
    """
    columns = _columns([item for item in analyses if _counts(item)])
    rows = [
        {} if column.analysis is None else rows_by_method(column.analysis) for column in columns
    ]
    ids = dict.fromkeys([*methods, *(method for found in rows for method in found)])
    cells = {
        (method, index): _cell(column, rows[index].get(method))
        for method in ids
        for index, column in enumerate(columns)
    }

    def order(method: str) -> tuple[list[float], int, str]:
        own = [cells[method, index] for index in range(len(columns))]
        ranks = [cell.rank or math.inf for cell in own]
        return ranks, -sum(cell.seeds for cell in own), method

    return Overview(columns, tuple(sorted(ids, key=order)), cells)


def _counts(analysis: TableAnalysis) -> bool:
    table = analysis.table
    return bool(table.rows or table.references) and not is_earlier(table)


def _default_boards() -> list[tuple[str, str, str, str]]:
    """Return suite, task, protocol and bodies of the boards that suites ask for."""
    suites = [SUITES.get(name) for name in BOARD_SUITES]
    return [
        (suite.id, task, suite.default_protocol, suite.default_morphologies[0])
        for suite in suites
        for task in suite.tasks
    ]


def _columns(analyses: Sequence[TableAnalysis]) -> tuple[Column, ...]:
    """Return the boards that suites ask for, then other tables, by name."""
    found: dict[tuple[str, str, str, str], list[TableAnalysis]] = {}
    for item in analyses:
        key = item.table.key
        board = (key.suite, key.task, key.protocol, key.morphologies)
        found.setdefault(board, []).append(item)
    columns: list[Column] = []
    for board in dict.fromkeys([*_default_boards(), *sorted(found)]):
        # Several engine versions make several tables; the one with most rows stands for the board.
        tables = sorted(found.get(board, ()), key=lambda item: (-len(item.rows), item.table.key))
        analysis = tables[0] if tables else None
        columns.append(Column(*board, _heading(*board), analysis, _floor(analysis)))
    return tuple(columns)


def _heading(suite: str, task: str, protocol: str, morphologies: str) -> str:
    bare = short_name(task)
    name = _TASKS.get(bare) or _HEADINGS.get(suite) or f"{suite} {bare}"
    if (suite, task, protocol, morphologies) in _default_boards():
        return name
    return f"{name}, {protocol}, {morphologies}"


def _floor(analysis: TableAnalysis | None) -> float | None:
    rows = analysis.table.untrained if analysis else ()
    idle = [row for row in rows if row.key.method == NO_ACTION and row.test_score]
    return idle[0].test_score.mean if idle and idle[0].test_score else None


def rows_by_method(analysis: TableAnalysis) -> dict[str, Row]:
    """Return each method's row, see `row_of_each_method`."""
    return row_of_each_method(analysis.table.rows)


def row_of_each_method(rows: Iterable[Row]) -> dict[str, Row]:
    """Return by method one of its rows: a complete one, if there is any, whatever it scored.

    Among several it is the one that a run made now would join, or else the newest.
    """
    by_method: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (-row.key.method_version, row.key)):
        by_method.setdefault(row.key.method, []).append(row)
    return {method: _foremost(found) for method, found in by_method.items()}


def _foremost(rows: list[Row]) -> Row:
    """Return which of a method's rows stands for it; of equals it is the first."""
    preferred = [row for row in rows if not row.missing] or rows
    if len(preferred) == 1:  # saves the rules of today, which take milliseconds
        return preferred[0]
    return next(filter(is_current, preferred), preferred[0])


def _cell(column: Column, row: Row | None) -> OverviewCell:
    analysis = column.analysis
    if row is None or analysis is None:
        return OverviewCell("not run", 0, 0)
    seeds, asked = len(row.seeds), len(row.seeds) + len(row.absent_seeds)
    found = next((item for item in analysis.rows if item.row is row), None)
    if found is None:
        return OverviewCell("incomplete", seeds, asked)
    crossed = found.crossed
    score = crossed.both if analysis.bodies_are_sampled else crossed.runs
    values = [item.crossed.value for item in analysis.rows]
    return OverviewCell(
        status="ranked",
        seeds=seeds,
        asked=asked,
        score=score,
        metres=_metres(analysis, score),
        share=analysis.scale.estimate(row) if analysis.scale else None,
        rank=1 + sum(value > crossed.value for value in values),
        group=found.group,
        verified=row.verified,
    )


def _metres(analysis: TableAnalysis, score: Estimate | None) -> float | None:
    factor = analysis.metres_per_return
    return None if factor is None or score is None else factor * score.value
