"""Records on disk: canonical JSON with its own digest, written whole or not at all."""

import hashlib
import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import rfc8785
from pydantic import ValidationError

from gmc_bench.core.errors import RecordError, StorageError
from gmc_bench.core.files import read_limited
from gmc_bench.records.parts import WIDEST_INTEGER, RecordPart, require_shallow
from gmc_bench.records.schema import SCHEMA_VERSION, RunRecord

RECORD_NAME = "record.json"
POLICY_NAME = "policy.safetensors"
RESULTS = "results"
LEDGER_NAME = "ledger.jsonl"

P = TypeVar("P", bound=RecordPart)


class StoredRecord(NamedTuple):
    """A valid record and where it was found, relative to the folder searched."""

    path: str
    record: RunRecord
    digest: str
    """What its file states: the SHA-256 of the content as it was written."""


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

    Raises:
        ValueError: the value holds NaN, an infinity, an integer beyond 2^53, or something JSON
            cannot hold.

    Source:
        RFC 8785, JSON Canonicalization Scheme.
    """
    try:
        return bytes(rfc8785.dumps(content))
    except rfc8785.CanonicalizationError as error:
        raise ValueError(f"no canonical JSON: {error}") from error


def record_digest(record: RunRecord) -> str:
    """Return the SHA-256 of a record's canonical form, 64 hex digits."""
    return _sha256(canonical_json(record.model_dump(mode="json")))


def seal(part: RecordPart) -> bytes:
    """Return the content of the file of a record, or of anything kept beside it; see `sealed`."""
    return sealed(part.model_dump(mode="json"))


def sealed(content: dict[str, Any]) -> bytes:
    """Return a JSON object's canonical form with its own SHA-256 under `digest`, and a line end.

    Raises:
        ValueError: see `canonical_json`.
    """
    return canonical_json({**content, "digest": _sha256(canonical_json(content))}) + b"\n"


def unsealed(data: bytes) -> dict[str, Any]:
    """Return the object that `sealed` wrote.

    Raises:
        ValueError: the data is no JSON object, or it has no digest, or not that of the rest.
    """
    try:
        content = _parse(data, _double)
    except RecursionError as error:
        raise ValueError("too deeply nested") from error
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, got a {type(content).__name__}")
    if content.pop("digest", None) != _sha256(canonical_json(content)):
        raise ValueError("it was changed after it was written")
    return content


def read_sealed(path: Path) -> tuple[dict[str, Any], str]:
    """Read what `sealed` made: the object without its digest, and the digest.

    Raises:
        RecordError: the file is missing, is not JSON, or was changed after it was written.
    """
    data, content = _load(path)
    return content, _check_digest(path, data, content, _SCHEMAS[SCHEMA_VERSION])


def read_part(path: Path, kind: type[P], hint: str) -> tuple[P, str]:
    """Read what `seal` wrote of a part: the part, and its digest.

    Args:
        path: the file.
        kind: what it holds.
        hint: what to do about a file that holds something else, the end of a sentence.

    Raises:
        RecordError: the file is missing, was changed after it was written, or holds something
            else.
    """
    content, digest = read_sealed(path)
    try:
        return kind.model_validate(content), digest
    except ValidationError as error:
        raise RecordError(f"{path} does not fit: {first_problem(error)}; {hint}") from error


def write_record(path: Path, record: RunRecord) -> None:
    """Write a record with its digest; readers see the old file or the whole new one.

    Args:
        path: the file; missing parent folders are made.
        record: what to write.

    Raises:
        StorageError: the file could not be written; an earlier file is untouched.
    """
    write_atomic(path, seal(record))


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


def make_folder(path: Path) -> None:
    """Make a folder with its parents if it is not there; called before long work, to fail early.

    Raises:
        StorageError: it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"cannot create {path}: {error.strerror}; choose another --out"
        ) from error


def read_record(path: Path) -> RunRecord:
    """Read and check a record of any released schema.

    Raises:
        RecordError: the file is missing, is not JSON, was changed after it was written, or a
            field is missing, unknown or invalid; the message names which.
    """
    return read_stored_record(path).record


def read_stored_record(path: Path, name: str | None = None) -> StoredRecord:
    """Read and check a record and keep the digest that its file states.

    Args:
        path: the file.
        name: what `StoredRecord.path` shall say; default the file's path.

    Raises:
        RecordError: as for `read_record`.
    """
    data, content = _load(path, of_a_record=True)
    version = content.get("schema_version")
    if type(version) is not int or version not in _SCHEMAS:
        known = ", ".join(map(str, _SCHEMAS))
        raise RecordError(
            f"{path} has schema_version {version!r}, but this gmc-bench reads {known}; "
            "update gmc-bench or write the record again"
        )
    schema = _SCHEMAS[version]
    digest = _check_digest(path, data, content, schema)
    try:
        record = RunRecord.model_validate(schema.upgrade(content))
    except ValidationError as error:
        raise RecordError(f"{path} is not a valid record: {first_problem(error)}") from error
    return StoredRecord(name or str(path), record, digest)


def json_schema() -> str:
    """Return the JSON Schema of a record's file, with its digest, as text."""
    schema = RunRecord.model_json_schema()
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "gmc-bench run record"
    schema["properties"]["digest"] = {
        "description": "SHA-256 of the RFC 8785 form of everything else.",
        "pattern": "^[0-9a-f]{64}$",
        "type": "string",
    }
    schema["required"] = sorted([*schema["required"], "digest", "schema_version"])
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"


def first_problem(error: ValidationError) -> str:
    """Say in one line what is wrong with a record's fields."""
    first = error.errors(include_url=False)[0]
    field = ".".join(str(step) for step in first["loc"])
    where = f"field {field!r} is invalid" if field else "fields contradict each other"
    return f"{where}: {first['msg']}"


def read_records(folder: Path) -> RecordFiles:
    """Read every record below a folder.

    Files named `record.json` are records, and so is every `.json` file below a folder named
    `results` (the folder given counts, and so does a leaderboard's that it lies in). Other files
    are passed over.

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
    all_records = _holds_results(folder.resolve())
    for path in sorted(folder.rglob("*.json"), key=lambda item: item.relative_to(folder).parts):
        parents = path.relative_to(folder).parent.parts
        named = path.name == RECORD_NAME or all_records or RESULTS in parents
        if not (named and path.is_file()):
            continue
        name = path.relative_to(folder).as_posix()
        try:
            found.records.append(read_stored_record(path, name))
        except RecordError as error:
            # Reports must not depend on where the folder lies.
            found.refused.append(RefusedFile(name, str(error).replace(str(path), "it")))
    return found


def _holds_results(folder: Path) -> bool:
    """Return whether a folder is one of results, or lies in a leaderboard's."""
    return folder.name == RESULTS or any(
        above.name == RESULTS and (above.parent / LEDGER_NAME).is_file() for above in folder.parents
    )


def _load(path: Path, *, of_a_record: bool = False) -> tuple[bytes, dict[str, Any]]:
    try:
        data = read_limited(path)
        content = _parse(data, _double)
        if of_a_record and isinstance(content, dict) and content.get("schema_version") == 1:
            content = _parse(data, int)  # Python spelled its floats so that they are told apart
    except OSError as error:
        unfinished = isinstance(error, FileNotFoundError) and path.name == RECORD_NAME
        hint = "; give the folder of a finished run" if unfinished else ""
        raise RecordError(f"cannot read {path}: {error.strerror}{hint}") from error
    except (ValueError, RecursionError) as error:  # JSON and Unicode errors are ValueErrors
        raise RecordError(f"{path} is not readable JSON: {error}") from error
    if not isinstance(content, dict):
        raise RecordError(f"{path} must hold a JSON object, got a {type(content).__name__}")
    return data, content


def _parse(data: bytes, integer: Callable[[str], float]) -> Any:
    content = json.loads(data.decode(), object_pairs_hook=_unique_keys, parse_int=integer)
    require_shallow(content)
    return content


def _double(digits: str) -> float:
    """Read a number without a point: RFC 8785 spells floats of up to 21 digits like that."""
    value = int(digits)
    return value if abs(value) <= WIDEST_INTEGER else float(digits)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # A repeated key would let two readers see two different records under one digest.
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key is given twice in one object")
    return content


class _Schema(NamedTuple):
    """How files of one schema version are checked and brought up to date."""

    canonical: Callable[[Any], bytes]
    """What their digests are taken from."""
    line_end_counts: bool
    """Whether that byte sequence includes the line end of the file."""
    upgrade: Callable[[dict[str, Any]], dict[str, Any]]
    """From their fields to those of the present schema."""


def _check_digest(path: Path, data: bytes, content: dict[str, Any], schema: _Schema) -> str:
    """Take the digest out of a record's content and return it, if it fits file and content."""
    end = b"" if schema.line_end_counts else b"\n"
    try:
        whole = schema.canonical(content)
        stated = content.pop("digest", None)
        member = schema.canonical({"digest": stated}).strip()[1:-1]
        actual = _sha256(_without(whole, member))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} holds what no file with a digest can: {error}") from error
    if stated is None:
        raise RecordError(f"{path} has no digest; such files are written by gmc-bench, not by hand")
    if stated != actual:
        raise RecordError(
            f"{path} was changed after it was written: its digest is {str(stated)[:12]} but its "
            f"content has {actual[:12]}; restore the file or run again"
        )
    if data != whole + end:
        raise RecordError(
            f"{path} was changed after it was written: it is not spelled the one way in which "
            "records are written; restore the file"
        )
    return actual


def _without(whole: bytes, member: bytes) -> bytes:
    """Return an object's canonical form without one of its members.

    Spelling a record takes long, so the rest is not spelled again. An equal member inside the rest
    would be a digest inside what it is the digest of, which nobody can make.
    """
    for text in (member + b",", b"," + member, member):  # not the last one, the last, the only one
        if text in whole:
            return whole.replace(text, b"", 1)
    return whole


def _canonical_v1(content: Any) -> bytes:
    """Return what schema 1 took digests from: like RFC 8785, but numbers as Python spells them."""
    text = json.dumps(
        content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return f"{text}\n".encode()


def _upgrade_v1(content: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of schema 2: what schema 1 did not state is null or follows from it."""
    upgraded = {**content, "schema_version": 2, "suite_digest": None, "task_digest": None}
    if isinstance(content.get("hardware"), dict):
        upgraded["hardware"] = {**content["hardware"], "instructions": None}
    returns = content.get("returns")
    splits = {
        item.get("split")
        for item in (returns if isinstance(returns, list) else ())
        if isinstance(item, dict)
    }
    # Only methods with separate weights per body were scored on train bodies alone.
    upgraded["controller"] = "single_robot" if splits == {"train"} else "shared"
    return upgraded


_SCHEMAS = {
    1: _Schema(_canonical_v1, True, _upgrade_v1),
    SCHEMA_VERSION: _Schema(canonical_json, False, dict),
}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
