"""Gallery of a body set: every body, its picture and its scores in every table."""

from collections.abc import Sequence
from typing import Any

from gmc_bench.leaderboard.analysis import RowAnalysis, TableAnalysis
from gmc_bench.leaderboard.site.board import labels, score_digits
from gmc_bench.leaderboard.site.media import Media
from gmc_bench.records.parts import BodyReturns
from gmc_bench.records.store import StoredRecord


def bodies_context(
    analyses: Sequence[TableAnalysis], stored: Sequence[StoredRecord], media: Media
) -> dict[str, Any]:
    """Return what the gallery of a body set shows.

    Args:
        analyses: all tables on this set, at least one.
        stored: all records on this set.
        media: pictures and videos.
    """
    morphologies = analyses[0].table.morphologies
    bodies = _bodies(stored)
    return {
        "morphologies": morphologies,
        "bodies": [(body, media.picture(morphologies.id, body.body_digest)) for body in bodies],
        "tables": [_scores(analysis, bodies) for analysis in analyses],
    }


def _bodies(stored: Sequence[StoredRecord]) -> list[BodyReturns]:
    """Return an entry of every body, train before test, by name."""
    # Official records first: others may have used only some of the bodies.
    ordered = sorted(stored, key=lambda item: (not item.record.official, item.path))
    found: dict[tuple[str, str], BodyReturns] = {}
    for item in ordered:
        for entry in item.record.returns:
            found.setdefault((entry.split, entry.body), entry)
    return sorted(found.values(), key=lambda body: (body.split == "test", body.body))


def _scores(analysis: TableAnalysis, bodies: Sequence[BodyReturns]) -> dict[str, Any]:
    table = analysis.table
    named = labels(table)
    shown = [*analysis.rows, *([analysis.reference] if analysis.reference else [])]
    columns = [_by_body(item) for item in shown]
    rows = [(body, [scores.get((body.split, body.body)) for scores in columns]) for body in bodies]
    return {
        "key": table.key,
        "digits": score_digits(table),
        "columns": [(named[item.row.key], item.row.controller == "single_robot") for item in shown],
        "rows": [(body, scores) for body, scores in rows if any(s is not None for s in scores)],
    }


def _by_body(item: RowAnalysis) -> dict[tuple[str, str], float]:
    parts = [("train", item.train_bodies, item.train_scores)]
    if item.row.split == "test":  # others list their train bodies as `bodies`
        parts.append(("test", item.bodies, item.scores))
    return {
        (split, body): score
        for split, bodies, scores in parts
        for body, score in zip(bodies, scores.mean(axis=0).tolist(), strict=True)
    }
