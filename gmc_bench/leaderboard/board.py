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
from gmc_bench.records.ledger import (
    BEGINNING,
    append,
    leaderboard_of,
    read_ledger,
    require_listed,
    require_registered,
)
from gmc_bench.records.schema import Mode, RunRecord, Split
from gmc_bench.records.signature import SUFFIX
from gmc_bench.records.store import (
    LEDGER_NAME,
    RESULTS,
    RecordFiles,
    RefusedFile,
    StoredRecord,
    read_records,
    read_stored_record,
    seal,
    write_atomic,
)
from gmc_bench.records.verification import Verification, read_verification
from gmc_bench.records.weights import LEADERBOARD, WEIGHTS, KeptWeights, kept_in

VERIFICATIONS = "verifications"


Place = tuple[str, str, int]
"""Part of a verification: split, mode and number of episodes; or frictions, with their number."""


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
        """Digests of the records whose ranked episodes came out the same when last run again.

        Nor may anything else have failed since it last passed: a failure is cleared by what was
        run again, not by a verification of less.
        """
        by_digest = {item.digest: item.record for item in self.records}
        return frozenset(
            digest
            for digest, last in self.outcomes.items()
            if all(last.values()) and _ranked_place(by_digest[digest]) in last
        )

    @property
    def outcomes(self) -> dict[str, dict[Place, bool]]:
        """By digest of the record whether its parts passed when last run from its weights."""
        by_digest = {item.digest: item.record for item in self.records}
        found: dict[str, dict[Place, bool]] = {}
        for _, item, _ in self.verifications:
            record = by_digest.get(item.record_digest)
            if record is not None and self._ran_from_its_weights(item, record):
                found.setdefault(item.record_digest, {}).update(_outcomes(item))
        return found

    def _ran_from_its_weights(self, found: Verification, record: RunRecord) -> bool:
        kept = self.weights.get(str(record.weights_digest))
        return found.weights_digest in {record.weights_digest, kept and kept.digest}


def ranked_part(record: RunRecord) -> tuple[Split, Mode]:
    """Return the split and mode that a record's place in a table depends on."""
    return record.ranked_split, "deterministic"


def _ranked_place(record: RunRecord) -> Place:
    """Return what must have been run again of a record whose place shall count as verified."""
    part = ranked_part(record)
    ranked = [item for item in record.returns if (item.split, item.mode) == part]
    return *part, sum(len(item.episodes) for item in ranked)


def _outcomes(verification: Verification) -> dict[Place, bool]:
    """Return whether each part of a verification passed."""
    found: dict[Place, bool] = {
        (part.split, part.mode, part.episodes): part.passed for part in verification.parts
    }
    if (friction := verification.friction) is not None:
        found["frictions", "", friction.results] = friction.passed
    return found


def board_of(record: Path | None, folder: Path | None) -> tuple[Path, Board]:
    """Read the leaderboard that a record is looked up in.

    Args:
        record: its file, if it is named by one.
        folder: of the leaderboard; by default the one that the file lies in, or the usual one.

    Returns:
        The folder, and what it holds: nothing if it is not there.

    Raises:
        RecordError: see `read_board`.
    """
    if folder is None and record is not None and record.exists():
        folder = leaderboard_of(record)
    folder = folder or LEADERBOARD
    empty = Board((), (), (), 0, BEGINNING)
    return folder, read_board(folder) if folder.is_dir() else empty


def read_board(folder: Path, *, any_weights: bool = False) -> Board:
    """Read a folder of records; with a ledger, check everything against it.

    Args:
        folder: of records.
        any_weights: list a changed file of weights as refused instead of raising: no number comes
            from it, and reading it raises.

    Raises:
        RecordError: the folder does not exist, or the ledger's chain is broken, or a file that it
            lists is missing or not the one that was added, or a record names code in a file.
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
            require_registered(records[-1].record.config, path)
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
    digest = verification.record_digest
    if not board.length or digest not in {item.digest for item in board.records}:
        return False
    known = board.outcomes.get(digest, {})
    return not all(passed and known.get(part) for part, passed in _outcomes(verification).items())


def add_verification(folder: Path, verification: Verification) -> Path:
    """Add the outcome of a verification, passed or not, to a leaderboard.

    Returns:
        The file written; if the very same outcome is there already, its file.

    Raises:
        RecordError: the ledger is missing or its chain is broken, or it does not list the record.
        StorageError: a file could not be written.
    """
    data = seal(verification)
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
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise RecordError(
            f"cannot read {path}, which the ledger lists: {error.strerror}; restore the file"
        ) from error


def _unlisted(found: RecordFiles, folder: Path, listed: set[str]) -> list[RefusedFile]:
    """Return the files that no line of the ledger lists, and those that are no records."""

    def named(pattern: str) -> list[str]:
        return [path.relative_to(folder).as_posix() for path in folder.glob(pattern)]

    runs = [item.path for item in found.records]
    runs += [*named(f"{WEIGHTS}/*"), *named(f"{RESULTS}/**/*{SUFFIX}")]
    add = "it is not in the ledger; add runs with 'gmc-bench leaderboard add RUN_DIR'"
    # A failed one whose line was removed would leave its record verified.
    restore = (
        "no line of the ledger lists this verification, so that it does not count; restore the "
        "ledger if its line was removed, or else delete the file"
    )
    reasons = dict.fromkeys(runs, add) | dict.fromkeys(named(f"{VERIFICATIONS}/*.json"), restore)
    left = (RefusedFile(name, why) for name, why in reasons.items() if name not in listed)
    return sorted([*left, *found.refused])
