"""Signatures of a leaderboard's records: who may sign what, and which records need one."""

import hashlib
from pathlib import Path

import pytest
import yaml

from gmc_bench.core.errors import RecordError
from gmc_bench.leaderboard.signing import check_all, check_named, missing_signature, sign_record
from gmc_bench.records.ledger import append, read_ledger
from gmc_bench.records.signature import SIGNERS_NAME, make_key, signature_file
from gmc_bench.records.store import LEDGER_NAME, RECORD_NAME, read_stored_record, write_record
from gmc_bench.records.weights import weights_name
from tests.support.records import digest_of, make_record


def no_password() -> str:
    raise AssertionError("this key has no password")


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "mine.key"


@pytest.fixture
def board(tmp_path: Path, key: Path) -> Path:
    """Return a leaderboard with a record in its first line and one in its third, and a key."""
    root = tmp_path / "board"
    for seed in (1, 2):
        name = f"results/seed{seed}.json"
        write_record(root / name, make_record(seed=seed))
        append(root / LEDGER_NAME, "record", name, read_stored_record(root / name).digest)
        if seed == 1:
            append(root / LEDGER_NAME, "weights", weights_name(digest_of("x")), digest_of("x"))
    _ask_for(root, make_key(key, ""))
    return root


def _ask_for(root: Path, public: str, **others: object) -> None:
    (root / SIGNERS_NAME).write_text(yaml.safe_dump({"keys": {"jane": public}, **others}))


def _public(root: Path) -> str:
    return str(yaml.safe_load((root / SIGNERS_NAME).read_text())["keys"]["jane"])


def _found(root: Path) -> list[tuple[str, str, bool]]:
    """Return of each record that is checked its name, who signed it, and whether it is fine."""
    return [(item.record.stem, item.signer, not item.problem) for item in check_all(root)]


def test_a_record_that_is_listed_is_signed_once(
    board: Path, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(board)
    monkeypatch.chdir(tmp_path)
    path = sign_record(Path("link/results/seed2.json"), board, key, no_password)
    assert path == Path("link/results/seed2.json.minisig")
    entry = read_ledger(board / LEDGER_NAME).entries[-1]
    assert (entry.number, entry.kind, entry.path) == (
        4, "signature", "results/seed2.json.minisig",
    )  # fmt: skip
    assert entry.digest == hashlib.sha256(path.read_bytes()).hexdigest()
    write_record(board / "results" / "stray.json", make_record(seed=3))
    for name, why in (("seed2", "is signed already"), ("stray", "is not in the ledger")):
        with pytest.raises(RecordError, match=rf"{name}\.json {why}; sign a record of"):
            sign_record(board / "results" / f"{name}.json", board, key, no_password)
    assert not signature_file(board / "results" / "stray.json").exists()
    assert len(read_ledger(board / LEDGER_NAME).entries) == 4


def test_a_run_is_signed_beside_its_record(board: Path, key: Path, tmp_path: Path) -> None:
    run, public = tmp_path / "run", _public(board)
    write_record(run / RECORD_NAME, make_record(seed=3))
    assert list(check_named(run, board)) == []
    assert missing_signature(run / RECORD_NAME, board) == ""
    _ask_for(board, public, required_from=9)  # counted are lines that are there, not new ones
    assert "it is not signed; " in missing_signature(run / RECORD_NAME, board)
    assert sign_record(run, board, key, no_password) == run / f"{RECORD_NAME}.minisig"
    assert len(read_ledger(board / LEDGER_NAME).entries) == 3
    assert missing_signature(run / RECORD_NAME, board) == ""
    ((record, signer, problem),) = check_named(run, board)
    assert (record, signer, problem) == (run / RECORD_NAME, "jane", "")
    _ask_for(board, public, until={"jane": 9})  # given up, so that it signs nothing new
    assert "does not count for it" in missing_signature(run / RECORD_NAME, board)
    assert [item.signer for item in check_named(run, board)] == [""]


def test_records_need_a_signature_from_a_line_on(
    board: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    public = _public(board)
    assert _found(board) == []
    _ask_for(board, public, required_from=4)
    assert _found(board) == []
    _ask_for(board, public, required_from=3)
    assert _found(board) == [("seed2", "", False)]
    (missing,) = check_named(board / "results" / "seed2.json", board)
    assert "seed2.json is not signed; " in missing.problem
    _ask_for(board, public, required_from=1)
    assert _found(board) == [("seed1", "", False), ("seed2", "", False)]
    for seed in (1, 2):
        sign_record(board / "results" / f"seed{seed}.json", board, key, no_password)
    assert _found(board) == [("seed1", "jane", True), ("seed2", "jane", True)]
    _ask_for(board, public, until={"jane": 1})  # given up between the two records
    assert _found(board) == [("seed1", "jane", True), ("seed2", "", False)]
    monkeypatch.chdir(board)
    ((record, signer, problem),) = check_named(Path("results/seed1.json"), board)
    assert (record, signer, problem) == (board / "results" / "seed1.json", "jane", "")


def test_where_there_is_no_ledger_nothing_is_checked(tmp_path: Path) -> None:
    assert list(check_all(tmp_path)) == []
