"""Sweeps by launchers: killed, continued, stopped, and equal to runs one after the other."""

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest

from gmc_bench.bodies.store import DATA_VARIABLE
from gmc_bench.experiments.cell import FINISHED, STOPPED, Stop, run_cell
from gmc_bench.experiments.cell_state import RUNNING, read_state
from gmc_bench.experiments.events import (
    CheckpointWritten,
    IterationFinished,
    RunStoppedError,
    SweepMoved,
)
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.training.checkpoint import list_checkpoints

TIMES = {"created", "wall_clock_s", "env_steps_per_s", "digest", "git_dirty", "git_commit"}
"""Fields of a record that may differ between two runs of the same settings."""
GRID = {
    "methods": ("recmorph", "metamorph-star"),
    "suites": "unimal",
    "tasks": ("ft", "incline"),
    "seeds": (1, 2, 3),
    "protocol": "smoke",
    "bodies": "tiny",
    "checkpoint_interval": 0,
    "settings": {
        "num_envs": 4,
        "rollout_length": 32,
        "env_steps": 1280,
        "ppo.batch_size": 64,
    },
}
"""Twelve cells of ten iterations, with a checkpoint after each."""
WORDS = (
    "--methods", *GRID["methods"], "--suites", "unimal", "--tasks", *GRID["tasks"],
    "--seeds", 1, 2, 3, "--protocol", "smoke", "--bodies", "tiny", "--checkpoint-interval", 0,
    "--num-envs", 4, "--rollout-length", 32, "--env-steps", 1280, "--ppo.batch-size", 64,
    "--jobs", 2, "--launch.nice", 0,
)  # fmt: skip


def record_of(run):
    """Return what a record says but for times."""
    content = json.loads((run / "record.json").read_bytes())
    return {name: value for name, value in content.items() if name not in TIMES}


def check_equal(run, other):
    """Compare what two runs left: their records but for times, and the bytes of their weights."""
    assert record_of(run) == record_of(other), run
    weights = [(folder / "policy.safetensors").read_bytes() for folder in (run, other)]
    assert weights[0] == weights[1], run


class StopAfter(Stop):
    """Stops a run after some iterations, as a signal would."""

    def __init__(self, iterations):
        self._asked = threading.Event()
        self.left, self.seen = iterations, []

    def __call__(self, event):
        self.seen.append(type(event))
        if isinstance(event, IterationFinished):
            self.left -= 1
            if self.left == 0:
                raise RunStoppedError


@pytest.fixture
def data(gmc, monkeypatch):
    monkeypatch.setenv(DATA_VARIABLE, str(gmc.data))


def test_a_cell_stops_at_a_checkpoint_and_ends_in_the_same_bits(
    here, data, gmc, finished_run, tmp_path
):
    """Also what can be seen of it meanwhile, and that it is never run twice."""
    fields = {
        **GRID, "methods": "recmorph", "tasks": "ft", "seeds": (), "checkpoint_interval": 1e9,
        "settings": {**GRID["settings"], "env_steps": 3072, "model.width": 16, "model.hidden": 16},
    }  # fmt: skip
    sweep = Sweep.grid(out=tmp_path / "sweep", **fields)
    path, (name,) = sweep.path, sweep.runs
    with sweep.locked(create=True) as folder:
        folder.write(sweep.runs)
        stop = StopAfter(5)
        assert run_cell(path, name, stop) == STOPPED
        assert stop.seen[-2:] == [IterationFinished, CheckpointWritten]
        assert [item.name for item in list_checkpoints(path / name / "checkpoints")] == ["00000005"]
        state = read_state(path, name)
        assert (state.phase, state.env_steps, state.env_steps_planned) == ("stopped", 640, 3072)
        assert run_cell(path, name, StopAfter(0)) == FINISHED
        check_equal(path / name, finished_run.path)
        before = (path / name / "record.json").stat().st_mtime_ns
        assert run_cell(path, name, StopAfter(1)) == FINISHED
        assert (path / name / "record.json").stat().st_mtime_ns == before
    shown = here("sweep", "status", path).out
    assert shown.startswith("1 runs: 1 finished\n")
    content = json.loads(here("sweep", "status", path, "--json").out)
    assert content["runs"][name]["phase"] == "finished"
    again = here("sweep", "--resume", path, "--launcher", "local", "--dry-run").out
    assert "1 runs; about 0 s one by one" in again
    done = here("sweep", "--resume", path)  # with nothing to do, no process is started
    assert "1 finished" in done.out
    assert (path / "sweep.html").is_file()
    assert "ft" in (path / "sweep.html").read_text()


def test_what_does_not_fit_is_one_sentence(here, tmp_path):
    few = ("--methods", "recmorph", "--suites", "unimal", "--bodies", "tiny", "--out", tmp_path)
    for argv, reason in (
        ((), "a sweep needs methods, got none; give at least one"),
        (("--suites", "unimal"), "a sweep needs methods, got none; give at least one"),
        ((*few, "--launcher", "moon"), "unknown launcher 'moon'"),
        ((*few, "--ppo.rate", "1"), "unknown setting 'ppo.rate'"),
        (
            (*few, "--ppo.lr", "1e-4", "--threads", "1", "2"),
            "--threads takes one value, got also '2'",
        ),
        (
            (*few, "--num-envs", "8", "--untrained", "16"),
            "--untrained takes no value, got also '16'",
        ),
        ((*few, "--env-steps", "8", "--jobs=2", "4"), "--jobs takes one value, got also '4'"),
        (("status",), "'status' needs the folder of a sweep"),
        (("status", tmp_path), "is not the folder of several runs"),
        (("status", tmp_path, "--dry-run"), "takes no option but --json, got '--dry-run'; leave"),
        (("status", "--json", tmp_path, "b"), "'status' needs the folder of a sweep"),
        (("status", "--json", tmp_path), "is not the folder of several runs"),
        (("status", "--jobs=2", tmp_path), "'status' takes no option but --json, got '--jobs=2'"),
        (("--resume", tmp_path, "--seeds", "1"), "takes options of the launch only, got 'seeds'"),
        (("--resume", tmp_path, "--config", "a.yaml"), "of the launch only, got 'config'"),
        (("--resume", tmp_path, "--out", "other"), "of the launch only, got 'out'"),
    ):
        captured = here("sweep", *argv, code=2)
        assert reason in captured.err
        assert captured.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_only_what_can_be_continued_is_said_to_be(here, tmp_path, monkeypatch):
    def interrupt(sweep, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Sweep, "check_methods", interrupt)
    few = ("--methods", "recmorph", "--suites", "unimal", "--tasks", "ft", "--bodies", "tiny")
    err = here("sweep", *few, "--out", tmp_path / "new", code=130).err
    assert err.endswith("gmc-bench: interrupted\n")
    assert "Continue with" not in err
    assert not (tmp_path / "new").exists()


@pytest.fixture(scope="module")
def sequential(gmc, tmp_path_factory):
    """The twelve cells one after the other in this process."""
    path = tmp_path_factory.mktemp("sequential") / "sweep"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA_VARIABLE, str(gmc.data))
        result = Sweep.grid(out=path, **GRID).run()
    assert len(result.records) == 12
    return path


def records(path):
    """Return when each record that is there was written."""
    return {item.parent.name: item.stat().st_mtime_ns for item in path.glob("*/record.json")}


class Disturbance:
    """A listener to a sweep that disturbs it once, half-way, and sees that nothing is run twice.

    Args:
        path: the sweep's folder.
        disturb: is given the states of what runs by name; returns whether it did something.
    """

    def __init__(self, path, disturb):
        self.path, self.disturb = path, disturb
        self.written, self.has_come = {}, False

    def __call__(self, event):
        if not isinstance(event, SweepMoved):
            return
        for name, written in records(self.path).items():
            assert self.written.setdefault(name, written) == written
        states = event.overview.states.items()
        running = {name: state for name, state in states if state.phase in RUNNING}
        if not self.has_come and len(self.written) >= 4 and len(running) == 2:
            self.has_come = self.disturb(running)


def check_all_finished(sweep, result, sequential):
    """Check that the twelve cells ended as they do one after the other."""
    assert result.failures == {}
    assert sorted(result.records) == sorted(sweep.runs)
    assert len(sweep.runs) == 12
    for name in sweep.runs:
        check_equal(sweep.path / name, sequential / name)


def wait_for(process, found):
    while process.poll() is None and not found():
        time.sleep(0.01)
    assert process.poll() is None, process.communicate()


def kill_workers(path):
    for item in (path / ".states").glob("*.json"):
        state = read_state(path, item.stem)
        if state.phase in ("starting", "training", "scoring"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(state.pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_kills_of_everything_change_nothing(gmc, sequential, tmp_path):
    """SIGKILL to the driver, then to driver and workers, then an interruption."""
    path, command, written = tmp_path / "sweep", ("sweep", *WORDS, "--out"), {}

    def trained(least):
        states = [item.stem for item in (path / ".states").glob("*.json")]
        return sum(read_state(path, name).env_steps > 0 for name in states) >= least

    for least, ways in ((1, "driver"), (3, "all"), (5, "interrupt")):
        process = gmc.start(*command, path)
        wait_for(process, lambda least=least: trained(least))
        if ways == "interrupt":
            process.send_signal(signal.SIGTERM)
        else:
            process.kill()
        if ways == "all":
            kill_workers(path)
        _, err = process.communicate()
        if ways == "interrupt":
            assert process.returncode == 130
            assert f"Stopped. Continue with: gmc-bench sweep --resume {path}\n" in err
        now = records(path)
        assert {name: now[name] for name in written} == written
        written = now
        command = command if ways == "driver" else ("sweep", "--resume")
    done = gmc(*command, path)
    assert "12 runs: 12 finished" in done.stdout
    now = records(path)
    assert {name: now[name] for name in written} == written  # nothing was run twice
    assert len(now) == 12
    for name in now:
        check_equal(path / name, sequential / name)


UNLUCKY = """
import os, signal, sys
from pathlib import Path

FAILED = Path(__file__).with_name("failed")


class Unlucky(MyNetwork):
    def __init__(self, config, spec, num_outputs):
        super().__init__(config, spec, num_outputs)
        if sys.argv[0].endswith("worker.py") and not FAILED.exists():
            FAILED.touch()
            os.kill(os.getpid(), signal.SIGKILL)


SPEC = MethodSpec("""
"""In a method's file: the first worker that builds a network is killed."""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cell_that_fails_says_why_and_is_retried_unless_that_is_in_vain(gmc, tmp_path):
    method = tmp_path / "mine.py"
    example = (Path(__file__).parents[2] / "examples" / "my_method.py").read_text()
    unlucky = example.replace("SPEC = MethodSpec(", UNLUCKY)
    method.write_text(unlucky.replace("builder=MyNetwork", "builder=Unlucky"))
    path = tmp_path / "sweep"
    argv = ("--suites", "unimal", "--tasks", "ft", "--seeds", 1, 2, "--protocol", "smoke",
             "--bodies", "tiny", "--env-steps", 256, "--num-envs", 4, "--rollout-length", 32,
             "--ppo.batch-size", 64, "--jobs", 1, "--launch.nice", 0, "--retries", 0)  # fmt: skip
    out = gmc("sweep", "--methods", f"{method}:SPEC", *argv, "--out", path, code=1).stdout
    assert "2 runs: 1 finished, 1 failed" in out
    assert "failed: seed1: its process was ended by signal 9 (SIGKILL)" in out
    (tmp_path / "failed").unlink()
    out = gmc("sweep", "--resume", path, "--retries", 1).stdout
    assert "2 runs: 2 finished" in out
    assert (tmp_path / "failed").exists()  # once more, and it was tried again
    shutil.rmtree(path / "seed2")
    method.write_text(example + "\n# changed\n")
    out = gmc("sweep", "--resume", path, "--retries", 1, code=1).stdout
    assert "2 runs: 1 finished, 1 failed" in out
    assert "failed: seed2: the file of the method" in out
    state = read_state(path, "seed2")
    assert (state.permanent, state.attempt) == (True, 2)  # of two starts, one each


@pytest.fixture
def ray_nodes(monkeypatch):
    """Two nodes of a Ray cluster that only this machine can reach: the cluster, and the second."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    node = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "node_ip_address": "127.0.0.1"}
    cluster = cluster_utils.Cluster(
        initialize_head=True, head_node_args={**node, "include_dashboard": False}
    )
    try:
        yield cluster, cluster.add_node(**node)
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_node_of_a_ray_cluster_is_killed_half_way(data, ray_nodes, sequential, tmp_path):
    cluster, node = ray_nodes

    def kill(running):
        cluster.remove_node(node, allow_graceful=False)
        return True

    disturbance = Disturbance(tmp_path / "sweep", kill)
    sweep = Sweep.grid(out=tmp_path / "sweep", on_event=disturbance, elsewhere=True, **GRID)
    result = sweep.run("ray", address=cluster.address)
    assert disturbance.has_come
    check_all_finished(sweep, result, sequential)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ray_brings_back_what_no_folder_shares(data, ray_nodes, sequential, tmp_path):
    cluster, _ = ray_nodes
    fields = {**GRID, "methods": "recmorph", "seeds": 1}
    sweep = Sweep.grid(out=tmp_path / "sweep", elsewhere=True, **fields)
    result = sweep.run("ray", address=cluster.address, shared=False, send_s=0.5)
    assert result.failures == {}
    for name in sweep.runs:
        assert list_checkpoints(sweep.path / name / "checkpoints")
        check_equal(sweep.path / name, sequential / f"recmorph_{name}_seed1")


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_job_is_preempted_half_way(data, sequential, tmp_path):
    """With submitit's executor for one machine; the signal is the one that Slurm sends."""
    pytest.importorskip("submitit")
    preempted = []

    def preempt(running):
        for name, state in running.items():
            if state.phase == "training":
                os.kill(parent(state.pid), signal.SIGUSR2)
                preempted.append(name)
                return True
        return False

    disturbance = Disturbance(tmp_path / "sweep", preempt)
    sweep = Sweep.grid(out=tmp_path / "sweep", on_event=disturbance, elsewhere=True, **GRID)
    result = sweep.run("slurm", executor="local", jobs=2, retries=0)
    check_all_finished(sweep, result, sequential)
    attempts = {name: read_state(sweep.path, name).attempt for name in sweep.runs}
    assert attempts == dict.fromkeys(sweep.runs, 1) | dict.fromkeys(preempted, 2)
    logs = "".join(path.read_text() for path in (sweep.path / ".slurm").glob("*.err"))
    assert logs.count("this job is preempted") == len(preempted) == 1


def parent(pid):
    """Return the process that started another one."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
