"""One evaluation episode, played again as it was scored; see `evaluation.one_episode`."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.types import DoubleArray, FloatArray
from gmc_bench.envs.core import EnvironmentCore, StepResult
from gmc_bench.evaluation.one_episode import EpisodeWatcher, WantedEpisode
from gmc_bench.policies.policy import Policy
from gmc_bench.rendering.ground import TerrainCopy, copy_terrain, ground_height

SPEED_WINDOW = 0.5
"""s over which the speed is averaged."""


@dataclass(frozen=True, kw_only=True)
class Replay:
    """One episode of T control steps; time 0 is its start state."""

    morphology: Morphology
    states: DoubleArray
    """(T + 1, nq) float64, positions as the engine holds them."""
    activity: DoubleArray
    """(T, limbs) float64, mean of |action| over the motors of a limb, 0 to 1; NaN without any."""
    returns: DoubleArray
    """(T + 1,) float64, sum of the rewards so far."""
    ended: str | None
    """Why the episode ended; `None` if it was left before."""
    control_dt: float
    """s."""
    terrain: TerrainCopy
    """What was drawn at the reset; empty where the ground is always the same."""
    ground: DoubleArray
    """(T + 1,) float64, height of the ground under the torso, m, world."""

    @property
    def length(self) -> int:
        """T, control steps."""
        return len(self.states) - 1

    @property
    def episode_return(self) -> float:
        """Sum of all rewards."""
        return float(self.returns[-1])

    def speed(self, step: int) -> float:
        """Return the torso's mean speed along world x over the last half second, m/s."""
        first = max(0, step - round(SPEED_WINDOW / self.control_dt))
        if step == first:
            return 0.0
        moved = self.states[step, 0] - self.states[first, 0]
        return float(moved / ((step - first) * self.control_dt))


def replay_episode(
    policy: Policy, wanted: WantedEpisode, on_step: Callable[[], None] | None = None
) -> Replay:
    """Play an evaluation again and keep one episode of it.

    Args:
        policy: who acted.
        wanted: the episode, of an evaluation on bodies of limbs.
        on_step: called after each control step of the whole batch.

    Returns:
        The episode.
    """
    recorder = _Recorder(wanted, on_step)
    recorder.watch(policy)
    return recorder.replay()


class _Recorder(EpisodeWatcher):
    """Keeps one episode."""

    def __init__(self, wanted: WantedEpisode, on_step: Callable[[], None] | None) -> None:
        super().__init__(wanted, on_step)
        self._morphology: Morphology = wanted.morphology
        self._states: list[DoubleArray] = []
        self._activity: list[DoubleArray] = []
        self._returns = [0.0]
        self._terrain: TerrainCopy = {}
        self._ground: list[float] = []

    def begin(self, core: EnvironmentCore, row: int) -> None:
        self._terrain = copy_terrain(core, row)
        self._keep(core, row)

    def keep(self, core: EnvironmentCore, row: int, actions: FloatArray, step: StepResult) -> None:
        self._keep(core, row, valid=not step.diverged[row])
        self._activity.append(_activity(core, row, actions, self._morphology.num_limbs))
        self._returns.append(self._returns[-1] + float(step.reward[row]))

    def _keep(self, core: EnvironmentCore, row: int, *, valid: bool = True) -> None:
        state = np.array(core.simulator.data(row).qpos)
        # A diverged simulation has no pose that could be drawn, also where its numbers are finite.
        valid = valid and bool(np.isfinite(state).all())
        self._states.append(state if valid else self._states[-1])
        self._ground.append(ground_height(core, row) if valid else self._ground[-1])

    def replay(self) -> Replay:
        return Replay(
            morphology=self._morphology,
            states=np.stack(self._states),
            activity=np.stack(self._activity),
            returns=np.array(self._returns),
            ended=self.ended,
            control_dt=self.control_dt,
            terrain=self._terrain,
            ground=np.array(self._ground),
        )


def _activity(core: EnvironmentCore, row: int, actions: FloatArray, num_limbs: int) -> DoubleArray:
    absent = core.table.action_padding_mask[core.morphology_index[row], :num_limbs]
    size = np.minimum(np.abs(actions[:num_limbs].astype(np.float64)), 1.0)  # the engine clamps
    total = np.where(absent, 0.0, size).sum(axis=1)
    count = (~absent).sum(axis=1)
    found: DoubleArray = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return found
