"""What broke a reader, and what fuzzing starts from, is read or refused in one sentence."""

import random
from pathlib import Path

import pytest

from benchmarks.fuzz import change_and_call, fuzz
from benchmarks.fuzz_targets import SEEDS, TARGETS, call, make_target, seeds

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


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TARGETS)
def test_readers_keep_time_and_memory(name, tmp_path: Path):
    found = fuzz(name, LONG, 0, tmp_path / "corpus", guided=False)
    assert "finding" not in found, found["words"]
    assert found["slowest_s"] < 5
