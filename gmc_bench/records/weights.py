"""Weights that a leaderboard keeps beside its records, so that whoever has it can play them.

A file holds what acts: actor and observation statistics, not the critic. It is named after the
digest of the whole policy, which the record states; the ledger lists the SHA-256 of the file.
"""

import hashlib
import re
from pathlib import Path
from typing import NamedTuple

from gmc_bench.core.errors import CheckpointError, RecordError
from gmc_bench.records.ledger import Ledger, leaderboard_of, read_ledger
from gmc_bench.records.store import LEDGER_NAME, RESULTS, StoredRecord, read_stored_record

LEADERBOARD = Path("leaderboards")
"""The repository's, from the top folder of a checkout."""
WEIGHTS = "weights"
MAX_MIB = 24
"""Largest file that is kept: everything that a method with shared weights needs fits."""

_DIGITS = re.compile(r"[0-9a-f]{8,64}")


class KeptWeights(NamedTuple):
    """A file of weights, and what it must be."""

    path: Path
    digest: str
    """SHA-256 of its content."""

    def read(self) -> bytes:
        """Return the content.

        Raises:
            CheckpointError: it cannot be read, or is not what it must be.
        """
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise CheckpointError(
                f"cannot read {self.path}: {error.strerror}; restore the file"
            ) from error
        found = hashlib.sha256(data).hexdigest()
        if found != self.digest:
            raise CheckpointError(
                f"{self.path} is another file than the one that was added, or of which a record "
                f"was made: expected the digest {self.digest[:12]}, got {found[:12]}; restore the "
                f"file"
            )
        return data


def weights_name(weights_digest: str) -> str:
    """Return where a leaderboard keeps the weights that a record states, from its own folder."""
    return f"{WEIGHTS}/{weights_digest}.safetensors"


def find_record(named: Path, root: Path = LEADERBOARD) -> Path:
    """Return the file of a record that is named by its path, or by first digits of its digest.

    Args:
        named: a path, or at least eight digits.
        root: the leaderboard whose digests count.

    Returns:
        The record's file; a path is returned as it is, whether something is there or not.

    Raises:
        RecordError: no record, or more than one, has this digest, there is no leaderboard to look
            it up in, or its ledger is damaged.
    """
    if not _DIGITS.fullmatch(str(named)) or named.exists():
        return named
    if not (root / LEDGER_NAME).is_file():
        raise RecordError(
            f"{named} is no file or folder here, and cannot be looked up as the digest of a "
            f"record, because {root.absolute()} is no leaderboard (it has no {LEDGER_NAME}); give "
            f"a path, or work in the folder that holds {LEADERBOARD}"
        )
    found = [
        entry.path
        for entry in read_ledger(root / LEDGER_NAME).entries
        if entry.kind == "record" and entry.digest.startswith(str(named))
    ]
    if len(found) != 1:
        raise RecordError(
            f"{len(found) or 'no'} records of {root} have a digest that begins with {named}, one "
            f"was expected; give the digest in the name of a file below {root / RESULTS}"
        )
    return root / found[0]


def weights_of(record: Path, stored: StoredRecord | None = None) -> KeptWeights:
    """Return the weights that a leaderboard keeps of one of its records.

    Args:
        record: the record's file inside the leaderboard.
        stored: its content, if it was read already.

    Raises:
        CheckpointError: it keeps none, or the record is in no leaderboard.
        RecordError: the record or the ledger is damaged.
    """
    stored = stored or read_stored_record(record)
    root = leaderboard_of(record)
    if root is not None:
        kept = kept_in(read_ledger(root / LEDGER_NAME), root)
        found = kept.get(str(stored.record.weights_digest))
        if found is not None:
            return found
    raise CheckpointError(
        f"no weights are kept beside {record}: it is in no leaderboard, is older than weights in "
        f"leaderboards, or they are larger than {MAX_MIB} MiB; give the folder of its run"
    )


def kept_at(path: Path) -> KeptWeights | None:
    """Return what a file of weights must be if it is one that a leaderboard keeps, else `None`.

    Raises:
        RecordError: the ledger is damaged.
    """
    root = path.parent.parent
    if path.parent.name != WEIGHTS or not (root / LEDGER_NAME).is_file():
        return None
    kept = kept_in(read_ledger(root / LEDGER_NAME), root).get(path.stem)
    return kept if kept is not None and kept.path.name == path.name else None


def kept_in(ledger: Ledger, root: Path) -> dict[str, KeptWeights]:
    """Return what a ledger lists in a folder, by the digest of the whole policy."""
    return {
        Path(entry.path).stem: KeptWeights(root / entry.path, entry.digest)
        for entry in ledger.entries
        if entry.kind == "weights"
    }
