"""Scores a policy on a list of bodies with frozen observation statistics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, FloatArray, IntArray
from gmc_bench.envs.core import StepResult
from gmc_bench.envs.cores import Core, make_core
from gmc_bench.envs.normalization import TokenNormalizer
from gmc_bench.evaluation.dropout import silence_context
from gmc_bench.evaluation.mean_actions import acting, see_tokens
from gmc_bench.evaluation.policy_file import token_table
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.tokens import TokenTable
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.tasks.spec import TaskBase
from gmc_bench.tokens.config import Order
from gmc_bench.tokens.serialization import Serialization, make_serialization

Mode = Literal["deterministic", "stochastic"]

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


class Observer(Protocol):
    """Looks at episodes while they are run; must not change anything it is given.

    Episodes are counted body by body: episode k of body m has the number `m * episodes + k`.
    """

    def started(self, core: Core, rows: IntArray, numbers: IntArray) -> None:
        """Take notice of new episodes: `numbers` (K,) int64 begin in `rows` (K,) int64."""

    def stepped(self, core: Core, numbers: IntArray, actions: FloatArray, step: StepResult) -> None:
        """Take notice of one control step of all rows, before any of them is reset.

        Args:
            core: as the step left it.
            numbers: (B,) int64, the episode of each row, -1 for a row that has none.
            actions: (B, L, J) float32, what the policy asked for.
            step: what happened.
        """


def evaluate_policy(
    model: ActorCritic,
    normalizer: TokenNormalizer,
    task: TaskBase,
    morphologies: Sequence[Any],
    *,
    episodes: int,
    mode: Mode,
    seed: int,
    num_threads: int | None = None,
    device: torch.device | str = "cpu",
    on_progress: Callable[[int], None] | None = None,
    observer: Observer | None = None,
    silent_limbs: IntArray | None = None,
    order: Order = "dfs",
    serialization: Serialization | None = None,
) -> list[list[EpisodeResult]]:
    """Run complete episodes of every body.

    Args:
        model: the policy.
        normalizer: its observation statistics; not changed.
        task: what to do.
        morphologies: M bodies, which need not be the ones trained on.
        episodes: E, episodes per body.
        mode: mean actions, or sampled actions.
        seed: start states and action noise.
        num_threads: threads that step; default all.
        device: where the networks run.
        on_progress: called with the number of bodies' episodes finished since the last call.
        observer: sees every step; numbers do not depend on it.
        silent_limbs: (M,) int64, a limb of each body whose features are zero for the policy, see
            `dropout.draw_silent_limbs`; `None` shows all.
        order: in which order policies see the limbs of a body.
        serialization: several sequences for each body instead of one in that order; every
            sequence is then scored like a body of its own.

    Returns:
        For every body, or for every sequence of tokens, its E episodes.

    Raises:
        ConfigError: a method with separate weights per body is asked for several sequences.
    """
    if serialization is not None and model.per_body and len(serialization) > len(morphologies):
        raise ConfigError(
            "a method with separate weights per body was to be scored on several token orders of "
            "a body, which its weights do not follow; choose a method with shared weights"
        )
    count = episodes * len(serialization or morphologies)
    streams = spawn_streams(seed, count)
    rows = min(MAX_ROWS, count)
    core = make_core(task, morphologies, rows, token_spec=model.spec, num_threads=num_threads)
    serialization = serialization or make_serialization(order, core.table)
    table = token_table(core.table, normalizer, device)
    if silent_limbs is not None:
        table = silence_context(table, silent_limbs)
    noise = None
    if mode == "stochastic":
        noise = np.empty(
            (rows, task.horizon, *core.table.action_padding_mask.shape[1:]), np.float32
        )
    state = model.initial_state(rows)
    shown = np.repeat(np.arange(len(serialization)), episodes)
    actor = _Actor(
        model,
        normalizer,
        table.serialized(serialization),
        state,
        noise,
        seed,
        silent_limbs,
        serialization,
        shown,
    )
    body = serialization.body[shown]
    with acting(model):
        found = _run_episodes(core, actor, body, streams, on_progress, observer)
    return [found[k * episodes : (k + 1) * episodes] for k in range(len(serialization))]


@dataclass
class _Actor:
    model: ActorCritic
    normalizer: TokenNormalizer
    table: TokenTable
    state: torch.Tensor
    """(B, L, S), what the policy remembers."""
    noise: FloatArray | None
    """(B, horizon, L, J) float32, standard normal; `None` takes the most likely action."""
    seed: int
    """Of the noise."""
    silent_limbs: IntArray | None
    """(M,) int64, a limb of each body that the policy does not see."""
    serialization: Serialization
    shown: IntArray
    """(K,) int64, the sequence of tokens that each episode shows."""

    def __post_init__(self) -> None:
        self.sequences: IntArray = np.zeros(len(self.state), np.int64)
        """(B,) int64, the sequence of tokens that shows each environment's body."""

    def start(self, rows: IntArray, episodes: IntArray) -> None:
        """Begin episodes in some environments."""
        self.state[torch.from_numpy(rows)] = 0.0
        self.sequences[rows] = self.shown[episodes]
        if self.noise is not None:
            for row, episode in zip(rows.tolist(), episodes.tolist(), strict=True):
                # Every episode has a stream of its own, wherever and whenever it is run.
                key = np.random.SeedSequence(self.seed, spawn_key=(_NOISE, episode))
                np.random.default_rng(key).standard_normal(dtype=np.float32, out=self.noise[row])

    def __call__(self, core: Core) -> FloatArray:
        tokens = see_tokens(
            core,
            self.normalizer,
            self.table,
            self.serialization,
            self.sequences,
            self.silent_limbs,
        )
        distribution, state = self.model.step(tokens, self.state, critic=False)
        actions = distribution.mode
        if self.noise is not None:
            step = np.minimum(core.episode_length, core.task.horizon - 1)
            drawn = torch.from_numpy(self.noise[np.arange(core.num_envs), step])
            noisy = actions + self.model.action_std * drawn.to(actions.device)
            actions = noisy.masked_fill(tokens.action_padding_mask, 0.0)
        self.state = self.model.remember(state, actions)
        found: FloatArray = self.serialization.restore(actions.cpu().numpy(), self.sequences)
        return found


def _run_episodes(
    core: Core,
    act: _Actor,
    body: IntArray,
    streams: Array,
    on_progress: Callable[[int], None] | None,
    observer: Observer | None = None,
) -> list[EpisodeResult]:
    """Run all episodes; a row whose episode has ended takes the next that waits.

    Args:
        core: as many rows as there are episodes, or fewer.
        act: the policy.
        body: (K,) int64, body of each episode.
        streams: (K, ...), source of each episode's start state.
        on_progress: called with the number of episodes that have just ended.
        observer: sees every step.

    Returns:
        The K episodes, in order.
    """
    results: list[EpisodeResult | None] = [None] * len(body)
    episode = np.arange(core.num_envs)
    waiting = core.num_envs
    total = np.zeros(core.num_envs)
    running = np.ones(core.num_envs, np.bool_)

    def start(rows: IntArray) -> None:
        core.simulator.streams[rows] = streams[episode[rows]]
        core.reset(rows, body[episode[rows]])
        act.start(rows, episode[rows])
        total[rows] = 0.0
        if observer:
            counted = rows[running[rows]]
            observer.started(core, counted, episode[counted])

    start(np.arange(core.num_envs))
    while running.any():
        actions = act(core)
        step = core.step(actions)
        if observer:
            observer.stepped(core, np.where(running, episode, -1), actions, step)
        total += step.reward
        done = np.flatnonzero((step.terminated | step.truncated) & running)
        for row in done.tolist():
            results[episode[row]] = EpisodeResult(
                float(total[row]), int(core.episode_length[row]), _reason(step, row)
            )
        again = done[: len(body) - waiting]
        episode[again] = np.arange(waiting, waiting + len(again))
        waiting += len(again)
        running[done[len(again) :]] = False
        # Rows without work go on unnoticed, but a broken state must not be stepped on.
        broken = np.flatnonzero(step.diverged & ~running)
        if len(again) or len(broken):
            start(np.union1d(again, broken))
        if on_progress and len(done):
            on_progress(len(done))
    return [result for result in results if result is not None]


def _reason(step: StepResult, row: int) -> str:
    return next(name for name, hit in step.events.items() if hit[row])
