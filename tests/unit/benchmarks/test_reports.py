"""Every script measures and reports; the figures are the machine's."""

import importlib
import json
import runpy
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from benchmarks import (
    ant_envpool,
    gpu_report,
    run_all,
    soak,
    sweep_throughput,
    training_throughput,
    update_speed,
)
from benchmarks.sweep_throughput import Speed
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.conformance.morphologies import chain, star
from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments import launch
from gmc_bench.profiling.report import Report, machine_markdown
from gmc_bench.suites.unimal import SUITE

ANT_SIDES = ["gmc-bench", "bare mj_step", "gymnasium, one environment"]


@pytest.fixture(scope="module")
def ant():
    return ant_envpool.measure(2, 1, 0.05, "/no/such/python")


def test_a_report_survives_json(ant):
    again = Report.from_json(ant.to_json())
    assert again.to_markdown() == ant.to_markdown()
    assert machine_markdown(again.machine) == machine_markdown(ant.machine)
    assert "mujoco" in machine_markdown(ant.machine)


def test_ant_is_measured_without_envpool_and_says_so(ant):
    rates = ant.figures["env_steps_per_s"]
    assert list(rates) == ANT_SIDES
    assert all(rate > 0 for rate in rates.values())
    assert any("EnvPool was not measured: /no/such/python" in note for note in ant.notes)


def test_an_interpreter_without_envpool_is_not_measured():
    code = 'print(\'{"error": "No module named envpool"}\')'
    with ant_envpool._envpool([sys.executable, "-c", code]) as (side, state):
        assert side is None
        assert "No module named envpool" in state


def test_envpool_is_asked_for_every_block():
    code = (
        'import sys\nprint(\'{"version": "1.0"}\', flush=True)\n'
        "for line in sys.stdin: print([0.5, 10 + int(line)], flush=True)"
    )
    with ant_envpool._envpool([sys.executable, "-c", code]) as (side, state):
        assert "EnvPool 1.0" in state
        assert [side(0), side(3)] == [(0.5, 10), (0.5, 13)]


@pytest.mark.parametrize("slow", [1, 4])
def test_the_plain_training_keeps_the_faster_number_of_threads(slow):
    class Plain:
        threads = 4

        def iterate(self):
            time.sleep(0.1 if self.threads == slow else 0.0)

    plain = Plain()
    training_throughput._choose_threads(plain)
    assert plain.threads == {1: 4, 4: 1}[slow]


@pytest.mark.slow
def test_both_trainings_take_turns():
    lite = SUITE.protocol("lite")
    protocol = replace(
        lite,
        num_envs=2,
        rollout_length=16,
        env_steps=32 * 1000,
        ppo=replace(lite.ppo, batch_size=16, repeat=1),
    )
    bodies = MorphologySet(
        id="unit", splits={"train": (chain(3), star(3)), "test": (star(3),)}, source="unit"
    )
    report = training_throughput.measure(bodies, protocol, 1, 0.3)
    ours, plain = report.figures["gmc-bench"], report.figures["plain"]
    ratio = ours["env_steps_per_s"] / plain["env_steps_per_s"]
    assert report.figures["ratio_to_plain"] == pytest.approx(ratio)
    assert report.figures["iterations"] >= 1
    for side in (ours, plain):
        assert 0 < side["gradient_steps"] <= 2
        assert sum(side["shares"].values()) == pytest.approx(1.0)
        assert all(-0.01 < share < 1 for share in side["shares"].values())


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_device_is_measured_in_one_call(device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    lite = SUITE.protocol("lite")
    ppo = replace(lite.ppo, batch_size=16, repeat=1)
    protocol = replace(lite, num_envs=2, rollout_length=16, env_steps=32 * 1000, ppo=ppo)
    bodies = MorphologySet(
        id="unit", splits={"train": (chain(3), star(3)), "test": (star(3),)}, source="unit"
    )
    report = gpu_report.measure(bodies, [protocol], ["recmorph", "smr"], device, 1, 0.0)
    for found in report.figures["training"]["lite"].values():
        assert found["env_steps_per_s"] > 0
        assert 0.5 < sum(found["shares"].values()) <= 1.0
    for found in report.figures["networks"].values():
        assert all(milliseconds > 0 for milliseconds in found.values())
    assert "step, bfloat16" in report.to_markdown()


def test_gradient_steps_are_how_many_times_as_fast_as_before(monkeypatch):
    times = {"in sequence": 30.0, "float32": 10.0, "bfloat16": 5.0, "plain": 40.0}

    def measured(command, **_):
        assert command[command.index("--threads") + 1] == "2"
        time = times[command[command.index("--side") + 1]]
        return SimpleNamespace(stdout=f"{time}\n", returncode=0)

    monkeypatch.setattr(update_speed, "subprocess", SimpleNamespace(run=measured, PIPE=None))
    report = update_speed.report(["recmorph", "swat"], "lite", 512, 2.0, 2)
    ours = ["30.0", "10.0", "5.0", "3.00", "6.00"]
    assert report.tables[0].rows == [["recmorph", *ours, "4.00", "8.00"], ["swat", *ours, "-", "-"]]


@pytest.mark.slow
def test_a_gradient_step_that_fails_says_why(capfd):
    with pytest.raises(ConfigError, match="recmorph, in sequence, ended with exit code 2"):
        update_speed.report(["recmorph"], "nothing", 512, 0.1, 1)
    assert "has no preset 'nothing'" in capfd.readouterr().err


def test_a_sweep_is_compared_with_as_many_runs_by_hand(monkeypatch):
    speeds = {
        "by_hand": {1: [Speed(10.0, 5.0)] * 2, 3: [Speed(100.0, 50.0), Speed(90.0, 60.0)]},
        "by_sweep": {3: [Speed(120.0, 60.0), Speed(80.0, 75.0)]},
    }
    for name, found in speeds.items():
        taken = {jobs: iter(turns) for jobs, turns in found.items()}
        monkeypatch.setattr(sweep_throughput, name, lambda _, jobs, *__, t=taken: next(t[jobs]))
    figures = sweep_throughput.measure(3, 1000, 1, 2).figures
    assert (figures["ratio_to_by_hand"], figures["ratio_whole"]) == (1.2, 1.25)
    assert (figures["one alone training"], figures["by hand whole"]) == (10.0, 60.0)


@pytest.mark.parametrize(
    ("growth", "code"),
    [({}, 0), ({"memory_mib": 3.0}, 0), ({"memory_mib": 4.0}, 1), ({"open_files": 0.2}, 1)],
)
def test_a_soak_fails_if_something_grew(tmp_path, monkeypatch, growth, code):
    """Of twenty sweeps, those after the first two count."""
    rows = [
        {"seconds": 10.0 * k} | {name: 5.0 + k * growth.get(name, 0.0) for name in soak.MEASURED}
        for k in range(20)
    ]
    path = tmp_path / "soak.json"
    path.write_text(json.dumps({"processes": [rows[:9], rows]}))
    monkeypatch.setenv(soak.DATA_VARIABLE, "")  # which the script sets
    monkeypatch.setattr("sys.argv", ["soak", "--seconds", "200", "--out", str(path)])
    monkeypatch.setattr(soak, "sweep_once", lambda _: pytest.fail("there is no time left"))
    assert soak.main() == code
    assert soak.summary([rows])[0][-1] == f"{17.0 * growth.get('memory_mib', 0.0):+.1f}"


def test_a_document_names_what_failed(ant):
    text = run_all.document({"ant_envpool": ant, "training_throughput": None}, threads=1)
    assert text.startswith("# Benchmarks\n")
    assert ant.to_markdown() in text
    assert "## training_throughput\n\nFailed" in text


def test_a_document_goes_into_a_new_folder_which_is_made_before_anything_is_measured(
    tmp_path, monkeypatch
):
    out = tmp_path / "new" / "b.md"
    monkeypatch.setattr(sys, "argv", ["run_all", "--out", str(out)])

    def failed(*_):
        assert out.parent.is_dir()

    monkeypatch.setattr(run_all, "report_of", failed)
    assert run_all.main() == 1
    assert out.read_text().startswith("# Benchmarks\n")


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("process_speedup --processes 0", "'processes' must be at least 1"),
        ("process_speedup --processes 300", "protocol has 256 and --processes is 300"),
        ("process_speedup --morphologies nothing", "'nothing'"),
        ("gpu_report --device cpu --protocol foo", "has no protocol 'foo'"),
        ("gpu_report --device tpu", "the device 'tpu' is not supported"),
        ("training_throughput --morphologies nothing", "'nothing'"),
        ("training_throughput --threads 0", "--threads: must be an integer of at least 1, got 0"),
        (
            "ant_envpool --seconds -1",
            "--seconds: must be a number of seconds that is not negative, got '-1'",
        ),
        ("ant_envpool --num-envs four", "must be an integer of at least 1, got 'four'"),
        ("sweep_throughput --jobs 0", "--jobs: must be an integer of at least 1, got 0"),
        ("update_speed --method nothing", "unknown method 'nothing'"),
        ("update_speed --method recmorph --preset nothing", "has no preset 'nothing'"),
        (
            "update_speed --method recmorph smr --batch-size 1",
            "--batch-size is 1, but smr trains on sequences of",
        ),
        ("learning nothing", "nothing/record.json"),
        ("run_all --out .", "--out is the folder .; name a file"),
        ("plain_training --morphologies nothing", "'nothing'"),
        ("run_all --json", "unrecognized arguments: --json; see 'python -m benchmarks.run_all"),
        ("time_to_return --threads 2", "unrecognized arguments: --threads 2"),
        ("soak --out .", ". is not a file of results; give --out another name"),
    ],
)
def test_bad_input_ends_a_script_with_one_sentence(command, reason, monkeypatch, capsys):
    def shared(*arguments):
        pytest.fail("processes were started")

    monkeypatch.setattr(launch, "shared", shared)
    name, *words = command.split()
    monkeypatch.setattr(sys, "argv", [name, *words])
    with pytest.raises(SystemExit) as caught:
        runpy.run_path(str(run_all.ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert reason in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", run_all.SCRIPTS)
def test_every_script_that_is_run_reports_and_is_explained(name):
    script = importlib.import_module(f"benchmarks.{name}")
    assert callable(script.measure)
    assert script.main.__doc__
    assert f"benchmarks.{name}" in (run_all.ROOT / "benchmarks" / "README.md").read_text()
