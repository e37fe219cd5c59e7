"""Networks at work on random bodies: acting, and gradient steps of training.

Bodies are random trees, so that any number of tokens can be shown, far beyond what a simulator
could stand.
"""

from collections.abc import Callable

import gymnasium
import numpy as np
import torch

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.core.precision import Precision
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.profiling.memory import PeakMemory
from gmc_bench.suites.protocol import PPOConfig
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.buffer import Minibatch
from gmc_bench.training.ppo import MorphologyPPO

MIB = 2**20


def make_networks(
    method: MethodSpec,
    preset: str | None,
    tokens: int,
    bodies: int,
    precision: Precision = "float32",
) -> ActorCritic:
    """Return new networks for bodies of up to `tokens` tokens.

    Raises:
        GmcBenchError: the network does not work at this size.
    """
    torch.manual_seed(0)
    config = method.make_config(preset)
    spec = TokenSpec(tokens)
    return ActorCritic(method, config, spec, num_bodies=bodies, precision=precision).eval()


def full_bodies(spec: TokenSpec, bodies: int, batch: int) -> TokenBatch:
    """Return a fixed batch of bodies that fill every slot: no method gains from padding."""
    return random_tokens(np.random.default_rng(0), spec, (spec.max_limbs,) * bodies, batch)


def anew(tokens: TokenBatch) -> TokenBatch:
    """Return a batch anew, so that what it computes lazily is part of the measurement."""
    return TokenBatch(tokens.table, tokens.morphology_index, tokens.dynamic)


def acting(model: ActorCritic, tokens: TokenBatch) -> Callable[[], torch.Tensor]:
    """Return a function that acts on a batch, from the initial recurrent state if there is one."""
    history = model.one_step(model.initial_state(len(tokens)))

    def act() -> torch.Tensor:
        with torch.no_grad():
            return model.distribution(anew(tokens), history).mode

    return act


def gradient_step(
    model: ActorCritic,
    tokens: TokenBatch,
    choose: Callable[[int], torch.Tensor] | None = None,
    *,
    parallel: bool = False,
) -> Callable[[], None]:
    """Return a function that takes a gradient step: both passes of actor and critic, optimiser.

    Args:
        model: the policy, on the device of the tokens.
        tokens: dynamic features of the minibatch, and the bodies to choose from; a multiple of
            the method's sequence length.
        choose: from the number of sequences to the bodies they show, before every step; by
            default all bodies in turn.
        parallel: share threads out to actor and critic as training does.
    """
    model.train()
    spec, length = model.spec, model.sequence_length
    space = gymnasium.spaces.Box(-1.0, 1.0, (spec.max_limbs, spec.joints_per_limb))
    # Without a KL stop: every step is taken.
    algorithm = MorphologyPPO(model, space, PPOConfig(target_kl=None), 10, torch.Generator())
    steps = (length, len(tokens) // length)
    device = model.action_std.device
    noise = torch.randn(tokens.action_padding_mask.shape).to(device)
    zeros = torch.zeros(len(tokens), device=device)
    starts = torch.zeros(steps, dtype=torch.bool, device=device)

    def take() -> None:
        bodies = choose(steps[1]) if choose else torch.arange(steps[1]) % len(tokens.table)
        # A sequence shows one body: sequences lie side by side, step by step.
        batch = TokenBatch(tokens.table, bodies.repeat(length).to(device), tokens.dynamic)
        actions = noise.masked_fill(batch.action_padding_mask, 0.0)
        history = model.history(
            model.initial_state(steps[1]), starts, actions.view(*steps, *actions.shape[1:])
        )
        algorithm._gradients(Minibatch(batch, history, actions, zeros, zeros, zeros, zeros))
        algorithm._step()

    def take_in_parallel() -> None:
        with algorithm._threads_shared_out(device):
            take()

    return take_in_parallel if parallel else take


def peak_bytes(run: Callable[[], object]) -> int:
    """Return the peak bytes of tensors that are made inside a call."""
    with PeakMemory() as peak:
        run()
    found: int = peak.nbytes
    return found
