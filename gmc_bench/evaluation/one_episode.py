"""One episode of an evaluation, played again so that it can be recorded or shown.

The last bits of a network's output depend on the size of its batch, and legged locomotion is
chaotic: small differences grow large. So an episode played alone is another episode. Here the
policy is shown a batch like that of the evaluation, see `episode_subset`, up to the end of the one
episode that is wanted. With the policy, machine and library versions of the evaluation, and the
same number of threads of torch, the episode is the same to the last bit.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gmc_bench.core.types import FloatArray, IntArray
from gmc_bench.envs.core import EnvironmentCore, StepResult
from gmc_bench.evaluation.episode_subset import play_subset
from gmc_bench.evaluation.evaluate import Observer, Scoring
from gmc_bench.policies.policy import Policy


class _SeenError(Exception):
    """The wanted episode is over: the rest of the evaluation is of no interest."""


@dataclass(frozen=True, kw_only=True)
class WantedEpisode:
    """Which episode of an evaluation is played again, and how much of it."""

    scoring: Scoring
    """With all its bodies, in its order."""
    body: int
    """Index among them."""
    episode: int = 0
    """Index among the episodes of the body."""
    lengths: Sequence[int] | None = None
    """Control steps of all episodes, as recorded, see `play_subset`."""
    seconds: float | None = None
    """Simulated time after which the episode is cut short; default never."""

    @property
    def morphology(self) -> Any:
        """Whose episode it is."""
        return self.scoring.bodies[self.body]

    @property
    def number(self) -> int:
        """Its number in the evaluation, see `Observer`."""
        return self.body * self.scoring.episodes + self.episode


class EpisodeWatcher(ABC, Observer):
    """Looks at one episode.

    Args:
        wanted: the episode.
        on_step: called after each control step.
    """

    def __init__(self, wanted: WantedEpisode, on_step: Callable[[], None] | None) -> None:
        self.wanted = wanted
        self._on_step = on_step
        self._row: int | None = None
        self._steps = 0
        self.control_dt = 0.0
        """s; known once the episode has begun."""
        self.ended: str | None = None
        """Why the episode ended; `None` if it was cut short."""

    @abstractmethod
    def begin(self, core: EnvironmentCore, row: int) -> None:
        """Take notice of the episode's first state."""

    @abstractmethod
    def keep(self, core: EnvironmentCore, row: int, actions: FloatArray, step: StepResult) -> None:
        """Take notice of one control step of the episode; `actions` (L, J) are its own."""

    def watch(self, policy: Policy) -> None:
        """Play the episode of a policy's evaluation until it ends or is cut short."""
        wanted = self.wanted
        try:
            play_subset(wanted.scoring, policy, [wanted.number], (self,), lengths=wanted.lengths)
        except _SeenError:
            return
        raise AssertionError("the evaluation ended without the wanted episode")

    def started(self, core: EnvironmentCore, rows: IntArray, numbers: IntArray) -> None:
        """Take notice of new episodes."""
        found = rows[numbers == self.wanted.number]
        if len(found):
            self._row = int(found[0])
            self.control_dt = core.simulator.control_dt
            self.begin(core, self._row)

    def stepped(
        self, core: EnvironmentCore, numbers: IntArray, actions: FloatArray, step: StepResult
    ) -> None:
        """Take notice of one control step; ends the evaluation after the wanted episode."""
        if self._on_step:
            self._on_step()
        row, seconds = self._row, self.wanted.seconds
        if row is None:
            return
        self._steps += 1
        self.keep(core, row, actions[row], step)
        if step.terminated[row] or step.truncated[row]:
            self.ended = next(name for name, hit in step.events.items() if hit[row])
            raise _SeenError
        if seconds is not None and self._steps * self.control_dt >= seconds - 1e-9:
            raise _SeenError
