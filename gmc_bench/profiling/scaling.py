"""What a method costs as bodies get more tokens: latency, training and memory.

Bodies are random trees of exactly the stated number of tokens, far beyond what a simulator could
stand, so that no method gains from padding. Only networks run.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Literal

import gymnasium
import numpy as np
import torch

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.profiling.memory import PeakMemory
from gmc_bench.suites.protocol import PPOConfig
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.allocator import keep_freed_memory
from gmc_bench.training.buffer import Minibatch
from gmc_bench.training.ppo import MorphologyPPO

BODIES = 8
"""Different bodies of a batch."""
ACT_BATCH = 8
TRAIN_BATCH = 16
"""Transitions of a gradient step; a method with a memory gets whole sequences."""
MIN_REPEATS = 3
THREADS = 1
_MIB = 2**20

Kind = Literal["act-memory", "train-memory", "act-time", "train-time"]
KINDS: dict[str, tuple[Kind, ...]] = {
    "memory": ("act-memory", "train-memory"),
    "time": ("act-time", "train-time"),
}
"""By what they measure."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenItem:
    """One measurement."""

    kind: Kind
    method: str
    """Registered id, or where to find it."""
    preset: str
    tokens: int
    """L, of every body."""
    seconds: float
    """Time spent on repeats."""


def measure_tokens(item: TokenItem) -> dict[str, float]:
    """Measure acting or a gradient step, by time or by memory.

    Acting is one forward pass of the actor for `ACT_BATCH` bodies, after what depends on bodies
    alone has been computed. A gradient step is that of training: actor and critic, forward and
    backward, and the optimiser, one after the other.

    Returns:
        `act_ms` or `train_ms` and `samples_per_s`, medians over repeats, with `repeats`; or
        `act_mib` or `train_mib`, the peak of live tensors that are not weights, and `parameters`.
    """
    torch.set_num_threads(THREADS)
    keep_freed_memory()
    model = make_policy(item.method, item.preset, item.tokens, BODIES)
    purpose, _, what = item.kind.partition("-")
    if purpose == "act":
        tokens = _tokens(model.spec, ACT_BATCH)
        act = actor(model, tokens)
        with fixed_weights(model):
            act()  # without counting: what depends on the bodies alone is computed now
            if what == "memory":
                return {"act_mib": _peak_mib(act), "parameters": float(_size(model))}
            times = _repeat(act, item.seconds)
        return _times("act", times, ACT_BATCH)
    step, samples = _gradient_step(model)
    step()  # the optimiser makes its moments now
    if what == "memory":
        return {"train_mib": _peak_mib(step), "parameters": float(_size(model))}
    return _times("train", _repeat(step, item.seconds), samples)


def make_policy(method: str, preset: str, tokens: int, bodies: int) -> ActorCritic:
    """Return a new policy for bodies of up to `tokens` tokens.

    Raises:
        GmcBenchError: there is no such method, or its network does not work at this size.
    """
    torch.manual_seed(0)
    spec = METHODS.load(method)
    return ActorCritic(spec, spec.make_config(preset), TokenSpec(tokens), num_bodies=bodies).eval()


def actor(model: ActorCritic, tokens: TokenBatch) -> Callable[[], torch.Tensor]:
    """Return what chooses actions for a batch, with an empty memory where the method has one."""
    history = model.one_step(model.initial_state(len(tokens)))

    def act() -> torch.Tensor:
        with torch.no_grad():
            return model.distribution(_anew(tokens), history).mode

    return act


def _gradient_step(model: ActorCritic) -> tuple[Callable[[], None], int]:
    """Return what takes a gradient step on a fixed minibatch, and its number of transitions."""
    model.train()
    spec = model.spec
    space = gymnasium.spaces.Box(-1.0, 1.0, (spec.max_limbs, spec.joints_per_limb))
    # Without a KL stop: every step is taken.
    algorithm = MorphologyPPO(model, space, PPOConfig(target_kl=None), 10, torch.Generator())
    length = model.sequence_length
    steps = (length, max(1, TRAIN_BATCH // length))
    samples = steps[0] * steps[1]
    tokens = _tokens(spec, samples)
    # A sequence shows one body: sequences lie side by side, step by step.
    bodies = (torch.arange(steps[1]) % BODIES).repeat(length)
    tokens = TokenBatch(tokens.table, bodies, tokens.dynamic)
    noise = torch.randn(tokens.action_padding_mask.shape)
    actions = noise.masked_fill(tokens.action_padding_mask, 0.0)
    zeros = torch.zeros(samples)
    starts = torch.zeros(steps, dtype=torch.bool)

    def take() -> None:
        history = model.history(
            model.initial_state(steps[1]), starts, actions.view(*steps, *actions.shape[1:])
        )
        batch = Minibatch(_anew(tokens), history, actions, zeros, zeros, zeros, zeros)
        algorithm._gradients(batch)
        algorithm._step()

    return take, samples


def _tokens(spec: TokenSpec, batch: int) -> TokenBatch:
    return random_tokens(np.random.default_rng(0), spec, (spec.max_limbs,) * BODIES, batch)


def _anew(tokens: TokenBatch) -> TokenBatch:
    """Return the batch anew, so that what it works out on demand is part of the measurement."""
    return TokenBatch(tokens.table, tokens.morphology_index, tokens.dynamic)


def _size(model: ActorCritic) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _peak_mib(run: Callable[[], object]) -> float:
    with PeakMemory() as peak:
        run()
    return float(peak.nbytes) / _MIB


def _repeat(run: Callable[[], object], seconds: float) -> list[float]:
    """Return the seconds of every call, after one that is not counted."""
    run()
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < MIN_REPEATS or time.perf_counter() < until:
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return times


def _times(name: str, times: list[float], samples: int) -> dict[str, float]:
    middle = median(times)
    return {
        f"{name}_ms": 1e3 * middle,
        "samples_per_s": samples / middle,
        "repeats": float(len(times)),
    }
