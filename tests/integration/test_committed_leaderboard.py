"""The leaderboard in this repository: its ledger, its records, and the files made from them."""

from importlib.metadata import version
from pathlib import Path

import pytest

from gmc_bench.leaderboard.board import read_board
from gmc_bench.leaderboard.build import check
from gmc_bench.records.ledger import LEDGER_NAME, read_ledger

ROOT = Path(__file__).parents[2]
BOARD = ROOT / "leaderboards"


def _pinned(name: str) -> str:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return next(line.partition("==")[2] for line in lines if line.startswith(f"{name}=="))


def test_every_record_is_the_one_that_was_added_and_was_verified() -> None:
    board = read_board(BOARD)
    assert not board.refused
    assert board.length == len(board.records) + len(board.verifications) + len(board.weights)
    assert {item.digest for item in board.records} == board.verified
    assert all(item.record.official and not item.record.git_dirty for item in board.records)


def test_weights_are_kept_of_every_record_since_weights_are() -> None:
    board, entries = read_board(BOARD), read_ledger(BOARD / LEDGER_NAME).entries
    first = next((item.number for item in entries if item.kind == "weights"), len(entries))
    later = {item.digest for item in entries[first:] if item.kind == "record"}
    for item in board.records:
        if item.digest in later and item.record.controller == "shared":
            assert item.record.weights_digest in board.weights, item.path


def test_tables_and_readme_are_what_the_records_give() -> None:
    outdated = check(BOARD, BOARD, ROOT / "README.md")
    if version("matplotlib") != _pinned("matplotlib"):
        outdated = [path for path in outdated if path.suffix != ".svg"]
        if not outdated:
            pytest.skip("figures are compared with the pinned matplotlib only")
    assert outdated == []
