"""Signed records of a leaderboard: signing one that is there, and checking all that are."""

import hashlib
import math
import warnings
from collections.abc import Callable, Iterator
from getpass import GetPassWarning, getpass
from pathlib import Path
from typing import NamedTuple

from gmc_bench.core.errors import ConfigError, RecordError
from gmc_bench.records.ledger import append, leaderboard_of, read_ledger
from gmc_bench.records.signature import (
    SIGNERS_NAME,
    Signers,
    read_signers,
    sign,
    signature_file,
    signer_of,
)
from gmc_bench.records.store import LEDGER_NAME, RECORD_NAME
from gmc_bench.records.weights import find_record


class Checked(NamedTuple):
    """What came of one record's signature."""

    record: Path
    signer: str
    """Who signed; empty if nobody whose signature counts."""
    problem: str
    """What is wrong, in one sentence; empty if nothing is."""


def ask_password(prompt: str) -> str:
    """Ask for a password at the terminal.

    Raises:
        ConfigError: there is none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", GetPassWarning)  # it would read, and show, plain input
            return getpass(prompt)
    except (EOFError, GetPassWarning):
        raise ConfigError("a password is asked for, but there is no terminal; use one") from None


def sign_record(named: Path, root: Path, key: Path, password: Callable[[], str]) -> Path:
    """Sign the record of a run, or one that a leaderboard has; the latter's ledger gets a line.

    Args:
        named: a run folder, the file of a record, or the first digits of its digest.
        root: the leaderboard whose digests count.
        key: file of the secret key.
        password: asks for its password, where it has one.

    Returns:
        The signature's file.

    Raises:
        GmcBenchError: see `records.signature.sign` and `records.ledger.append`.
    """
    record = _record_of(named, root)
    board = leaderboard_of(record)
    path = signature_file(record)
    if board is None:
        return sign(record, key, password)
    name = path.resolve().relative_to(board.resolve()).as_posix()
    listed = {entry.path for entry in read_ledger(board / LEDGER_NAME).entries}
    if name in listed or name.removesuffix(path.suffix) not in listed:
        why = "is signed already" if name in listed else "is not in the ledger"
        raise RecordError(
            f"{record} {why}; sign a record of {board} that is listed and has no signature, or a "
            f"run folder"
        )
    sign(record, key, password)
    append(board / LEDGER_NAME, "signature", name, hashlib.sha256(path.read_bytes()).hexdigest())
    return path


def check_all(root: Path) -> Iterator[Checked]:
    """Check the signatures of a leaderboard's records; those that need and have none are left out.

    Raises:
        ConfigError: the list of signers does not hold, or the package that checks is missing.
        RecordError: the ledger is damaged.
    """
    if not (root / LEDGER_NAME).is_file():
        return
    signers = read_signers(root)
    entries = read_ledger(root / LEDGER_NAME).entries
    signed = {entry.path for entry in entries if entry.kind == "signature"}
    for entry in entries:
        if entry.kind != "record":
            continue
        record = root / entry.path
        if signature_file(Path(entry.path)).as_posix() in signed:
            yield _check(record, signers, entry.number)
        elif signers.required_from is not None and entry.number >= signers.required_from:
            yield Checked(record, "", f"{record} is not signed; {_rule(root, signers)}")


def check_named(named: Path, root: Path) -> Iterator[Checked]:
    """Check the signature of one record, if there is one beside it.

    Args:
        named: a run folder, the file of a record, or the first digits of its digest.
        root: the leaderboard whose digests and signers count.

    Raises:
        ConfigError: as for `check_all`.
        RecordError: likewise.
    """
    record = _record_of(named, root)
    listed = [item for item in check_all(root) if item.record.resolve() == record.resolve()]
    if listed or not signature_file(record).is_file():
        yield from listed
    else:
        yield _check(record, read_signers(root))


def missing_signature(record: Path, root: Path) -> str:
    """Return why a new record cannot be added as it is signed, or unsigned; empty if it can."""
    signers = read_signers(root)
    if signature_file(record).is_file():
        return _check(record, signers).problem
    return "" if signers.required_from is None else f"it is not signed; {_rule(root, signers)}"


def _record_of(named: Path, root: Path) -> Path:
    found = find_record(named, root)
    return found / RECORD_NAME if found.is_dir() else found


def _check(record: Path, signers: Signers, line: float = math.inf) -> Checked:
    try:
        return Checked(record, signer_of(record, signers, line), "")
    except RecordError as error:
        return Checked(record, "", str(error))


def _rule(root: Path, signers: Signers) -> str:
    return (
        f"{root / SIGNERS_NAME} asks for signatures from line {signers.required_from} of the "
        f"ledger on: sign it with 'gmc-bench leaderboard sign'"
    )
