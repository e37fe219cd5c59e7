"""Scores a policy on a list of bodies with frozen observation statistics."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from gmc_bench.envs.core import EnvironmentCore, StepResult
from gmc_bench.envs.normalization import TokenNormalizer
from gmc_bench.evaluation.policy_file import token_table
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.morphology.schema import Morphology
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.tasks.spec import Task
from gmc_bench.types import FloatArray, IntArray

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


def evaluate_policy(
    model: ActorCritic,
    normalizer: TokenNormalizer,
    task: Task,
    morphologies: Sequence[Morphology],
    *,
    episodes: int,
    mode: Mode,
    seed: int,
    num_threads: int | None = None,
    device: torch.device | str = "cpu",
    on_progress: Callable[[int], None] | None = None,
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

    Returns:
        For every body, its E episodes.
    """
    body = np.repeat(np.arange(len(morphologies)), episodes)
    streams = spawn_streams(seed, len(body))
    found: list[EpisodeResult] = []
    rows = min(MAX_ROWS, len(body))
    core = EnvironmentCore(task, morphologies, rows, token_spec=model.spec, num_threads=num_threads)
    table = token_table(core.table, normalizer, device)
    with _evaluating(model):
        for start in range(0, len(body), rows):
            # The last batch is filled up with repeats, whose results are dropped.
            chosen = np.arange(start, start + rows) % len(body)
            core.simulator.streams[:] = streams[chosen]
            noise = _noise(seed, chosen, core) if mode == "stochastic" else None
            actor = _Actor(model, normalizer, table, noise, model.initial_state(rows))
            results = _run_batch(core, actor, body[chosen])
            kept = results[: len(body) - start]
            found += kept
            if on_progress:
                on_progress(len(kept))
    return [found[k * episodes : (k + 1) * episodes] for k in range(len(morphologies))]


@contextmanager
def _evaluating(model: ActorCritic) -> Iterator[None]:
    """Put the policy into evaluation mode, with weights that do not change."""
    was_training = model.training
    model.eval()
    try:
        with fixed_weights(model):
            yield
    finally:
        model.train(was_training)


@dataclass
class _Actor:
    model: ActorCritic
    normalizer: TokenNormalizer
    table: TokenTable
    noise: FloatArray | None
    """(B, horizon, L, J) float32, standard normal; `None` takes the most likely action."""
    state: torch.Tensor
    """(B, L, S), what the policy remembers."""

    def __call__(self, core: EnvironmentCore) -> FloatArray:
        padding = core.table.limb_padding_mask[core.morphology_index]
        dynamic = self.normalizer.normalize(core.dynamic, padding)
        tokens = TokenBatch(
            self.table,
            torch.from_numpy(core.morphology_index.copy()).to(self.table.context.device),
            torch.from_numpy(dynamic).to(self.table.context.device),
        )
        distribution, state = self.model.step(tokens, self.state, critic=False)
        actions = distribution.mode
        if self.noise is not None:
            step = np.minimum(core.episode_length, core.task.horizon - 1)
            drawn = torch.from_numpy(self.noise[np.arange(core.num_envs), step])
            noisy = actions + self.model.action_std * drawn.to(actions.device)
            actions = noisy.masked_fill(tokens.action_padding_mask, 0.0)
        self.state = self.model.remember(state, actions)
        found: FloatArray = actions.cpu().numpy()
        return found

    def forget(self, rows: IntArray) -> None:
        """Start anew in some environments."""
        self.state[torch.from_numpy(rows)] = 0.0


def _noise(seed: int, episodes: IntArray, core: EnvironmentCore) -> FloatArray:
    """Return the action noise of whole episodes, each from a stream of its own."""
    shape = (core.task.horizon, core.spec.max_limbs, core.spec.joints_per_limb)
    streams = (
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_NOISE, int(episode))))
        for episode in episodes
    )
    return np.stack([stream.standard_normal(shape, np.float32) for stream in streams])


def _run_batch(core: EnvironmentCore, act: _Actor, body: IntArray) -> list[EpisodeResult]:
    """Run one episode per row; rows that are done go on unnoticed until all are."""
    rows = np.arange(core.num_envs)
    core.reset(rows, body)
    total = np.zeros(core.num_envs)
    results: list[EpisodeResult | None] = [None] * core.num_envs
    running = np.ones(core.num_envs, np.bool_)
    while running.any():
        step = core.step(act(core))
        total += np.where(running, step.reward, 0.0)
        done = (step.terminated | step.truncated) & running
        for row in np.flatnonzero(done).tolist():
            results[row] = EpisodeResult(
                float(total[row]), int(core.episode_length[row]), _reason(step, row)
            )
        running &= ~done
        broken = np.flatnonzero(step.diverged & ~running)
        if len(broken):
            core.reset(broken, body[broken])  # a broken state must not be stepped on
            act.forget(broken)
    return [result for result in results if result is not None]


def _reason(step: StepResult, row: int) -> str:
    return next(name for name, hit in step.events.items() if hit[row])
