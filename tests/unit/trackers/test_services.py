"""What trackers send to their services: all of it, and nothing else. The services are stand-ins."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gmc_bench.trackers import TRACKERS, Connection, TrackedRun


class Recorder:
    """Writes down every call of every method; what they return can be set by name."""

    def __init__(self, **answers: Any) -> None:
        self.calls: list[Any] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls.append((name, *arguments, *([options] if options else [])))
            return self._answers.get(name)

        return call


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the variables of the process; at first there are none but pytest's own."""
    found: dict[str, str] = {}
    monkeypatch.setattr(os, "environ", found)
    return found


def connect(name: str, project: str | None = None, settings: Any = (("seed", 1),)) -> Connection:
    run = TrackedRun(
        name="walk", project=project, settings=dict(settings), folder=Path("folder"), id="b7"
    )
    return TRACKERS.get(name).connect(run)


# Weights & Biases.


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the package, online and with somebody logged in; `run` is its run."""
    run = Recorder()
    run.url, run.dir, run.summary = "https://w", "folder/wandb/run-b7/files", Recorder()
    state = SimpleNamespace(settings=SimpleNamespace(mode="online"))
    found = Recorder(init=run, login=True, setup=state)
    found.run, found.state, found.Settings = run, state, dict
    monkeypatch.setitem(sys.modules, "wandb", found)
    return found


def test_wandb_is_told_of_the_run_and_not_of_code_or_machine(
    wandb: Any, environment: dict[str, str]
) -> None:
    connection = connect("wandb", "team/walks")
    assert wandb.calls[:-1] == [("setup",), ("login", {"prompt": False})]
    begun, options = wandb.calls[-1]
    assert begun == "init"
    assert options.pop("settings") == {
        "console": "off",
        "disable_git": True,
        "disable_job_creation": True,
        "init_timeout": 30.0,
        "finish_timeout": 45.0,
        "host": "",
        "silent": True,
        "x_disable_machine_info": True,
        "x_disable_meta": True,
        "x_disable_stats": True,
        "x_save_requirements": False,
        "x_transaction_log_flush_interval": 1.0,
    }
    assert options == {
        "entity": "team",
        "project": "walks",
        "name": "walk",
        "id": "b7",
        "resume": "allow",
        "config": {"seed": 1},
        "dir": "folder",
        "reinit": "create_new",
        "save_code": False,
    }
    set_before = {"WANDB_SILENT": "true", "WANDB_ERROR_REPORTING": "false"}
    assert environment.items() >= set_before.items()
    connection.write({"ppo/loss": 0.5}, 128)
    connection.finish({"score/test": 2.0}, {"official": "yes"}, 256)
    assert wandb.run.calls == [("log", {"ppo/loss": 0.5}, {"step": 128, "commit": True})]
    assert wandb.run.summary.calls == [("update", {"score/test": 2.0, "official": "yes"})]


@pytest.mark.parametrize(("finished", "code"), [(True, 0), (False, 1)])
def test_wandb_is_told_how_a_run_ended(wandb: Any, finished: bool, code: int) -> None:
    connect("wandb").close(finished=finished)
    assert wandb.run.calls == [("finish", {"exit_code": code})]


def test_wandb_without_a_login_is_not_asked_for_one(wandb: Any) -> None:
    wandb._answers["login"] = False
    with pytest.raises(RuntimeError, match="run 'wandb login', or set WANDB_MODE=offline"):
        connect("wandb")
    assert [name for name, *_ in wandb.calls] == ["setup", "login"]


def test_wandb_offline_needs_no_login_and_is_found_in_the_folder(wandb: Any) -> None:
    wandb.state.settings.mode, wandb.run.url = "offline", None
    assert connect("wandb").place == "folder/wandb/run-b7"
    assert [name for name, *_ in wandb.calls] == ["setup", "init"]


def test_wandb_without_a_team_takes_the_users_own(wandb: Any) -> None:
    connect("wandb", "/walks")
    _, options = wandb.calls[-1]
    assert (options["entity"], options["project"]) == (None, "walks")


def test_wandb_takes_the_project_of_the_variable_before_its_own(
    wandb: Any, environment: dict[str, str]
) -> None:
    for asked, project in ((None, "gmc-bench"), (None, "theirs"), ("walks", "walks")):
        connect("wandb", asked)
        _, options = wandb.calls[-1]
        assert (options["entity"], options["project"]) == (None, project)
        environment["WANDB_PROJECT"] = "theirs"


def test_wandb_keeps_variables_that_are_set(wandb: Any, environment: dict[str, str]) -> None:
    environment |= {"WANDB_SILENT": "false", "WANDB_ERROR_REPORTING": "true"}
    wanted = environment.copy()
    connect("wandb")
    assert environment == wanted


# MLflow.


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Return the client of a server that has neither experiments nor runs."""
    made = SimpleNamespace(info=SimpleNamespace(run_id="r1"))
    client = Recorder(create_experiment="7", create_run=made, search_runs=[])
    tracking = SimpleNamespace(
        MlflowClient=lambda: client, get_tracking_uri=lambda: "https://me:secret@m.example"
    )
    entities = SimpleNamespace(
        Param=lambda name, value: (name, value),
        Metric=lambda name, value, when, step: (name, value, step),
        RunTag=lambda name, value: (name, value),
    )
    monkeypatch.setitem(sys.modules, "mlflow.tracking", tracking)
    monkeypatch.setitem(sys.modules, "mlflow.entities", entities)
    return client


def test_mlflow_has_a_new_run_with_all_settings(
    mlflow: Recorder, environment: dict[str, str]
) -> None:
    settings = [(f"a{number}", number) for number in range(150)]
    connection = connect("mlflow", settings=settings)
    sent = [(name, str(value)) for name, value in settings]
    assert (
        mlflow.calls
        == [
            ("get_experiment_by_name", "gmc-bench"),
            ("create_experiment", "gmc-bench"),
            ("search_runs", ["7"], "tags.`gmc_bench.id` = 'b7'"),
            ("create_run", "7", {"run_name": "walk", "tags": {"gmc_bench.id": "b7"}}),
            ("log_batch", "r1", {"params": sent[:100]}),  # MLflow takes no more in one call
            ("log_batch", "r1", {"params": sent[100:]}),
        ]
    )
    set_before = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_LOGGING_LEVEL": "WARNING"}
    assert environment.items() >= set_before.items()
    assert connection.place == "m.example (MLflow)"
    mlflow.calls.clear()
    connection.write({"ppo/loss": 0.5}, 128)
    connection.finish({"score/test": 2.0}, {"official": "yes"}, 256)
    assert mlflow.calls == [
        ("log_batch", "r1", {"metrics": [("ppo/loss", 0.5, 128)], "tags": []}),
        (
            "log_batch",
            "r1",
            {"metrics": [("score/test", 2.0, 256)], "tags": [("official", "yes")]},
        ),
    ]


def test_mlflow_takes_the_experiment_of_the_variable_before_its_own(
    mlflow: Recorder, environment: dict[str, str]
) -> None:
    for asked, experiment in ((None, "gmc-bench"), (None, "theirs"), ("walks", "walks")):
        mlflow.calls.clear()
        connect("mlflow", asked)
        assert mlflow.calls[0] == ("get_experiment_by_name", experiment)
        environment["MLFLOW_EXPERIMENT_NAME"] = "theirs"


def test_mlflow_keeps_variables_that_are_set(mlflow: Recorder, environment: dict[str, str]) -> None:
    environment |= {"MLFLOW_DISABLE_TELEMETRY": "false", "MLFLOW_LOGGING_LEVEL": "DEBUG"}
    wanted = environment.copy()
    connect("mlflow")
    assert environment == wanted


def test_mlflow_goes_on_with_the_run_of_the_same_id(mlflow: Recorder) -> None:
    mlflow._answers |= {
        "get_experiment_by_name": SimpleNamespace(experiment_id="3"),
        "search_runs": [
            SimpleNamespace(
                info=SimpleNamespace(run_id="r0"), data=SimpleNamespace(params={"seed": "1"})
            )
        ],
    }
    begun = [
        ("get_experiment_by_name", "walks"),
        ("search_runs", ["3"], "tags.`gmc_bench.id` = 'b7'"),
        ("update_run", "r0", {"status": "RUNNING"}),
    ]
    connect("mlflow", "walks")
    assert mlflow.calls == begun
    # The first connection broke before it had sent everything.
    mlflow.calls.clear()
    connect("mlflow", "walks", settings=[("seed", 1), ("task", "ft")])
    assert mlflow.calls == [*begun, ("log_batch", "r0", {"params": [("task", "ft")]})]


@pytest.mark.parametrize(("finished", "status"), [(True, "FINISHED"), (False, "KILLED")])
def test_mlflow_is_told_how_a_run_ended(mlflow: Recorder, finished: bool, status: str) -> None:
    connect("mlflow").close(finished=finished)
    assert mlflow.calls[-1] == ("set_terminated", "r1", status)


# Trackio.


@pytest.fixture
def trackio(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the package; `run` is its run."""
    run = Recorder()
    run.url = None
    found = Recorder(init=run)
    found.run = run
    monkeypatch.setitem(sys.modules, "trackio", found)
    for name in ("trackio.run", "trackio.utils"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    return found


def test_trackio_is_told_of_the_run_and_not_of_the_machine(
    trackio: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = connect("trackio", "walks")
    options = {
        "name": "walk-b7",
        "resume": "allow",
        "config": {"seed": 1},
        "embed": False,
        "auto_log_gpu": False,
        "auto_log_cpu": False,
    }
    assert trackio.calls == [("init", "walks", options)]
    assert connection.place == "trackio show --project walks"
    connection.write({"ppo/loss": 0.5}, 128)
    connection.finish({"score/test": 2.0}, {"official": "yes"}, 256)
    connection.close(finished=True)
    assert trackio.run.calls == [
        ("log", {"ppo/loss": 0.5}, {"step": 128}),
        ("log", {"score/test": 2.0, "official": "yes"}, {"step": 256}),
        ("finish",),
    ]
    for name in ("trackio", "trackio.run", "trackio.utils"):  # stdout holds results alone
        vars(sys.modules[name])["print"]("created", flush=True)
    assert capsys.readouterr().out == ""


def test_trackio_has_a_project_of_its_own(trackio: Any) -> None:
    connect("trackio")
    assert trackio.calls[0][:2] == ("init", "gmc-bench")
