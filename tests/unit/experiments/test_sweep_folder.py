"""The list of several runs: written, read back, refused where it was changed."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from gmc_bench.core.config import to_dict
from gmc_bench.core.errors import ConfigError, RecordError, RunFolderError
from gmc_bench.experiments import sweep_folder
from gmc_bench.experiments.eta import planned
from gmc_bench.experiments.grid import Grid
from gmc_bench.experiments.resolve import with_seed
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.experiments.sweep_folder import (
    SweepFolder,
    _differences,
    name_runs,
    read_runs,
    require_names,
)
from gmc_bench.experiments.sweep_launch import Launch, write_launch
from gmc_bench.experiments.sweep_request import continued_sweep
from gmc_bench.suites.unimal import SUITE
from gmc_bench.training.run_config import RunConfig

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
        unofficial_reasons=(
            "the method's width was changed",
            "seed 3 is not one of the protocol's seeds (1)",
        ),
    )


@pytest.fixture
def runs():
    return name_runs([config(task) for task in TASKS])


@pytest.fixture
def folder(tmp_path, runs):
    with SweepFolder(tmp_path / "plan", create=True) as found:
        found.write(runs)
        yield found


def test_a_plan_is_read_back_as_it_was_written(folder, runs):
    assert read_runs(folder.plan) == runs
    assert list(runs) == ["ft", "incline"]
    assert [planned(item) for item in runs.values()] == [8192, 8192]
    content = yaml.safe_load(folder.plan.read_text())
    assert (content["method"], content["protocol"], content["seed"]) == ("recmorph", "smoke", 3)
    assert "&id" not in folder.plan.read_text()  # no task's settings point into another's


def test_a_plan_of_one_setting_or_of_nested_ones_is_read_back_too(folder):
    one = config(TASKS[0])
    rates = [
        replace(one, protocol=replace(one.protocol, ppo=replace(one.protocol.ppo, lr=rate)))
        for rate in (0.25, 0.5, 0.75)
    ]
    dotted = [replace(one, method_config={"groups": {"a.b": k, "c": {"d": k}}}) for k in (1, 2)]
    for runs in (
        {"a": one, "b": with_seed(one, 4)},
        dict(zip("ab", dotted, strict=True)),
        {"a": one, "b": replace(one, precision="bfloat16")},
        dict(zip("abc", rates, strict=True)),
    ):
        folder.write(runs)
        assert read_runs(folder.plan) == runs


@pytest.mark.slow
def test_every_name_that_is_allowed_is_read_back(folder):
    names = [f"a{chr(odd)} b" for odd in (*range(0x20, 0x2100), *range(0xFFE0, 0x10010))]
    allowed = [name for name in names if sweep_folder._NAME.fullmatch(name)]
    assert len(allowed) > 8000
    folder.write(dict.fromkeys(allowed, config(TASKS[0])))
    assert list(read_runs(folder.plan)) == allowed


def test_values_that_are_equal_and_of_other_types_differ():
    first = {"a": {"b": 1, "c": 2.0}, "d": True}
    assert _differences(first, {"a": {"b": True, "c": 2.0}, "d": 1}) == {"a.b": True, "d": 1}
    assert _differences(first, {"a": {"b": 1}, "d": True}) == {"a": {"b": 1}}  # one name less


def test_the_list_of_earlier_versions_is_read_too(tmp_path, runs):
    listed = [{"name": name, "config": to_dict(config)} for name, config in runs.items()]
    shared = {"method": "recmorph", "suite": "unimal-v1", "protocol": "smoke"}
    content = {"format": 1, **shared, "morphologies": "tiny", "seed": 3, "runs": listed}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(content))
    assert read_runs(tmp_path / "plan.yaml") == runs


def test_tasks_of_one_short_name_keep_their_full_ids():
    found = name_runs([config("unimal-ft-v1"), config("unimal-ft-v2")])
    assert list(found) == ["unimal-ft-v1", "unimal-ft-v2"]


def test_runs_are_named_by_what_tells_them_apart():
    one, two = config("unimal-ft-v1"), replace(config("unimal-ft-v1"), seed=4)
    assert list(name_runs([one])) == ["ft"]
    assert list(name_runs([one, two])) == ["seed3", "seed4"]
    other = replace(config("unimal-incline-v1"), method="metamorph", morphologies="more")
    assert list(name_runs([one, two, other])) == [
        "recmorph_ft_tiny_seed3",
        "recmorph_ft_tiny_seed4",
        "metamorph_incline_more_seed3",
    ]
    with pytest.raises(ConfigError, match="name 'ft': neither the method's id and file"):
        name_runs([one, replace(one, precision="bfloat16")])
    slash = replace(one, protocol=replace(one.protocol, preset="a/b"))
    with pytest.raises(ConfigError, match="got 'a/b'; of runs in a mapping, the keys are the name"):
        name_runs([one, slash])


def test_methods_of_one_id_are_told_apart_by_their_files(tmp_path):
    text = (Path(__file__).parents[3] / "examples" / "my_method.py").read_text()
    methods = []
    for name in ("m1", "m2"):
        (tmp_path / f"{name}.py").write_text(text)
        methods.append(f"{tmp_path / name}.py:SPEC")
    fields = {"suites": "unimal", "tasks": "ft", "seeds": (1, 2)}
    found = Grid(methods=methods, **fields).specs()
    assert list(found) == ["m1_seed1", "m2_seed1", "m1_seed2", "m2_seed2"]
    assert [found[name].method for name in ("m1_seed2", "m2_seed2")] == methods
    assert list(Grid(methods=methods[0], **fields).specs()) == ["seed1", "seed2"]
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "m1.py").write_text(text)
    twins = [methods[0], f"{tmp_path}/copy/m1.py:SPEC"]
    assert list(Grid(methods=twins, **fields).specs()) == ["seed1", "seed1_2", "seed2", "seed2_2"]
    for number, (script, stem) in enumerate({"a": "мой", "b": "твой" * 20, "c": ".-!"}.items()):
        (tmp_path / script).mkdir()
        (tmp_path / script / f"{stem}.py").write_text(text)
        methods.append(f"{tmp_path}/{script}/{stem}.py:SPEC")
        found = list(Grid(methods=[methods[0], methods[-1]], suites="unimal", tasks="ft").specs())
        assert found[1] == ["мой_seed1", "твой" * 15, "_seed1"][number]
        require_names(found)
    one, two = (replace(config("unimal-ft-v1"), method=name) for name in methods[:2])
    assert list(name_runs([one, two])) == ["m1", "m2"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a/b", "without '/', line breaks and characters that cannot be printed"),
        (".hidden", "does not begin with '.' or '-'"),
        ("-rf", "does not begin with '.' or '-'"),
        ("two\nlines", "without '/', line breaks and characters that cannot be printed"),
        *((f"a{odd}b", "without '/', line breaks") for odd in "\x7f\x80\x85\x9f\ufffe\uffff"),
        *((f"a{odd} b", "without '/', line breaks") for odd in "\u2028\u2029"),
        ("", "text without"),
        ("x" * 201, "200 bytes at most"),
        ("ü" * 101, "200 bytes at most"),
        ("\udcff", "200 bytes at most"),
        (7, "got 7"),
        ("plan.yaml", "'plan.yaml' is a file of the sweep; give it another name"),
        ("launch.yaml", "is a file of the sweep"),
        ("Sweep.html", "is a file of the sweep"),
    ],
)
def test_a_name_that_cannot_be_that_of_a_folder_is_refused(name, reason):
    with pytest.raises(ConfigError, match=reason):
        require_names([name])
    require_names(["a-b.c", "lr=1e-4", "plan", "ü"])


WITHOUT_RUNS = "must list runs with 'name', 'settings' and 'seed'"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda plan: plan.update(format=3), "has format 3, but this gmc-bench reads 2"),
        (lambda plan: plan.update(runs=[]), WITHOUT_RUNS),
        (lambda plan: plan["runs"][0].update(name="../elsewhere"), WITHOUT_RUNS),
        (lambda plan: plan["runs"][0].update(name=".."), WITHOUT_RUNS),
        (lambda plan: plan["runs"][1].update(settings=2), WITHOUT_RUNS),  # there are two
        (lambda plan: plan["runs"][1].update(settings=-1), WITHOUT_RUNS),
        (lambda plan: plan["runs"][1].update(seed=True), WITHOUT_RUNS),
        (lambda plan: plan["runs"][0].update(name="incline"), "has two runs of one name"),
        (
            lambda plan: plan["runs"][1].update(seed=4),
            "contradicts itself: method, suite, protocol, morphologies, seed",
        ),
        (lambda plan: plan["settings"].pop("task"), r"plan.yaml \(settings\) lacks 'task'"),
    ],
)
def test_a_changed_plan_is_refused(folder, change, reason):
    content = yaml.safe_load(folder.plan.read_text())
    del content["digest"]  # by hand, as the sentence about it says
    change(content)
    folder.plan.write_text(yaml.safe_dump(content))
    with pytest.raises(ConfigError, match=reason):
        read_runs(folder.plan)


def test_a_run_is_begun_with_its_settings_and_finished_with_its_record(folder, runs):
    run = ("ft", runs["ft"])
    assert not folder.was_begun("ft")
    assert folder.read_finished(*run) is None
    with folder.open_run(*run) as made:
        made.config.write_text(runs["ft"].to_yaml())
    assert folder.was_begun("ft")
    assert folder.read_finished(*run) is None
    made.record.write_text("{}")
    with pytest.raises(RecordError):
        folder.read_finished(*run)


def test_the_run_of_other_settings_is_not_taken_for_the_planned_one(folder, runs):
    run = ("ft", runs["ft"])
    with folder.open_run(*run) as made:
        pass
    for change in ({"seed": 4}, {"precision": "bfloat16"}):
        made.config.write_text(replace(runs["ft"], **change).to_yaml())
        with pytest.raises(RunFolderError, match=r"has other settings than .* has for 'ft'; put"):
            folder.open_run(*run)
    made.config.write_text(replace(runs["ft"], threads=2).to_yaml())
    folder.open_run(*run)  # the machine may be another one


def test_one_process_at_a_time(folder):
    with pytest.raises(RunFolderError, match="in use"), SweepFolder(folder.path):
        pass


def test_the_folder_of_several_runs_is_not_the_folder_of_one(folder, runs):
    sentence = "holds several runs, one was expected; give the folder of one of them below it"
    with pytest.raises(RunFolderError, match=rf"{sentence} \(none was begun\)$"):
        RunFolder(folder.path)
    for begun, named in (("incline", "incline"), ("ft", "ft, incline")):
        with folder.open_run(begun, runs[begun]) as made:
            made.config.write_text(runs[begun].to_yaml())
        with pytest.raises(RunFolderError, match=rf"{sentence} \({named}\)$"):
            RunFolder(folder.path)


@pytest.mark.parametrize(("launcher", "options"), [("local", {"nice": 3}), ("ray", {})])
def test_another_launcher_tries_as_often_as_the_one_before(folder, launcher, options):
    launch = Launch(retries=5, options={"nice": 3})
    write_launch(folder.path, launch.content())
    found = continued_sweep(folder.path, {"launcher": launcher}, []).launch
    assert found == Launch(launcher=launcher, retries=5, options=options)
    found = continued_sweep(folder.path, {"launcher": launcher, "retries": 2}, []).launch
    assert found.retries == 2
