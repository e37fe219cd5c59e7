"""What the benchmarks of networks have in common: methods, random bodies and gradient steps."""

from collections.abc import Callable

import numpy as np
import torch

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.profiling import usual_methods
from gmc_bench.profiling.workload import gradient_step
from gmc_bench.tokens.spec import TokenSpec

LAYOUT, BODIES = TokenSpec(12), 100
"""Bodies of 6 to 12 limbs, nine on average as in the published set."""


def network_ids() -> list[str]:
    """Return the ids of all methods but references that have the network of another one."""
    return [method.id for method in usual_methods("policy")]


def random_batch(size: int, device: str = "cpu") -> TokenBatch:
    """Return so many transitions of the bodies, the same every time."""
    rng = np.random.default_rng(0)
    found = random_tokens(rng, LAYOUT, rng.integers(6, 13, BODIES).tolist(), size)
    moved = (found.morphology_index.to(device), found.dynamic.to(device))
    return TokenBatch(found.table.to(device), *moved)


def minibatch_step(
    model: ActorCritic, batch_size: int, *, parallel: bool = False
) -> Callable[[], None]:
    """Return a function that takes a gradient step of PPO, each time on other bodies.

    Args:
        model: a policy for `BODIES` bodies in `LAYOUT`.
        batch_size: transitions of a minibatch; as many of them as make whole sequences.
        parallel: share threads out to actor and critic as training does.
    """
    length, rng = model.sequence_length, np.random.default_rng(1)
    return gradient_step(
        model,
        random_batch(batch_size // length * length, str(model.action_std.device)),
        # Other bodies every time: what depends on a minibatch's number of limbs is part of a step.
        lambda sequences: torch.from_numpy(rng.integers(BODIES, size=sequences)),
        parallel=parallel,
    )
