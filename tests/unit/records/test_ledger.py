"""The ledger: a line that was removed, repeated, moved or changed is noticed."""

import fcntl
import hashlib
import json
import os
import re
import resource
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from gmc_bench.core.errors import RecordError, StorageError
from gmc_bench.records.ledger import BEGINNING, append, leaderboard_of, read_ledger
from gmc_bench.records.store import LEDGER_NAME
from gmc_bench.records.weights import find_record
from tests.support.records import digest_of

FILES = [f"results/demo/{name}.json" for name in "abcd"]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "board" / LEDGER_NAME
    for file in FILES:
        append(path, "record", file, digest_of(file))
    return path


def test_a_file_lies_in_the_innermost_leaderboard(tmp_path: Path, monkeypatch) -> None:
    inner = tmp_path / "outer" / "inner"
    (inner / "results").mkdir(parents=True)
    file = inner / "results" / "one.json"
    assert leaderboard_of(file) is None
    for folder in (inner.parent, inner):
        (folder / LEDGER_NAME).write_text("")
        assert leaderboard_of(file) == folder
    assert leaderboard_of(inner / LEDGER_NAME) == inner
    assert leaderboard_of(inner) == inner.parent
    # A path from within a folder stays short, where it names the leaderboard.
    monkeypatch.chdir(inner)
    assert leaderboard_of(Path("results/one.json")) == Path()
    monkeypatch.chdir(inner / "results")
    assert leaderboard_of(Path("one.json")) == inner
    # What lies outside does not lie inside for being named from within, or through a link.
    (tmp_path / "other.json").write_text("")
    assert leaderboard_of(Path("../../../other.json")) is None
    (inner / "link.json").symlink_to(tmp_path / "other.json")
    assert leaderboard_of(inner / "link.json") is None


def test_every_line_holds_the_digest_of_the_one_before(ledger: Path) -> None:
    lines = ledger.read_bytes().splitlines(keepends=True)
    contents = [json.loads(line) for line in lines]
    digests = [hashlib.sha256(line).hexdigest() for line in lines]
    assert [item["previous"] for item in contents] == [BEGINNING, *digests[:-1]]
    assert [item["number"] for item in contents] == [1, 2, 3, 4]
    entries, head = read_ledger(ledger)
    assert [entry.path for entry in entries] == FILES
    assert [entry.digest for entry in entries] == [digest_of(file) for file in FILES]
    assert head == digests[-1]


def test_a_line_is_on_disk_when_it_counts_as_added(ledger: Path, monkeypatch) -> None:
    synced, sync = [], os.fsync

    def note(handle: int) -> None:
        sync(handle)
        synced.append((os.fstat(handle).st_ino, os.fstat(handle).st_size))

    monkeypatch.setattr(os, "fsync", note)
    append(ledger, "record", "results/demo/e.json", digest_of("e"))
    assert synced[-1] == (ledger.stat().st_ino, ledger.stat().st_size)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_removed_line(ledger: Path, place: int) -> None:
    lines = ledger.read_bytes().splitlines(keepends=True)
    del lines[place]
    ledger.write_bytes(b"".join(lines))
    with pytest.raises(RecordError, match="lines were removed, repeated or moved; restore"):
        read_ledger(ledger)


@pytest.mark.parametrize("place", range(4))
def test_a_repeated_line(ledger: Path, place: int) -> None:
    lines = ledger.read_bytes().splitlines(keepends=True)
    for end in (place, len(lines)):
        ledger.write_bytes(b"".join([*lines[:end], lines[place], *lines[end:]]))
        with pytest.raises(RecordError, match="lines were removed, repeated or moved; restore"):
            read_ledger(ledger)


def test_every_other_order(ledger: Path) -> None:
    lines = ledger.read_bytes().splitlines(keepends=True)
    for order in list(permutations(lines))[1:]:
        ledger.write_bytes(b"".join(order))
        with pytest.raises(RecordError, match="does not follow the one before it"):
            read_ledger(ledger)


def test_changed_bytes_before_the_last_line(ledger: Path) -> None:
    data = ledger.read_bytes()
    last = data.rindex(b"\n", 0, -1)
    for place in range(0, last, 3):
        changed = bytes([data[place] ^ 1])
        ledger.write_bytes(data[:place] + changed + data[place + 1 :])
        with pytest.raises(RecordError, match="of the ledger"):
            read_ledger(ledger)


def test_a_change_of_the_last_line_changes_the_head(ledger: Path) -> None:
    # The chain cannot show it, which is why tables state the head.
    _, head = read_ledger(ledger)
    text = ledger.read_text()
    ledger.write_text(text.replace(digest_of(FILES[-1]), digest_of("another")))
    assert read_ledger(ledger).head != head


def test_a_cut_off_end_shortens_it_and_changes_the_head(ledger: Path) -> None:
    entries, head = read_ledger(ledger)
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[:-1]))
    found = read_ledger(ledger)
    assert (len(found.entries), len(entries)) == (3, 4)
    assert found.head != head


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"number":1', b'"number": 1'),
        (b'"number":1', b'"number":1.0'),
        (b'{"digest"', b'{"more":0,"digest"'),
        (b'"kind":"record"', b'"kind":"other"'),
        (b'"path":"results/demo/a.json"', b'"path":"../a.json"'),
        (b'"path":"results/demo/a.json"', b'"path":"/results/a.json"'),
        (b'"path":"results/demo/a.json"', b'"path":"results/../../a.json"'),
        (b'"path":"results/demo/a.json"', b'"path":"a.json"'),
        (b"\n", b"\r\n"),
        (b"\n", b"\n\n"),
    ],
)
def test_lines_are_spelled_one_way_only(ledger: Path, old: bytes, new: bytes) -> None:
    data = ledger.read_bytes()
    assert old in data
    ledger.write_bytes(data.replace(old, new, 1))
    with pytest.raises(RecordError, match=r"(is damaged|was changed after it was written)"):
        read_ledger(ledger)


def test_half_a_line(ledger: Path) -> None:
    data = ledger.read_bytes()
    for end in (-1, -2, -100):
        ledger.write_bytes(data[:end])
        with pytest.raises(RecordError, match=r"line 4 of the ledger .*; restore the file"):
            read_ledger(ledger)


def test_a_file_listed_twice_in_an_unbroken_chain(ledger: Path) -> None:
    lines = ledger.read_bytes().splitlines(keepends=True)
    again = json.loads(lines[0])
    again |= {"number": 5, "previous": hashlib.sha256(lines[-1]).hexdigest()}
    line = json.dumps(again, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    ledger.write_bytes(b"".join([*lines, line]))
    with pytest.raises(RecordError, match=re.escape(f"lists {FILES[0]} twice; restore the file")):
        read_ledger(ledger)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("record", "weights/a.json"),
        ("record", "other/results/a.json"),
        ("verification", "results/a.json"),
        ("verification", "verifications/more/a.json"),
        ("weights", f"other/{digest_of('a')}.safetensors"),  # would replace those of weights/
        ("weights", f"weights/more/{digest_of('a')}.safetensors"),
        ("weights", "weights/a.safetensors"),
        ("weights", f"weights/{digest_of('a')}.json"),
        ("signature", "results/a.minisig"),
        ("signature", "verifications/a.json.minisig"),
    ],
)
def test_a_file_of_a_kind_has_its_place(ledger: Path, kind: str, path: str) -> None:
    lines = ledger.read_bytes().splitlines(keepends=True)
    entry = json.loads(lines[0]) | {"number": 5, "kind": kind, "path": path}
    entry["previous"] = hashlib.sha256(lines[-1]).hexdigest()
    line = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    ledger.write_bytes(b"".join([*lines, line]))
    with pytest.raises(RecordError, match=rf"line 5 .*{path} is no place for a file of .* {kind}"):
        read_ledger(ledger)


def test_a_listed_file_is_not_added_again(ledger: Path) -> None:
    before = ledger.read_bytes()
    with pytest.raises(RecordError, match="already; a file is added once"):
        append(ledger, "record", FILES[0], digest_of("another"))
    assert ledger.read_bytes() == before


def test_nothing_is_added_to_a_broken_chain(ledger: Path) -> None:
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[1:]))
    before = ledger.read_bytes()
    with pytest.raises(RecordError, match="does not follow"):
        append(ledger, "record", "results/e.json", digest_of("e"))
    assert ledger.read_bytes() == before


def test_a_full_disk_leaves_no_half_line(ledger: Path) -> None:
    before = ledger.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A file that may grow by 10 bytes only: the write stops in the middle of the line.
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        with pytest.raises(StorageError, match=r"cannot write .*ledger\.jsonl"):
            append(ledger, "record", "results/e.json", digest_of("e"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert ledger.read_bytes() == before


def test_a_ledger_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="cannot read the ledger"):
        read_ledger(tmp_path)
    with pytest.raises(StorageError, match="cannot write"):
        append(tmp_path, "record", "results/a.json", digest_of("a"))


def test_two_processes_take_turns(ledger: Path) -> None:
    words = (str(ledger), "record", "results/late.json", digest_of("late"))
    code = (
        "import sys, pathlib\nfrom gmc_bench.records.ledger import append\n"
        "print('ready', flush=True)\n"
        "append(pathlib.Path(sys.argv[1]), *sys.argv[2:])"
    )
    with ledger.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        other = subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE)
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=0.5)
        assert len(read_ledger(ledger).entries) == 4
    assert other.wait(timeout=60) == 0
    other.stdout.close()
    assert read_ledger(ledger).entries[-1].path == "results/late.json"


def test_a_record_is_found_by_the_first_digits_of_its_digest(tmp_path: Path) -> None:
    alike, other, digest = ("ab" * 4 + "1" * 56), ("ab" * 4 + "2" * 56), "cd" * 32
    for file, each in zip(FILES, (alike, other, digest), strict=False):
        append(tmp_path / LEDGER_NAME, "record", file, each)
    append(tmp_path / LEDGER_NAME, "weights", f"weights/{'ef' * 32}.safetensors", "ef" * 32)
    for named, file in ((alike[:9], FILES[0]), (digest[:8], FILES[2]), (digest, FILES[2])):
        assert find_record(Path(named), tmp_path) == tmp_path / file
    for named, count in (("ab" * 4, "2"), ("ef" * 4, "no")):
        with pytest.raises(RecordError, match=f"{count} records of .* begins with {named}, one"):
            find_record(Path(named), tmp_path)
    assert find_record(Path(digest[:7]), tmp_path) == Path(digest[:7])  # too few: a path
