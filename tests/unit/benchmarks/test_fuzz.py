"""What broke a reader, and what fuzzing starts from, is read or refused in one sentence."""

import random
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import fuzz as subject
from benchmarks.fuzz import change_and_call, fuzz
from benchmarks.fuzz_targets import SEEDS, TARGETS, call, make_target, seeds
from gmc_bench.core.errors import ConfigError

SHORT, LONG = 20, 20_000
"""Changed inputs of each target."""


def test_every_target_has_inputs_to_start_from():
    assert {path.name for path in SEEDS.iterdir()} == set(TARGETS)
    assert all(seeds(name) for name in TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_readers_refuse_in_one_sentence(name):
    change_and_call(make_target(name), seeds(name), SHORT, random.Random(name))


@pytest.mark.parametrize("target", [lambda data: 1 // 0, lambda data: {}["a"]])
def test_a_reader_that_breaks_is_noticed(target):
    with pytest.raises((ZeroDivisionError, KeyError)):
        call(target, b"")


@pytest.mark.parametrize("swallowed", [Exception, BaseException])
def test_a_reader_that_takes_too_long_is_noticed_whatever_it_catches(swallowed, monkeypatch):
    monkeypatch.setattr(subject, "SECONDS", 0.05)
    tried = []

    def slow(data):
        end = time.process_time() + 0.2 * (len(tried) > 1)
        with suppress(swallowed):
            while time.process_time() < end:
                pass

    with pytest.raises(subject.TooSlowError):
        change_and_call(slow, [b"a"], 5, random.Random(1), tried.append)
    assert len(tried) == 2


@pytest.fixture
def ended(tmp_path, monkeypatch):
    """Let rounds end with an error of the process, and found inputs be kept elsewhere."""
    (tmp_path / "seeds" / "mjcf").mkdir(parents=True)
    monkeypatch.setattr(subject, "SEEDS", tmp_path / "seeds")

    def end(tried=None):
        def started(command, **_):
            if tried is not None:
                (tmp_path / "corpus" / "current").write_bytes(tried)
            said = "Traceback\n  somewhere\nxml.etree.ElementTree.ParseError: a sentence\n"
            return SimpleNamespace(returncode=1, stdout="", stderr=said)

        monkeypatch.setattr(subject.subprocess, "run", started)
        return lambda: fuzz("mjcf", 10, 0, tmp_path / "corpus", guided=False)

    return end


def test_the_input_that_ended_a_round_is_kept(ended):
    found = ended(b"<bad/>")()
    assert found["words"] == "xml.etree.ElementTree.ParseError: a sentence"
    assert (subject.SEEDS / "mjcf" / found["finding"]).read_bytes() == b"<bad/>"


def test_a_round_that_tries_nothing_finds_nothing(ended, tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "current").write_bytes(b"of the round before")
    with pytest.raises(ConfigError, match=r"a round of mjcf tried no input: xml.*: a sentence$"):
        ended()()
    assert list((subject.SEEDS / "mjcf").iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TARGETS)
def test_readers_keep_time_and_memory(name, tmp_path: Path):
    found = fuzz(name, LONG, 0, tmp_path / "corpus", guided=False)
    assert "finding" not in found, found["words"]
    assert found["slowest_s"] < 5
