"""Benchmarks of faults: what they count as noticed."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.corruption import BAD, DAMAGES, Corruption
from benchmarks.kept_files import KeptFiles, make_kept_files
from gmc_bench.bodies.store import DATA_VARIABLE
from gmc_bench.core.errors import RecordError
from gmc_bench.profiling.report import ROOT


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_damage_damages(damage):
    data = bytes(range(256)) * 4
    rng = np.random.default_rng(0)
    assert sum(damage(data, rng) != data for _ in range(20)) >= 15


def test_outcomes_of_damage_are_told_apart(tmp_path):
    path = tmp_path / "kept"
    path.write_bytes(b"0" * 40)

    def outcomes(read, is_less=lambda found, whole: False):
        corruption = Corruption([KeptFiles("kept", tmp_path, ("kept",), read, is_less)])
        found = {corruption.try_one(number)[2] for number in range(20)}
        assert path.read_bytes() == b"0" * 40
        return found

    def refusing():
        if path.read_bytes() != b"0" * 40:
            raise RecordError("it is damaged")

    assert outcomes(refusing) == {"refused"}
    assert outcomes(lambda: 1) == {"without effect"}
    assert outcomes(path.read_bytes) == {"missed"}
    assert outcomes(path.read_bytes, lambda found, whole: True) == {"passed over"}
    assert outcomes(path.read_bytes, lambda found, whole: whole == b"0" * 40) == {"passed over"}
    assert outcomes(lambda: int(path.read_bytes())) >= {"failed", "missed"}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_damage_of_every_kind_of_file_is_noticed(tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, "")  # which making the files sets
    corruption = Corruption(make_kept_files(tmp_path))
    found = [corruption.try_one(number) for number in range(2000)]
    assert [row for row in found if row[2] in BAD] == []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_disturbed_runs_end_as_if_they_had_not_been(tmp_path: Path):
    out = tmp_path / "chaos.json"
    command = [sys.executable, "-m", "benchmarks.chaos", "--kills", "30", "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert json.loads(out.read_bytes())["counts"]["kills"] >= 30
