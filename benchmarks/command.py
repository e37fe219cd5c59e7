"""`gmc-bench` in children of a warm process, each in a process group of its own, with faults.

Starting Python and importing torch takes seconds; a fork of a process that has imported everything
takes milliseconds, so that thousands of commands can be run, killed and continued.
"""

import ctypes
import importlib
import json
import os
import resource
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHIM = Path(__file__).with_name("faulty_files.c")
_VARIABLE = "GMC_BENCH_FAULTY_FILES"
MODULES = (
    "gmc_bench.cli.main", "gmc_bench.experiments.execution", "gmc_bench.experiments.sweep",
    "gmc_bench.training.trainer", "gmc_bench.records.curve", "gmc_bench.rendering.web.replay",
    "gmc_bench.methods", "gmc_bench.suites", "torch_geometric", "tianshou", "seaborn",
    "matplotlib.figure", "tensorboard.compat.proto.summary_pb2",
)  # fmt: skip
"""What commands import, and import-linter need not know: children run them as `python -m` does."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What befalls a command."""

    operation: int | None = None
    """Number of the operation on files of its folder at which it happens, from 0."""
    error: int = 0
    """errno of this operation; 0 kills the process group in its midst."""
    for_good: bool = False
    """All later operations fail too."""
    cpu_seconds: float | None = None
    """Processor time after which the process is killed."""
    clock: int = 0
    """Seconds by which its clock is ahead."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    """Exit code, or minus the signal that killed it."""
    err: str
    operations: int = 0
    """On files of its folder; 0 if it was killed."""
    cpu_seconds: float = 0.0
    peak_bytes: int = 0


def preload_shim() -> str:
    """Start this program anew with the layer that makes files fail, unless it is there.

    Returns:
        Why there is none; empty if it is there.
    """
    if os.environ.get(_VARIABLE):
        return ""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        return "there is no C compiler" if sys.platform == "linux" else "this is not Linux"
    library = Path(tempfile.mkdtemp(prefix="gmc-faulty-")) / "faulty.so"
    made = subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SHIM), "-ldl"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        return f"the compiler failed: {made.stderr[:200]}"
    variables = {**os.environ, "LD_PRELOAD": str(library), _VARIABLE: str(library)}
    spec = sys.modules["__main__"].__spec__
    assert spec is not None
    os.execve(sys.executable, [sys.executable, "-m", str(spec.name), *sys.argv[1:]], variables)


def warm_up() -> None:
    """Import what commands need; nothing that starts threads is called."""
    for module in MODULES:
        importlib.import_module(module)


class Command:
    """A running command.

    Args:
        words: of `gmc-bench`.
        folder: whose files are watched; need not exist.
        place: folder for its output.
        fault: what befalls it.
    """

    def __init__(
        self, words: Sequence[object], folder: Path, place: Path, fault: Fault | None = None
    ) -> None:
        self._place = Path(tempfile.mkdtemp(dir=place))
        self._words = ["gmc-bench", *map(str, words)]
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            self._run(folder, fault or Fault())

    def _run(self, folder: Path, fault: Fault) -> None:
        """Be the command; does not return."""
        code = 70
        try:
            os.setsid()
            for number, name in ((1, "out"), (2, "err")):
                handle = os.open(self._place / name, os.O_CREAT | os.O_WRONLY)
                os.dup2(handle, number)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _arm(folder, fault)
            sys.argv = self._words
            runpy.run_module("gmc_bench.cli.main", run_name="__main__")
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except BaseException:  # noqa: BLE001 - as an interpreter does at its end
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            shim = _shim()
            count = 0 if shim is None else shim.faulty_count()
            (self._place / "ended").write_text(json.dumps({"operations": count}))
            os._exit(code)

    def is_over(self) -> bool:
        """Return whether it has ended, without waiting."""
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return found is not None

    def kill_group(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to the command and all that it started."""
        os.killpg(self.pid, number)

    def wait(self) -> Ended:
        """Wait for its end."""
        _, status, usage = os.wait4(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        err = (self._place / "err").read_text(errors="replace") if self._place.exists() else ""
        ended = self._place / "ended"
        operations = json.loads(ended.read_text())["operations"] if ended.exists() else 0
        shutil.rmtree(self._place, ignore_errors=True)
        seconds = usage.ru_utime + usage.ru_stime
        return Ended(code, err, operations, seconds, 1024 * usage.ru_maxrss)


def run_command(
    words: Sequence[object], folder: Path, place: Path, fault: Fault | None = None
) -> Ended:
    """Run a command to its end; see `Command`."""
    return Command(words, folder, place, fault).wait()


def _shim() -> Any:
    return ctypes.CDLL(None) if os.environ.get(_VARIABLE) else None


def _arm(folder: Path, fault: Fault) -> None:
    shim = _shim()
    if shim is not None:
        after = -1 if fault.operation is None else fault.operation
        shim.faulty_clock(ctypes.c_long(fault.clock))
        shim.faulty_arm(
            str(folder.resolve()).encode(), ctypes.c_long(after), fault.error, int(fault.for_good)
        )
    if fault.cpu_seconds is not None:
        # The default action, without a word of Python's: as sudden as a kill.
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_PROF, max(fault.cpu_seconds, 1e-3))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def open_files() -> int:
    """Return how many files this process has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def wait_for(path: Path, command: Command, seconds: float = 120.0) -> bool:
    """Wait until a file is there; return whether it came before the command ended."""
    end = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < end:
        if command.is_over():
            return path.exists()
        time.sleep(0.002)
    return path.exists()
