"""Front page: methods x boards of today's rules at a glance, and titles that tell tables apart."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from gmc_bench.leaderboard.aggregate import ComparisonKey, ComparisonTable
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.overview import Column, OverviewCell, make_overview
from gmc_bench.leaderboard.site import numbers
from gmc_bench.leaderboard.site.board import SHARE_DIGITS, score_digits
from gmc_bench.leaderboard.tables import SHORT_DIGEST
from gmc_bench.leaderboard.today import is_earlier


def titles(analyses: Iterable[TableAnalysis]) -> dict[ComparisonKey, str]:
    """Return a title per table that no other table has.

    It names task, bodies and protocol; where these are the same, what tells them apart: rules that
    have changed since, then suite, rules, engine, bodies and task.
    """
    tables = {item.table.key: item.table for item in analyses}
    known = sorted(tables)
    found = {key: f"{key.task} on {key.morphologies}, {key.protocol}" for key in known}
    parts: dict[str, Callable[[ComparisonKey], str]] = {
        "": lambda key: _earlier_rules(tables[key]),
        "suite ": lambda key: key.suite,
        "rules ": lambda key: key.protocol_digest[:SHORT_DIGEST],
        "MuJoCo ": lambda key: key.mujoco,
        "bodies ": lambda key: key.morphologies_digest[:SHORT_DIGEST],
        "task ": lambda key: key.task_digest[:SHORT_DIGEST] or "not stated",
    }
    for name, part in parts.items():
        said: dict[str, set[str]] = defaultdict(set)
        for key in known:
            said[found[key]].add(part(key))
        for key in known:
            if len(said[found[key]]) > 1 and part(key):
                found[key] = f"{found[key]}, {name}{part(key)}"
    return found


def _earlier_rules(table: ComparisonTable) -> str:
    if not is_earlier(table):
        return ""
    return f"earlier rules {table.key.protocol_digest[:SHORT_DIGEST]}"


def matrix(
    analyses: Sequence[TableAnalysis],
    named: Mapping[ComparisonKey, str],
    methods: Collection[str],
) -> dict[str, Any]:
    """Return methods x boards of today's rules, as pages show them.

    Args:
        analyses: all tables; those of earlier protocols have no column.
        named: titles of all tables.
        methods: ids that have a row even if nothing of them was run.
    """
    found = make_overview(analyses, sorted(methods))
    places = range(len(found.columns))
    floors = [_floor(column) for column in found.columns]
    return {
        "columns": [
            {
                "heading": column.heading,
                "suite": column.suite,
                "key": None if column.analysis is None else column.analysis.table.key,
                "title": named[column.analysis.table.key] if column.analysis else "",
                "normal": column.analysis is not None and column.analysis.scale is not None,
            }
            for column in found.columns
        ],
        "rows": [
            (method, [_shown(found.columns[place], found.cells[method, place]) for place in places])
            for method in found.methods
        ],
        "filled": found.num_complete,
        "begun": found.num_started,
        "floors": floors if any(floors) else [],
    }


def _floor(column: Column) -> str:
    """Return the score without any action; nothing where it was not measured."""
    if column.analysis is None or column.floor is None:
        return ""
    return numbers.number(column.floor, score_digits(column.analysis.table))


def _shown(column: Column, cell: OverviewCell) -> dict[str, Any] | None:
    """Return a cell's texts; nothing for one without a run."""
    if cell.status == "not run":
        return None
    analysis = column.analysis
    digits = 1 if analysis is None else score_digits(analysis.table)
    return {
        "score": numbers.estimate(cell.score, digits),
        "share": None if cell.share is None else numbers.estimate(cell.share, SHARE_DIGITS),
        "group": cell.group,
        "first": cell.rank == 1,
        "incomplete": cell.status == "incomplete",
        "seeds": f"{cell.seeds} of {cell.asked} seeds" if cell.asked > cell.seeds else "",
    }
