"""Page of one body: what it looks like, who walks on it, and how far."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gmc_bench.bodies.schema import Morphology
from gmc_bench.leaderboard.aggregate import ComparisonKey, Row
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.site import names, numbers
from gmc_bench.leaderboard.site.board import labels, score_digits
from gmc_bench.leaderboard.site.charts import HEAT_STEPS
from gmc_bench.leaderboard.site.drawing import DrawnSet, draw
from gmc_bench.leaderboard.site.media import Media
from gmc_bench.leaderboard.tables import without_place
from gmc_bench.records.parts import BodyReturns

LookUp = dict[tuple[str, str], float]
"""Mean score by split and digest of the body: bodies of equal content share one."""


@dataclass(frozen=True, kw_only=True)
class TableColumn:
    """One table as pages of bodies use it: computed once for all bodies of a set."""

    analysis: TableAnalysis
    title: str
    digits: int
    rows: tuple[tuple[Row, str, LookUp], ...]
    """Rows with their names and scores; what has no place in the table comes last."""


def columns_of(
    analyses: Sequence[TableAnalysis], titles: Mapping[ComparisonKey, str]
) -> list[TableColumn]:
    """Return what the pages of a set's bodies need of its tables."""
    found = []
    for analysis in analyses:
        named = labels(analysis.table)
        shown = [*(item.row for item in analysis.rows), *without_place(analysis)]
        found.append(
            TableColumn(
                analysis=analysis,
                title=titles[analysis.table.key],
                digits=score_digits(analysis.table),
                rows=tuple((row, named[row.key], by_body(row)) for row in shown),
            )
        )
    return found


def by_body(row: Row) -> LookUp:
    """Return the mean score of a row on every body that all its runs were scored on.

    These include test bodies that were trained on, which the analysis leaves out.
    """
    runs = [_by_content(run.record.returns) for run in row.runs]
    return {
        place: statistics.fmean(run[place] for run in runs)
        for place in runs[0]
        if all(place in run for run in runs)
    }


def _by_content(returns: Iterable[BodyReturns]) -> LookUp:
    """Return a run's scores; of a body that is listed twice, the mean of both."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for entry in returns:
        if entry.mode == "deterministic":
            found[entry.split, entry.body_digest].append(entry.mean_return)
    return {place: statistics.fmean(scores) for place, scores in found.items()}


def body_context(
    body: BodyReturns,
    identity: tuple[str, str],
    columns: Sequence[TableColumn],
    at_hand: DrawnSet,
    media: Media,
    names_of: Mapping[tuple[str, str], Sequence[str]],
) -> dict[str, Any]:
    """Return what the page of a body shows.

    Args:
        body: its name, digest and kin.
        identity: id and digest of its set.
        columns: the tables on that set.
        at_hand: bodies that can be drawn.
        media: pictures.
        names_of: names that the set has for a body, by split and digest.
    """
    found = at_hand.bodies.get(body.body_digest)
    sections = [section for column in columns if (section := _section(column, body))["rows"]]
    limbs, motors = body.limbs, None
    if isinstance(found, Morphology):
        limbs, motors = len(found.limbs), len(found.actuators)
    elif found is not None:
        motors = len(found.links)
    return {
        "body": body,
        "set_id": identity[0],
        "set_page": names.set_page(*identity),
        "drawing": None if found is None else draw(found),
        "also": [name for name in names_of[body.split, body.body_digest] if name != body.body],
        "limbs": limbs,
        "motors": motors,
        "missing": at_hand.missing,
        "picture": media.picture(identity[0], body.body_digest),
        "sections": sections,
        "index": [(f"table-{place}", item["title"]) for place, item in enumerate(sections, 1)],
    }


def _section(column: TableColumn, body: BodyReturns) -> dict[str, Any]:
    """Return the rows of a table on one body, best first."""
    place = (body.split, body.body_digest)
    factor = column.analysis.metres_per_return
    scored = [(scores[place], row, label) for row, label, scores in column.rows if place in scores]
    scored.sort(key=lambda entry: -entry[0])  # stable: equal scores stay in the table's order
    best = scored[0][0] if scored else 0.0
    return {
        "title": column.title,
        "key": column.analysis.table.key,
        "digits": column.digits,
        "metres": factor is not None,
        "rows": [
            {
                "row": row,
                "label": label,
                "tag": tag(row),
                "score": score,
                "metres": None if factor is None else numbers.number(factor * score, 2),
                "level": level_of(score, best),
            }
            for score, row, label in scored
        ],
    }


def tag(row: Row) -> str:
    """Return what a row is that has no place in its table; nothing for others."""
    if row.untrained:
        return "floor"
    return "reference" if row.controller == "single_robot" else ""


def level_of(score: float, best: float) -> int:
    """Return a level of colour from 0 to 8 for a score as a share of the best; -1 without one."""
    if not best > 0.0:
        return -1
    return min(int(min(max(score / best, 0.0), 1.0) * HEAT_STEPS), HEAT_STEPS - 1)
