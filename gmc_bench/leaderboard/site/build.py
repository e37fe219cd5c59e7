"""All pages of the site, from analysed tables and their records."""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from gmc_bench.leaderboard.aggregate import ComparisonKey, Row, comparison_key
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.site import board, names
from gmc_bench.leaderboard.site.bodies import bodies_context, listed_bodies
from gmc_bench.leaderboard.site.body import TableColumn, body_context, columns_of
from gmc_bench.leaderboard.site.drawing import Drawable, Drawing, bodies_at_hand, draw
from gmc_bench.leaderboard.site.files import write_site
from gmc_bench.leaderboard.site.media import Media
from gmc_bench.leaderboard.site.method import MethodPage, method_context
from gmc_bench.leaderboard.site.overview import matrix, titles
from gmc_bench.leaderboard.site.record import record_context
from gmc_bench.leaderboard.site.replays import Gallery, Replays
from gmc_bench.leaderboard.site.templating import render
from gmc_bench.leaderboard.today import is_earlier
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import RefusedFile, StoredRecord
from gmc_bench.records.weights import weights_name
from gmc_bench.robots import ROBOTS

STATIC = ("site.css", "body.css", "site.js", "icon.svg", "uplot.css", "uplot.js", "charts.js")

SHOWN_BODIES = 9
"""Of each set on the front page."""
QUADRUPEDS = "quadrupeds-v1"
"""Shown on the front page whether or not a table is about them."""


def build_site(
    analyses: Sequence[TableAnalysis],
    stored: Sequence[StoredRecord],
    refused: Sequence[RefusedFile],
    out: Path,
    *,
    media: Path | None = None,
    methods: Mapping[str, MethodPage] | None = None,
    weights: Collection[str] = (),
    replays: Replays | None = None,
) -> list[Path]:
    """Write the site; it works from a folder, needs no server and loads nothing from elsewhere.

    Building twice from the same input gives the same bytes. Pages of an earlier build that are
    gone are removed; files that no build wrote are left alone.

    Args:
        analyses: every table.
        stored: every valid record, ranked or not.
        refused: files that are no valid record, and records that no table uses.
        out: the site's folder; open `index.html` in it.
        media: folder with `<set id>/<body digest>.png` (stills) and `videos/<method id>/*.mp4`
            (or `.webm`); what is used is copied into the site.
        methods: descriptions of methods by id; a method without one shows its results only.
        weights: digests of the policies of which a leaderboard keeps what acts.
        replays: who plays the records' episodes; without one, no replays are shown.

    Returns:
        The files of the site, sorted.

    Raises:
        StorageError: a file could not be read, written or removed, or a file of somebody else is
            in the way.
    """
    # Pages that show several tables begin with those of today's rules.
    analyses = sorted(analyses, key=lambda item: (is_earlier(item.table), item.table.key))
    named = titles(analyses)
    stored = sorted(stored, key=lambda item: item.path)
    pages = {item.path: names.record_page(item.record.method, item.digest) for item in stored}
    used, described = Media(media), methods or {}
    gallery = Gallery(replays, weights, pages)
    ids = sorted({*(item.record.method for item in stored), *described})
    files = {f"static/{name}": _static(name) for name in STATIC}

    def add(name: str, template: str, context: Mapping[str, Any]) -> None:
        files[name] = render(template, name.count("/"), pages=pages, gallery=gallery, **context)

    for analysis in analyses:
        gallery.enter(analysis)
    add("index.html", "index.html", _front(analyses, named, ids, refused))
    fields = [(name, field.description) for name, field in RunRecord.model_fields.items()]
    add("about.html", "about.html", {"fields": fields})
    for analysis in analyses:
        key = analysis.table.key
        add(names.board_page(key), "board.html", board.board_context(analysis, named[key]))
        add(names.compare_page(key), "compare.html", board.compare_context(analysis, named[key]))
    for method in ids:
        context = method_context(method, described.get(method), analyses, named)
        add(names.method_page(method), "method.html", {**context, "videos": used.videos(method)})
    for identity, found, records in _body_sets(analyses, stored):
        for name, template, context in _set_pages(
            identity, columns_of(found, named), records, used
        ):
            add(name, template, context)
    verified = {run.path for row in _rows(analyses) if row.verified for run in row.runs}
    refusals = {item.path: item.reason for item in refused}
    for item in stored:
        if pages[item.path] not in files:  # else it is a copy of a record that has a page
            key, digest = comparison_key(item.record), str(item.record.weights_digest)
            context = {
                **record_context(item),
                "key": key if key in named else None,
                "verified": item.path in verified,
                "refusal": refusals.get(item.path),
                "weights": weights_name(digest) if digest in weights else None,
            }
            add(pages[item.path], "record.html", context)
    return write_site(out, {**files, **gallery.files, **used.files})  # pages decide on media


def _set_pages(
    identity: tuple[str, str],
    columns: Sequence[TableColumn],
    records: Sequence[StoredRecord],
    media: Media,
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield name, template and content of the page of a body set, and of all that belongs to it.

    Its gallery takes drawings from files, which a browser loads when they come into sight.
    """
    bodies, at_hand = listed_bodies(records), bodies_at_hand(*identity)
    names_of: dict[tuple[str, str], list[str]] = defaultdict(list)
    for body in bodies:
        names_of[body.split, body.body_digest].append(body.body)
    yield names.set_page(*identity), "bodies.html", bodies_context(bodies, columns, at_hand, media)
    style = Markup(_static("body.css").decode())
    for body in bodies:
        page = names.body_page(identity, body.split, body.body)
        yield page, "body.html", body_context(body, identity, columns, at_hand, media, names_of)
        found = at_hand.bodies.get(body.body_digest)
        if found is not None and media.picture(identity[0], body.body_digest) is None:
            name = names.drawing_file(body.body_digest)
            yield name, "drawing.svg", {"drawing": draw(found), "style": style}


def _front(
    analyses: Sequence[TableAnalysis],
    named: Mapping[ComparisonKey, str],
    methods: Sequence[str],
    refused: Sequence[RefusedFile],
) -> dict[str, Any]:
    """Return what the front page shows: today's tables first."""
    from gmc_bench.leaderboard.rules import ranked_methods  # loads the engine

    cards = [board.table_context(item, named[item.table.key]) for item in analyses]
    return {
        "cards": [card for card in cards if not card["earlier"]],
        "earlier": [card for card in cards if card["earlier"]],
        "parade": _parade(analyses),
        "matrix": matrix(analyses, named, set(methods) & set(ranked_methods())),
        "sets": _drawn_sets(analyses),
        "methods": methods,
        "refused": sorted(refused),
    }


def _drawn_sets(analyses: Sequence[TableAnalysis]) -> list[dict[str, Any]]:
    """Return the body sets of all tables, with drawings of the first bodies that are at hand."""
    sets = {(item.table.key.morphologies, item.table.key.morphologies_digest) for item in analyses}
    found = []
    if sets and QUADRUPEDS not in {name for name, _ in sets}:
        drawn = [(body.title, draw(body)) for body in ROBOTS.values()]
        found.append({"id": QUADRUPEDS, "page": None, "missing": "", "drawings": drawn})
    for identity in sorted(sets):
        at_hand = bodies_at_hand(*identity)
        bodies = list(at_hand.bodies.values())
        count = min(SHOWN_BODIES, len(bodies))
        shown = [bodies[len(bodies) * place // count] for place in range(count)]  # unlike ones
        found.append(
            {
                "id": identity[0],
                "page": names.set_page(*identity),
                "missing": at_hand.missing,
                "drawings": [(body.name, draw(body)) for body in shown],
            }
        )
    return found


def _parade(analyses: Sequence[TableAnalysis]) -> list[tuple[str, Drawing]]:
    """Return drawings for the top of the front page: quadrupeds between generated bodies.

    Bodies that were imported are left to the pages about them.
    """
    sets = {(item.table.key.morphologies, item.table.key.morphologies_digest) for item in analyses}
    generated = sorted(identity for identity in sets if identity[0].startswith("gmc-"))
    found = [list(bodies_at_hand(*identity).bodies.values()) for identity in generated]
    grown: list[Drawable] = [
        bodies[len(bodies) * part // 4] for part in (1, 3) for bodies in found if len(bodies) > 3
    ]
    robots = list(ROBOTS.values()) if sets else []
    pairs = itertools.zip_longest(robots, grown[: len(robots)])
    return [(body.name, draw(body)) for pair in pairs for body in pair if body is not None]


def _body_sets(
    analyses: Sequence[TableAnalysis], stored: Sequence[StoredRecord]
) -> Iterator[tuple[tuple[str, str], list[TableAnalysis], list[StoredRecord]]]:
    """Yield id and digest of every body set with its tables and records."""
    tables: dict[tuple[str, str], list[TableAnalysis]] = defaultdict(list)
    for analysis in analyses:
        key = analysis.table.key
        tables[key.morphologies, key.morphologies_digest].append(analysis)
    for (name, digest), found in tables.items():
        used = [
            item
            for item in stored
            if (item.record.morphologies.id, item.record.morphologies.digest) == (name, digest)
        ]
        yield (name, digest), found, used


def _rows(analyses: Sequence[TableAnalysis]) -> Iterator[Row]:
    for analysis in analyses:
        yield from analysis.table.all_rows


def _static(name: str) -> bytes:
    return (Path(__file__).with_name("static") / name).read_bytes()
