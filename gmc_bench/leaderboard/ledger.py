"""The list of everything a leaderboard holds, in the order it came, as a chain of hashes.

One line per file. Every line holds the digest of the file and the digest of the line before, so
that a line that was removed, changed, repeated or moved breaks the chain behind it. Only the end
can be cut off unnoticed; the tables state how long the ledger was and what its last line is.
"""

import hashlib
import os
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, ValidationError

from gmc_bench.errors import RecordError, StorageError
from gmc_bench.results.parts import Digest, Part, Positive
from gmc_bench.results.store import canonical_json, first_problem

LEDGER_NAME = "ledger.jsonl"
BEGINNING = "0" * 64
"""Stands before the first line."""

RelativePath = Annotated[str, Field(pattern=r"^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)+[^/]+\.json$")]


class LedgerEntry(Part):
    """One line."""

    number: Positive = Field(description="Place in the ledger, from 1.")
    kind: Literal["record", "verification"] = Field(description="What the file is.")
    path: RelativePath = Field(description="The file, relative to the ledger's folder.")
    digest: Digest = Field(description="What the file states as its own digest.")
    previous: Digest = Field(description="SHA-256 of the line before; zeros for the first.")


class Ledger(NamedTuple):
    """A ledger whose chain holds."""

    entries: tuple[LedgerEntry, ...]
    head: str
    """SHA-256 of the last line."""


def read_ledger(path: Path) -> Ledger:
    """Read a ledger and follow its chain.

    Raises:
        RecordError: it cannot be read, or a line is missing, changed, repeated or moved.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise RecordError(f"cannot read the ledger {path}: {error.strerror}") from error
    entries: list[LedgerEntry] = []
    head = BEGINNING
    for number, line in enumerate(lines, 1):
        where = f"line {number} of the ledger {path}"
        try:
            entry = LedgerEntry.model_validate_json(line)
        except ValidationError as error:
            raise RecordError(
                f"{where} is damaged ({first_problem(error)}); restore the file"
            ) from error
        if _line(entry) != line:
            raise RecordError(f"{where} was changed after it was written; restore the file")
        if entry.number != number or entry.previous != head:
            raise RecordError(
                f"{where} does not follow the one before it: lines were removed, repeated or "
                f"moved; restore the file"
            )
        head = hashlib.sha256(line).hexdigest()
        entries.append(entry)
    paths = [entry.path for entry in entries]
    if len(set(paths)) != len(paths):
        twice = next(item for item in paths if paths.count(item) > 1)
        raise RecordError(f"the ledger {path} lists {twice} twice; restore the file")
    return Ledger(tuple(entries), head)


def append(path: Path, kind: Literal["record", "verification"], file: str, digest: str) -> None:
    """Add a line.

    Args:
        path: the ledger; made if it does not exist.
        kind: what the file is.
        file: the file, relative to the ledger's folder.
        digest: what the file states as its digest.

    Raises:
        RecordError: the chain does not hold.
        StorageError: the line could not be written.
    """
    entries, head = read_ledger(path) if path.exists() else Ledger((), BEGINNING)
    entry = LedgerEntry(number=len(entries) + 1, kind=kind, path=file, digest=digest, previous=head)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as ledger:
            ledger.write(_line(entry))
            ledger.flush()
            os.fsync(ledger.fileno())
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error


def _line(entry: LedgerEntry) -> bytes:
    return canonical_json(entry.model_dump(mode="json")) + b"\n"
