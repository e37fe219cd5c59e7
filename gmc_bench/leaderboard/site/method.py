"""What the page of a method shows: its description and its rows in every table."""

from collections.abc import Sequence
from typing import Any

from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.analysis import RowAnalysis, TableAnalysis
from gmc_bench.leaderboard.site import board, names, numbers
from gmc_bench.leaderboard.site.charts import curve_chart, heat_strip
from gmc_bench.leaderboard.site.media import Media
from gmc_bench.leaderboard.site.methods import MethodPage


def method_view(
    method: str,
    page: MethodPage | None,
    analyses: Sequence[TableAnalysis],
    pages: board.RecordPages,
    media: Media,
) -> dict[str, Any]:
    """Return what the page of a method shows.

    Args:
        method: id of the method.
        page: its description, if known.
        analyses: all tables, in the order to show them.
        pages: record pages by path.
        media: pictures and videos.
    """
    return {
        "method": method,
        "page": page or MethodPage(),
        "known": page is not None,
        "videos": media.videos(method),
        "sections": [
            section
            for analysis in analyses
            if (section := _section(method, analysis, pages)) is not None
        ],
    }


def _section(
    method: str, analysis: TableAnalysis, pages: board.RecordPages
) -> dict[str, Any] | None:
    table = analysis.table
    digits = board.score_digits(table)
    named = board.labels(table)
    found = {item.row.key: item for item in analysis.rows}
    best = _best(analysis)
    # The reference is analysed too, but its scores are of train bodies.
    rows = [
        {
            "label": named[row.key],
            "reference": row.controller == "single_robot",
            **board.identity(row, pages, digits),
            **board.estimates(found.get(row.key), row, digits),
            **_details(found.get(row.key), best, digits),
        }
        for row in (*table.rows, *table.references)
        if row.key.method == method
    ]
    if not rows:
        return None
    return {
        "key": table.key,
        "page": names.board_page(table.key),
        "set": names.set_page(table.key.morphologies, table.key.morphologies_digest),
        "rows": rows,
    }


def _best(analysis: TableAnalysis) -> DoubleArray | None:
    means = [item.scores.mean(axis=0) for item in analysis.rows]
    if not means:
        return None
    best: DoubleArray = means[0].copy()
    for mean in means[1:]:
        best[:] = [max(a, b) for a, b in zip(best.tolist(), mean.tolist(), strict=True)]
    return best


def _details(found: RowAnalysis | None, best: DoubleArray | None, digits: int) -> dict[str, Any]:
    if found is None or best is None:
        return {"curve": None, "strip": (), "seed_names": (), "body_rows": ()}
    mean = found.scores.mean(axis=0)
    curve = found.curve
    return {
        "curve": None
        if curve is None
        else curve_chart(curve.env_steps, curve.mean, curve.low, curve.high),
        "strip": heat_strip(found.bodies, mean, best),
        "seed_names": found.seeds,
        "body_rows": [
            (body, [numbers.number(value, digits) for value in (total, *runs)], repr(total))
            for body, total, runs in zip(
                found.bodies, mean.tolist(), found.scores.T.tolist(), strict=True
            )
        ],
    }
