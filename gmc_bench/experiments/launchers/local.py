"""Launcher `local`: processes on this machine, as many as its cores and its memory hold."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.memory import available_memory, memory_of
from gmc_bench.experiments.launchers.launcher import Cell, Ended, Launcher, LauncherSpec
from gmc_bench.experiments.launchers.process import ask_to_stop, end, ended_with, start_worker

GUESSED_MEMORY = 1536 * 2**20
"""Bytes that each process of a run is taken to need before a run was measured."""


@dataclass(frozen=True, kw_only=True)
class LocalOptions:
    """Options of the launcher `local`.

    Raises:
        ConfigError: a number is out of range.
    """

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

    The first cell starts whatever memory is free, others only when there is enough for them and for
    what the running ones may still take.
    """

    options: LocalOptions
    _sweep: Path = field(default_factory=Path)
    _running: "dict[str, tuple[Cell, subprocess.Popen[bytes]]]" = field(default_factory=dict)

    def open(self, sweep: Path) -> None:
        """Remember the folder."""
        self._sweep = sweep.absolute()

    def takes(self, cell: Cell, waiting: int) -> bool:
        """Return whether cores and memory suffice for another cell."""
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
                found.append(ended_with(name, code))
                del self._running[name]  # last: what raises loses no cell
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


SPEC = LauncherSpec(
    id="local",
    title="processes on this machine",
    builder="gmc_bench.experiments.launchers.local:LocalLauncher",
    options=LocalOptions(),
)
