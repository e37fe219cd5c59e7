"""A plan of several runs: written, read back, refused where it was changed."""

from dataclasses import replace

import pytest
import yaml

from gmc_bench.core.errors import ConfigError, RecordError, RunFolderError
from gmc_bench.suites.unimal import SUITE
from gmc_bench.training.plan_folder import PlanFolder, make_plan, read_plan
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.run_folder import RunFolder

TASKS = ("unimal-ft-v1", "unimal-incline-v1")


def config(task):
    return RunConfig(
        method="recmorph",
        method_config={"width": 16, "decoder_hidden": []},
        suite="unimal-v1",
        task=task,
        morphologies="tiny",
        morphologies_digest="0" * 64,
        protocol=SUITE.protocol("smoke", task),
        seed=3,
        unofficial_reasons=("the method's width was changed",),
    )


@pytest.fixture
def plan():
    return make_plan([config(task) for task in TASKS])


@pytest.fixture
def folder(tmp_path, plan):
    with PlanFolder(tmp_path / "plan", create=True) as found:
        found.write(plan)
        yield found


def test_a_plan_is_read_back_as_it_was_written(folder, plan):
    assert read_plan(folder.plan) == plan
    assert [run.name for run in plan.runs] == ["ft", "incline"]
    assert [run.env_steps for run in plan.runs] == [8192, 8192]
    content = yaml.safe_load(folder.plan.read_text())
    assert (content["method"], content["protocol"], content["seed"]) == ("recmorph", "smoke", 3)
    assert "&id" not in folder.plan.read_text()  # no task's settings point into another's


def test_tasks_of_one_short_name_keep_their_full_ids():
    plan = make_plan([config("unimal-ft-v1"), config("unimal-ft-v2")])
    assert [run.name for run in plan.runs] == ["unimal-ft-v1", "unimal-ft-v2"]


def damaged(content, way):
    tasks = content["runs"]
    if way == "format":
        content["format"] = 2
    elif way == "no tasks":
        content["runs"] = []
    elif way == "outside":
        tasks[0]["name"] = "../elsewhere"
    elif way == "twice":
        tasks[0]["name"] = "incline"
    elif way == "seed":
        tasks[1]["config"]["seed"] = 4
    elif way == "lacks":
        del tasks[1]["config"]["task"]


@pytest.mark.parametrize(
    ("way", "reason"),
    [
        ("format", "has format 2, but this gmc-bench reads 1"),
        ("no tasks", "must list runs with 'name' and 'config'"),
        ("outside", "must list runs with 'name' and 'config'"),
        ("twice", "has two runs of one name"),
        ("seed", "contradicts itself: method, suite, protocol, morphologies, seed"),
        ("lacks", r"plan.yaml \(incline\) lacks 'task'"),
    ],
)
def test_a_changed_plan_is_refused(folder, way, reason):
    content = yaml.safe_load(folder.plan.read_text())
    damaged(content, way)
    folder.plan.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=reason):
        read_plan(folder.plan)


def test_a_run_is_begun_with_its_settings_and_finished_with_its_record(folder, plan):
    run = plan.runs[0]
    assert not folder.was_begun(run)
    assert folder.read_finished(run) is None
    with folder.open_run(run) as made:
        made.config.write_text(run.config.to_yaml())
    assert folder.was_begun(run)
    assert folder.read_finished(run) is None
    made.record.write_text("{}")
    with pytest.raises(RecordError):
        folder.read_finished(run)


def test_the_run_of_other_settings_is_not_taken_for_the_planned_one(folder, plan):
    run = plan.runs[0]
    with folder.open_run(run) as made:
        made.config.write_text(replace(run.config, seed=4).to_yaml())
    with pytest.raises(RunFolderError, match=r"has other settings than .* has for 'ft'; put"):
        folder.open_run(run)
    made.config.write_text(replace(run.config, threads=2).to_yaml())
    folder.open_run(run)  # the machine may be another one


def test_one_process_at_a_time(folder):
    with pytest.raises(RunFolderError, match="in use"), PlanFolder(folder.path):
        pass


def test_the_folder_of_several_runs_is_not_the_folder_of_one(folder, plan):
    with pytest.raises(RunFolderError, match=r"give the folder of one of them .*none was begun"):
        RunFolder(folder.path)
    with folder.open_run(plan.runs[1]) as made:
        made.config.write_text(plan.runs[1].config.to_yaml())
    with pytest.raises(RunFolderError, match=r"below it \(incline\)"):
        RunFolder(folder.path)
