"""Several tasks in one command: killed between and inside tasks, continued, shown in one table."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from gmc_bench.core.errors import StorageError, TrainingDivergedError
from gmc_bench.experiments import execution
from gmc_bench.experiments.sweep_folder import SweepFolder
from gmc_bench.training.trainer import Trainer

TASKS = ("ft", "obstacles", "exploration")
TIMES = {"created", "wall_clock_s", "env_steps_per_s", "digest", "git_dirty", "git_commit"}
"""Fields of a record that may differ between two runs of the same settings."""


@dataclass(frozen=True)
class Suite:
    """Three tasks of 6 iterations that nobody disturbed; tests must not change the folder."""

    command: tuple[str, ...]
    path: Path
    out: str
    err: str


@pytest.fixture(scope="session")
def suite(gmc, tmp_path_factory):
    command = ("run", *gmc.small, "--env-steps", "768", "--task", *TASKS, "--out")
    path = tmp_path_factory.mktemp("suite") / "whole"
    done = gmc(*command, path)
    return Suite(command, path, done.stdout, done.stderr)


def record_of(run):
    """Return what a record says but for times."""
    content = json.loads((run / "record.json").read_bytes())
    return {name: value for name, value in content.items() if name not in TIMES}


def check_equal(path, suite):
    """Check that a plan ended in the very numbers and weights of the undisturbed one."""
    for task in TASKS:
        assert record_of(path / task) == record_of(suite.path / task)
        name = "policy.safetensors"
        assert (path / task / name).read_bytes() == (suite.path / task / name).read_bytes()


def rows_of(out):
    """Return the rows of the last table, by task."""
    lines = out.split("env steps/s", 1)[1].splitlines()[2 : 2 + len(TASKS)]
    return {line.split()[0]: line.split()[1:] for line in lines}


def wait_for(process, path):
    while process.poll() is None and not path.exists():
        time.sleep(0.002)
    assert process.poll() is None, process.communicate()


def kill(process):
    process.send_signal(signal.SIGKILL)
    out, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err
    return out, err


@pytest.mark.slow
def test_every_task_is_a_run_like_any_other(here, gmc, suite, tmp_path):
    single = tmp_path / "obstacles"
    here("run", *gmc.small, "--env-steps", "768", "--task", "obstacles", "--out", single)
    assert sorted(item.name for item in suite.path.iterdir()) == [
        ".lock", "exploration", "ft", "obstacles", "plan.yaml",
    ]  # fmt: skip
    for task in TASKS:
        names = sorted(item.name for item in (suite.path / task).iterdir())
        alone = {item.name for item in single.iterdir()} - {"replay.html"}  # of one run only
        assert names == sorted(alone)
    assert (single / "config.yaml").read_bytes() == (
        suite.path / "obstacles/config.yaml"
    ).read_bytes()
    assert record_of(single) == record_of(suite.path / "obstacles")


def test_it_shows_plan_time_left_and_one_table(suite):
    assert "3 runs: method recmorph, preset lite" in suite.err
    assert f"sweep folder {suite.path}" in suite.err
    assert "run 1 of 3, time left unknown" in suite.err
    assert "run 1 of 3, at least " in suite.err
    assert "run 3 of 3, about " in suite.err
    assert "run 1 of 3 (ft) done in " in suite.err
    rows = rows_of(suite.out)
    for task in TASKS:
        record = json.loads((suite.path / task / "record.json").read_bytes())
        test = [
            np.mean([episode["episode_return"] for episode in item["episodes"]])
            for item in record["returns"]
            if item["split"] == "test" and not item["seen_in_train"]
        ]
        assert rows[task][2] == f"{np.mean(test):,.1f}"
    assert "are not averaged" in suite.out


@pytest.mark.slow
def test_kills_between_and_inside_tasks_change_nothing(gmc, suite, tmp_path):
    path, random = tmp_path / "plan", np.random.default_rng(4)
    command = (*suite.command, path)
    for moment in ("plan.yaml", "obstacles/checkpoints/00000003"):
        process = gmc.start(*command)
        wait_for(process, path / moment)
        if moment != "plan.yaml":  # otherwise at once, before there is a first run folder
            time.sleep(random.uniform(0.0, 0.1))
        kill(process)
        command = ("run", "--resume", path)
    done = gmc(*command)
    assert "run 1 of 3 (ft) was finished before: " in done.stderr
    check_equal(path, suite)
    assert rows_of(done.stdout).keys() == rows_of(suite.out).keys()


@pytest.mark.slow
def test_half_made_folders_are_completed(here, suite, tmp_path):
    """What a kill can leave: no folder at all, or one without the run's settings."""
    path = tmp_path / "plan"
    shutil.copytree(suite.path, path)
    shutil.rmtree(path / "obstacles")
    shutil.rmtree(path / "exploration")
    (path / "exploration").mkdir()
    (path / "exploration" / ".lock").write_text("")
    (path / "exploration" / ".config.yaml.0f.tmp").write_text("method: rec")
    here("run", "--resume", path)
    check_equal(path, suite)
    assert not list((path / "exploration").glob(".*.tmp"))


def test_a_folder_without_plan_is_started_again(here, suite, tmp_path, monkeypatch):
    path = tmp_path / "plan"
    path.mkdir()
    (path / ".lock").write_text("")
    (path / ".plan.yaml.0f.tmp").write_text("format")
    err = here("run", "--resume", path, code=2).err
    assert f"{path} holds no run yet" in err
    monkeypatch.setattr(Trainer, "iterate", _interrupt_at("ft", 0))
    here(*suite.command, path, code=130)
    assert sorted(item.name for item in path.iterdir()) == [".lock", "ft", "plan.yaml"]


def _interrupt_at(task, iteration):
    iterate = Trainer.iterate

    def interrupted(trainer):
        if trainer.env.core.task.id == f"unimal-{task}-v1" and trainer.iteration == iteration:
            signal.raise_signal(signal.SIGINT)
        return iterate(trainer)

    return interrupted


def test_an_interruption_says_how_to_go_on_with_all(here, suite, tmp_path, monkeypatch):
    path = tmp_path / "plan"
    shutil.copytree(suite.path, path)
    shutil.rmtree(path / "obstacles")
    (path / "exploration" / "record.json").unlink()
    monkeypatch.setattr(Trainer, "iterate", _interrupt_at("obstacles", 2))
    captured = here("run", "--resume", path, code=130)
    assert captured.err.endswith(
        f"Stopped. Continue with: gmc-bench run --resume {path}\ngmc-bench: interrupted\n"
    )
    states = [line.split() for line in captured.err.splitlines() if " 768 " in line]
    assert [row[3] for row in states] == ["finished", "to", "stopped"]
    rows = rows_of(captured.out)
    assert rows["ft"] == rows_of(suite.out)["ft"]
    assert rows["obstacles"] == rows["exploration"] == ["incomplete", *["-"] * 6]


@pytest.mark.slow
def test_a_task_that_fails_stops_no_other(here, suite, tmp_path, monkeypatch):
    path, iterate = tmp_path / "plan", Trainer.iterate
    shutil.copytree(suite.path, path)
    for task in TASKS:
        shutil.rmtree(path / task)
    errors = {
        "unimal-ft-v1": TrainingDivergedError("the loss is not finite"),
        "unimal-obstacles-v1": RuntimeError("out of memory"),
    }

    def failing(trainer):
        if trainer.iteration == 3 and (error := errors.get(trainer.env.core.task.id)):
            raise error
        return iterate(trainer)

    monkeypatch.setattr(Trainer, "iterate", failing)
    captured = here("run", "--resume", path, code=1)
    rows = rows_of(captured.out)
    for number, task, reason in (
        (1, "ft", "the loss is not finite"),
        (2, "obstacles", "RuntimeError: out of memory"),
    ):
        assert f"task {number} of 3 ({task}) failed: {reason}" in captured.err
        assert f"failed: {task}: {reason}" in captured.out
        assert rows[task] == ["failed", *["-"] * 6]
    assert captured.err.count("Traceback") == 1  # what is expected needs no trace
    assert rows["exploration"][:5] == rows_of(suite.out)["exploration"][:5]
    monkeypatch.setattr(Trainer, "iterate", iterate)
    here("run", "--resume", path)  # the tasks that failed are tried again
    check_equal(path, suite)


def test_a_full_disk_stops_all(here, suite, tmp_path, monkeypatch):
    path = tmp_path / "plan"
    shutil.copytree(suite.path, path)
    shutil.rmtree(path / "obstacles")

    def full(folder, checkpoint):
        raise StorageError("cannot write: no space left")

    monkeypatch.setattr(execution, "write_checkpoint", full)
    captured = here("run", "--resume", path, code=2)
    assert captured.err.endswith("gmc-bench: cannot write: no space left\n")
    assert rows_of(captured.out)["obstacles"][0] == "incomplete"


def test_a_damaged_record_is_named_and_never_shown(here, suite, tmp_path):
    path = tmp_path / "plan"
    shutil.copytree(suite.path, path)
    record = path / "obstacles" / "record.json"
    record.write_bytes(record.read_bytes().replace(b'"seed":1', b'"seed":2'))
    captured = here("run", "--resume", path, code=1)
    assert rows_of(captured.out)["obstacles"] == ["failed", *["-"] * 6]
    assert f"failed: obstacles: {record} was changed after it was written" in captured.out


def test_a_finished_plan_shows_its_table_again(here, suite):
    files = [path for path in suite.path.rglob("*") if path.is_file() and path.name != ".lock"]
    before = {path: path.stat().st_mtime_ns for path in files}
    captured = here("run", "--resume", suite.path)
    assert rows_of(captured.out) == rows_of(suite.out)
    assert {path: path.stat().st_mtime_ns for path in files} == before


def test_a_folder_in_use_is_refused(here, suite):
    with SweepFolder(suite.path):
        captured = here("run", "--resume", suite.path, code=2)
    assert captured.out == ""
    assert captured.err == (
        f"gmc-bench: the run folder {suite.path} is in use by another process (process "
        f"{os.getpid()} on {socket.gethostname()}); wait for it or stop it\n"
    )


def test_the_other_verbs_find_the_runs(here, suite, tmp_path):
    assert here("evaluate", suite.path / "obstacles", "--json").out
    err = here("evaluate", suite.path, code=2).err
    assert "give the folder of one of them below it (exploration, ft, obstacles)" in err
    out = here("leaderboard", "build", "--records", suite.path, "--out", tmp_path / "tables").out
    assert "recmorph" in out
    pages = "".join(page.read_text() for page in (tmp_path / "tables").rglob("*.md"))
    assert all(f"unimal-{task}-v1" in pages for task in TASKS)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kills_at_any_moment(gmc, suite, tmp_path):
    """Plans killed again and again after random times, from the first import to the table."""
    random = np.random.default_rng(5)
    for number in range(4):
        path, kills = tmp_path / f"plan{number}", 0
        while True:
            begun = (path / "plan.yaml").exists()
            command = ("run", "--resume", path) if begun else (*suite.command, path)
            process = gmc.start(*command)
            try:
                _, err = process.communicate(
                    timeout=random.uniform(0.5, 12.0) if kills < 8 else None
                )
            except subprocess.TimeoutExpired:
                kill(process)
                kills += 1
                continue
            assert process.returncode == 0, err
            break
        check_equal(path, suite)
