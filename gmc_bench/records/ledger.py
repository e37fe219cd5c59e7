"""The list of everything a leaderboard holds, in the order it came, as a chain of hashes.

One line per file. Every line holds the digest of the file and the digest of the line before, so
that a line that was removed, changed, repeated or moved breaks the chain behind it. Only the end
can be cut off unnoticed; the tables state how long the ledger was and what its last line is.
"""

import fcntl
import hashlib
import os
import re
from collections import Counter
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, ValidationError, model_validator

from gmc_bench.core.errors import RecordError, StorageError
from gmc_bench.core.files import read_limited
from gmc_bench.records.parts import Digest, Positive, RecordPart
from gmc_bench.records.store import LEDGER_NAME, canonical_json, first_problem

BEGINNING = "0" * 64
"""Stands before the first line."""

Kind = Literal["record", "verification", "weights", "signature"]
RelativePath = Annotated[
    str, Field(pattern=r"^(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)+[^/]+\.(?:json|safetensors|minisig)$")
]
_PLACES: dict[Kind, str] = {
    "record": r"results/.+\.json",
    "verification": r"verifications/[^/]+\.json",
    "weights": r"weights/[0-9a-f]{64}\.safetensors",
    "signature": r"results/.+\.json\.minisig",
}
"""Where files of a kind lie. Weights are found by their name, so each name is there only once."""


class LedgerEntry(RecordPart):
    """One line."""

    number: Positive = Field(description="Place in the ledger, from 1.")
    kind: Kind = Field(description="What the file is.")
    path: RelativePath = Field(description="The file, relative to the ledger's folder.")
    digest: Digest = Field(
        description="What the file states as its own digest; of weights and signatures, the file's "
        "SHA-256."
    )
    previous: Digest = Field(description="SHA-256 of the line before; zeros for the first.")

    @model_validator(mode="after")
    def _lies_where_its_kind_does(self) -> "LedgerEntry":
        if re.fullmatch(_PLACES[self.kind], self.path) is None:
            raise ValueError(f"{self.path} is no place for a file of the kind {self.kind}")
        return self


class Ledger(NamedTuple):
    """A ledger whose chain holds."""

    entries: tuple[LedgerEntry, ...]
    head: str
    """SHA-256 of the last line."""


def leaderboard_of(file: Path) -> Path | None:
    """Return the leaderboard that a file lies in, the innermost; `None` if it lies in none."""
    for found in file.resolve().parents:
        if (found / LEDGER_NAME).is_file():
            # In messages, a short path stays one.
            return next((path for path in file.parents if path.resolve() == found), found)
    return None


def require_listed(path: Path, expected: str, found: str) -> None:
    """Raise unless a file has the digest that the ledger lists for it.

    Args:
        path: of the file, for the message.
        expected: digest in the ledger.
        found: digest of the file.

    Raises:
        RecordError: it has another one.
    """
    if found != expected:
        raise RecordError(
            f"{path} is another file than the one that was added: the ledger expects the digest "
            f"{expected[:12]}, it has {found[:12]}; restore the file"
        )


def require_registered(settings: Mapping[str, Any], path: Path) -> None:
    """Raise unless what strangers may have added to a leaderboard names a registered method.

    Args:
        settings: of a record or a policy; opening either imports its method.
        path: its file, for the message.

    Raises:
        RecordError: it names a file or a module, which would be executed.
    """
    name = settings.get("method", "")
    if ":" in str(name) or settings.get("method_source_digest") is not None:
        raise RecordError(
            f"{path} names the method {name!r}, which is code in a file; a leaderboard holds "
            f"registered methods only, and what was made with another one is opened by its run "
            f"folder"
        )


def read_ledger(path: Path) -> Ledger:
    """Read a ledger and follow its chain.

    Raises:
        RecordError: it cannot be read, or a line is missing, changed, repeated or moved.
    """
    try:
        data = read_limited(path)
    except OSError as error:
        raise RecordError(f"cannot read the ledger {path}: {error.strerror}") from error
    return _follow(data, path)


def _follow(data: bytes, path: Path) -> Ledger:
    entries: list[LedgerEntry] = []
    head = BEGINNING
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        where = f"line {number} of the ledger {path}"
        try:
            entry = LedgerEntry.model_validate_json(line)
            spelled = _line(entry)
        except ValidationError as error:
            raise RecordError(
                f"{where} is damaged ({first_problem(error)}); restore the file"
            ) from error
        except ValueError as error:  # a number that is none in JSON
            raise RecordError(f"{where} is damaged ({error}); restore the file") from error
        if spelled != line:
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
        twice = next(name for name, count in Counter(paths).items() if count > 1)
        raise RecordError(f"the ledger {path} lists {twice} twice; restore the file")
    return Ledger(tuple(entries), head)


def append(path: Path, kind: Kind, file: str, digest: str) -> None:
    """Add a line; two processes that do so at the same time wait for each other.

    Args:
        path: the ledger; made if it does not exist.
        kind: what the file is.
        file: the file, relative to the ledger's folder.
        digest: what the file states as its digest; of weights and signatures, the file's SHA-256.

    Raises:
        RecordError: the chain does not hold, or the ledger lists the file already.
        StorageError: the line could not be written; the ledger is as before.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b", buffering=0) as ledger:
            fcntl.flock(ledger, fcntl.LOCK_EX)
            ledger.seek(0)
            data = ledger.read()
            entries, head = _follow(data, path)
            if any(entry.path == file for entry in entries):
                raise RecordError(
                    f"the ledger {path} lists {file} already; a file is added once and never again"
                )
            entry = LedgerEntry(
                number=len(entries) + 1, kind=kind, path=file, digest=digest, previous=head
            )
            _write_all(ledger, _line(entry), len(data))
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose a folder "
            f"you may write to"
        ) from error


def _write_all(ledger: FileIO, line: bytes, size: int) -> None:
    try:
        if ledger.write(line) != len(line):
            raise OSError("only a part of the line fitted")
        os.fsync(ledger.fileno())
    except OSError:
        ledger.truncate(size)  # half a line would make the whole ledger unreadable
        raise


def _line(entry: LedgerEntry) -> bytes:
    return canonical_json(entry.model_dump(mode="json")) + b"\n"
