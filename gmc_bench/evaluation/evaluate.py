"""Scores of a policy on a list of bodies, with frozen observation statistics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.integers import is_count
from gmc_bench.core.types import Array, FloatArray, IntArray, Mode
from gmc_bench.envs.core import EnvironmentCore, StepResult
from gmc_bench.nn.distribution import MaskedGaussian
from gmc_bench.policies.bound import BoundPolicy
from gmc_bench.policies.policy import Policy
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.tasks.spec import Task
from gmc_bench.tokens.serialization import Serialization

MAX_ROWS = 256
"""Environments stepped together."""

_NOISE = 2**31
"""Marks streams of action noise; those of start states count from 0."""


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """One finished evaluation episode."""

    episode_return: float
    length: int
    ended: str
    """Name of the termination term, `time_limit` or `diverged`."""


class Observer:
    """Looks at episodes while they are run; must not change anything it is given.

    Episodes are counted body by body: episode k of body m has the number `m * episodes + k`.
    """

    def started(self, core: EnvironmentCore, rows: IntArray, numbers: IntArray) -> None:
        """Take notice of new episodes: `numbers` (K,) int64 begin in `rows` (K,) int64."""

    def stepped(
        self, core: EnvironmentCore, numbers: IntArray, actions: FloatArray, step: StepResult
    ) -> None:
        """Take notice of one control step of all rows, before any of them is reset.

        Args:
            core: as the step left it.
            numbers: (B,) int64, the episode of each row, -1 for a row that has none.
            actions: (B, L, J) float32, what the policy asked for.
            step: what happened.
        """

    def finished(self, count: int) -> None:
        """Take notice of the number of episodes that have just ended."""


class EpisodeCounter(Observer):
    """Calls a function with the number of episodes that have just ended."""

    def __init__(self, tell: Callable[[int], object]) -> None:
        self._tell = tell

    def finished(self, count: int) -> None:
        """Take notice of episodes that have ended."""
        self._tell(count)


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """An evaluation without its policy: complete episodes of every body.

    Raises:
        ConfigError: there is no episode to run, or no such mode.
    """

    task: Task
    bodies: Sequence[Any]
    """M bodies, which need not be the ones trained on."""
    episodes: int
    """E, per body."""
    mode: Mode = "deterministic"
    """Mean actions, or sampled actions."""
    seed: int
    """Start states and action noise."""
    num_threads: int | None = None
    """Threads that step; default all."""
    silent_limbs: IntArray | None = None
    """(M,) int64, a limb of each body whose features are zero for the policy, see
    `dropout.draw_silent_limbs`; default none."""
    serialization: Serialization | None = None
    """Several sequences for each body instead of one in the policy's order; every sequence is
    then scored like a body of its own."""

    def __post_init__(self) -> None:
        if not is_count(self.episodes) or self.mode not in get_args(Mode):
            raise ConfigError(
                f"an evaluation needs at least one episode and one of the modes "
                f"{', '.join(get_args(Mode))}, got {self.episodes!r} and {self.mode!r}"
            )

    def run(self, policy: Policy, observers: Sequence[Observer] = ()) -> list[list[EpisodeResult]]:
        """Run the episodes.

        Args:
            policy: who acts; not changed.
            observers: see every step; numbers do not depend on them.

        Returns:
            For every body, or for every sequence of tokens, its E episodes.

        Raises:
            ConfigError: see `BoundPolicy`.
        """
        sequences = len(self.serialization or self.bodies)
        rows = min(MAX_ROWS, self.episodes * sequences)
        core = EnvironmentCore(
            self.task, self.bodies, rows, token_spec=policy.spec, num_threads=self.num_threads
        )
        bound = policy.on(
            core.table, rows, serialization=self.serialization, silent_limbs=self.silent_limbs
        )
        player = _Player(self, core, bound, observers)
        with policy.acting():
            found = player.play()
        return [found[k * self.episodes :][: self.episodes] for k in range(sequences)]

    def streams(self, count: int) -> Array:
        """Return (count, 4) uint64, random streams of the first episodes' start states."""
        return spawn_streams(self.seed, count)


def noise_of(seed: int, number: int, shape: tuple[int, ...]) -> FloatArray:
    """Return the noise on the actions of one episode of an evaluation.

    Every episode has a stream of its own, wherever and whenever it is run.

    Args:
        seed: of the evaluation.
        number: of the episode.
        shape: (horizon, L, J).

    Returns:
        (horizon, L, J) float32, standard normal.
    """
    key = np.random.SeedSequence(seed, spawn_key=(_NOISE, number))
    return np.random.default_rng(key).standard_normal(shape, dtype=np.float32)


class _Player:
    """Runs all episodes; a row whose episode has ended takes the next that waits."""

    def __init__(
        self,
        scoring: Scoring,
        core: EnvironmentCore,
        bound: BoundPolicy,
        observers: Sequence[Observer],
    ) -> None:
        self.scoring, self.core, self.bound, self.observers = scoring, core, bound, observers
        serialization = bound.serialization
        self.shown = np.repeat(np.arange(len(serialization)), scoring.episodes)
        """(K,) int64, the sequence of tokens that each episode shows."""
        self.body: IntArray = serialization.body[self.shown]
        """(K,) int64, body of each episode."""
        self.streams = scoring.streams(len(self.body))
        """(K, 4) uint64, random stream of each episode's start state."""
        self.noise: FloatArray | None = None
        """(B, horizon, L, J) float32, standard normal; `None` takes the mean action."""
        if scoring.mode == "stochastic":
            shape = core.table.action_padding_mask.shape[1:]
            self.noise = np.empty((core.num_envs, scoring.task.horizon, *shape), np.float32)
        self.episode = np.arange(core.num_envs)
        """(B,) int64, the episode of each row."""
        self.running = np.ones(core.num_envs, np.bool_)
        self.total = np.zeros(core.num_envs)

    def play(self) -> list[EpisodeResult]:
        """Return the K episodes, in order."""
        core, results = self.core, dict[int, EpisodeResult]()
        waiting = core.num_envs
        self._start(np.arange(core.num_envs))
        while self.running.any():
            actions = self.bound.act(core, None if self.noise is None else self._noisy)
            # Rows without work are shown to the policy, whose last bits depend on how many it sees.
            step = core.step(actions, np.flatnonzero(self.running))
            for observer in self.observers:
                numbers = np.where(self.running, self.episode, -1)
                observer.stepped(core, numbers, actions, step)
            self.total += step.reward
            done = np.flatnonzero((step.terminated | step.truncated) & self.running)
            for row in done.tolist():
                reason = next(name for name, hit in step.events.items() if hit[row])
                results[int(self.episode[row])] = EpisodeResult(
                    float(self.total[row]), int(core.episode_length[row]), reason
                )
            again = done[: len(self.body) - waiting]
            self.episode[again] = np.arange(waiting, waiting + len(again))
            waiting += len(again)
            self.running[done[len(again) :]] = False
            if len(again):
                self._start(again)
            if len(done):
                for observer in self.observers:
                    observer.finished(len(done))
        return [results[number] for number in range(len(self.body))]

    def _start(self, rows: IntArray) -> None:
        core, numbers = self.core, self.episode[rows]
        core.simulator.streams[rows] = self.streams[numbers]
        core.reset(rows, self.body[numbers])
        self.bound.start(rows, self.shown[numbers])
        if self.noise is not None:
            for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
                self.noise[row] = noise_of(self.scoring.seed, number, self.noise.shape[1:])
        self.total[rows] = 0.0
        for observer in self.observers:
            observer.started(core, rows, numbers)

    def _noisy(self, distribution: MaskedGaussian) -> torch.Tensor:
        """Return the means of the actions, perturbed by the noise of the present step."""
        core = self.core
        assert self.noise is not None
        step = np.minimum(core.episode_length, self.scoring.task.horizon - 1)
        drawn = torch.from_numpy(self.noise[np.arange(core.num_envs), step])
        return distribution.perturbed(drawn.to(distribution.mean.device))
