"""All pages of the site, from analysed tables and their records."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from gmc_bench.leaderboard.aggregate import comparison_key
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.published import published_for
from gmc_bench.leaderboard.site import board, names
from gmc_bench.leaderboard.site.bodies import set_view
from gmc_bench.leaderboard.site.files import write_site
from gmc_bench.leaderboard.site.media import Media
from gmc_bench.leaderboard.site.method import method_view
from gmc_bench.leaderboard.site.methods import MethodPage
from gmc_bench.leaderboard.site.record import record_view
from gmc_bench.leaderboard.site.templating import render
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import RefusedFile, StoredRecord

STATIC = ("site.css", "site.js", "icon.svg")


def build_site(
    analyses: Sequence[TableAnalysis],
    stored: Sequence[StoredRecord],
    refused: Sequence[RefusedFile],
    out: Path,
    *,
    media: Path | None = None,
    methods: Mapping[str, MethodPage] | None = None,
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

    Returns:
        The files of the site, sorted.

    Raises:
        StorageError: a file could not be read, written or removed, or a file of somebody else is
            in the way.
    """
    site = _Site(analyses, stored, refused, Media(media), methods or {})
    return write_site(out, site.files())


class _Site:
    """The pages of one build, and the links between them."""

    def __init__(
        self,
        analyses: Sequence[TableAnalysis],
        stored: Sequence[StoredRecord],
        refused: Sequence[RefusedFile],
        media: Media,
        methods: Mapping[str, MethodPage],
    ) -> None:
        self._analyses = sorted(analyses, key=lambda item: item.table.key)
        self._stored = sorted(stored, key=lambda item: item.path)
        self._refused = sorted(refused)
        self._media = media
        self._methods = methods
        self._record_pages = {
            item.path: names.record_page(item.record.method, item.digest) for item in self._stored
        }

    def files(self) -> dict[str, bytes]:
        """Return every file of the site by its path."""
        files = {f"static/{name}": _static(name) for name in STATIC}
        files["index.html"] = render(
            "index.html",
            0,
            cards=[board.table_card(item) for item in self._analyses],
            methods=[(name, names.method_page(name)) for name in self._method_ids()],
            refused=[(item, self._record_pages.get(item.path)) for item in self._refused],
        )
        fields = [(name, field.description) for name, field in RunRecord.model_fields.items()]
        files["about.html"] = render("about.html", 0, fields=fields)
        for analysis in self._analyses:
            key = analysis.table.key
            view = board.board(analysis, self._record_pages, published_for(key.suite, key.task))
            files[names.board_page(key)] = render("board.html", 1, **view)
            files[names.compare_page(key)] = render("compare.html", 1, **board.compare(analysis))
        for name in self._method_ids():
            files[names.method_page(name)] = render(
                "method.html",
                1,
                **method_view(
                    name,
                    self._methods.get(name),
                    self._analyses,
                    self._record_pages,
                    self._media,
                ),
            )
        files.update(self._set_pages())
        files.update(self._records())
        files.update(self._media.files)  # last: pages decide which are used
        return files

    def _method_ids(self) -> list[str]:
        return sorted({item.record.method for item in self._stored})

    def _set_pages(self) -> dict[str, bytes]:
        tables: dict[tuple[str, str], list[TableAnalysis]] = defaultdict(list)
        for analysis in self._analyses:
            key = analysis.table.key
            tables[key.morphologies, key.morphologies_digest].append(analysis)
        records: dict[tuple[str, str], list[StoredRecord]] = defaultdict(list)
        for item in self._stored:
            bodies = item.record.morphologies
            records[bodies.id, bodies.digest].append(item)
        return {
            names.set_page(*identity): render(
                "bodies.html", 1, **set_view(found, records[identity], self._media)
            )
            for identity, found in tables.items()
        }

    def _records(self) -> dict[str, bytes]:
        boards = {item.table.key: names.board_page(item.table.key) for item in self._analyses}
        verified = {
            run.path
            for analysis in self._analyses
            for row in (*analysis.table.rows, *analysis.table.references)
            if row.verified
            for run in row.runs
        }
        refusals = {item.path: item.reason for item in self._refused}
        files: dict[str, bytes] = {}
        for item in self._stored:
            name = self._record_pages[item.path]
            if name in files:  # a copy of a record that has a page
                continue
            key = comparison_key(item.record)
            bodies = item.record.morphologies
            board_page = boards.get(key)
            view = record_view(
                item,
                verified=item.path in verified,
                refusal=refusals.get(item.path),
                board=board_page,
                method_page=names.method_page(item.record.method),
                set_page=names.set_page(bodies.id, bodies.digest) if board_page else None,
            )
            files[name] = render("record.html", 1, **view)
        return files


def _static(name: str) -> bytes:
    return (Path(__file__).with_name("static") / name).read_bytes()
