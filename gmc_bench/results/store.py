"""Records on disk: canonical JSON with its own digest, written whole or not at all."""

import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from gmc_bench.errors import RecordError, StorageError
from gmc_bench.results.schema import SCHEMA_VERSION, RunRecord

RECORD_NAME = "record.json"
RESULTS_FOLDER = "results"


class StoredRecord(NamedTuple):
    """A valid record and where it was found, relative to the folder searched."""

    path: str
    record: RunRecord


class RefusedFile(NamedTuple):
    """A file that is not a valid record, and why, in one sentence."""

    path: str
    reason: str


class RecordFiles(NamedTuple):
    """What a folder holds: valid records and refused files, each sorted by path."""

    records: list[StoredRecord]
    refused: list[RefusedFile]


def canonical_json(content: Any) -> bytes:
    """Return the one byte sequence that stands for a JSON value.

    Keys are sorted, there is no white space, text is UTF-8, floats are the shortest digits that
    read back to the same number, and the text ends with a newline.

    Raises:
        ValueError: the value holds NaN, an infinity, or something JSON cannot hold.

    Source:
        RFC 8785 in spirit; differs in the sort order of keys beyond the basic plane and in the
        spelling of floats (`1.0`, `1e-05`), which follows Python's `repr`.
    """
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return f"{text}\n".encode()


def record_digest(record: RunRecord) -> str:
    """Return the SHA-256 of a record's canonical form, 64 hex digits."""
    return _digest(record.model_dump(mode="json"))


def write_record(path: Path, record: RunRecord) -> None:
    """Write a record with its digest; readers see the old file or the whole new one.

    Args:
        path: the file; missing parent folders are made.
        record: what to write.

    Raises:
        StorageError: the file could not be written; an earlier file is untouched.
    """
    content = record.model_dump(mode="json")
    write_atomic(path, canonical_json({**content, "digest": _digest(content)}))


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that it is never seen half written.

    Args:
        path: the file; missing parent folders are made.
        data: its whole content.

    Raises:
        StorageError: the file could not be written; an earlier file is untouched.
    """
    # Same folder, because a rename is atomic only inside one file system.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose a folder "
            "you may write to"
        ) from error


def read_record(path: Path) -> RunRecord:
    """Read and check a record.

    Raises:
        RecordError: the file is missing, is not JSON, was changed after it was written, or a
            field is missing, unknown or invalid; the message names which.
    """
    content = _load(path)
    version = content.get("schema_version")
    if version != SCHEMA_VERSION:
        raise RecordError(
            f"{path} has schema_version {version!r}, but this gmc-bench reads {SCHEMA_VERSION}; "
            "update gmc-bench or write the record again"
        )
    _check_digest(path, content)
    try:
        return RunRecord.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = ".".join(str(step) for step in first["loc"])
        where = f"field {field!r} is invalid" if field else "fields contradict each other"
        raise RecordError(f"{path} is not a valid record: {where}: {first['msg']}") from error


def read_records(folder: Path) -> RecordFiles:
    """Read every record below a folder.

    Files named `record.json` are records, and so is every `.json` file below a folder named
    `results` (the folder given counts). Other files are passed over.

    Args:
        folder: where to look.

    Returns:
        The valid records and the refused files; paths are relative to `folder`.

    Raises:
        RecordError: the folder does not exist.
    """
    if not folder.is_dir():
        raise RecordError(f"the records folder {folder} does not exist; give a folder of records")
    found = RecordFiles([], [])
    for path in sorted(folder.rglob("*.json"), key=lambda item: item.relative_to(folder).parts):
        if not _is_record_file(path, folder):
            continue
        name = path.relative_to(folder).as_posix()
        try:
            found.records.append(StoredRecord(name, read_record(path)))
        except RecordError as error:
            # Reports must not depend on where the folder lies.
            found.refused.append(RefusedFile(name, str(error).replace(str(path), "it")))
    return found


def _is_record_file(path: Path, folder: Path) -> bool:
    folders = {folder.resolve().name, *path.relative_to(folder).parent.parts}
    return path.is_file() and (path.name == RECORD_NAME or RESULTS_FOLDER in folders)


def _load(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes().decode(), object_pairs_hook=_unique_keys)
    except OSError as error:
        raise RecordError(f"cannot read the record {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # JSON and Unicode errors are ValueErrors
        raise RecordError(f"{path} is not a JSON record: {error}") from error
    if not isinstance(content, dict):
        raise RecordError(f"{path} must hold a JSON object, got a {type(content).__name__}")
    return content


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # A repeated key would let two readers see two different records under one digest.
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key is given twice in one object")
    return content


def _check_digest(path: Path, content: dict[str, Any]) -> None:
    stated = content.pop("digest", None)
    if stated is None:
        raise RecordError(f"{path} has no digest; records are written by gmc-bench, not by hand")
    try:
        actual = _digest(content)
    except ValueError as error:
        raise RecordError(f"{path} holds a value that no record can hold: {error}") from error
    if stated != actual:
        raise RecordError(
            f"{path} was changed after it was written: its digest is {str(stated)[:12]} but its "
            f"content has {actual[:12]}; restore the file or run again"
        )


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(content)).hexdigest()
