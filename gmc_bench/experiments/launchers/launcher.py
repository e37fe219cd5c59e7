"""Launcher: what runs the cells of a sweep somewhere, behind one small interface."""

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gmc_bench.core.config import with_overrides
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.registry import load_target


@dataclass(frozen=True)
class Cell:
    """One run of a sweep and what it needs."""

    name: str
    threads: int
    """Of all its processes together."""
    gpus: int = 0
    processes: int = 1
    memory: int | None = None
    """Bytes that runs like it took; none before one was measured."""


@dataclass(frozen=True)
class Ended:
    """A cell whose process has ended; its files tell how."""

    name: str
    why: str = ""
    """What the launcher knows, half a sentence: `was killed by signal 9`."""
    lost: bool = False
    """It was taken from the run (a node is gone, a job was preempted, another process holds the
    run); no failure of its own."""
    held: bool = False
    """Another process holds the run, which is waited for as long as that gives signs of life."""


class Launcher(ABC):
    """Runs cells in processes, each by `gmc_bench.experiments.cell.run_cell`.

    A driver calls it from one thread. Whether a cell is finished is told by its files alone, so
    that a launcher may run one twice, at the same time or later, without harm.
    """

    def require(self) -> None:  # noqa: B027 - most can tell only with a folder
        """Raise where nothing can be run, as far as that can be told before there is a folder.

        It comes before `open`, and may connect to what runs cells.

        Raises:
            GmcBenchError: nothing can be run.
        """

    @abstractmethod
    def open(self, sweep: Path) -> None:
        """Prepare to run cells of the sweep in a folder.

        Raises:
            GmcBenchError: nothing can be run.
        """

    def lack(self, cells: Sequence[Cell]) -> str:
        """Return what cells need that is not there now, a sentence; empty if nothing is known of.

        Raises:
            ConfigError: it will never be there.
        """
        return ""

    @abstractmethod
    def takes(self, cell: Cell, waiting: int) -> bool:
        """Return whether it has room for a cell beside `waiting` others that it will be given."""

    @abstractmethod
    def submit(self, cells: Sequence[Cell]) -> None:
        """Begin cells, or queue them."""

    @abstractmethod
    def poll(self) -> list[Ended]:
        """Return the cells that have ended since the last call, without waiting."""

    @abstractmethod
    def stop(self) -> None:
        """Ask all cells to end at their next checkpoint, without waiting, and let none begin."""

    @abstractmethod
    def close(self) -> None:
        """End the cells that are left without waiting, and release all resources.

        It may be called without `open`, and repeatedly.
        """


@dataclass(frozen=True, kw_only=True)
class LauncherSpec:
    """A registered launcher: light to import, its parts named by string."""

    id: str
    title: str
    """What it is, in a few words."""
    builder: str
    """`module:class`, of a `Launcher` that takes `options`."""
    options: Any
    """Frozen dataclass instance with the defaults of its options."""
    module: str = ""
    """Package that it needs beside those of gmc-bench."""
    extra: str = ""
    """Extra of gmc-bench that installs that."""
    elsewhere: bool = False
    """Other machines run the cells, which need not have the threads and devices of this one."""

    def make(self, options: Mapping[str, Any]) -> Launcher:
        """Return the launcher.

        Args:
            options: changes of its options, by name.

        Raises:
            ConfigError: it is not installed, or an option is unknown or does not fit.
        """
        settings = with_overrides(self.options, options)
        if self.module and importlib.util.find_spec(self.module) is None:
            raise ConfigError(
                f"the launcher {self.id!r} needs the package {self.module!r}, which is not "
                f"installed; install it with: pip install 'gmc-bench[{self.extra}]'"
            )
        launcher: Launcher = load_target(self.builder)(settings)
        return launcher
