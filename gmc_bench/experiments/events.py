"""Events of experiments: what a display, a log or a scheduler can listen to.

A listener is any function that takes an event. It is called in the process and thread of the run,
so a slow one makes the run wait, and what it raises stops the run; `RunStoppedError` does so with a
checkpoint.
"""

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.cell_state import Phase, SweepOverview
from gmc_bench.records.schema import RunRecord
from gmc_bench.training.run_config import RunConfig


class RunStoppedError(Exception):
    """Raised by a listener to stop a run at a checkpoint, to be resumed later; not a failure."""


@dataclass(frozen=True)
class Event:
    """Something that happened; see the subclasses."""


@dataclass(frozen=True)
class RunStarted(Event):
    """A run begins in a folder, or goes on in one."""

    path: Path
    config: RunConfig
    env_steps: int
    """Control steps of the whole run, over all environments."""
    resumed: bool
    """Whether the run was begun before."""


@dataclass(frozen=True)
class FolderOpened(Event):
    """A folder that can be continued was opened, other than that of a run or of a sweep."""

    path: Path


@dataclass(frozen=True)
class TrainingStarted(Event):
    """Training begins, or goes on from the latest checkpoint."""

    env_steps: int
    """Control steps that were done before; 0 in a new run."""
    env_steps_planned: int
    """Control steps of the whole run, over all environments."""


@dataclass(frozen=True)
class IterationFinished(Event):
    """One rollout was collected and learned from."""

    env_steps: int
    """Control steps so far, over all environments."""
    mean_return: float | None
    """Mean over the bodies that have finished an episode."""
    scalars: Mapping[str, float | None] = field(default_factory=dict)
    """What training curves show, by tag; see `docs/metrics.md`."""


@dataclass(frozen=True)
class CheckpointWritten(Event):
    """The run can be continued from here."""

    path: Path
    env_steps: int


@dataclass(frozen=True)
class TrainingFinished(Event):
    """All iterations are done; the policy is written and will be scored."""

    path: Path
    """File of the policy."""
    mean_return: float | None
    """Training return over the bodies that have finished an episode."""


@dataclass(frozen=True)
class Progress(Event):
    """Progress of a long operation other than training, e.g. the scoring of a policy."""

    what: str
    """What is going on, e.g. `score`."""
    done: int
    total: int | None
    """`None` if nobody knows."""
    unit: str
    """What is counted, e.g. `episode`."""


@dataclass(frozen=True)
class Remark(Event):
    """Something a reader of the results should know."""

    text: str
    """A sentence."""


@dataclass(frozen=True)
class RecordWritten(Event):
    """A run is finished."""

    path: Path
    """File of the record."""
    record: RunRecord


@dataclass(frozen=True)
class SweepStarted(Event):
    """Several runs begin, or go on."""

    path: Path
    runs: dict[str, RunConfig]
    """Settings of each, by name, in order."""
    states: dict[str, Phase]
    """How far each is, by name."""
    records: Mapping[str, RunRecord]
    """Of those that are finished, by name."""
    failures: dict[str, str]
    """Why others cannot go on, by name."""


@dataclass(frozen=True)
class SweepRunStarted(Event):
    """A sweep comes to one of its runs; what a run reports follows."""

    name: str


@dataclass(frozen=True)
class SweepRunKept(Event):
    """A sweep comes to a run that was finished before."""

    name: str
    record: RunRecord


@dataclass(frozen=True)
class SweepRunFinished(Event):
    """A run of a sweep is finished."""

    name: str
    record: RunRecord


@dataclass(frozen=True)
class SweepRunFailed(Event):
    """A run of a sweep cannot be finished; the others are run all the same."""

    name: str
    reason: str
    trace: str | None = None
    """Of an error that nobody expected."""


@dataclass(frozen=True)
class SweepMoved(Event):
    """How far the runs of a launched sweep are; sent about every second."""

    overview: SweepOverview


@dataclass(frozen=True)
class SweepFinished(Event):
    """All runs of a sweep have been visited."""

    records: Mapping[str, RunRecord]
    """Of the finished ones, by name."""
    failures: dict[str, str]
    """Why others failed, by name."""


Listener: TypeAlias = Callable[[Event], None]


class Listeners:
    """Functions that are told of events, in the order in which they subscribed.

    Args:
        first: the first ones; `None` is left out.
    """

    def __init__(self, *first: Listener | None) -> None:
        self._listeners: list[Listener] = []
        for listener in first:
            if listener is not None:
                self.subscribe(listener)

    def __call__(self, event: Event) -> None:
        """Tell all of an event."""
        for listener in tuple(self._listeners):
            listener(event)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Add a listener; return a function that takes it off again.

        Raises:
            ConfigError: it is no function.
        """
        if not callable(listener):
            raise ConfigError(
                f"what is told of events must be a function of one event, got {shown(listener)}"
            )
        self._listeners.append(listener)

        def unsubscribe() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return unsubscribe


def counter(
    listener: Callable[[Progress], None], what: str, unit: str, total: int | None = None
) -> Callable[..., None]:
    """Return a function that adds to what is done, by default one, and tells a listener.

    Args:
        listener: is told by `Progress`.
        what: is going on.
        unit: what is counted.
        total: the count at which all is done, if that is known.
    """
    done = 0

    def advance(more: int = 1) -> None:
        nonlocal done
        done += more
        listener(Progress(what, done, total, unit))

    return advance
