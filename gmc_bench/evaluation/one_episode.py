"""Plays an evaluation again to look at one of its episodes."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from gmc_bench.core.types import FloatArray, IntArray
from gmc_bench.envs.core import StepResult
from gmc_bench.envs.cores import Core
from gmc_bench.evaluation.evaluate import evaluate_policy


class _SeenError(Exception):
    """The wanted episode is over: the rest of the evaluation is of no interest."""


class EpisodeWatcher(ABC):
    """Looks at one episode; see `gmc_bench.evaluation.evaluate.Observer`.

    Args:
        number: of the episode.
        seconds: simulated time after which it is left; `None` for never.
        on_step: called after each control step of the whole batch.
    """

    def __init__(
        self, number: int, seconds: float | None, on_step: Callable[[], None] | None
    ) -> None:
        self._number = number
        self._seconds = seconds
        self._on_step = on_step
        self._row: int | None = None
        self._steps = 0
        self.control_dt = 0.0
        """s; known once the episode has begun."""
        self.ended: str | None = None
        """Why the episode ended; `None` if it was left before."""

    @abstractmethod
    def begin(self, core: Core, row: int) -> None:
        """Take notice of the episode's first state."""

    @abstractmethod
    def keep(self, core: Core, row: int, actions: FloatArray, step: StepResult) -> None:
        """Take notice of one control step of the episode; `actions` (L, J) are its own."""

    def started(self, core: Core, rows: IntArray, numbers: IntArray) -> None:
        """Take notice of new episodes."""
        found = rows[numbers == self._number]
        if len(found):
            self._row = int(found[0])
            self.control_dt = core.simulator.control_dt
            self.begin(core, self._row)

    def stepped(self, core: Core, numbers: IntArray, actions: FloatArray, step: StepResult) -> None:
        """Take notice of one control step; ends the evaluation after the wanted episode."""
        if self._on_step:
            self._on_step()
        row = self._row
        if row is None:
            return
        self._steps += 1
        self.keep(core, row, actions[row], step)
        if step.terminated[row] or step.truncated[row]:
            self.ended = next(name for name, hit in step.events.items() if hit[row])
            raise _SeenError
        if self._seconds is not None and self._steps * self.control_dt >= self._seconds - 1e-9:
            raise _SeenError


def watch_episode(watcher: EpisodeWatcher, *arguments: Any, **options: Any) -> None:
    """Run an evaluation until a watcher has seen its episode.

    Args:
        watcher: what looks at it.
        *arguments: of `evaluate_policy`, those of the evaluation that the episode belongs to.
        **options: likewise.
    """
    try:
        evaluate_policy(*arguments, observer=watcher, **options)
    except _SeenError:
        return
    raise AssertionError("the evaluation ended without the wanted episode")
