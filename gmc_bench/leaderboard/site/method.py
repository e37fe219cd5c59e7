"""Page of a method: its description and its rows in every table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.aggregate import ComparisonKey, RowKey
from gmc_bench.leaderboard.analysis import RowAnalysis, TableAnalysis
from gmc_bench.leaderboard.site.board import labels, row_numbers, score_digits
from gmc_bench.leaderboard.site.charts import curve_chart, heat_strip


@dataclass(frozen=True, kw_only=True)
class MethodPage:
    """The description of a method; plain text throughout, every field may be empty."""

    title: str = ""
    paper: str = ""
    """Citation."""
    url: str | None = None
    """Of the paper; linked only when it begins with `https://` or `http://`."""
    description: str = ""
    parameters: Mapping[str, int] = field(default_factory=dict)
    """Trainable parameters of actor and critic per preset."""
    deviations: tuple[str, ...] = ()
    """Where the implementation differs from its source, one sentence each."""
    capabilities: tuple[str, ...] = ()
    """What the method claims, e.g. `permutation equivariant`."""
    equations: tuple[tuple[str, str], ...] = ()
    """What a part of the network is, and what it computes, as lines of text."""

    @property
    def link(self) -> str | None:
        """`url` if a browser may follow it; `None` for other schemes, e.g. `javascript:`."""
        safe = self.url is not None and self.url.startswith(("https://", "http://"))
        return self.url if safe else None


def method_context(
    method: str,
    page: MethodPage | None,
    analyses: Sequence[TableAnalysis],
    titles: Mapping[ComparisonKey, str],
) -> dict[str, Any]:
    """Return what the page of a method shows.

    Args:
        method: id of the method.
        page: its description, if known.
        analyses: all tables, in the order to show them.
        titles: of the tables.
    """
    sections = [{"title": titles[item.table.key], **_section(method, item)} for item in analyses]
    return {
        "method": method,
        "page": page or MethodPage(),
        "known": page is not None,
        "sections": [section for section in sections if section["rows"]],
    }


def _section(method: str, analysis: TableAnalysis) -> dict[str, Any]:
    table = analysis.table
    digits = score_digits(table)
    named = labels(table)
    found, best = _analysed(analysis)
    return {
        "key": table.key,
        "digits": digits,
        "rows": [
            {
                "label": named[row.key],
                "row": row,
                "before_tuning": row in table.before_tuning,
                "numbers": row_numbers(row, found.get(row.key), digits, analysis.scale),
                **_details(found.get(row.key), best.get(row.key)),
            }
            for row in table.all_rows
            if row.key.method == method
        ],
    }


def _analysed(
    analysis: TableAnalysis,
) -> tuple[dict[RowKey, RowAnalysis], dict[RowKey, DoubleArray]]:
    """Return the ranked rows, and for each the best mean scores of those that it is ranked among.

    Those are the table's or, of a row before tuning, the others before tuning.
    """
    # The reference is analysed too, but its scores are of train bodies.
    found: dict[RowKey, RowAnalysis] = {}
    best: dict[RowKey, DoubleArray] = {}
    for ranking in (analysis.before_tuning, analysis):  # what is in both counts in the table
        if ranking is not None and ranking.rows:
            highest = np.max([item.scores.mean(axis=0) for item in ranking.rows], axis=0)
            found |= {item.row.key: item for item in ranking.rows}
            best |= {item.row.key: highest for item in ranking.rows}
    return found, best


def _details(found: RowAnalysis | None, best: DoubleArray | None) -> dict[str, Any]:
    """Return a row's drawings and its scores by body; nothing for a row without an analysis."""
    if found is None or best is None:
        return {"curve": None, "strip": (), "scores": ()}
    mean, curve = found.scores.mean(axis=0), found.curve
    bodies = zip(found.bodies, mean.tolist(), found.scores.T.tolist(), strict=True)
    return {
        "curve": curve and curve_chart(curve.env_steps, curve.mean, curve.low, curve.high),
        "strip": heat_strip(found.bodies, mean, best),
        "scores": [(body, [total, *runs]) for body, total, runs in bodies],
    }
