"""Gallery of a body set: every body, its picture and its scores in every table."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gmc_bench.leaderboard.site import names
from gmc_bench.leaderboard.site.body import TableColumn, level_of, tag
from gmc_bench.leaderboard.site.drawing import DrawnSet
from gmc_bench.leaderboard.site.media import Media
from gmc_bench.records.parts import BodyReturns
from gmc_bench.records.store import StoredRecord


def bodies_context(
    bodies: Sequence[BodyReturns],
    columns: Sequence[TableColumn],
    at_hand: DrawnSet,
    media: Media,
) -> dict[str, Any]:
    """Return what the gallery of a body set shows.

    Args:
        bodies: of the set, see `listed_bodies`.
        columns: all tables on this set, at least one.
        at_hand: those that can be drawn.
        media: pictures and videos.
    """
    morphologies = columns[0].analysis.table.morphologies
    identity = (morphologies.id, morphologies.digest)
    shown: list[dict[str, Any]] = [
        {
            "body": body,
            "page": names.body_page(identity, body.split, body.body),
            "picture": media.picture(morphologies.id, body.body_digest),
            "drawing": names.drawing_file(body.body_digest)
            if body.body_digest in at_hand.bodies
            else None,  # used where there is no picture
        }
        for body in bodies
    ]
    splits = [
        (split, list(items)) for split, items in groupby(shown, lambda item: item["body"].split)
    ]
    tables = [_scores(column, bodies, identity) for column in columns]
    return {
        "morphologies": morphologies,
        "missing": at_hand.missing,
        "repeats": len({(body.split, body.body_digest) for body in bodies}) < len(bodies),
        "seen": any(body.split == "test" and body.seen_in_train for body in bodies),
        "splits": splits,
        "tables": tables,
        "index": [
            *((f"table-{place}", table["title"]) for place, table in enumerate(tables, 1)),
            *((split, f"{split.capitalize()} bodies ({len(items)})") for split, items in splits),
        ],
    }


def listed_bodies(stored: Sequence[StoredRecord]) -> list[BodyReturns]:
    """Return an entry of every body of a set's records, train before test, by name."""
    # Official records first: others may have used only some of the bodies.
    ordered = sorted(stored, key=lambda item: (not item.record.official, item.path))
    found: dict[tuple[str, str], BodyReturns] = {}
    for item in ordered:
        for entry in item.record.returns:
            found.setdefault((entry.split, entry.body), entry)
    return sorted(found.values(), key=lambda body: (body.split == "test", body.body))


def _scores(
    column: TableColumn, bodies: Sequence[BodyReturns], identity: tuple[str, str]
) -> dict[str, Any]:
    rows = []
    for body in bodies:
        scores = [found.get((body.split, body.body_digest)) for _, _, found in column.rows]
        if any(score is not None for score in scores):
            best = max(score for score in scores if score is not None)
            cells = [(score, -1 if score is None else level_of(score, best)) for score in scores]
            rows.append((body, names.body_page(identity, body.split, body.body), cells))
    return {
        "key": column.analysis.table.key,
        "title": column.title,
        "digits": column.digits,
        "columns": [(label, tag(row)) for row, label, _ in column.rows],
        "rows": rows,
    }
