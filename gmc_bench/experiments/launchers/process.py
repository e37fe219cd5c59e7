"""Worker processes: how every launcher starts, stops and reads the end of one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from gmc_bench.core.errors import StorageError
from gmc_bench.experiments.cell import FINISHED, HELD, STOPPED
from gmc_bench.experiments.cell_state import STATES
from gmc_bench.experiments.launch import search_path
from gmc_bench.experiments.launchers.launcher import Ended

WORKER = "gmc_bench.experiments.launchers.worker"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def start_worker(
    sweep: Path, name: str, *, threads: int, nice: int = 0
) -> "subprocess.Popen[bytes]":
    """Start a process that runs one cell; what it writes goes to a log beside its state.

    Args:
        sweep: the sweep's folder.
        name: of the cell.
        threads: of its libraries; a pool for every core in every process would be in the way.
        nice: added to its niceness, 0 to 19.

    Raises:
        StorageError: the log cannot be written, or no process can be started.
    """
    log = sweep / STATES / f"{name}.log"
    try:
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as file:
            return subprocess.Popen(
                # Without -P, files of the working folder would take the place of modules.
                [sys.executable, "-P", "-m", WORKER, str(sweep), name, str(nice)],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=file,
                env={
                    **os.environ,
                    "PYTHONPATH": search_path(),
                    **dict.fromkeys(_THREADS, str(threads)),
                },
                start_new_session=True,  # Ctrl-C in a terminal is the driver's business
            )
    except OSError as error:
        raise StorageError(
            f"no process could be started for the run {name!r} ({error}); see to free memory, "
            f"disk space and processes (ulimit -u), and resume the sweep"
        ) from error


def ask_to_stop(process: "subprocess.Popen[bytes]") -> None:
    """Let a worker end at its next checkpoint."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End a worker at once."""
    if process.poll() is None:
        process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def ended_with(name: str, code: int) -> Ended:
    """Return how a worker ended, given its exit code."""
    return Ended(name, _why(code), lost=code in (STOPPED, HELD), held=code == HELD)


def _why(code: int) -> str:
    """Return what an exit code says that the cell's files may not, half a sentence."""
    if code in (FINISHED, STOPPED):
        return ""
    if code == HELD:
        return "ended because another process holds the run"
    if code > 0:
        return f"ended with exit code {code} without a word"
    try:
        name = f" ({signal.Signals(-code).name})"
    except ValueError:  # of most real-time signals there are numbers only
        name = ""
    memory = ", as the system does when memory runs out" if code == -signal.SIGKILL else ""
    return f"was ended by signal {-code}{name}{memory}"
