"""One run of a sweep: what its worker tells, and what it takes of the machine."""

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gmc_bench.core.config import sealed_yaml
from gmc_bench.core.errors import StorageError, TrainingDivergedError
from gmc_bench.experiments import cell as cells
from gmc_bench.experiments import execution
from gmc_bench.experiments.cell import FAILED, STOPPED, Reporter, execute_run, run_cell
from gmc_bench.experiments.cell_state import CellState, read_state, write_state
from gmc_bench.experiments.events import (
    CheckpointWritten,
    IterationFinished,
    Listeners,
    RecordWritten,
    Remark,
    RunStarted,
    RunStoppedError,
    TrainingFinished,
    TrainingStarted,
)
from gmc_bench.experiments.launchers import worker
from gmc_bench.experiments.launchers.process import ended_with
from gmc_bench.experiments.lease import NAME, FolderInUseError, LeaseLostError
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.records.store import read_record, sealed, write_atomic
from gmc_bench.training.log import read_scalars
from tests.support.records import make_record

FIELDS = {
    "suites": "unimal", "tasks": "ft", "seeds": 1, "protocol": "smoke", "bodies": "tiny",
    "settings": {"evaluation.modes": []},
}  # fmt: skip
TRAINED = {
    "num_envs": 4, "rollout_length": 32, "env_steps": 256, "ppo.batch_size": 64,
    "model.width": 8, "model.hidden": 8, "evaluation.modes": [],
}  # fmt: skip


def make_sweep(path, method="zero-action", **fields):
    """Return a sweep of one run, and the run's name and settings."""
    sweep = Sweep.grid(methods=method, out=path, **{**FIELDS, **fields})
    ((name, config),) = sweep.runs.items()
    return sweep, name, config


class Quiet:
    """Stops a run when it is told of an event of a kind, or when the run waits."""

    def __init__(self, kind=None):
        self.kind = kind

    def __call__(self, event):
        if self.kind is not None and isinstance(event, self.kind):
            raise RunStoppedError

    def wait(self, seconds):
        raise RunStoppedError


def test_a_run_that_was_planned_with_more_threads_goes_on_with_those_there_are(
    tmp_path, monkeypatch
):
    sweep, name, config = make_sweep(tmp_path / "s", "recmorph", settings=TRAINED)
    assert config.threads == 1
    with sweep.locked(create=True) as folder:
        with pytest.raises(RunStoppedError):
            execute_run(folder, name, config, emit=Quiet(IterationFinished))
        many = replace(config, threads=64)
        (folder.path / name / "config.yaml").write_text(sealed_yaml(many.to_yaml()))
        # Two cores, whatever machine this is; numba would refuse more than there are.
        monkeypatch.setattr("gmc_bench.sim.batch.available_threads", lambda: 2)
        monkeypatch.setattr("numba.set_num_threads", lambda count: None)
        record = execute_run(folder, name, many)
    assert record.hardware.threads == 2
    (remark,) = record.remarks
    assert remark.endswith("1 from iteration 1, 2 from iteration 2")


def test_who_does_not_hold_a_run_does_not_tell_of_it(tmp_path, monkeypatch):
    sweep, name, config = make_sweep(tmp_path / "s")
    held = CellState(phase="training", env_steps=7, pid=1)
    monkeypatch.setattr(cells, "_IN_USE_S", -1.0)
    with sweep.locked(create=True) as folder:
        folder.write(sweep.runs)
        with RunFolder(folder.path / name, create=True) as run:
            run.config.write_text(sealed_yaml(config.to_yaml()))
            write_state(folder.path, name, held)
            before = read_state(folder.path, name)
            with pytest.raises(FolderInUseError, match="is in use by another process"):
                run_cell(folder.path, name, Quiet())
            monkeypatch.setattr(cells, "_IN_USE_S", 60.0)
            assert run_cell(folder.path, name, Quiet()) == STOPPED  # while it waits
            assert read_state(folder.path, name) == before
        assert run_cell(folder.path, name, Quiet(RunStarted)) == STOPPED  # the folder is free
        assert read_state(folder.path, name).phase == "stopped"


def test_a_run_that_a_process_without_a_state_has_taken_up_is_training(tmp_path):
    sweep, name, _ = make_sweep(tmp_path / "s")
    failed = CellState(phase="failed", reason="its node is gone", permanent=True, env_steps=7)
    with sweep.locked(create=True) as folder:
        folder.write(sweep.runs)
        write_state(folder.path, name, failed)
        assert read_state(folder.path, name).phase == "failed"
        with RunFolder(folder.path / name, create=True):
            state = read_state(folder.path, name)
            assert (state.phase, state.reason, state.permanent) == ("training", "", False)
        assert read_state(folder.path, name).reason == "its node is gone"


def test_a_run_whose_record_was_taken_away_has_stopped(tmp_path):
    write_state(tmp_path, "run", CellState(phase="finished", env_steps=7))
    state = read_state(tmp_path, "run")
    assert (state.phase, state.env_steps) == ("stopped", 7)


def test_who_lost_a_run_does_not_tell_of_it_any_more(tmp_path, monkeypatch):
    sweep, name, _ = make_sweep(tmp_path / "s")
    taken = CellState(phase="training", env_steps=7, pid=1)

    def lose(sweep, name, config, emit):
        write_state(sweep.path, name, taken)
        raise LeaseLostError("it was taken over")

    monkeypatch.setattr(cells, "execute_run", lose)
    with sweep.locked(create=True) as folder:
        folder.write(sweep.runs)
        with RunFolder(folder.path / name, create=True):
            with pytest.raises(LeaseLostError):
                run_cell(folder.path, name, Quiet())
            assert read_state(folder.path, name).phase == "training"


@pytest.mark.parametrize(
    ("error", "reason", "permanent"),
    [
        (TrainingDivergedError("it diverged"), "it diverged", True),
        (StorageError("the disk is full"), "the disk is full", False),
        (ValueError("odd"), "ValueError: odd", False),
    ],
)
def test_why_a_run_failed_and_whether_it_would_again(
    tmp_path, monkeypatch, error, reason, permanent
):
    def fail(*_, **__):
        raise error

    sweep, name, _ = make_sweep(tmp_path / "s")
    monkeypatch.setattr(cells, "execute_run", fail)
    with sweep.locked(create=True) as folder:
        folder.write(sweep.runs)
        assert run_cell(folder.path, name, Quiet()) == FAILED
        state = read_state(folder.path, name)
        assert (state.phase, state.reason, state.permanent) == ("failed", reason, permanent)


@pytest.fixture
def signals():
    """Leave no handler of signals behind."""
    before = {number: signal.getsignal(number) for number in cells.STOPS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("signals")
def test_a_worker_stops_when_whoever_started_it_is_gone():
    ours, theirs = os.pipe()
    stop = cells.Stop(watched=ours)
    os.write(theirs, b"still there")
    stop.wait(0.05)
    os.close(theirs)
    with pytest.raises(RunStoppedError):
        stop.wait(10.0)
    with pytest.raises(RunStoppedError):
        stop(TrainingFinished(Path("p"), None))
    stop(RecordWritten(Path("p"), make_record()))  # finished: nothing is left to stop
    os.close(ours)


@pytest.mark.usefixtures("signals")
@pytest.mark.parametrize("number", cells.STOPS)
def test_a_worker_stops_when_it_is_asked_to(number):
    stop = cells.Stop()
    stop.wait(0.0)
    signal.raise_signal(number)
    with pytest.raises(RunStoppedError):
        stop.wait(10.0)


@pytest.mark.parametrize("error", [FolderInUseError, LeaseLostError])
def test_a_worker_whose_run_another_holds_is_no_failure(tmp_path, monkeypatch, capsys, error):
    def refuse(*_):
        raise error("another process holds it")

    nice = []
    monkeypatch.setattr(os, "nice", nice.append)
    monkeypatch.setattr(worker, "run_cell", refuse)
    monkeypatch.setattr(worker, "Stop", lambda watched: None)
    with Path(os.devnull).open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        code = worker.main([str(tmp_path), "a", "7"])
    assert nice == [7]
    assert capsys.readouterr().err == "another process holds it\n"
    ended = ended_with("a", code)
    assert (ended.why, ended.lost) == ("ended because another process holds the run", True)
    assert ended.held


@pytest.mark.parametrize(
    ("kind", "left"),
    [
        (TrainingStarted, (False, False, False)),
        (CheckpointWritten, (True, False, False)),
        (TrainingFinished, (True, True, False)),
    ],
)
def test_who_lost_a_run_writes_nothing_more(tmp_path, kind, left):
    """Whoever took it over has other bits, perhaps, and its files must stay."""
    sweep, name, config = make_sweep(
        tmp_path / "s", "recmorph", settings={**TRAINED, "env_steps": 128}
    )

    def take_over(event):
        if isinstance(event, kind):
            lease = folder.path / name / NAME
            lease.write_text(json.dumps({**json.loads(lease.read_text()), "token": "theirs"}))

    with sweep.locked(create=True) as folder:
        with pytest.raises(LeaseLostError, match="was taken over"):
            execute_run(folder, name, config, emit=take_over)
        run = RunFolder(folder.path / name)
        written = any(run.checkpoints.glob("[0-9]*")), run.policy.exists(), run.record.exists()
        assert written == left


def test_who_lost_a_run_does_not_write_its_curves(tmp_path):
    sweep, name, config = make_sweep(tmp_path / "s", "recmorph", settings=TRAINED)
    seen = []

    def take_over(event):
        if isinstance(event, IterationFinished):
            seen.append(event.env_steps)
            lease = folder.path / name / NAME
            lease.write_text(json.dumps({**json.loads(lease.read_text()), "token": "theirs"}))

    with sweep.locked(create=True) as folder:
        with pytest.raises(LeaseLostError, match="was taken over"):
            execute_run(folder, name, config, emit=take_over)
        logs = RunFolder(folder.path / name).logs
    written = [env_steps for env_steps, _ in read_scalars(logs, 0, 10**6)]
    assert (len(seen), written) == (1, seen)


def test_the_memory_of_a_run_is_that_of_all_its_processes(tmp_path, monkeypatch):
    sweep, name, config = make_sweep(tmp_path / "s", "recmorph")
    peak = [100]
    monkeypatch.setattr(cells, "peak_memory", lambda: peak[0])

    def measured(*, trained, scored, **changes):
        reporter = Reporter(sweep.path, name)
        peak[0] = trained
        for event in (
            RunStarted(tmp_path, replace(config, **changes), 8, resumed=False),
            TrainingStarted(0, 8),
            TrainingFinished(tmp_path, None),
        ):
            Listeners(reporter)(event)
        peak[0] = scored
        reporter.end("stopped")
        return read_state(sweep.path, name).memory

    assert measured(trained=100, scored=150, untrained=True, processes=4) == 150
    assert measured(trained=100, scored=200, processes=1) == 200
    assert measured(trained=100, scored=150, processes=4) == 400
    assert measured(trained=100, scored=500, processes=4) == 500  # one process scores


def test_the_speed_of_a_run_leaves_out_its_first_iteration(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(cells.time, "perf_counter", lambda: now[0])
    reporter = Reporter(tmp_path, "a")

    def told(event, seconds):
        now[0] = seconds
        Listeners(reporter)(event)

    def trained(steps):
        return IterationFinished(steps, 0.5)

    told(TrainingStarted(0, 1000), 0.0)
    told(trained(100), 10.0)  # it also compiles
    assert reporter.state.env_steps_per_s is None
    told(trained(300), 14.0)
    assert (reporter.state.env_steps, reporter.state.env_steps_per_s) == (300, 50.0)
    assert read_state(tmp_path, "a").env_steps == 300
    told(trained(400), 14.5)  # too soon to write again
    assert reporter.state.env_steps == 400
    assert read_state(tmp_path, "a").env_steps == 300
    told(TrainingFinished(tmp_path, None), 20.0)
    record = make_record()
    told(RecordWritten(tmp_path, record), 23.0)
    assert reporter.state.scoring_s == 3.0
    assert reporter.state.env_steps_per_s == record.env_steps_per_s


def test_how_often_a_run_was_begun_is_counted(tmp_path):
    for attempt in (1, 2, 3):
        Reporter(tmp_path, "a").end("stopped")
        assert read_state(tmp_path, "a").attempt == attempt


def test_a_fault_of_drawing_keeps_no_record_from_being_written(tmp_path, monkeypatch):
    def fail(*_):
        raise RuntimeError("no fonts")

    monkeypatch.setattr(execution, "plot_learning_curve", fail)
    sweep, name, config = make_sweep(tmp_path / "s")
    told = []
    with sweep.locked(create=True) as folder:
        record = execute_run(folder, name, config, emit=told.append)
        assert read_record(folder.path / name / "record.json") == record
    assert Remark("no learning curve was drawn: RuntimeError: no fonts") in told


def test_what_is_trained_here_is_no_run_of_a_leaderboard(tmp_path):
    """Even where one was killed that took the run from there, before its record."""
    sweep, name, config = make_sweep(tmp_path / "s")
    with sweep.locked(create=True) as folder:
        run = folder.path / name
        write_atomic(run / "config.yaml", sealed_yaml(config.to_yaml()).encode())
        write_atomic(run / "kept.json", sealed({"kept": "0" * 64}))
        execute_run(folder, name, config)
        assert (run / "record.json").is_file()
        assert not (run / "kept.json").exists()
