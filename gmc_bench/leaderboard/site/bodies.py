"""What the gallery of a body set shows: every body, its picture and its scores."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gmc_bench.leaderboard.analysis import RowAnalysis, TableAnalysis
from gmc_bench.leaderboard.site import board, names, numbers
from gmc_bench.leaderboard.site.media import Media
from gmc_bench.leaderboard.site.numbers import MISSING, Cell
from gmc_bench.records.parts import Split
from gmc_bench.records.store import StoredRecord


@dataclass(frozen=True, slots=True, order=True)
class Body:
    """A body as records name it."""

    split: str
    name: str
    digest: str
    seen: bool
    """A test body that is also a train body."""


def set_view(
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
        "bodies": [
            {
                "name": body.name,
                "split": body.split,
                "seen": body.seen,
                "digest": body.digest,
                "picture": media.picture(morphologies.id, body.digest),
            }
            for body in bodies
        ],
        "tables": [_scores(analysis, bodies) for analysis in analyses],
    }


def _bodies(stored: Sequence[StoredRecord]) -> list[Body]:
    # Official records first: others may have used only some of the bodies.
    ordered = sorted(stored, key=lambda item: (not item.record.official, item.path))
    found: dict[tuple[str, str], Body] = {}
    for item in ordered:
        for entry in item.record.returns:
            place = (entry.split, entry.body)
            if place not in found:
                seen = entry.split == "test" and entry.seen_in_train
                found[place] = Body(entry.split, entry.body, entry.body_digest, seen)
    # Train before test.
    return sorted(found.values(), key=lambda body: (body.split == "test", body))


def _scores(analysis: TableAnalysis, bodies: Sequence[Body]) -> dict[str, Any]:
    table = analysis.table
    digits = board.score_digits(table)
    named = board.labels(table)
    # A reference lists its train bodies as `bodies`, which are no test bodies.
    columns = [(item, True) for item in analysis.rows]
    columns += [(analysis.reference, False)] if analysis.reference is not None else []
    scores = [_by_body(item, "train") for item, _ in columns]
    tests = [_by_body(item, "test") if tested else {} for item, tested in columns]
    rows: list[tuple[Body, list[Cell]]] = []
    for body in bodies:
        source = scores if body.split == "train" else tests
        cells = [_cell(known.get(body.name), digits) for known in source]
        if any(cell is not MISSING for cell in cells):
            rows.append((body, cells))
    return {
        "key": table.key,
        "page": names.board_page(table.key),
        "columns": [
            {
                "label": named[item.row.key],
                "page": names.method_page(item.row.key.method),
                "reference": not tested,
            }
            for item, tested in columns
        ],
        "rows": rows,
    }


def _by_body(item: RowAnalysis, split: Split) -> dict[str, float]:
    bodies, scores = (
        (item.train_bodies, item.train_scores) if split == "train" else (item.bodies, item.scores)
    )
    return dict(zip(bodies, scores.mean(axis=0).tolist(), strict=True)) if bodies else {}


def _cell(value: float | None, digits: int) -> Cell:
    if value is None:
        return MISSING
    return Cell(numbers.number(value, digits), sort=repr(value))
