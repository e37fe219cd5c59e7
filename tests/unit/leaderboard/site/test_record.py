"""The page of a record: commands that can be pasted, and every body once."""

import shlex
from dataclasses import replace
from typing import Any

import pytest

from gmc_bench.leaderboard.site.record import record_context, run_command
from gmc_bench.methods import METHODS
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import StoredRecord, record_digest
from tests.support.records import UNTRAINED, make_friction, make_record, make_returns


def _view(record: RunRecord, path: str = "results/a.json") -> dict[str, Any]:
    return record_context(StoredRecord(path, record, record_digest(record)))


def test_command_repeats_the_run() -> None:
    assert run_command(make_record(seed=7)) == (
        "gmc-bench run --method demo --suite unimal-v1 --task unimal-ft-v1 --protocol lite "
        "--morphologies demo-set-v1 --seed 7 --threads 2"
    )


def test_command_repeats_the_run_on_a_machine_like_its_own() -> None:
    """Networks on another device, and sums over other numbers of threads, give other bits."""
    record = make_record()
    machine = record.hardware.model_copy(update={"threads": 3, "processes": 4, "gpu": "H100"})
    command = run_command(record.model_copy(update={"hardware": machine}))
    assert command.endswith(" --seed 0 --threads 3 --processes 4 --device cuda")


def test_command_repeats_a_run_without_training() -> None:
    assert run_command(make_record(**UNTRAINED)).endswith(" --threads 2 --untrained")


def test_command_names_the_file_that_defines_the_method() -> None:
    def method(given: str) -> str:
        return shlex.split(run_command(make_record(config={"method": given})))[3]

    assert method("my methods/one.py:SPEC") == "my methods/one.py:SPEC"
    assert method("demo") == "demo"


KEY = "unimal-v1/unimal-ft-v1/lite"
TUNED = {"ppo.lr": 0.0013, "ppo.target_kl": 0.11, "model.embedding_dropout": 0.1}


@pytest.fixture
def tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `recmorph` be tuned to `TUNED`."""
    method = replace(METHODS.get("recmorph"), tuned={KEY: TUNED})
    monkeypatch.setattr(METHODS, "get", {"recmorph": method}.__getitem__)


def _settings_in_command(lr: Any, target_kl: Any, dropout: Any) -> list[str]:
    config = {
        "protocol": {"ppo": {"lr": lr, "target_kl": target_kl}},
        "method_config": {"embedding_dropout": dropout},
    }
    command = run_command(make_record(method="recmorph", config=config))
    return shlex.split(command)[shlex.split(command).index("--threads") + 2 :]


def test_command_repeats_a_run_before_tuning(tuned: None) -> None:
    assert _settings_in_command(0.001, None, 0) == [
        *("--ppo.lr", "0.001", "--ppo.target-kl", "none", "--model.embedding-dropout", "0"),
    ]
    assert _settings_in_command(0.0013, 0.11, 0.2) == ["--model.embedding-dropout", "0.2"]


def test_command_of_a_tuned_run_needs_no_settings(tuned: None) -> None:
    assert _settings_in_command(*TUNED.values()) == []
    assert _settings_in_command("0.5", [1], {}) == []  # no numbers
    assert run_command(make_record(method="recmorph")).endswith("--threads 2")  # none at all


@pytest.mark.parametrize("path", ["a; rm -rf ~.json", "$(x).json", "-rf", "it's.json"])
def test_paths_are_quoted_for_the_shell(path: str) -> None:
    command = str(_view(make_record(), path)["verify_command"])
    assert shlex.split(command) == ["gmc-bench", "leaderboard", "verify", f"./{path}"]


@pytest.mark.parametrize("path", ["a\nb.json", "a\u202eb.json", "a\x1bb.json"])
def test_paths_with_invisible_characters_are_not_offered(path: str) -> None:
    assert str(_view(make_record(), path)["verify_command"]).endswith("./record.json")


def test_modes_share_the_line_of_a_body() -> None:
    returns = make_record().returns + make_returns("test", {"c": [1.0, 3.0]}, mode="stochastic")
    view = _view(make_record(returns=returns))
    assert view["modes"] == ["deterministic", "stochastic"]
    bodies = view["bodies"]
    assert [(line["body"].split, line["body"].body) for line in bodies] == [
        ("train", "a"),
        ("train", "b"),
        ("test", "b"),
        ("test", "c"),
        ("test", "d"),
    ]
    assert [line["means"] for line in bodies[3:]] == [[20.0, 2.0], [40.0, None]]
    assert bodies[2]["body"].seen_in_train


def test_many_episodes_are_told_as_a_range_and_by_their_ends() -> None:
    def line(returns: list[float], *fell: int) -> dict[str, Any]:
        (item,) = make_returns("train", {"a": returns})
        episodes = [
            episode.model_copy(update={"length": 400, "ended": "fell"}) if n in fell else episode
            for n, episode in enumerate(item.episodes)
        ]
        item = item.model_copy(update={"episodes": tuple(episodes)})
        (found,) = _view(make_record(returns=[item]))["bodies"]
        return {name: found[name] for name in ("returns", "length", "ended")}

    assert line([30.0, 10.0, 90.0], 0, 2) == {
        "returns": "30.0; 10.0; 90.0", "length": "600", "ended": "fell 2, time_limit 1",
    }  # fmt: skip
    assert line([30.0, 10.0, 90.0, 20.0]) == {
        "returns": "10.0 to 90.0 in 4 episodes", "length": "1000", "ended": "time_limit",
    }  # fmt: skip


def test_every_field_is_listed_or_shown_elsewhere() -> None:
    unknown = {"morphologies": None, "morphologies_digest": None, "env_steps": None, "trials": []}
    tuning = {"settings": {"ppo.lr": 1e-3}, **unknown}
    changes = {"loops_opened": 3, "metres_per_return": 0.02, "remarks": ("one",)}
    view = _view(make_record(tuning=tuning, **changes))
    listed = {name.split(".")[0] for name, _ in view["fields"]}
    shown = {"returns", "learning_curve", "config", "unofficial_reasons", "friction", "tuning"}
    shown |= {"untrained"}  # a run that trained does not state it
    assert listed | shown == set(RunRecord.model_fields)


def test_trials_of_a_tuned_method_are_shown() -> None:
    trial = {"settings": {"ppo.lr": 0.002}, "returns": {"1001": 5.0, "1002": None}}
    tuning = {
        "settings": {"ppo.lr": 0.002},
        "morphologies": "s-v1",
        "morphologies_digest": None,
        "env_steps": 100,
        "trials": [trial],
    }
    view = _view(make_record(tuning=tuning))
    assert view["trials"] == [{"settings": "ppo.lr 0.002", "returns": [5.0, None]}]
    assert view["kept"] == "ppo.lr 0.002"
    assert _view(make_record())["trials"] == []


def test_every_robot_and_friction_has_a_line_of_its_metrics() -> None:
    view = _view(make_record(friction=make_friction()))
    lines = [(line["result"].robot, line["result"].friction) for line in view["frictions"]]
    assert lines == [(item["robot"], item["friction"]) for item in make_friction()]
    place = view["friction_headings"].index("Progress (m)")
    assert [line["metrics"][place] for line in view["frictions"]] == [
        item["restarts"]["progress"] for item in make_friction()
    ]
    assert _view(make_record())["frictions"] == []
