"""Grids: which runs they are, what these are called, how thousands are listed and read back."""

import time
from datetime import date
from pathlib import Path

import numpy as np
import pytest
import torch

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.grid import MAX_NAME, Grid
from gmc_bench.experiments.resolve import choose_bodies, resolve
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.experiments.sweep_folder import read_runs, runs_to_yaml
from gmc_bench.experiments.sweep_launch import Launch
from gmc_bench.experiments.sweep_request import (
    further_options,
    launch_alone,
    request_sweep,
    settings_of,
)
from gmc_bench.suites.unimal import SUITE

BODIES = "gmc-unimal-mini-v2:2"


def names(**fields):
    return list(Grid(**fields).specs())


def test_runs_are_named_by_what_tells_them_apart():
    assert names(methods="recmorph", suites="unimal", tasks="ft", seeds=1) == ["ft"]
    assert names(methods="recmorph", suites="unimal", tasks=["ft", "vt"], seeds=[1, 2]) == [
        "ft_seed1", "vt_seed1", "ft_seed2", "vt_seed2",
    ]  # fmt: skip
    assert names(
        methods=["recmorph", "metamorph-star"],
        suites="unimal",
        tasks="ft",
        protocol="smoke",
        vary={"ppo.lr": [1e-4, "3e-4"], "bodies": ["unimals_100:4", BODIES]},
    )[:3] == [
        "recmorph_unimals_100-4_lr=0.0001",
        "recmorph_unimals_100-4_lr=3e-4",
        "recmorph_gmc-unimal-mini-v2-2_lr=0.0001",
    ]
    long = names(
        methods="recmorph",
        suites="unimal",
        tasks="ft",
        seeds=1,
        vary={"evaluation.modes": ["x" * 200, "x" * 201]},
    )
    assert len(set(long)) == 2
    odd = names(
        methods="recmorph",
        suites="unimal",
        tasks="ft",
        seeds=1,
        vary={"evaluation.modes": ["a b", "a/b", "a?b", "c"]},
    )
    assert odd == ["modes=a-b", "modes=a-b_2", "modes=a-b_3", "modes=c"]
    assert max(map(len, long)) <= MAX_NAME + 2


def test_what_is_no_list_holds_for_every_run():
    shared = {
        "protocol": "smoke", "preset": "paper", "bodies": BODIES, "untrained": True,
        "precision": "tf32", "device": "cuda:1", "threads": 3, "processes": 2,
        "checkpoint_interval": 7.0, "track": "tensorboard",
    }  # fmt: skip
    grid = {"methods": "recmorph", "suites": "unimal", "tasks": "ft", "seeds": [1, 2]}
    usual = Grid(**grid), ExperimentSpec(method="recmorph", suite="unimal")
    assert all(getattr(item, name) != shared[name] for item in usual for name in shared)
    specs = Grid(**grid, **shared).specs()
    assert len(specs) == 2
    for spec in specs.values():
        assert {name: getattr(spec, name) for name in shared} == shared


def test_what_is_named_twice_is_run_once():
    twice = {"methods": ["recmorph"] * 2, "suites": ["unimal"] * 2, "tasks": ["ft"] * 2}
    assert names(**twice, seeds=[1, "1", 1.0]) == ["ft"]
    assert names(**twice, seeds=range(1, 3), vary={"ppo.lr": [1e-4, 1e-4, 1e-3]}) == [
        "lr=0.0001_seed1", "lr=0.001_seed1", "lr=0.0001_seed2", "lr=0.001_seed2",
    ]  # fmt: skip


def test_seeds_and_tasks_follow_from_suites():
    found = Grid(methods="recmorph", suites=["unimal", "closed-loop"], protocol="lite").specs()
    assert len(found) == 5 + 4 * 3 + 3  # flat ground of unimal, its other tasks, closed loops
    some = Grid(methods="recmorph", suites=["unimal", "closed-loop"], tasks=["ft", "vt"], seeds=4)
    assert list(some.specs()) == ["unimal-v1_ft", "unimal-v1_vt", "closed-loop-v1_ft"]


def test_a_reference_has_the_seeds_that_its_own_rules_ask_for():
    grid = Grid(methods=["recmorph", "mlp"], suites="unimal", tasks="ft", protocol="lite")
    seeds = {}
    for spec in grid.specs().values():
        seeds.setdefault(spec.method, []).append(spec.seed)
    assert seeds == {"recmorph": [1, 2, 3, 4, 5], "mlp": [1]}
    specs = {name: spec.replace(bodies=BODIES) for name, spec in grid.specs().items()}
    assert {run.unofficial_reasons for run in Sweep(specs).runs.values()} == {()}


def test_values_may_be_arrays_and_ranges():
    """Of numpy and torch, as loops and spaces of settings give them."""
    grid = Grid(
        methods=np.array(["recmorph"]),
        suites="unimal",
        tasks=np.array("ft"),
        seeds=np.arange(1, 3),
        vary={
            "ppo.lr": np.array([0.5, 0.25]),
            "model.width": range(8, 10),
            "ppo.repeat": torch.tensor([2, 3]),
            "model.decoder_hidden": [np.array([8, 8]), range(2)],
        },
        settings={"ppo.gamma": np.float64(0.5), "ppo.batch_size": np.int64(64)},
    )
    assert grid.tasks == ("ft",)
    assert grid.vary == {
        "model.decoder_hidden": [[8, 8], [0, 1]],
        "model.width": [8, 9],
        "ppo.lr": [0.5, 0.25],
        "ppo.repeat": [2, 3],
    }
    assert grid.settings == {"ppo.batch_size": 64, "ppo.gamma": 0.5}
    found = [type(values[0]) for values in grid.vary.values()]
    assert found == [list, int, float, int]
    assert len(grid.specs()) == 2 * 2**4


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"methods": []}, "a sweep needs methods, got none"),
        ({"suites": []}, "a sweep needs suites, got none"),
        ({"tasks": ["fly"]}, "has no task 'fly'"),
        ({"suites": ["closed-loop"], "tasks": ["vt"]}, "has no task 'vt'"),
        ({"vary": {"ppo.lr": 1e-4}}, "must give a list of values for 'ppo.lr'"),
        ({"vary": {"ppo.lr": [1]}, "settings": {"ppo": {"lr": 2}}}, "both set and varied"),
        ({"vary": {"preset": ["a"]}, "preset": "b"}, "both set and varied"),
        ({"seeds": 1.5}, "'seeds' must be an integer, got 1.5"),
        ({"seeds": date(2024, 1, 1)}, "'seeds' must be an integer, got datetime.date"),
        ({"methods": {"recmorph": 1}}, "'methods' must be a string, got {'recmorph': 1}"),
        ({7: 1}, "a sweep has no 7"),
        ({"seed": 1}, "has no 'seed'; did you mean 'seeds'"),
        ({"vary": {"seed": [1, 2]}}, "'seed' is none; use seeds=, or 'seeds:' in a file"),
        ({"vary": {"seeds": [1, 2]}}, "'seeds' is none; use seeds="),
        ({"vary": {"task": ["ft"]}}, "'task' is none; use tasks="),
        ({"vary": {"threads": [1, 2]}}, "'threads' says how runs are run and cannot be varied"),
        ({"vary": {"model.width": {8, 9}}}, "a list of these, got {8, 9}"),
        ({"vary": [1]}, r"'vary' must map names to values, got \[1\]; .*'ppo.lr': \[1e-4, 3e-4\]"),
    ],
)
def test_what_is_no_grid_is_refused(fields, reason):
    with pytest.raises(ConfigError, match=reason):
        Grid.from_dict({"methods": ["recmorph"], "suites": ["unimal"], **fields}).specs()


def test_a_sweep_takes_a_grid_its_fields_or_both():
    grid = Grid(methods="recmorph", suites="unimal", tasks="ft", seeds=(1, 2), bodies=BODIES)
    found = Sweep.grid(grid, seeds=[3, 4], protocol="smoke")
    assert list(found.runs) == ["seed3", "seed4"]
    assert {run.protocol.name for run in found.runs.values()} == {"smoke"}
    with pytest.raises(ConfigError, match="a sweep has no 'sedes'; did you mean 'seeds'"):
        Sweep.grid(grid, sedes=[3])
    with pytest.raises(ConfigError, match=r"needs a Grid, got .*; give its fields as keywords"):
        Sweep.grid({"methods": ["recmorph"], "suites": ["unimal"]})


def test_a_file_and_options_come_to_the_same_as_python(tmp_path):
    file = tmp_path / "table.yaml"
    file.write_text(
        "methods: [recmorph]\nsuites: [unimal]\ntasks: [ft, vt]\nseeds: [1]\nprotocol: paper\n"
        f"bodies: {BODIES}\nvary: {{ppo: {{lr: [1.0e-4, 1.0e-3]}}}}\nout: there\n"
        "launch: {launcher: local, nice: 3}\n"
    )
    given = {"protocol": ["smoke"], "jobs": 2, "tasks": ["ft"]}
    request = request_sweep(given, ["--model.width", "16", "--launch.nice=4"], config=file)
    expected = Sweep.grid(
        methods=["recmorph"],
        suites=["unimal"],
        tasks=["ft"],
        seeds=[1],
        protocol="smoke",
        bodies=BODIES,
        settings={"model.width": 16},
        vary={"ppo.lr": [1e-4, 1e-3]},
    )
    assert request.sweep.runs == expected.runs
    assert [run.protocol.ppo.lr for run in expected.runs.values()] == [1e-4, 1e-3]
    said = {**given, "protocol": ["smoke", "lite"]}
    both = request_sweep(said, ["--ppo.lr", "1"], config=file, out=Path("here"))
    assert both.sweep.path == Path("here")  # and not where the file says
    assert [run.protocol.name for run in both.sweep.runs.values()] == ["smoke", "lite"]
    assert str(request.sweep.path) == "there"
    assert request.launch.options == {"jobs": 2, "nice": 4}
    assert request.launch.jobs == 2
    with pytest.raises(ConfigError, match=r"'local' has no option 'partition'"):
        request_sweep(given, ["--launch.partition", "a"], config=file)


def test_options_win_over_a_file_however_it_spells_them(tmp_path):
    file = tmp_path / "table.yaml"

    def grid(text, *argv, **given):
        file.write_text(
            f"methods: recmorph\nsuites: unimal\ntasks: ft\nseeds: 1\nbodies: {BODIES}\n{text}"
        )
        found = request_sweep({"protocol": ["smoke"], **given}, argv, config=file).sweep.runs
        return [run.protocol.ppo.lr for run in found.values()]

    assert grid("settings: {ppo: {lr: 1}}", "--ppo.lr", "2") == [2]
    assert grid("settings: {ppo: {lr: 1, gae-lambda: 0.5}}", "--ppo.gae-lambda=0.9") == [1]
    assert grid("settings: {ppo.lr: 1}", "--ppo.lr", "2", "3") == [2, 3]
    assert grid("vary: {ppo: {lr: [1, 2]}}", "--ppo.lr", "3") == [3]
    assert grid("vary: {ppo.lr: [1, 2]}", "--ppo.lr", "3", "4") == [3, 4]
    assert len(grid("vary: {protocol: [smoke, lite], ppo.lr: [1, 2]}")) == 2
    assert grid("settings:\nvary:\nlaunch:\nout:", "--ppo.lr", "2") == [2]  # nothing is there


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("launcher: local", r"has 'launcher' beside the runs; .* as launch: {launcher: local}"),
        ("morphologies: tiny", r"has 'morphologies'; .* it is called 'bodies'"),
        ("jobs: 2", r"has 'jobs' beside the runs; .* as launch: {jobs: 2}"),
        ("env-steps: 9", r"'env-steps' beside the runs; .* as settings: {env-steps: 9}"),
        ("ppo: {lr: 1}", r"'ppo' beside the runs; .* under 'settings', as .*: {ppo: {'lr': 1}}"),
        ("model.width: 8", r"'model.width' beside the runs; .* as settings: {model.width: 8}"),
        ("lunch: {}", "a sweep has no 'lunch'; did you mean 'launch'"),
        ("launch: 5", "'launch' in .* must hold options, got 5"),
        ("settings: [1]", "'settings' must map names to values"),
        ("vary: [1]", "'vary' must map names to values"),
        ("out: 5", "'out' must be a string or none, got 5"),
        ("out: [a]", "'out' must be a string or none"),
        ("reuse: true", "'reuse' must be a string or none, got True"),
        ("launch: {options: {nice: 3}}", "the launcher 'local' has no option 'options'"),
        ("launch: {jobs: many}", "'jobs' must be an integer or none, got 'many'"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_in_one_sentence(tmp_path, text, reason):
    (tmp_path / "table.yaml").write_text(f"methods: recmorph\nsuites: unimal\n{text}\n")
    with pytest.raises(ConfigError, match=reason):
        request_sweep({}, ["--ppo.lr", "1e-4"], config=tmp_path / "table.yaml")


def test_options_with_several_values_vary():
    argv = ["--ppo.lr", "1", "2", "--env-steps=3"]
    assert settings_of(argv) == ({"env_steps": "3"}, {"ppo.lr": ["1", "2"]})
    for wrong, reason in (
        (["x"], "unknown argument 'x'"),
        (["--a"], "--a needs a value"),
        (["--a", "1", "--a", "2"], "--a is given more than once"),
    ):
        with pytest.raises(ConfigError, match=reason):
            settings_of(wrong)
    for seeds in (["1"], ["1", "2"]):
        with pytest.raises(ConfigError, match="a sweep has no option --seed; give --seeds"):
            request_sweep({"methods": ["recmorph"], "suites": ["unimal"]}, ["--seed", *seeds])


def take(group):
    """Leave of an option with its arguments what a parser that knows two options leaves."""
    option, equals, _ = group[0].partition("=")
    values = {"--jobs": 0 if equals else 1, "--untrained": 0}.get(option)
    return group if values is None else group[1 + values :]


def test_what_a_command_does_not_know_is_left_with_its_values():
    argv = ["--ppo.lr", "1", "2", "--jobs", "3", "--untrained", "--env-steps=4"]
    assert further_options(argv, take) == ["--ppo.lr", "1", "2", "--env-steps=4"]


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ("--jobs 2 4", "--jobs takes one value, got also '4'; leave it out"),
        ("--jobs=2 4", "--jobs takes one value, got also '4'; leave it out"),
        ("--untrained 16", "--untrained takes no value, got also '16'; leave it out"),
    ],
)
def test_a_word_too_many_is_no_value_of_the_option_before(argv, reason):
    with pytest.raises(ConfigError, match=reason):
        further_options(["--ppo.lr", "1", *argv.split()], take)


def test_beside_a_folder_to_go_on_in_stands_the_launch_alone():
    said = launch_alone({"launcher": "local", "retries": 2}, ["--launch.nice", "3"])
    assert said == {"launcher": "local", "retries": 2, "nice": "3"}
    for given, argv, named in (
        ({"jobs": 2, "tasks": ["ft"]}, ["--launch.nice", "3"], "'tasks'"),
        ({"jobs": 2}, ["--launch.nice", "3", "--ppo.lr", "1"], "'--ppo.lr'"),
    ):
        with pytest.raises(ConfigError, match=f"options of the launch only, got {named}; leave it"):
            launch_alone(given, argv)


@pytest.mark.parametrize(
    ("argv", "extra"),
    [
        (["nodelist=a,b"], ("nodelist=a,b",)),
        (["nodelist=a,b", "nice=5"], ("nodelist=a,b", "nice=5")),
        ([""], ()),
    ],
)
def test_an_option_of_a_launcher_may_have_several_values(argv, extra):
    given = {"methods": ["recmorph"], "suites": ["unimal"], "tasks": ["ft"], "launcher": "slurm"}
    fields = {**given, "bodies": [BODIES], "threads": 4096}  # of a machine that is not this one
    sweep, found = request_sweep(fields, ["--launch.extra", *argv])
    assert {run.threads for run in sweep.runs.values()} == {4096}
    assert found.options["extra"] == extra
    assert Launch.from_dict(found.content()) == found
    with pytest.raises(ConfigError, match=r"'partition' must be a string or none, got .'a', 'b'"):
        request_sweep(given, ["--launch.partition", "a", "b"])


def test_of_several_methods_the_one_that_lacks_a_setting_is_named():
    grid = {"methods": ["recmorph", "mlp"], "suites": "unimal", "tasks": "ft", "bodies": BODIES}
    with pytest.raises(ConfigError, match=r"method 'mlp': unknown setting 'model.width'"):
        Sweep.grid(**grid, vary={"model.width": [32, 64]})


@pytest.fixture(scope="module")
def thousands():
    """Seconds of the processor that planning takes, and the plan."""
    fields = {"methods": ["recmorph", "metamorph-star"], "suites": "unimal", "protocol": "smoke"}
    fields |= {"bodies": BODIES, "vary": {"ppo.lr": [1e-5 * (i + 1) for i in range(10)]}}
    Sweep.grid(seeds=[0], **fields)  # what is loaded once does not count
    began = time.process_time()
    sweep = Sweep.grid(seeds=range(100), **fields)
    text = runs_to_yaml(sweep.runs)
    return time.process_time() - began, sweep, text


@pytest.mark.slow
def test_ten_thousand_runs_are_planned_in_seconds(thousands):
    seconds, sweep, text = thousands
    assert len(sweep.runs) == 10_000
    assert len(text) < 1_000_000
    assert seconds < 5


@pytest.mark.slow
def test_thousands_are_what_each_alone_would_be(thousands, tmp_path):
    _, sweep, text = thousands
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    assert read_runs(file) == sweep.runs
    bodies = choose_bodies(BODIES, SUITE)
    for name in list(sweep.runs)[::2503]:
        method, task, lr, seed = name.split("_")
        spec = ExperimentSpec(
            method=method,
            suite="unimal",
            task=task,
            seed=int(seed.removeprefix("seed")),
            protocol="smoke",
            bodies=BODIES,
            settings={"ppo.lr": float(lr.removeprefix("lr="))},
            threads=1,
        )
        assert resolve(spec, bodies).config == sweep.runs[name]
