"""An untrained policy on two small bodies."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies.normalization import TokenNormalizer
from gmc_bench.policies.policy import Policy
from gmc_bench.tasks.unimal_ft import TASK
from tests.support.toy import TOY, ToyConfig

BODIES = (chain(3), star(4), biped())


class RememberingNetwork(nn.Module):
    """state' = state / 2 + W1 x;  out = W2 tanh(state'), token by token."""

    sequence_length = 4

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.state_width = config.width
        self.inner = nn.Linear(spec.num_features, config.width)
        self.outer = nn.Linear(config.width, num_outputs)

    def forward(self, tokens, history):
        drive = self.inner(tokens.features).unflatten(0, history.starts.shape)
        state, seen = history.state, []
        for starts, step in zip(history.starts, drive, strict=True):
            state = 0.5 * state.masked_fill(starts[:, None, None], 0.0) + step
            seen.append(state.tanh())
        return self.outer(torch.stack(seen).flatten(0, 1)), state


REMEMBERING = MethodSpec(
    id="remembering",
    config=ToyConfig,
    builder=RememberingNetwork,
    capabilities=Capabilities(temporal=True),
)


@dataclass(frozen=True)
class Trained:
    """What an evaluation takes."""

    policy: Policy
    task: object
    bodies: tuple

    @property
    def model(self):
        return self.policy.model

    @property
    def normalizer(self):
        return self.policy.normalizer


@pytest.fixture
def make_trained():
    """Build a policy with random weights and plausible statistics."""

    def make(*, seed=0, width=8, horizon=30, bodies=BODIES, max_limbs=6, method=TOY, task=TASK):
        torch.manual_seed(seed)
        spec = task.token_spec(max_limbs, 2)
        model = ActorCritic(method, ToyConfig(width=width), spec)
        core = EnvironmentCore(task, bodies, 8, token_spec=spec, num_threads=1)
        core.reset(np.arange(8), np.arange(8) % 3)
        normalizer = TokenNormalizer(core.table)
        for _ in range(5):
            noise = np.random.default_rng(seed).normal(size=(8, max_limbs, 2))
            core.step(noise.astype(np.float32))
            normalizer.update(core.dynamic, core.table.limb_padding_mask[core.morphology_index])
        return Trained(Policy(model, normalizer), replace(task, horizon=horizon), bodies)

    return make


@pytest.fixture
def remembering(make_trained):
    """A policy with a memory, whose episodes last up to 60 steps."""
    return make_trained(method=REMEMBERING, horizon=60)


@pytest.fixture
def trained(make_trained):
    """The policy with default sizes."""
    return make_trained()
