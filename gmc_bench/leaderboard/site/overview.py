"""Front page: all tables of today's rules at a glance, a row per method and a column per table."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from gmc_bench.leaderboard.aggregate import ComparisonKey, ComparisonTable, Row
from gmc_bench.leaderboard.analysis import RowAnalysis, TableAnalysis
from gmc_bench.leaderboard.site import numbers
from gmc_bench.leaderboard.site.board import score_digits, widest
from gmc_bench.leaderboard.tables import SHORT_DIGEST
from gmc_bench.leaderboard.today import is_earlier

SHARE_DIGITS = 2


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


def matrix(analyses: Sequence[TableAnalysis], named: Mapping[ComparisonKey, str]) -> dict[str, Any]:
    """Return methods x tables.

    A cell is empty where nothing was run; it says so where seeds are missing. A method with
    several rows in a table shows its best complete one.

    Args:
        analyses: tables of one kind of rules.
        named: titles of all tables.
    """
    shown = [item for item in analyses if item.table.rows]
    methods = sorted({row.key.method for item in shown for row in item.table.rows})
    cells = {method: [_cell(item, method) for item in shown] for method in methods}
    return {
        "tables": [
            {
                "key": item.table.key,
                "title": named[item.table.key],
                "normal": item.scale is not None,
            }
            for item in shown
        ],
        # Who stands in most tables comes first; then by name.
        "rows": sorted(
            cells.items(), key=lambda entry: (-sum(map(_is_ranked, entry[1])), entry[0])
        ),
    }


def _is_ranked(cell: dict[str, Any] | None) -> bool:
    return cell is not None and "score" in cell


def _cell(analysis: TableAnalysis, method: str) -> dict[str, Any] | None:
    ranked = [item for item in analysis.rows if item.row.key.method == method]
    if ranked:
        return _ranked_cell(analysis, ranked[0])
    rows = [row for row in analysis.table.rows if row.key.method == method]
    if not rows:
        return None
    return {"seeds": _seeds(rows[0])}


def _ranked_cell(analysis: TableAnalysis, item: RowAnalysis) -> dict[str, Any]:
    scale = analysis.scale
    share = None if scale is None else scale.estimate(item.row)
    return {
        "score": numbers.estimate(widest(item.crossed), score_digits(analysis.table)),
        "share": None if share is None else numbers.estimate(share, SHARE_DIGITS),
        "group": item.group,
        "first": item is analysis.rows[0],
    }


def _seeds(row: Row) -> str:
    there, absent = len(row.seeds), len(row.absent_seeds)
    return f"{there} of {there + absent} seeds" if absent else "incomplete"
