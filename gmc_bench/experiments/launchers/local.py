"""Launcher `local`: processes on this machine, as many as its cores and its memory hold."""

import contextlib
import resource
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.launchers.launcher import Cell, Ended, Launcher, LauncherSpec
from gmc_bench.experiments.launchers.process import ask_to_stop, end, ended_with, start_worker

GUESSED_MEMORY = 1536 * 2**20
"""Bytes that each process of a run is taken to need before a run was measured."""
_MEMINFO = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")
"""Limits of the control group of a container, as it sees them itself."""


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """Options of the launcher `local`."""

    jobs: int | None = None
    """Runs at a time; by default as many as the cores can give their threads to."""
    nice: int = 10
    """How much runs step back behind other processes of the machine, 0 to 19."""
    spare_gib: float = 1.0
    """Memory that is left to the rest of the machine; no run begins that would need it."""

    def __post_init__(self) -> None:
        if self.jobs is not None and self.jobs < 1:
            raise ConfigError(f"'jobs' must be at least 1, got {self.jobs}")
        if not 0 <= self.nice <= 19 or self.spare_gib < 0:
            raise ConfigError(
                f"'nice' must be between 0 and 19 and 'spare_gib' not negative, got {self.nice} "
                f"and {self.spare_gib}"
            )


@dataclass
class LocalLauncher(Launcher):
    """Runs cells in processes of this machine.

    The first one begins whatever memory is free, others only when what they and the ones before
    them may still take is there.
    """

    options: LocalOptions
    _sweep: Path = field(default_factory=Path)
    _running: "dict[str, tuple[Cell, subprocess.Popen[bytes]]]" = field(default_factory=dict)

    def open(self, sweep: Path) -> None:
        """Remember the folder."""
        self._sweep = sweep.absolute()

    def takes(self, cell: Cell, waiting: int) -> bool:
        """Return whether a process more would have its cores and its memory."""
        from gmc_bench.sim.batch import available_threads

        jobs = self.options.jobs or max(1, available_threads() // cell.threads)
        if waiting or len(self._running) >= jobs:  # one at a time: memory is read before each
            return False
        if not self._running:
            return True
        free = available_memory()
        if free is None:
            return True
        spare = self.options.spare_gib * 2**30
        return free - spare - self._still_to_come() >= _needs(cell)

    def _still_to_come(self) -> int:
        """Return the bytes that running cells may still take beyond what they have."""
        return sum(
            max(0, _needs(cell) - memory_of(process.pid))
            for cell, process in self._running.values()
        )

    def submit(self, cells: Sequence[Cell]) -> None:
        """Start a process for each."""
        for cell in cells:
            process = start_worker(
                self._sweep, cell.name, threads=cell.threads, nice=self.options.nice
            )
            self._running[cell.name] = cell, process

    def poll(self) -> list[Ended]:
        """Return the cells whose processes have ended."""
        found = []
        for name, (_, process) in list(self._running.items()):
            if (code := process.poll()) is not None:
                end(process)
                del self._running[name]
                found.append(ended_with(name, code))
        return found

    def stop(self) -> None:
        """Ask all processes to end."""
        for _, process in self._running.values():
            ask_to_stop(process)

    def close(self) -> None:
        """Kill what is left."""
        for _, process in self._running.values():
            end(process)
        self._running.clear()


def _needs(cell: Cell) -> int:
    """Return the bytes that all processes of a cell take, guessed before runs were measured."""
    return cell.memory or GUESSED_MEMORY * cell.processes


def available_memory() -> int | None:
    """Return the bytes that new processes can have, `None` where the system does not tell."""
    free = _meminfo(_MEMINFO)
    try:  # of a container
        limit = int((_CONTAINER / "memory.max").read_text(encoding="ascii"))
        used = int((_CONTAINER / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # none, or no limit
        return free
    used -= _page_cache(_CONTAINER / "memory.stat")
    return limit - used if free is None else min(free, limit - used)


def _page_cache(path: Path) -> int:
    """Return the bytes of files that the system keeps as long as nobody needs their memory."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    found = [line.split()[1] for line in lines if line.startswith("inactive_file ")]
    return int(found[0]) if found else 0


def _meminfo(path: Path) -> int | None:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def memory_of(pid: int) -> int:
    """Return the resident memory of a process and of all that it started, bytes.

    It is 0 where the system does not tell.
    """
    place = Path(f"/proc/{pid}")
    try:
        pages = int((place / "statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * resource.getpagesize() + sum(map(memory_of, _children(place)))


def _children(place: Path) -> list[int]:
    """Return the processes that the threads of one have started, given its folder in /proc."""
    found: list[int] = []
    for path in place.glob("task/*/children"):
        with contextlib.suppress(OSError, ValueError):  # the thread has ended
            found += map(int, path.read_text(encoding="ascii").split())
    return found


SPEC = LauncherSpec(
    id="local",
    title="processes on this machine",
    builder="gmc_bench.experiments.launchers.local:LocalLauncher",
    options=LocalOptions(),
)
