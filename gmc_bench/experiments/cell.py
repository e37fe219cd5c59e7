"""One run of a sweep in a process of its own, begun or continued; a small file holds its state."""

import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from gmc_bench.core.config import sealed_yaml
from gmc_bench.core.errors import (
    ConfigError,
    GmcBenchError,
    MorphologySetError,
    PluginError,
    RunFolderError,
    TrainingDivergedError,
    UnknownNameError,
)
from gmc_bench.experiments.cell_state import CellState, Phase, read_state, write_state
from gmc_bench.experiments.events import (
    Event,
    IterationFinished,
    Listener,
    Listeners,
    RecordWritten,
    RunStarted,
    RunStoppedError,
    TrainingFinished,
    TrainingStarted,
)
from gmc_bench.experiments.lease import TIMEOUT_S, FolderInUseError, LeaseLostError
from gmc_bench.experiments.resolve import threads_here
from gmc_bench.experiments.sweep_folder import SweepFolder, read_runs
from gmc_bench.records.store import read_record, write_atomic
from gmc_bench.training.run_config import RunConfig, read_run_config

if TYPE_CHECKING:
    from gmc_bench.bodies.schema import MorphologySet
    from gmc_bench.records.schema import RunRecord

PERMANENT = (
    ConfigError, PluginError, UnknownNameError, MorphologySetError, TrainingDivergedError
)  # fmt: skip
"""Errors that a retry cannot fix."""
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that ask a worker to write a checkpoint and end."""
FINISHED, FAILED, STOPPED, HELD = 0, 1, 3, 4
"""Exit codes of a worker."""
_WRITE_S = 2.0
"""Minimum seconds between state writes, to spare network file systems."""
_IN_USE_S = 2 * TIMEOUT_S
"""Seconds to wait for a folder whose last holder may be gone."""


def execute_run(
    sweep: SweepFolder,
    name: str,
    config: RunConfig,
    bodies: "MorphologySet | None" = None,
    emit: Listener | None = None,
) -> "RunRecord":
    """Begin or continue a run of a sweep in this process; a finished one is left as it is.

    Where this machine has fewer cores than the run was planned to use threads, it uses as many
    threads as there are cores; its record tells of a change on the way.

    Args:
        sweep: the sweep's folder, whoever holds it; the run's own folder is locked.
        name: of the run.
        config: its settings.
        bodies: its body set, if that is at hand.
        emit: is told what happens.

    Returns:
        Its record.

    Raises:
        RunFolderError: the run's folder is in use.
        GmcBenchError: the run cannot go on.
    """
    from gmc_bench.experiments.execution import execute
    from gmc_bench.experiments.session import open_session

    tell = emit or Listeners()
    with sweep.open_run(name, config) as folder:
        if folder.record.exists():  # another process came first
            return read_record(folder.record)
        begun = folder.config.is_file()
        if not begun:
            write_atomic(folder.config, sealed_yaml(config.to_yaml()).encode())
        config = read_run_config(folder.config)
        config = replace(config, threads=threads_here(config.threads))
        session = open_session(config, bodies)
        tell(RunStarted(folder.path, config, session.env_steps, begun))
        return execute(session, folder, tell)


class Stop:
    """Whether a run shall end at its next checkpoint; set by signals, or when a pipe closes.

    Args:
        watched: a pipe that whoever started this process holds open, as a file descriptor.
    """

    def __init__(self, watched: int | None = None) -> None:
        self._asked = threading.Event()
        for number in STOPS:
            signal.signal(number, self._on_signal)
        if watched is not None:
            threading.Thread(target=self._watch, args=(watched,), daemon=True).start()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._asked.set()

    def _watch(self, descriptor: int) -> None:
        while os.read(descriptor, 64):
            pass
        self._asked.set()  # whoever started us is gone

    def __call__(self, event: Event) -> None:
        """Stop the run if that was requested.

        A run whose record is written is finished and not stopped, so that later listeners get that
        event, too.

        Raises:
            RunStoppedError: it was requested.
        """
        if self._asked.is_set() and not isinstance(event, RecordWritten):
            raise RunStoppedError

    def wait(self, seconds: float) -> None:
        """Wait so many seconds, or until a stop is requested.

        Raises:
            RunStoppedError: it is requested.
        """
        if self._asked.wait(seconds):
            raise RunStoppedError


class Reporter:
    """A listener to a run that writes its state where others see it.

    Args:
        sweep: folder of the sweep.
        name: of the run.
    """

    def __init__(self, sweep: Path, name: str) -> None:
        self._sweep, self._name = sweep, name
        before = read_state(sweep, name)
        self.state = CellState(
            phase="starting",
            env_steps=before.env_steps,
            env_steps_planned=before.env_steps_planned,
            mean_return=before.mean_return,
            env_steps_per_s=before.env_steps_per_s,
            memory=before.memory,
            node=socket.gethostname(),
            pid=os.getpid(),
            attempt=before.attempt + 1,
            began=time.time(),
        )
        self.has_begun = False
        """Whether this process has held the run's folder: it alone then writes the run's state."""
        self._processes = 1
        self._written = 0.0
        self._first: tuple[int, float] | None = None
        self._scored_from = 0.0

    def __call__(self, event: Event) -> None:
        """Take note of what happened."""
        match event:
            case RunStarted():
                self.has_begun = True
                self._processes = 1 if event.config.untrained else event.config.processes
                self.write()
            case TrainingStarted():
                self._note("training", event.env_steps, event.env_steps_planned)
            case IterationFinished():
                self.state = replace(self.state, mean_return=event.mean_return)
                self._advance(event.env_steps)
            case TrainingFinished():
                self._scored_from = time.perf_counter()
                self._note("scoring", self.state.env_steps, self.state.env_steps_planned)
                self._processes = 1  # the others have ended; this one scores alone
            case RecordWritten():
                took = time.perf_counter() - self._scored_from
                rate = event.record.env_steps_per_s or None
                self.state = replace(self.state, scoring_s=took, env_steps_per_s=rate)
            case _:
                pass

    def _note(self, phase: Phase, env_steps: int, planned: int) -> None:
        self.state = replace(
            self.state, phase=phase, env_steps=env_steps, env_steps_planned=planned
        )
        self.write()

    def _advance(self, env_steps: int) -> None:
        now = time.perf_counter()
        if self._first is None:  # the first iteration also compiles; what follows counts
            self._first = env_steps, now
        steps, seconds = env_steps - self._first[0], now - self._first[1]
        speed = steps / seconds if steps else self.state.env_steps_per_s
        self.state = replace(self.state, env_steps=env_steps, env_steps_per_s=speed)
        if now - self._written > _WRITE_S:
            self.write()

    def end(self, phase: Phase, reason: str = "", *, permanent: bool = False) -> None:
        """Write the last state: how the run ended."""
        self.state = replace(self.state, phase=phase, reason=reason, permanent=permanent)
        self.write()

    def write(self) -> None:
        """Write the state."""
        self._written = time.perf_counter()
        # The processes of a run hold about equally much, each its share of the environments.
        memory = max(self._processes * peak_memory(), self.state.memory or 0)
        self.state = replace(self.state, memory=memory)
        write_state(self._sweep, self._name, self.state)


def peak_memory() -> int:
    """Return the largest memory of this process so far, bytes."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found * 1024


def run_cell(path: Path, name: str, stop: Stop) -> int:
    """Run one cell of a sweep in this process and write its state file.

    Calling this for a finished run, or from several processes at once, does no harm: the record and
    the lock of the run's folder decide, and only the holder of the lock writes the state.

    Args:
        path: the sweep's folder, held by the driver.
        name: of the run.
        stop: may end it at a checkpoint.

    Returns:
        `FINISHED`, `FAILED` or `STOPPED`; the reason for a failure is in the state file.

    Raises:
        FolderInUseError: another process holds the run.
        LeaseLostError: another process took it over.
        GmcBenchError: there is no such sweep or run, or its state cannot be written.
    """
    folder = SweepFolder(path)
    runs = read_runs(folder.plan)
    if name not in runs:
        raise RunFolderError(f"{folder.plan} lists no run {name!r}; give one of those it lists")
    reporter = Reporter(path, name)
    try:
        _run_when_free(folder, name, runs[name], Listeners(reporter, stop), stop)
    except (FolderInUseError, LeaseLostError):
        raise  # not into the state, which is that of whoever holds the run
    except RunStoppedError:
        if reporter.has_begun:  # and does not wait for whoever holds it
            reporter.end("stopped")
        return STOPPED
    except PERMANENT as error:
        reporter.end("failed", str(error), permanent=True)
    except GmcBenchError as error:
        reporter.end("failed", str(error))
    except Exception as error:  # noqa: BLE001 - told to whoever looks at the sweep
        traceback.print_exc()  # into the worker's log
        reporter.end("failed", f"{type(error).__name__}: {error}")
    else:
        reporter.end("finished")
        return FINISHED
    return FAILED


def _run_when_free(
    folder: SweepFolder, name: str, config: RunConfig, emit: Listener, stop: Stop
) -> None:
    """Run a cell, waiting for its folder where the last holder may have gone without a word."""
    deadline = time.monotonic() + _IN_USE_S
    while True:
        try:
            execute_run(folder, name, config, emit=emit)
            return
        except FolderInUseError:
            if time.monotonic() > deadline:
                raise
        stop.wait(2.0)
