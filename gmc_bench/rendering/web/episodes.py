"""Episodes of an evaluation as they were played: states and rewards, and the ground they were on.

They are kept while an evaluation is run, or played again without the other episodes, see
`evaluation.episode_subset`. Random ground is not kept but drawn again when it is needed: it
follows from the random numbers of the episode alone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.types import DoubleArray, FloatArray, IntArray
from gmc_bench.envs.core import EnvironmentCore, StepResult
from gmc_bench.evaluation.episode_subset import EnoughError, play_subset
from gmc_bench.evaluation.evaluate import Observer, Scoring
from gmc_bench.policies.policy import Policy
from gmc_bench.rendering.ground import copy_terrain, put_terrain
from gmc_bench.rendering.scene import SQUARE, drawing_model
from gmc_bench.sim.batch import spawn_streams

ReturnAndLength = tuple[float, int]
"""Return and length, control steps, of an episode."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlayedEpisode:
    """One episode of T control steps; time 0 is its start state."""

    scoring: Scoring
    """The evaluation that it is from."""
    number: int
    """Of the episode, see `Observer`."""
    states: DoubleArray
    """(T + 1, nq) float64, positions as the engine holds them."""
    returns: DoubleArray
    """(T + 1,) float64, sum of the rewards so far."""
    ended: str
    """Why it ended."""

    @property
    def body(self) -> Any:
        """Whose episode it is."""
        return self.scoring.bodies[self.number // self.scoring.episodes]

    @property
    def length(self) -> int:
        """T, control steps."""
        return len(self.states) - 1

    @property
    def episode_return(self) -> float:
        """Sum of all rewards."""
        return float(self.returns[-1])

    @property
    def outcome(self) -> ReturnAndLength:
        """Return and length, which a record has, too."""
        return self.episode_return, self.length


class EpisodeKeeper(Observer):
    """Keeps episodes of an evaluation.

    Args:
        scoring: what is run.
        wanted: numbers of the episodes to keep; by default the first one of every body.
        on_step: called after each control step.
    """

    def __init__(
        self,
        scoring: Scoring,
        wanted: Collection[int] | None = None,
        on_step: Callable[[], None] | None = None,
    ) -> None:
        self.scoring, self._on_step = scoring, on_step
        if wanted is None:
            wanted = range(0, len(scoring.bodies) * scoring.episodes, scoring.episodes)
        self.episodes: dict[int, PlayedEpisode] = {}
        """Those that are over, by number."""
        self._waiting = set(wanted)
        self._rows: dict[int, _Track] = {}
        self._leave = False
        self._expected: Mapping[int, ReturnAndLength] = {}
        """Of those that end the play where they come out otherwise."""

    def play(
        self,
        policy: Policy,
        *,
        lengths: Sequence[int] | None = None,
        expected: Mapping[int, ReturnAndLength] | None = None,
        give_up: bool = False,
    ) -> dict[int, PlayedEpisode]:
        """Play the wanted episodes again, see `play_subset`.

        Args:
            policy: who acts.
            lengths: control steps of every episode, as recorded.
            expected: what shall come out. With it the policy is first shown only a few rows, and
                episodes that come out otherwise are played again with all of them.
            give_up: leave longer episodes when one comes out otherwise. If it does so with all
                rows, this machine gives other bits, in longer episodes still more of them.

        Returns:
            The episodes that are over, by number.
        """
        wanted = self._waiting.copy()
        self._leave = True
        self._expected = (expected or {}) if give_up else {}
        fewer = play_subset(
            self.scoring, policy, wanted, (self,), lengths=lengths,
            try_fewer_rows=expected is not None,
        )  # fmt: skip
        if fewer and expected is not None:
            self._waiting = {number for number in wanted if not self._equals(number, expected)}
            play_subset(self.scoring, policy, self._waiting.copy(), (self,), lengths=lengths)
        return self.episodes

    def _equals(self, number: int, expected: Mapping[int, ReturnAndLength]) -> bool:
        """Whether an episode is over and came out as expected."""
        return number in self.episodes and self.episodes[number].outcome == expected[number]

    def started(self, core: EnvironmentCore, rows: IntArray, numbers: IntArray) -> None:
        """Take notice of new episodes."""
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            if number in self._waiting:
                self._rows[row] = _Track(number, core, row)

    def stepped(
        self, core: EnvironmentCore, numbers: IntArray, actions: FloatArray, step: StepResult
    ) -> None:
        """Take notice of one control step."""
        if self._on_step:
            self._on_step()
        enough = False
        for row, track in list(self._rows.items()):
            track.keep(core, row, float(step.reward[row]), diverged=bool(step.diverged[row]))
            if step.terminated[row] or step.truncated[row]:
                ended = next(name for name, hit in step.events.items() if hit[row])
                self.episodes[track.number] = track.episode(self.scoring, ended)
                self._waiting.remove(track.number)
                del self._rows[row]
                if track.number in self._expected:
                    enough |= not self._equals(track.number, self._expected)
        if self._leave and (enough or not self._waiting):
            self._rows.clear()
            raise EnoughError


class _Track:
    """An episode that is being played."""

    def __init__(self, number: int, core: EnvironmentCore, row: int) -> None:
        self.number = number
        self._states: list[DoubleArray] = [np.array(core.simulator.data(row).qpos)]
        self._returns = [0.0]

    def keep(self, core: EnvironmentCore, row: int, reward: float, *, diverged: bool) -> None:
        state = np.array(core.simulator.data(row).qpos)
        # A diverged simulation has no pose that could be drawn, also where its numbers are finite.
        valid = not diverged and np.isfinite(state).all()
        self._states.append(state if valid else self._states[-1])
        self._returns.append(self._returns[-1] + reward)

    def episode(self, scoring: Scoring, ended: str) -> PlayedEpisode:
        return PlayedEpisode(
            scoring=scoring,
            number=self.number,
            states=np.stack(self._states),
            returns=np.array(self._returns),
            ended=ended,
        )


def model_of(episode: PlayedEpisode) -> Any:
    """Return the `mujoco.MjModel` in which an episode is drawn, on the ground that it was on."""
    scoring = episode.scoring
    core = EnvironmentCore(scoring.task, [episode.body], 1, num_threads=1)
    streams = spawn_streams(scoring.seed, episode.number + 1)
    core.simulator.streams[0] = streams[episode.number]
    core.reset(np.array([0]), np.array([0]))
    assert np.array_equal(core.simulator.data(0).qpos, episode.states[0]), "another start state"
    return model_of_first_row(core)


def model_of_first_row(core: EnvironmentCore) -> Any:
    """Return the `mujoco.MjModel` in which row 0 is drawn, on the ground that it is on now."""
    simulator, task = core.simulator, core.task
    compiled = simulator.models[int(simulator.model_index[0])]
    if compiled.robot is not None:
        from gmc_bench.rendering.robots import drawing_robot

        return drawing_robot(compiled.robot)
    assert isinstance(compiled.body, Morphology)
    square = task.grid.cell_size if task.grid else SQUARE
    model = drawing_model(compiled.body, task.scene, square=square)
    put_terrain(model, copy_terrain(core, 0))
    return model
