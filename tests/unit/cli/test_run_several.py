"""Several tasks in one command, as far as it goes without training."""

from types import SimpleNamespace

import pytest
import yaml

from gmc_bench.experiments.eta import ETA
from gmc_bench.experiments.overview import describe_results, describe_runs
from gmc_bench.experiments.sweep_folder import name_runs
from gmc_bench.experiments.sweep_request import request_sweep
from gmc_bench.records.schema import BodyReturns, Episode
from gmc_bench.records.summary import summary_line
from gmc_bench.suites.unimal import SUITE
from gmc_bench.training.run_config import read_run_config

RUN = ("run", "--method", "recmorph", "--suite", "unimal", "--protocol", "smoke", "--threads", "1")
TINY = (*RUN, "--morphologies", "tiny")


def test_a_dry_run_shows_the_plan_and_all_settings(gmc, tmp_path):
    code, out, err = gmc(*TINY, "--dry-run")
    assert code == 0
    assert [row["name"] for row in yaml.safe_load(out)["runs"]] == [
        task.removeprefix("unimal-").removesuffix("-v1") for task in SUITE.tasks
    ]
    rows = [line.split() for line in err.splitlines() if line.startswith("recmorph")]
    assert [(row[2], row[7]) for row in rows] == [
        (name, "8,192") for name in ("ft", "incline", "exploration", "obstacles", "vt")
    ]
    assert "5 runs; the time of 5 is unknown" in err
    assert list(tmp_path.iterdir()) == []


def test_a_sweep_takes_the_processes_of_each_run(tiny_set):
    grid = {"methods": ["recmorph"], "suites": ["unimal"], "tasks": ["ft"], "bodies": [tiny_set.id]}
    runs = request_sweep({**grid, "processes": 2}, []).sweep.runs
    assert {run.processes for run in runs.values()} == {2}


def test_one_task_keeps_the_layout_of_one_run(gmc):
    code, out, err = gmc(*TINY, "--task", "ft", "--dry-run")
    assert code == 0
    assert yaml.safe_load(out)["task"] == "unimal-ft-v1"
    assert "runs:" not in err


def test_why_some_tasks_are_unofficial_names_them(gmc, tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("model: {decoder_hidden: [64]}\n")
    code, _, err = gmc(*TINY, "--config", settings, "--seed", "9", "--dry-run")
    assert code == 0
    reasons = [line for line in err.splitlines() if line.startswith("unofficial")]
    assert "unofficial: seed 9 is not one of the protocol's seeds (1)" in reasons
    changed = next(line for line in reasons if "decoder_hidden" in line)
    assert changed.endswith("(ft, incline, exploration, obstacles)")  # on vt, it is the suite's


@pytest.mark.parametrize(
    ("there", "why"), [("file", "is a file"), ("folder", "already exists and is not empty")]
)
def test_a_folder_that_is_in_the_way_is_left_alone(gmc, tmp_path, there, why):
    path = tmp_path / "out"
    if there == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / "note.txt").write_text("mine")
    code, out, err = gmc(*TINY, "--task", "ft", "vt", "--out", path)
    assert (code, out) == (2, "")
    assert f"gmc-bench: {path} {why}" in err


def test_a_plan_that_was_tampered_with(gmc, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "plan.yaml").write_text("format: 1\n")
    code, out, err = gmc("run", "--resume", "out")
    assert (code, out) == (2, "")
    assert err.startswith("gmc-bench: out/plan.yaml must list runs with 'name' and 'config'")


def body(split, mode, value, *, seen=False, length=100, ended="time_limit"):
    return BodyReturns(
        split=split,
        mode=mode,
        body=f"{split}-{mode}-{value}",
        body_digest="0" * 64,
        seen_in_train=seen,
        episodes=(Episode(episode_return=value, length=length, ended=ended),),
    )


@pytest.fixture
def plan(gmc, tmp_path):
    """Two runs that are only planned."""
    configs = []
    for task in ("ft", "incline"):
        code, out, _ = gmc(*TINY, "--task", task, "--dry-run")
        assert code == 0
        (tmp_path / "config.yaml").write_text(out)
        configs.append(read_run_config(tmp_path / "config.yaml"))
    return name_runs(configs)


def record(returns):
    """The part of a record that the table reads."""
    return SimpleNamespace(
        returns=returns,
        training_return=7.0,
        metres_per_return=0.02,
        env_steps_per_s=1234.4,
        wall_clock_s=SimpleNamespace(total=60.2),
    )


RETURNS = (
    body("train", "deterministic", 10.0, seen=True),
    body("train", "stochastic", 99.0, seen=True),
    body("test", "deterministic", 4.0, length=50, ended="fell"),
    body("test", "deterministic", 8.0),
    body("test", "deterministic", 99.0, seen=True),
)


def test_the_table_has_numbers_for_finished_tasks_only(plan):
    text = describe_results(plan, {"ft": record(RETURNS)}, {})
    rows = [line.split("  ") for line in text.splitlines()]
    rows = [[cell.strip() for cell in row if cell] for row in rows]
    assert rows[2] == ["ft", "7.0", "10.0", "6.0", "75", "50 %", "1,234", "60"]
    assert rows[3] == ["incline", "incomplete", *["-"] * 6]
    assert "ended early: of the test episodes" in text
    assert "different tasks measure different things and are not averaged" in text


def test_the_table_says_what_failed_and_why(plan):
    text = describe_results(plan, {}, {"incline": "the loss was not finite"})
    assert "incomplete" in text.splitlines()[2]
    assert "failed" in text.splitlines()[3]
    assert text.endswith("failed: incline: the loss was not finite")


def test_a_method_without_test_scores_is_told_by_its_train_episodes(plan):
    found = record(RETURNS[:2])
    text = describe_results(plan, {"ft": found}, {})
    assert text.splitlines()[2].split() == [
        "ft",
        "7.0",
        "10.0",
        "-",
        "100",
        "0",
        "%",
        "1,234",
        "60",
    ]
    assert "ended early: of the train episodes" in text
    assert summary_line(found) == "training return 7.0, train 10.0 (0.20 m)"
    line = "training return 7.0, train 10.0 (0.20 m), test 6.0 (0.12 m)"
    assert summary_line(record(RETURNS)) == line


@pytest.mark.parametrize(
    ("untrained", "why"),
    [(None, "not every train body has finished an episode"), (True, "nothing was trained")],
)
def test_a_missing_training_return_has_a_reason(untrained, why):
    found = record(RETURNS)
    found.training_return, found.untrained = None, untrained
    line = f"training return - ({why}), train 10.0 (0.20 m), test 6.0 (0.12 m)"
    assert summary_line(found) == line


def test_the_plan_tells_times_once_a_task_is_measured(plan):
    eta = ETA({"ft": 8192, "incline": 8192})
    eta.settle("ft", 8192, 600)
    lines = describe_runs(plan, {"ft": "finished", "incline": "to do"}, eta).splitlines()
    assert lines[3].split()[-2:] == ["finished", "-"]
    assert lines[4].endswith("at least 10 min")
