"""ETA of a run or a sweep, from nothing but what was measured in its own runs."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gmc_bench.experiments.cell_state import SweepOverview
from gmc_bench.experiments.events import (
    Event,
    IterationFinished,
    RecordWritten,
    RunStarted,
    SweepMoved,
    SweepRunFailed,
    SweepRunFinished,
    SweepRunStarted,
    SweepStarted,
    TrainingFinished,
    TrainingStarted,
)
from gmc_bench.training.run_config import RunConfig


@dataclass
class _Training:
    """The run that is being trained."""

    env_steps: int
    started_at: tuple[int, float] | None = None
    """Env steps and time after its first iteration, which also compiles; what follows counts."""
    now: float = 0.0

    def measured(self) -> tuple[int, float]:
        """Return env steps and the seconds they took, both 0 before anything was measured."""
        if self.started_at is None:
            return 0, 0.0
        return self.env_steps - self.started_at[0], self.now - self.started_at[1]


class ETA:
    """A listener to a sweep, or to a run alone, that estimates the time left.

    The rest of the present run is estimated from its own speed, later runs from that of all
    runs measured, scoring from the runs scored by this process. Of a launched sweep, whose runs
    overlap, the estimate is that of who launched it.

    Args:
        env_steps: planned control steps of each run by name, in order; those of a sweep or a run
            if it is told of its start.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        env_steps: Mapping[str, int] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._planned = dict(env_steps or {})
        self._clock = clock
        self._open = set(self._planned)
        self._run = ""
        self._training: _Training | None = None
        self._measured: list[tuple[int, float]] = []
        self._scoring: list[float] = []
        self._scored_from = 0.0
        self._alone = False  # it is told of a run that is none of a sweep's
        self._launched: SweepOverview | None = None

    def __call__(self, event: Event) -> None:
        """Take note of what happened."""
        match event:
            case RunStarted() if self._alone or not self._planned:
                self._alone = True
                self._planned = {event.config.task: event.env_steps}
                self._open = set(self._planned)
                self.begin(event.config.task)
            case SweepStarted():
                self._alone, self._launched, self._run = False, None, ""
                self._planned = {name: planned(config) for name, config in event.runs.items()}
                self._open = set(self._planned)
                for name in event.failures:
                    self.settle(name)
                for name, record in event.records.items():
                    self.settle(name, record.env_steps, record.wall_clock_s.total)
            case SweepMoved():
                self._launched = event.overview
            case SweepRunStarted():
                self.begin(event.name)
            case TrainingStarted():
                self.resume(event.env_steps)
            case IterationFinished():
                self.advance(event.env_steps)
            case TrainingFinished():
                self._scored_from = self._clock()
            case RecordWritten():
                self.scored(self._clock() - self._scored_from)
                if self._alone:
                    self.settle(self._run)
            case SweepRunFinished():
                record = event.record
                self.settle(event.name, record.env_steps, record.wall_clock_s.total)
            case SweepRunFailed():
                self.settle(event.name)
            case _:
                pass

    def settle(self, run: str, env_steps: int = 0, seconds: float = 0.0) -> None:
        """Take a run off the list, with the control steps of its training and their time."""
        self._open.discard(run)
        self._training = None
        if env_steps and seconds > 0:
            self._measured.append((env_steps, seconds))

    def begin(self, run: str) -> None:
        """Note that a run is begun."""
        self._run = run
        self._training = _Training(0)

    def resume(self, env_steps: int) -> None:
        """Note that training the present run goes on after so many control steps."""
        self._training = _Training(env_steps)

    def advance(self, env_steps: int) -> None:
        """Note how far the training of the present run is."""
        training = self._training or _Training(env_steps)
        training.env_steps, training.now = env_steps, self._clock()
        training.started_at = training.started_at or (env_steps, training.now)
        self._training = training

    def scored(self, seconds: float) -> None:
        """Note how long scoring the present run took."""
        self._scoring.append(seconds)

    @property
    def position(self) -> str:
        """Which run it is, e.g. `run 2 of 5`; while there is none, how many are done."""
        if self._run not in self._planned:
            return f"{len(self._planned) - len(self._open)} of {len(self._planned)} runs done"
        return f"run {list(self._planned).index(self._run) + 1} of {len(self._planned)}"

    def time_of(self, run: str) -> str:
        """Return how long a whole run takes, training and scoring."""
        speed = self._speed()
        return self._text(None if speed is None else self._planned[run] / speed, 1)

    def time_left(self) -> str:
        """Return how long everything that is left takes, e.g. `about 31 min`.

        It is `unknown` before anything was measured, and while nothing is planned.
        """
        if self._launched is not None:
            seconds, is_lower_bound = self._launched.time_left, self._launched.is_lower_bound
            return "unknown" if seconds is None else about(seconds, is_lower_bound=is_lower_bound)
        speed = self._speed()
        if self._planned and not self._open:
            return self._text(0.0, 0)
        if speed is None or not self._planned:
            return "unknown"
        left = sum(self._planned[run] for run in self._open) / speed
        training = self._training
        if training is not None and self._run in self._open:
            steps, seconds = training.measured()
            own = steps / seconds if steps and seconds > 0 else speed
            rest = max(0, self._planned[self._run] - training.env_steps)
            left += rest / own - self._planned[self._run] / speed
        return self._text(left, len(self._open))

    def headline(self) -> str:
        """Return what a progress bar says, e.g. `run 2 of 5, about 31 min left for all`."""
        left = self.time_left()
        return f"{self.position}, " + (
            "time left unknown" if left == "unknown" else f"{left} left for all"
        )

    def _speed(self) -> float | None:
        """Return the control steps per second of all runs measured, `None` before that."""
        found = list(self._measured)
        if self._training is not None:
            found.append(self._training.measured())
        steps, seconds = sum(item[0] for item in found), sum(item[1] for item in found)
        return steps / seconds if steps and seconds > 0 else None

    def _text(self, training: float | None, runs: int) -> str:
        """Return a duration in words: seconds of training and a number of runs to score."""
        if training is None:
            return "unknown"
        mean = sum(self._scoring) / len(self._scoring) if self._scoring else 0.0
        return about(training + runs * mean, is_lower_bound=not self._scoring and runs > 0)


def planned(config: RunConfig) -> int:
    """Return the control steps of a run as its protocol has them; 0 where nothing is trained."""
    if config.untrained:
        return 0
    return config.protocol.num_iterations * config.protocol.steps_per_iteration


def duration(seconds: float) -> str:
    """Return a time span for readers, e.g. `40 s`, `31 min`, `2.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def about(seconds: float, *, is_lower_bound: bool) -> str:
    """Return an estimated time span for readers; `is_lower_bound`: something was left out."""
    return f"{'at least' if is_lower_bound else 'about'} {duration(seconds)}"
