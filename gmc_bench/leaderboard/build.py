"""Tables, figures and the site as files: built from a folder of records, or checked against it."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from gmc_bench.core.errors import ConfigError, RecordError
from gmc_bench.core.escape import markdown
from gmc_bench.leaderboard.aggregate import aggregate
from gmc_bench.leaderboard.analysis import TableAnalysis, analyse
from gmc_bench.leaderboard.board import VERIFICATIONS, Board, read_board
from gmc_bench.leaderboard.figures import SVG_MARK, draw_figures
from gmc_bench.leaderboard.findings.page import findings_page
from gmc_bench.leaderboard.site import MethodPage, Replays, build_site
from gmc_bench.leaderboard.site.files import remove_outdated
from gmc_bench.leaderboard.submission import require_ledger, require_rules
from gmc_bench.leaderboard.tables import (
    CSV_COLUMNS,
    LATEX_MARK,
    MARKDOWN_MARK,
    TABLES_FOLDER,
    file_names,
    to_csv,
    to_latex,
    to_markdown,
    to_readme,
)
from gmc_bench.leaderboard.today import is_earlier
from gmc_bench.records.store import RefusedFile, write_atomic
from gmc_bench.records.weights import WEIGHTS

SITE_FOLDER = "site"
INDEX_NAME = "README.md"
README_BEGIN = "<!-- leaderboard: begin, written by gmc-bench leaderboard build -->"
README_END = "<!-- leaderboard: end -->"
FRONT_BEGIN = "<!-- front: begin, written by gmc-bench leaderboard build -->"
FRONT_END = "<!-- front: end -->"
"""Around what the boards show in a few lines; a README need not have it."""
_TABLES, _FRONT = (README_BEGIN, README_END), (FRONT_BEGIN, FRONT_END)
_SUFFIXES = (".md", ".csv", ".tex", ".svg")
_FIRST_LINES = (MARKDOWN_MARK, LATEX_MARK, ",".join(CSV_COLUMNS))

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """A folder of records, analysed."""

    board: Board
    analyses: tuple[TableAnalysis, ...]
    refused: tuple[RefusedFile, ...]
    """Files that are no valid record, and records that contradict each other."""


def open_leaderboard(records_dir: Path) -> Leaderboard:
    """Read and analyse a folder of records.

    Args:
        records_dir: a leaderboard, or any folder of runs; see `board.read_board`.

    Raises:
        RecordError: the folder is missing, damaged, or holds no valid record.
    """
    board = read_board(records_dir, any_weights=True)
    if not board.records:
        raise RecordError(_no_records(records_dir, board.refused))
    tables, duplicates = aggregate(board.records, board.verified)
    refused = sorted([*board.refused, *duplicates])
    for item in refused:
        _log.warning("refused the record %s: %s", item.path, item.reason)
    return Leaderboard(board, tuple(analyse(table) for table in tables), tuple(refused))


def render(found: Leaderboard) -> dict[str, bytes]:
    """Return every generated table and figure, without writing anything.

    Returns:
        Path below the tables folder, with `/`, to content; sorted by path.
    """
    names = file_names(found.analyses)
    files: dict[str, bytes] = {}
    for name, analysis in zip(names, found.analyses, strict=True):
        figures = {f"{name}-{kind}": data for kind, data in draw_figures(analysis).items()}
        shown = {_caption(path, name): PurePosixPath(path).name for path in figures}
        files |= figures
        files[f"{name}.md"] = to_markdown(analysis, shown).encode()
        files[f"{name}.csv"] = to_csv(analysis).encode()
        files[f"{name}.tex"] = to_latex(analysis).encode()
    files[INDEX_NAME] = _index(dict(zip(names, found.analyses, strict=True)), found).encode()
    return dict(sorted(files.items()))


@dataclass(frozen=True)
class SiteOptions:
    """What the site shows besides records.

    Raises:
        ConfigError: there is no folder of media where one is named.
    """

    methods: Mapping[str, MethodPage]
    """Descriptions of methods by id."""
    media: Path | None = None
    """Pictures and videos; see `site.build_site`."""
    replays: Replays | None = None
    """Who plays the records' episodes; without one, none are shown."""

    def __post_init__(self) -> None:
        if self.media is not None and not self.media.is_dir():
            raise ConfigError(
                f"{self.media} is no folder, expected one of pictures and videos; give that of "
                f"'gmc-bench render', or none"
            )


def build(
    records_dir: Path,
    out_dir: Path,
    readme: Path | None = None,
    site: SiteOptions | None = None,
    findings: Path | None = None,
) -> list[Path]:
    """Write all tables and figures below `out_dir/tables`, and remove outdated ones.

    Building twice from the same records gives the same bytes. Files in the folder that were not
    generated, and everything outside it, are left alone.

    Args:
        records_dir: folder of records.
        out_dir: gets `tables/README.md` and
            `tables/<suite>/<task>/<protocol>-<set>.{md,csv,tex}` with figures beside them.
        readme: a Markdown file; what is between its marks `README_BEGIN` and `README_END` is
            replaced by short tables, and between `FRONT_BEGIN` and `FRONT_END`, if it has these, by
            the front, see `front`.
        site: also write the static site to `out_dir/site`.
        findings: also write the page of a paper's claims to this Markdown file.

    Returns:
        The files written, sorted.

    Raises:
        RecordError: the folder is missing, damaged or holds no valid record, or the Markdown file
            is none or does not have its marks once and in order; nothing was changed.
        StorageError: a file could not be written or removed.
    """
    found = open_leaderboard(records_dir)
    files = _files(found, records_dir, out_dir, readme, findings)
    for path, data in files.items():
        write_atomic(path, data)
    root = out_dir / TABLES_FOLDER
    for stale in _stale(root, files):
        remove_outdated(root, stale.relative_to(root))
    pages: list[Path] = []
    if site is not None:
        from gmc_bench.bodies.sets import loaded_once  # loads the engine

        with loaded_once():
            pages = build_site(
                found.analyses,
                found.board.records,
                found.refused,
                out_dir / SITE_FOLDER,
                media=site.media,
                methods=site.methods,
                weights=found.board.weights,
                replays=site.replays,
            )
    return sorted([*files, *pages])


def check(
    records_dir: Path, out_dir: Path, readme: Path | None = None, findings: Path | None = None
) -> list[Path]:
    """Return the files that `build` would write, change or remove; empty when up to date.

    Raises:
        RecordError: as for `build`, or the folder is a leaderboard without its ledger.
        SubmissionError: a leaderboard's record breaks a rule, see `submission.require_rules`.
    """
    found = open_leaderboard(records_dir)
    if found.board.length:
        require_rules(found.board)
    elif any((records_dir / name).is_dir() for name in (WEIGHTS, VERIFICATIONS)):
        require_ledger(found.board, records_dir)  # a folder of runs needs none
    files = _files(found, records_dir, out_dir, readme, findings)
    changed = [path for path, data in files.items() if _read(path) != data]
    return sorted([*changed, *_stale(out_dir / TABLES_FOLDER, files)])


def _files(
    found: Leaderboard,
    records_dir: Path,
    out_dir: Path,
    readme: Path | None,
    findings: Path | None,
) -> dict[Path, bytes]:
    root = out_dir / TABLES_FOLDER
    files = {root / name: data for name, data in render(found).items()}
    if readme is not None:
        files[readme] = _readme(readme, found, root, records_dir, findings)
    if findings is not None:
        files[findings] = findings_page(found.analyses, records_dir, findings)
    return files


def _no_records(folder: Path, refused: Sequence[RefusedFile]) -> str:
    if refused:
        return (
            f"none of the {len(refused)} record files in {folder} is valid; "
            f"the first is {refused[0].path}: {refused[0].reason}"
        )
    return (
        f"no records in {folder}; make one with 'gmc-bench run --method recmorph --suite unimal' "
        "and give the folder that holds its record.json"
    )


def _caption(path: str, name: str) -> str:
    words = path.removeprefix(f"{name}-").removesuffix(".svg").replace("-", " ")
    return words[0].upper() + words[1:]


def _index(named: dict[str, TableAnalysis], found: Leaderboard) -> str:
    lines, board = [MARKDOWN_MARK, "# Leaderboard tables", ""], found.board
    if board.length:
        kept = sum(item.record.weights_digest in board.weights for item in board.records)
        lines += [
            f"The ledger has {board.length} lines; the last one's SHA-256 is `{board.head}`.",
            "",
            f"`weights/` holds the policies of {kept} of the {len(board.records)} records; the "
            f"others were added before weights were kept, or are single-robot references whose "
            f"weights are too large.",
            "",
        ]
    today, earlier = (
        [_index_line(name, item) for name, item in named.items() if is_earlier(item.table) == old]
        for old in (False, True)
    )
    lines += today or ["No run exists yet under today's rules."]
    if earlier:
        lines += ["", "## Earlier protocols", ""]
        lines += ["Their rules have changed since, so nothing can be added to these tables.", ""]
        lines += earlier
    if found.refused:
        lines += ["", "## Refused files", ""]
        lines += [f"- {markdown(item.path)}: {markdown(item.reason)}" for item in found.refused]
    return "\n".join([*lines, ""])


def _index_line(name: str, analysis: TableAnalysis) -> str:
    table = analysis.table
    files = ", ".join(f"[{suffix}]({name}.{suffix})" for suffix in ("md", "csv", "tex"))
    counts = [
        f"{len(analysis.rows)} ranked",
        f"{sum(bool(row.missing) for row in table.rows)} incomplete",
        f"{len(table.unranked)} not ranked",
    ]
    counts += [f"{len(table.references)} single-robot"] if table.references else []
    counts += [f"{len(table.untrained)} untrained"] if table.untrained else []
    counts += [f"{len(table.before_tuning)} before tuning"] if table.before_tuning else []
    return (
        f"- {markdown(table.key.title)}, MuJoCo {markdown(table.key.mujoco)}: {files}; "
        f"{', '.join(counts)}"
    )


def _readme(
    path: Path, found: Leaderboard, root: Path, records: Path, findings: Path | None
) -> bytes:
    try:
        text = (_read(path) or b"").decode()
    except UnicodeDecodeError as error:
        raise RecordError(f"{path} is not UTF-8 text ({error}); convert it") from error
    places = [_marked(text, *marks, path) for marks in (_TABLES, _FRONT)]
    if places[0] is None:
        raise RecordError(
            f"{path} has no place for tables; put the lines {README_BEGIN!r} and {README_END!r} "
            f"where they shall go"
        )
    if places[1] is not None and places[0][0] < places[1][1] and places[1][0] < places[0][1]:
        raise RecordError(f"{path} has one pair of marks inside the other; move them apart")
    text = _between(text, README_BEGIN, README_END, _short_tables(path, found, root))
    if places[1] is not None:
        from gmc_bench.leaderboard.front import front
        from gmc_bench.leaderboard.rules import ranked_methods

        link = "" if findings is None else _relative(findings, path)
        shown = front(found.analyses, ranked_methods(), records, link)
        text = _between(text, FRONT_BEGIN, FRONT_END, shown)
    return text.encode()


def _marked(text: str, begin: str, end: str, path: Path) -> tuple[int, int] | None:
    """Return where two marks begin in a text; `None` without them.

    Raises:
        RecordError: there is one of them, or more than one of each, or they are the wrong way
            round: what is replaced would be something else than what was generated.
    """
    counts = text.count(begin), text.count(end)
    if counts == (0, 0):
        return None
    if counts != (1, 1) or text.index(end) < text.index(begin):
        raise RecordError(
            f"{path} must have the lines {begin!r} and {end!r} once each, in this order; correct "
            f"its marks"
        )
    return text.index(begin), text.index(end)


def _between(text: str, begin: str, end: str, content: str) -> str:
    """Return a text with what is between two marks replaced."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return "\n".join([f"{before}{begin}", "", content, f"{end}{after}"])


def _short_tables(path: Path, found: Leaderboard, root: Path) -> str:
    named = dict(zip(file_names(found.analyses), found.analyses, strict=True))
    links = {name: _relative(root / f"{name}.md", path) for name in named}
    parts = [
        to_readme(item, links[name]) for name, item in named.items() if not is_earlier(item.table)
    ]
    gone = len(named) - len(parts)
    if gone:
        index = _relative(root / INDEX_NAME, path)
        parts.append(
            f"{gone} more {'table was' if gone == 1 else 'tables were'} measured under rules that "
            f"have changed since; their numbers are not comparable with new ones: "
            f"[earlier protocols]({index}).\n"
        )
    return "\n".join(parts)


def _relative(target: Path, page: Path) -> str:
    return Path(os.path.relpath(target.resolve(), page.resolve().parent)).as_posix()


def _stale(root: Path, files: Mapping[Path, bytes]) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.suffix in _SUFFIXES and path not in files and _is_generated(path):
            yield path


def _is_generated(path: Path) -> bool:
    content = _read(path)
    if content is None:
        return False
    if path.suffix == ".svg":
        return f"{SVG_MARK}\n<svg ".encode() in content[:1000]
    return content.startswith(tuple(f"{mark}\n".encode() for mark in _FIRST_LINES))


def _read(path: Path) -> bytes | None:
    try:
        return None if path.is_symlink() else path.read_bytes()
    except OSError:  # missing, or a folder with the name of a file
        return None
