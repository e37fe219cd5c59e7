"""Tables as files: built from a folder of records, or checked against it."""

import hashlib
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path, PurePosixPath

from gmc_bench.errors import RecordError, StorageError
from gmc_bench.leaderboard.aggregate import ComparisonKey, Table, aggregate
from gmc_bench.leaderboard.escape import markdown
from gmc_bench.leaderboard.tables import (
    CSV_COLUMNS,
    LATEX_MARK,
    MARKDOWN_MARK,
    SHORT_DIGEST,
    title,
    to_csv,
    to_latex,
    to_markdown,
)
from gmc_bench.results.store import RefusedFile, read_records, write_atomic

TABLES_FOLDER = "tables"
INDEX_NAME = "README.md"
_FORMATS = {".md": to_markdown, ".csv": to_csv, ".tex": to_latex}
_FIRST_LINES = (MARKDOWN_MARK, LATEX_MARK, ",".join(CSV_COLUMNS))

_log = logging.getLogger(__name__)


def render(records_dir: Path) -> dict[str, str]:
    """Return every generated file as text, without writing anything.

    Args:
        records_dir: folder of records; see `gmc_bench.results.store.read_records`.

    Returns:
        Path below the tables folder, with `/`, to content; sorted by path.

    Raises:
        RecordError: the folder is missing or holds no valid record.
    """
    found = read_records(records_dir)
    if not found.records:
        raise RecordError(_no_records(records_dir, found.refused))
    tables, duplicates = aggregate(found.records)
    refused = sorted([*found.refused, *duplicates])
    for item in refused:
        _log.warning("refused the record %s: %s", item.path, item.reason)
    names = _file_names([table.key for table in tables])
    files = {
        f"{name}{suffix}": make(table)
        for name, table in zip(names, tables, strict=True)
        for suffix, make in _FORMATS.items()
    }
    files[INDEX_NAME] = _index(dict(zip(names, tables, strict=True)), refused)
    return dict(sorted(files.items()))


def build(records_dir: Path, out_dir: Path) -> list[Path]:
    """Write all tables below `out_dir/tables` and remove generated ones that are out of date.

    Building twice from the same records gives the same bytes. Files in the folder that were not
    generated, and everything outside it, are left alone.

    Args:
        records_dir: folder of records.
        out_dir: gets `tables/README.md` and
            `tables/<suite>/<task>/<protocol>-<set>.{md,csv,tex}`.

    Returns:
        The files written, sorted.

    Raises:
        RecordError: the folder is missing or holds no valid record; nothing was changed.
        StorageError: a file could not be written or removed.
    """
    files = render(records_dir)
    root = out_dir / TABLES_FOLDER
    for name, text in files.items():
        write_atomic(root / name, text.encode())
    for stale in _stale(root, files):
        _remove(stale, root)
    return sorted(root / name for name in files)


def check(records_dir: Path, out_dir: Path) -> list[Path]:
    """Return the tables that `build` would write, change or remove; empty when up to date.

    Raises:
        RecordError: the folder is missing or holds no valid record.
    """
    root = out_dir / TABLES_FOLDER
    files = render(records_dir)
    changed = [root / name for name, text in files.items() if _read(root / name) != text.encode()]
    return sorted([*changed, *_stale(root, files)])


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


def _file_names(keys: Sequence[ComparisonKey]) -> list[str]:
    # Names alone can clash, e.g. for two engine versions; then all of them get a digest.
    short = [f"{key.suite}/{key.task}/{key.protocol}-{key.morphologies}" for key in keys]
    uses = Counter(short)
    return [
        name if uses[name] == 1 else f"{name}-{_key_digest(key)}"
        for name, key in zip(short, keys, strict=True)
    ]


def _key_digest(key: ComparisonKey) -> str:
    return hashlib.sha256("\n".join(astuple(key)).encode()).hexdigest()[:SHORT_DIGEST]


def _index(tables: dict[str, Table], refused: Sequence[RefusedFile]) -> str:
    lines = [MARKDOWN_MARK, "# Leaderboard tables", ""]
    for name, table in tables.items():
        complete = sum(not row.missing for row in table.rows)
        files = ", ".join(f"[{suffix[1:]}]({name}{suffix})" for suffix in _FORMATS)
        lines.append(
            f"- {markdown(title(table))}, MuJoCo {markdown(table.key.mujoco)}: {files}; "
            f"{complete} ranked, {len(table.rows) - complete} incomplete, "
            f"{len(table.unranked)} not ranked"
        )
    if refused:
        lines += ["", "## Refused files", ""]
        lines += [f"- {markdown(item.path)}: {markdown(item.reason)}" for item in refused]
    return "\n".join([*lines, ""])


def _stale(root: Path, files: dict[str, str]) -> list[Path]:
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.suffix in _FORMATS
        and path.relative_to(root).as_posix() not in files
        and _is_generated(path)
    ]


def _is_generated(path: Path) -> bool:
    content = _read(path)
    return content is not None and content.startswith(
        tuple(f"{m}\n".encode() for m in _FIRST_LINES)
    )


def _read(path: Path) -> bytes | None:
    try:
        return None if path.is_symlink() else path.read_bytes()
    except OSError:  # missing, or a folder with the name of a file
        return None


def _remove(path: Path, root: Path) -> None:
    try:
        path.unlink()
        for name in PurePosixPath(path.relative_to(root).as_posix()).parents:
            folder = root / name
            if folder == root or any(folder.iterdir()):
                break
            folder.rmdir()
    except OSError as error:
        raise StorageError(
            f"cannot remove the outdated table {path}: {error.strerror}; remove it by hand"
        ) from error
