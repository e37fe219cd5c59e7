"""A folder of records as the leaderboard sees it: what counts, what is verified, what is refused.

A folder with a ledger is a leaderboard: exactly the files that the ledger lists count. Any other
folder is a collection of runs: every record below it counts and none is verified.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from gmc_bench.core.errors import RecordError
from gmc_bench.records.ledger import BEGINNING, append, read_ledger, require_listed
from gmc_bench.records.schema import Mode, RunRecord, Split
from gmc_bench.records.signature import SUFFIX
from gmc_bench.records.store import (
    LEDGER_NAME,
    RecordFiles,
    RefusedFile,
    StoredRecord,
    read_records,
    read_stored_record,
    write_atomic,
)
from gmc_bench.records.verification import (
    Verification,
    read_verification,
    verification_bytes,
)
from gmc_bench.records.weights import WEIGHTS, KeptWeights, kept_in

RESULTS = "results"
VERIFICATIONS = "verifications"


class StoredVerification(NamedTuple):
    """A verification and where it was found, relative to the board's folder."""

    path: str
    verification: Verification
    digest: str


class Board(NamedTuple):
    """What a folder holds."""

    records: tuple[StoredRecord, ...]
    refused: tuple[RefusedFile, ...]
    verifications: tuple[StoredVerification, ...]
    """In the order they were made."""
    length: int
    """Lines of the ledger; 0 without one."""
    head: str
    """SHA-256 of the ledger's last line; zeros without one."""
    weights: Mapping[str, KeptWeights] = MappingProxyType({})
    """Files of weights, by the digest of the whole policy that records state."""

    @property
    def verified(self) -> frozenset[str]:
        """Digests of the records whose ranked episodes came out the same when last run again."""
        latest: dict[str, bool] = {}
        by_digest = {item.digest: item.record for item in self.records}
        for item in self.verifications:
            found = item.verification
            record = by_digest.get(found.record_digest)
            if record is not None and self._covers_rank(found, record):
                latest[found.record_digest] = found.passed
        return frozenset(digest for digest, passed in latest.items() if passed)

    def _covers_rank(self, found: Verification, record: RunRecord) -> bool:
        """Say whether a verification ran, from the record's weights, every episode that ranks."""
        split, mode = ranked_part(record)
        ranked = [item for item in record.returns if (item.split, item.mode) == (split, mode)]
        count = sum(len(item.episodes) for item in ranked)
        kept = self.weights.get(str(record.weights_digest))
        return found.weights_digest in {record.weights_digest, kept and kept.digest} and any(
            (part.split, part.mode, part.episodes) == (split, mode, count) for part in found.parts
        )


def ranked_part(record: RunRecord) -> tuple[Split, Mode]:
    """Return the split and mode that a record's place in a table depends on."""
    return record.ranked_split, "deterministic"


def read_board(folder: Path, *, any_weights: bool = False) -> Board:
    """Read a folder of records; with a ledger, check everything against it.

    Args:
        folder: of records.
        any_weights: only refuse a changed file of weights: no number comes from it, and who reads
            it is told.

    Raises:
        RecordError: the folder does not exist, or the ledger's chain is broken, or a file that it
            lists is missing or not the one that was added.
    """
    found = read_records(folder)
    if not (folder / LEDGER_NAME).exists():
        return Board(tuple(found.records), tuple(found.refused), (), 0, BEGINNING)
    ledger = read_ledger(folder / LEDGER_NAME)
    valid = {item.path: item for item in found.records}
    records: list[StoredRecord] = []
    verifications: list[StoredVerification] = []
    changed: list[RefusedFile] = []
    for entry in ledger.entries:
        path = folder / entry.path
        if not path.is_file():
            raise RecordError(
                f"the ledger {folder / LEDGER_NAME} lists {entry.path}, which is missing; restore "
                f"the file"
            )
        if entry.kind == "record":
            records.append(valid.get(entry.path) or read_stored_record(path, entry.path))
            require_listed(path, entry.digest, records[-1].digest)
        elif entry.kind == "weights":
            try:
                require_listed(path, entry.digest, _sha256(path))
            except RecordError as error:
                if not any_weights:
                    raise
                changed.append(RefusedFile(entry.path, str(error)))
        elif entry.kind == "signature":
            require_listed(path, entry.digest, _sha256(path))
        else:
            verifications.append(StoredVerification(entry.path, *read_verification(path)))
            require_listed(path, entry.digest, verifications[-1].digest)
    refused = _unlisted(found, folder, {entry.path for entry in ledger.entries})
    return Board(
        tuple(records),
        tuple(sorted([*refused, *changed])),
        tuple(verifications),
        len(ledger.entries),
        ledger.head,
        kept_in(ledger, folder),
    )


def says_something_new(board: Board, verification: Verification) -> bool:
    """Say whether a leaderboard shall keep an outcome: not a pass of what passed the last time.

    So whoever clones a leaderboard can verify all of it and has changed nothing. A folder of runs
    has no ledger to write to, and of records elsewhere nothing is kept.
    """
    if not board.length or verification.record_digest not in {
        item.digest for item in board.records
    }:
        return False

    def covered(item: Verification) -> set[tuple[str, str, int]]:
        found: set[tuple[str, str, int]] = {
            (part.split, part.mode, part.episodes) for part in item.parts if part.passed
        }
        if item.friction is not None and item.friction.passed:
            found.add(("frictions", "", item.friction.results))
        return found

    before = [
        item.verification
        for item in board.verifications
        if item.verification.record_digest == verification.record_digest
    ]
    known = bool(before) and before[-1].passed and covered(verification) <= covered(before[-1])
    return not (verification.passed and known)


def add_verification(folder: Path, verification: Verification) -> Path:
    """Add the outcome of a verification, passed or not, to a leaderboard.

    Returns:
        The file written; if the very same outcome is there already, its file.

    Raises:
        RecordError: the ledger is missing or its chain is broken, or it does not list the record.
        StorageError: a file could not be written.
    """
    data = verification_bytes(verification)
    digest = json.loads(data)["digest"]
    name = f"{VERIFICATIONS}/{verification.record_digest[:16]}-{digest[:16]}.json"
    entries = read_ledger(folder / LEDGER_NAME).entries
    if ("record", verification.record_digest) not in {(e.kind, e.digest) for e in entries}:
        raise RecordError(
            f"the ledger {folder / LEDGER_NAME} does not list the record "
            f"{verification.record_digest[:12]} that was verified; add its run with 'gmc-bench "
            f"leaderboard add RUN_DIR'"
        )
    if any(entry.path == name for entry in entries):
        return folder / name
    write_atomic(folder / name, data)
    append(folder / LEDGER_NAME, "verification", name, digest)
    return folder / name


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _unlisted(found: RecordFiles, folder: Path, listed: set[str]) -> list[RefusedFile]:
    reason = "it is not in the ledger; add runs with 'gmc-bench leaderboard add RUN_DIR'"
    others = (*folder.glob(f"{WEIGHTS}/*"), *folder.glob(f"{RESULTS}/**/*{SUFFIX}"))
    names = [item.path for item in found.records]
    names += (path.relative_to(folder).as_posix() for path in others)
    return sorted(
        [*(RefusedFile(name, reason) for name in names if name not in listed), *found.refused]
    )
