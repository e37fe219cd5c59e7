import pytest

from gmc_bench.core.errors import StorageError
from gmc_bench.generation.journal import Journal, Judged, read_line, write_line
from gmc_bench.generation.judge import Verdict
from gmc_bench.generation.recipe import Recipe

RECIPE = Recipe(seed=1, train=4, test=3, limbs=(3, 5))
ROWS = [
    Judged(index=index, digest="abc", verdict=Verdict(fault="mass", best_distance=0.1 * index))
    for index in range(4)
]


def _written(path):
    book = Journal(path, RECIPE)
    for judged in ROWS:
        book.add(judged)
    book.close()
    return path


def _read(path):
    book = Journal(path, RECIPE)
    book.close()
    return list(book.judged.values())


def test_verdicts_come_back(tmp_path):
    assert _read(_written(tmp_path / "j")) == ROWS
    assert read_line(write_line(ROWS[3]).encode()) == ROWS[3]


def test_a_verdict_is_on_disk_as_soon_as_it_counts(tmp_path):
    """A search that is killed closes no file."""
    book = Journal(tmp_path / "j", RECIPE)
    for number, judged in enumerate(ROWS, start=1):
        book.add(judged)
        lines = (tmp_path / "j").read_bytes().splitlines()
        assert [read_line(line) for line in lines[1:]] == ROWS[:number]
    book.close()


@pytest.mark.parametrize("tail", [b'{"index": 9', b"\x00" * 50, b"\xff"])
def test_half_a_line_at_the_end_is_cut_off(tail, tmp_path):
    whole = _written(tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(whole + tail)
    assert _read(tmp_path / "j") == ROWS
    assert (tmp_path / "j").read_bytes() == whole


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line.replace(b'"index": 1', b'"index": 3'),
        lambda line: line.replace(b'"mass"', b'""'),
        lambda line: line[:-5],
        lambda line: b"[]",
        lambda line: b"\xff\xfe",
        lambda line: b'{"index": [1], "digest": "", "verdict": {}, "check": 0}',
        lambda line: b"[" * 100_000,
    ],
)
def test_a_damaged_line_is_no_verdict_and_the_others_count(damage, tmp_path):
    lines = _written(tmp_path / "j").read_bytes().splitlines()
    lines[2] = damage(lines[2])
    (tmp_path / "j").write_bytes(b"\n".join(lines) + b"\n")
    assert _read(tmp_path / "j") == [ROWS[0], *ROWS[2:]]


@pytest.mark.parametrize("content", [b"", b'{"reci', b"\x00" * 50])
def test_a_search_that_was_killed_at_its_first_line_begins_anew(content, tmp_path):
    whole = _written(tmp_path / "j").read_bytes()
    (tmp_path / "k").write_bytes(content)
    assert _written(tmp_path / "k").read_bytes() == whole


@pytest.mark.parametrize("content", [b"my notes", b"my notes\non two lines", b"\n", b"\xff\xfe"])
def test_other_files_are_refused_and_left_as_they_are(content, tmp_path):
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(StorageError, match="not the journal of this search"):
        Journal(tmp_path / "j", RECIPE)
    assert (tmp_path / "j").read_bytes() == content


def test_other_journals_are_refused_and_left_as_they_are(tmp_path):
    whole = _written(tmp_path / "j").read_bytes()
    with pytest.raises(StorageError, match="not the journal of this search") as refused:
        Journal(tmp_path / "j", Recipe(seed=2, train=1, test=1, limbs=(3, 5)))
    assert (tmp_path / "j").read_bytes() == whole
    Journal(tmp_path / "j", RECIPE).close()  # the refusal gave the lock back
    assert str(refused.value).endswith("remove it to search anew")  # while it was still at hand
