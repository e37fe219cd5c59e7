"""Launch of the processes that share one run: started here, or by torchrun on several machines.

The process that was asked for the run is the first of them. It alone reads and writes the run's
folder; the others get from it what to do, and end when it does.
"""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.core.errors import ConfigError
from gmc_bench.training.run_config import RunConfig

if TYPE_CHECKING:
    from gmc_bench.training.group import Group

TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables by which torchrun tells a process who it is."""
START_S = 300.0
"""Seconds that processes have for their imports."""
END_S = 5.0
"""Seconds to wait for the exit of a process whose connection was lost."""
_INTERFACE = "GLOO_SOCKET_IFNAME"
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"


def under_torchrun() -> bool:
    """Return whether torchrun, or something that sets the same variables, started this process."""
    return all(name in os.environ for name in TORCHRUN)


def require_one_run() -> None:
    """Raise where several runs are to share the processes that torchrun has started.

    Raises:
        ConfigError: it has started some.
    """
    if under_torchrun():
        raise ConfigError(
            "torchrun starts the processes of one run, but this command is for several; use "
            "'gmc-bench run' and name one --task, or start without torchrun and with --processes"
        )


def follows() -> bool:
    """Return whether torchrun has started this process with another rank than 0.

    Raises:
        ConfigError: a variable that torchrun sets does not fit.
    """
    if not under_torchrun():
        return False
    rank, _, _ = map(_number, ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    return rank > 0


def check_processes(count: int | None) -> int:
    """Return the number of processes of a run.

    Args:
        count: that was asked for; by default as many as torchrun has started, or one.

    Raises:
        ConfigError: it is below 1, or torchrun has started another number.
    """
    if count is not None and count < 1:
        raise ConfigError(f"a run needs at least one process, got {count}; leave out --processes")
    started = _number("WORLD_SIZE") if under_torchrun() else None
    if count is not None and started not in (None, count):
        raise ConfigError(
            f"torchrun has started {started} processes, but --processes is {count}; leave it out"
        )
    return count or started or 1


def processes_here(count: int) -> int:
    """Return how many of a run's processes are on this machine."""
    return _number("LOCAL_WORLD_SIZE", count) if under_torchrun() else count


def _number(name: str, default: int = 0) -> int:
    """Return what a variable says that torchrun sets.

    Raises:
        ConfigError: it is no number, or a number of processes is zero.
    """
    text = os.environ.get(name, str(default))
    low = int(name.endswith("SIZE"))
    if not text.isdecimal() or int(text) < low:
        raise ConfigError(
            f"the variable {name}, which torchrun sets, must be a whole number"
            f"{' of at least 1' * low}, got {text!r}; start with torchrun, or unset "
            f"{', '.join(TORCHRUN)}"
        )
    return int(text)


def search_path() -> str:
    """Return a `PYTHONPATH` by which another process finds the modules that this one finds.

    In a notebook, and in Python's own prompt, `sys.path` names the working folder by an empty
    string, which `PYTHONPATH` does not have.
    """
    return os.pathsep.join(path or os.getcwd() for path in sys.path)  # noqa: PTH109 - a string


@contextmanager
def shared(config: RunConfig, folder: Path) -> "Iterator[Group]":
    """Gather the processes of a run around this one, of rank 0, and dismiss them at the end.

    Args:
        config: of the run.
        folder: of the run, for messages.

    Raises:
        LostProcessError: one of them has ended, or does not answer.
        ConfigError: they are more than the GPUs here.
    """
    from gmc_bench.training.group import Group, joined

    if config.processes == 1:
        yield Group()
        return
    _take_gpu(config.device, 0, processes_here(config.processes))
    with joined() if under_torchrun() else _started_here(config.processes, folder) as group:
        group.broadcast(config)
        yield group
        group.announce(None)


def dismiss() -> None:
    """Dismiss the other processes that torchrun has started: there is nothing to train."""
    if under_torchrun():
        from gmc_bench.training.group import joined

        with joined() as group:
            group.broadcast(None)


def follow() -> bool:
    """Take part in a run if torchrun has started this process with another rank than 0.

    Returns:
        Whether that is so.

    Raises:
        GmcBenchError: the run cannot go on.
    """
    if not follows():
        return False
    from gmc_bench.training.group import joined

    with joined() as group:
        _follow(group, _number("LOCAL_RANK", group.rank))
    return True


def follow_here(place: str, rank: int, size: int) -> None:
    """Be one of the processes that `shared` starts on its machine.

    Args:
        place: folder in which they find each other.
        rank: of this one.
        size: how many there are.
    """
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import gmc_bench.experiments.session
    import gmc_bench.training.trainer  # noqa: F401 - takes seconds, so before it says that it is ready
    from gmc_bench.training.group import joined

    _ready(Path(place), rank).touch()
    with joined(rank, size, _store(Path(place), size)) as group:
        _follow(group, rank)


def _follow(group: "Group", number: int) -> None:
    from gmc_bench.experiments.session import open_session
    from gmc_bench.training.trainer import make_trainer

    config: RunConfig | None = group.broadcast(None)
    if config is None:
        return
    device = _take_gpu(config.device, number, processes_here(group.size))
    session = open_session(replace(config, device=device))
    bodies = session.bodies.split("train")
    trainer = make_trainer(
        session.config, session.method, session.task, bodies, session.spec, group
    )
    state = group.broadcast(None)
    if state is not None:
        trainer.set_state(state)
    trainer.follow()


def _take_gpu(device: str, number: int, here: int) -> str:
    """Return the device of process `number`, from 0, of the `here` ones on this machine."""
    if not device.startswith("cuda"):
        return device
    import torch

    if here > torch.cuda.device_count():
        raise ConfigError(
            f"each process needs a GPU of its own, got {here} processes and "
            f"{torch.cuda.device_count()} GPUs; start fewer, or use --device cpu"
        )
    torch.cuda.set_device(number)
    return f"cuda:{number}"


@contextmanager
def _started_here(size: int, folder: Path) -> "Iterator[Group]":
    """Start the other processes on this machine; they talk over its loopback interface."""
    from gmc_bench.training.group import LostProcessError, joined

    before = os.environ.get(_INTERFACE)
    os.environ[_INTERFACE] = _LOOPBACK
    with tempfile.TemporaryDirectory(prefix="gmc-bench-") as name:
        place = Path(name)
        others: dict[int, subprocess.Popen[bytes]] = {}
        try:
            for rank in range(1, size):
                others[rank] = _start(place, rank, size)
            if not _await(others, place):
                raise LostProcessError(_what_happened(others, place, folder))
            with joined(0, size, _store(place, size)) as group:
                yield group
        except LostProcessError as error:
            raise LostProcessError(_what_happened(others, place, folder)) from error
        finally:
            _stop(others)  # after training, too: they have nothing left to do
            os.environ.pop(_INTERFACE)
            if before is not None:
                os.environ[_INTERFACE] = before


def _start(place: Path, rank: int, size: int) -> subprocess.Popen[bytes]:
    code = (
        "from gmc_bench.experiments.launch import follow_here; "
        f"follow_here({str(place)!r}, {rank}, {size})"
    )
    with _output(place, rank).open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-c", code],
            stdin=subprocess.PIPE,  # its end tells it that this process has ended
            stdout=subprocess.DEVNULL,
            stderr=output,
            env={**os.environ, "PYTHONPATH": search_path()},
            start_new_session=True,  # an interruption reaches this process only
        )


def _await(others: Mapping[int, subprocess.Popen[bytes]], place: Path) -> bool:
    """Wait until all are ready; return whether they are."""
    deadline = time.monotonic() + START_S
    while not all(_ready(place, rank).exists() for rank in others):
        if any(process.poll() is not None for process in others.values()):
            return False
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _what_happened(others: Mapping[int, subprocess.Popen[bytes]], place: Path, folder: Path) -> str:
    """Return one sentence about the process that ended first, as far as anybody can tell."""
    deadline = time.monotonic() + END_S
    while all(process.poll() is None for process in others.values()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    reasons = []
    for rank, process in others.items():
        code = process.poll()
        if code is None:
            continue
        lines = _output(place, rank).read_text(errors="replace").strip().splitlines()
        last = lines[-1] if lines else f"exit code {code}"
        how = f"was killed by signal {-code}" if code < 0 else f"ended: {last}"
        reasons.append(("LostProcessError" in last, f"process {rank + 1} {how}"))
    what = min(reasons)[1] if reasons else "a process does not answer"
    return (
        f"{what}; the other processes of the run cannot go on without it; continue with: "
        f"gmc-bench run --resume {shlex.quote(str(folder))}"
    )


def _stop(others: Mapping[int, subprocess.Popen[bytes]]) -> None:
    for process in others.values():
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _end_with_parent() -> None:
    """End this process when the one that started it has ended, however that came."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _store(place: Path, size: int) -> Any:
    from torch.distributed import FileStore  # type: ignore[attr-defined]

    return FileStore(str(place / "store"), size)


def _ready(place: Path, rank: int) -> Path:
    return place / f"ready-{rank}"


def _output(place: Path, rank: int) -> Path:
    return place / f"output-{rank}"
