"""Tracker: a service, a program or a file that the numbers of a run are sent to."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = "gmc-bench"
"""Where runs go that name no project."""


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker is told of a run when it connects."""

    name: str
    """Method, task, protocol, bodies and seed; two runs may share it."""
    project: str | None
    """What the user asked for; none leaves it to the tracker."""
    settings: Mapping[str, Any]
    """Resolved settings of the run by dotted name: numbers, texts, truth values, none or lists."""
    folder: Path
    """Folder of the run's own for what the tracker keeps on disk; it is there."""
    id: str
    """Of this run alone, letters and digits. A run that goes on has the same, also where its first
    connection was cut before anything was sent."""


class Connection(ABC):
    """An open way to what tracks one run, used by one thread.

    Anything may be raised: the run then goes on without it.
    """

    place: str
    """Where a reader finds it: an address or a path."""

    @abstractmethod
    def write(self, scalars: Mapping[str, float], env_steps: int) -> None:
        """Send numbers of training.

        Args:
            scalars: tag to value, all finite.
            env_steps: control steps of the run so far; more than at the last call, also over the
                stops of a run.
        """

    @abstractmethod
    def finish(self, scores: Mapping[str, float], facts: Mapping[str, str], env_steps: int) -> None:
        """Send what the finished run's record says.

        Args:
            scores: of the policy, by tag.
            facts: digests and whether the rules were followed, by name.
            env_steps: control steps of the whole run.
        """

    @abstractmethod
    def close(self, *, finished: bool) -> None:
        """Send what is left.

        Args:
            finished: the run has its record; otherwise it was stopped and may go on.
        """


@dataclass(frozen=True)
class Tracker:
    """A kind of place that runs can be tracked in."""

    id: str
    """Name, as for `--track`."""
    title: str
    """Name for readers."""
    connect: Callable[[TrackedRun], Connection]
    """Begins a tracked run, or goes on with that of the same id; may take its time, may raise."""
    package: str | None = None
    """Module that it needs; none if it needs nothing."""
    install: str = ""
    """Command that installs the package."""
    has_projects: bool = True
    """Whether it takes the name of a project."""
