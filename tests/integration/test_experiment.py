"""Experiments from Python: silent, equal to the command line to the bit, continued after a kill."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import gmc_bench
from gmc_bench.bodies.store import DATA_VARIABLE
from gmc_bench.core.config import sealed_yaml
from gmc_bench.core.errors import (
    CheckpointError,
    ConfigError,
    GmcBenchError,
    RecordError,
    RunFolderError,
)
from gmc_bench.experiments import events
from gmc_bench.experiments.sweep import SweepResult
from gmc_bench.sim.batch import available_threads
from gmc_bench.training.trainer import Trainer

SPEC = gmc_bench.ExperimentSpec(
    method="recmorph",
    suite="unimal",
    task="ft",
    protocol="smoke",
    bodies="tiny",
    settings={
        "num_envs": 4,
        "rollout_length": 32,
        "env_steps": 3072,
        "ppo.batch_size": 64,
        "model": {"width": 16, "hidden": 16},
    },
    threads=1,
    checkpoint_interval=0,
)
"""What the options of the finished run say."""
SHORT = SPEC.replace(seed=2, settings={**SPEC.settings, "env_steps": 384})
"""Three iterations, after which every body soon falls: with seed 1 one stands to the time limit."""
TIMES = {"created", "wall_clock_s", "env_steps_per_s", "digest"}
"""Fields of a record that differ between two runs of the same settings."""
PROGRAM = """
import sys, gmc_bench
spec = gmc_bench.ExperimentSpec.from_dict({spec!r})
gmc_bench.Experiment(spec, out=sys.argv[1]).run()
"""


@pytest.fixture(autouse=True)
def _tiny_bodies(gmc, monkeypatch, tmp_path):
    monkeypatch.setenv(DATA_VARIABLE, str(gmc.data))
    monkeypatch.chdir(tmp_path)


def record_of(path):
    """Return what a record says but for times."""
    content = json.loads((Path(path) / "record.json").read_bytes())
    return {name: value for name, value in content.items() if name not in TIMES}


def check_equal(path, other):
    for name in ("policy.safetensors", "config.yaml"):
        assert (Path(path) / name).read_bytes() == (Path(other) / name).read_bytes(), name
    assert record_of(path) == record_of(other)


@pytest.mark.slow
def test_a_run_from_python_equals_one_from_the_command_line(finished_run, capfd):
    told = []
    experiment = gmc_bench.Experiment(SPEC, out="run", on_event=told.append)
    record = experiment.run()
    assert capfd.readouterr() == ("", "")
    check_equal("run", finished_run.path)
    assert record == experiment.record == gmc_bench.load_records("run")[0]
    assert [type(event) for event in told[:2]] == [events.RunStarted, events.TrainingStarted]
    steps = [event.env_steps for event in told if isinstance(event, events.IterationFinished)]
    assert steps == list(range(128, 3073, 128))
    kept = [event for event in told if isinstance(event, events.CheckpointWritten)]
    assert [event.env_steps for event in kept] == steps  # the interval is 0
    assert kept[-1].path == Path("run/checkpoints/00000024")
    scored = [event for event in told if isinstance(event, events.Progress)]
    assert (scored[0].done, scored[-1].done) == (0, scored[-1].total)
    assert told[-1] == events.RecordWritten(Path("run/record.json"), record)


@pytest.mark.slow
def test_a_killed_run_is_continued_from_python(finished_run, capfd):
    run = Path("killed")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(spec=SPEC.to_dict()), str(run)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    while process.poll() is None and not (run / "checkpoints" / "00000005").exists():
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (run / "record.json").exists()
    started = []
    gmc_bench.Experiment.open(run, on_event=started.append).resume()
    assert capfd.readouterr() == ("", "")
    assert started[0].resumed
    assert started[1].env_steps >= 5 * 128
    check_equal(run, finished_run.path)
    again = []
    gmc_bench.Experiment(SPEC, out=run, on_event=again.append).resume()  # is finished and the same
    assert again == []


@pytest.mark.slow
def test_a_run_with_more_threads_than_there_are_goes_on_with_those(monkeypatch):
    """A run of 64 cores is carried to a machine with fewer; one thread made its checkpoint."""
    spec = SHORT.replace(settings={**SHORT.settings, "evaluation.modes": []})
    experiment, iterate = gmc_bench.Experiment(spec, out="moved"), Trainer.iterate

    def stop(trainer):
        if trainer.iteration == 2:
            raise KeyboardInterrupt
        return iterate(trainer)

    monkeypatch.setattr(Trainer, "iterate", stop)
    with pytest.raises(KeyboardInterrupt):
        experiment.run()
    monkeypatch.setattr(Trainer, "iterate", iterate)
    config = replace(experiment.config, threads=64)
    Path("moved/config.yaml").write_text(sealed_yaml(config.to_yaml()))
    told, here = [], available_threads()
    record = gmc_bench.Experiment.open("moved", on_event=told.append).resume()
    assert record.hardware.threads == here
    said = [event.text for event in told if isinstance(event, events.Remark)]
    if here == 1:
        assert (record.remarks, said) == (None, [])
        return
    assert record.remarks == (
        "the number of threads changed while the run was under way: 1 from iteration 1, "
        f"{here} from iteration 3",
    )
    assert f"1 thread(s) before, {here} from here on: the last bits differ." in said


def test_what_is_in_the_way_is_left_alone(finished_run):
    with pytest.raises(RunFolderError, match="already exists and is not empty"):
        gmc_bench.Experiment(SPEC, out=finished_run.path).run()
    with pytest.raises(RunFolderError, match="holds a run with other settings"):
        gmc_bench.Experiment(SPEC, seed=5, out=finished_run.path).resume()
    with pytest.raises(RunFolderError, match="already holds a run; use resume"):
        gmc_bench.Experiment.open(finished_run.path).run()
    with pytest.raises(RunFolderError, match="is not a run folder"):
        gmc_bench.Experiment.open("nowhere")


@pytest.mark.slow
def test_several_specifications_run_in_one_folder(capfd, monkeypatch):
    specs = [SHORT.replace(task=task) for task in ("ft", "obstacles")]
    iterate = Trainer.iterate

    def failing(trainer):
        if trainer.env.core.task.id == "unimal-ft-v1":
            raise RuntimeError("out of memory")
        return iterate(trainer)

    monkeypatch.setattr(Trainer, "iterate", failing)
    told = []
    result = gmc_bench.Sweep(specs, out="sweep", on_event=told.append).run()
    assert list(result.records) == ["obstacles"]
    assert result.failures == {"ft": "RuntimeError: out of memory"}
    (failed,) = [event for event in told if isinstance(event, events.SweepRunFailed)]
    assert "Traceback" in failed.trace
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_sweep_goes_on_where_it_was(capfd):
    specs = {"one": SHORT, "two": SHORT.replace(seed=3)}
    sweep = gmc_bench.Sweep(specs, out="sweep", files={"note.txt": b"mine"})
    assert list(sweep.resume().records) == ["one", "two"]  # nothing was there, so all run
    assert Path("sweep/note.txt").read_bytes() == b"mine"
    Path("sweep/two/record.json").unlink()
    before = Path("sweep/two/policy.safetensors").read_bytes()
    told = []
    again = gmc_bench.Sweep.open("sweep", on_event=told.append)
    result = again.resume()
    assert told[0].states == {"one": "finished", "two": "stopped"}
    assert [type(event) for event in told[1:3]] == [events.SweepRunKept, events.SweepRunStarted]
    assert told[-1].failures == {}
    assert Path("sweep/two/policy.safetensors").read_bytes() == before
    assert again["two"].record == result.records["two"]
    assert list(gmc_bench.load_records("sweep").to_pandas()["seed"]) == [2, 3]
    with pytest.raises(RunFolderError, match="holds other runs"):
        gmc_bench.Sweep([SHORT], out="sweep").resume()
    with pytest.raises(KeyError):
        again["three"]
    assert capfd.readouterr() == ("", "")


def test_the_policy_is_scored_again_to_the_same_bits(finished_run, capfd):
    experiment = gmc_bench.Experiment.open(finished_run.path)
    found = experiment.evaluate()
    assert found.returns == experiment.record.returns
    assert found.weights_digest == experiment.record.weights_digest
    frame = found.to_pandas()
    assert len(frame) == sum(len(part.episodes) for part in found.returns)
    assert set(frame["body"]) == {"chain-3", "star-3", "biped"}
    start = gmc_bench.evaluate(finished_run.path, untrained=True, split="test", episodes=1)
    assert start.weights_digest is None
    assert {(part.split, len(part.episodes)) for part in start.returns} == {("test", 1)}
    assert [part.episodes for part in start.returns] != [
        part.episodes for part in found.returns if part.split == "test"
    ]
    told = []
    experiment.subscribe(told.append)
    other = experiment.evaluate(bodies="tiny+damping-v1", mode="deterministic", episodes=1)
    assert told[0].text == "Scoring on tiny+damping-v1; trained on tiny."
    assert {part.split for part in other.returns} == {"test"}
    blind = experiment.evaluate(sensor_dropout=True, split="test", episodes=1)
    assert blind.silent_limbs["test"].keys() == {"biped", "chain-3"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_run_of_a_machine_with_a_gpu_is_scored_on_one_without(finished_run, tmp_path):
    """Its networks take the CPU, and whoever scores it is told; it is not trained further there."""
    path = shutil.copytree(finished_run.path, tmp_path / "moved")
    _, *lines, _ = (path / "config.yaml").read_text().splitlines()  # without the digest
    assert "device: cpu" in lines
    text = "\n".join("device: cuda" if line == "device: cpu" else line for line in lines)
    (path / "config.yaml").write_text(text)
    told = []
    experiment = gmc_bench.Experiment.open(path, on_event=told.append)
    assert experiment.evaluate(split="train", episodes=1).returns
    assert told[0].text == "Scoring on cpu, the run had cuda: the last bits may differ."
    assert experiment.policy.device.type == "cpu"
    with pytest.raises(ConfigError, match=r"the device 'cuda' cannot be used here \(.*\); use the"):
        experiment.load_policy("cuda")
    (path / "record.json").unlink()
    with pytest.raises(ConfigError, match=r"the device 'cuda' cannot be used here \(.*\); use the"):
        experiment.resume()


def test_the_policy_drives_an_environment(finished_run, tmp_path):
    policy = gmc_bench.load_policy(finished_run.path, device=torch.device("cpu"))
    env = gmc_bench.make_env("unimal-ft", "tiny", token_spec=policy.spec)
    observation, _ = env.reset(seed=0, options={"morphology": "star-3"})
    policy.reset(env)
    actions = policy.act(observation)
    assert actions.shape == env.action_space.shape
    policy.save(tmp_path / "walk.safetensors")
    again = gmc_bench.load_policy(tmp_path / "walk.safetensors")
    again.reset(env)
    assert (again.act(observation) == actions).all()
    with pytest.raises(RunFolderError, match="is not a run folder"):
        gmc_bench.load_policy(tmp_path)


def test_what_holds_no_policy_is_refused_with_what_does(finished_run):
    Path("model.pt").write_bytes(b"PK")
    with pytest.raises(
        CheckpointError, match=r"NAME\.safetensors of Policy\.save .*got .*model\.pt"
    ):
        gmc_bench.load_policy("model.pt")
    for door in (gmc_bench.load_policy, gmc_bench.Experiment.open):
        with pytest.raises(
            RecordError, match=r"looked up as the digest .*leaderboards is no leader"
        ):
            door("abcdef0123")
    with pytest.raises(ConfigError, match=r"'split' must be 'train' or 'test' or none, got 'tst'"):
        gmc_bench.evaluate(finished_run.path, split="tst")


def test_a_sweep_that_was_never_begun_is_not_over():
    sweep = gmc_bench.Sweep([SPEC, SPEC.replace(task="incline")], out="never")
    overview = sweep.overview()
    assert (overview.counts(), overview.is_over) == ({"to do": 2}, False)
    with pytest.raises(
        RunFolderError, match=r"never is not the folder of several runs .*bench sweep'"
    ):
        gmc_bench.Sweep.open("never")


def test_a_sweep_of_nothing_is_refused():
    with pytest.raises(GmcBenchError, match="a sweep needs at least one specification"):
        gmc_bench.Sweep([])


@pytest.mark.slow
def test_a_run_leaves_torchs_generator_and_threads_as_they_were(finished_run):
    """Also an evaluation and the loading of a policy."""
    spec = SHORT.replace(settings={**SHORT.settings, "evaluation.episodes": 1})
    torch.set_num_threads(3)
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    gmc_bench.Experiment(spec, out="quiet").run()
    assert torch.get_num_threads() == 3
    gmc_bench.evaluate("quiet", split="train", episodes=1)
    gmc_bench.load_policy("quiet")
    assert torch.get_num_threads() == 3
    assert torch.equal(torch.rand(3), expected)


def test_what_a_notebook_shows_is_a_line(finished_run):
    opened = gmc_bench.Experiment.open(finished_run.path)
    found = gmc_bench.evaluate(finished_run.path, split="train", episodes=1)
    sweep = gmc_bench.Sweep([SPEC, SPEC.replace(task="incline")], out="two")
    result = SweepResult({"a": opened.record}, {})
    new = gmc_bench.Experiment(SPEC, out="new")
    for thing in (new, opened, opened.record, opened.policy, opened.session, found, sweep, result):
        assert len(repr(thing)) < 300
        assert len(str(thing)) < 300
    assert repr(new) == "<experiment: recmorph on unimal, ft, smoke in new>"
    assert repr(sweep) == "<sweep of 2 runs in two>"
    assert repr(result) == "<1 finished runs, 0 failed>"
