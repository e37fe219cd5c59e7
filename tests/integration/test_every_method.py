"""Every registered method trains and is scored at the protocol `smoke`, as a user would do it."""

import json
import math

import pytest

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.store import DATA_VARIABLE, store_set
from gmc_bench.cli.main import main
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.leaderboard.rules import installed_rules
from gmc_bench.methods import METHODS
from gmc_bench.records.store import read_record
from tests.support.slow import slow_but


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder of body sets that holds `tiny`: three bodies to train on, one to test."""
    folder = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA_VARIABLE, str(folder))
        splits = {"train": (chain(3), star(3), biped()), "test": (chain(4),)}
        store_set(MorphologySet(id="tiny", splits=splits, source="made for tests", licence="MIT"))
    return folder


OFFICIAL = ("recmorph", "mlp")
"""These run all of the protocol; the others, a quarter of its steps."""


@pytest.mark.parametrize("name", slow_but(METHODS.names(), "mlp"))
def test_smoke(name, data, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv(DATA_VARIABLE, str(data))
    monkeypatch.chdir(tmp_path)
    command = ["run", "--method", name, "--suite", "unimal", "--task", "ft", "--protocol", "smoke"]
    command += ["--morphologies", "tiny", "--threads", "1", "--out", "run"]
    spec, official = METHODS.get(name), name in OFFICIAL
    steps = 8192 if official else 2048
    if not official:
        command += ["--env-steps", str(steps)]
    assert main(command) == 0, capfd.readouterr().err
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert record["status"] == "complete"
    # Separate bodies have whole iterations of their own, of 5 environments x 64 steps.
    per_body = spec.capabilities.per_body
    assert record["env_steps"] == (steps // 1024 * 3 * 5 * 64 if per_body else steps)
    assert record["official"] is official
    bodies = 3 if per_body else 1
    assert record["parameters"] == bodies * spec.parameters["lite"]
    scored = {item["body"]: item["episodes"][0]["episode_return"] for item in record["returns"]}
    assert len(scored) == (3 if per_body else 4)
    assert all(math.isfinite(value) for value in scored.values())
    assert len(record["learning_curve"]) == steps // 1024
    if record["official"]:
        rules = installed_rules(read_record(tmp_path / "run" / "record.json"))
        assert (rules.env_steps, rules.method_version) == (record["env_steps"], spec.version)
