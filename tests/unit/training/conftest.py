"""A method small enough to be worked out in numpy, and runs of it on two bodies."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.methods import METHODS as REGISTERED
from gmc_bench.methods import Capabilities, MethodSpec
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.config import TokenConfig
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.trainer import make_trainer as trainer_of
from tests.support.small_runs import TrainerInFolder, small_config, small_protocol

BODIES = (chain(3), star(3))
THREE_BODIES = (*BODIES, biped())
SPEC = TokenSpec(max_limbs=4, joints_per_limb=2)


@dataclass(frozen=True, kw_only=True)
class ToyConfig:
    width: int = 8
    """Hidden channels."""
    dropout: float = 0.0
    """Share of hidden channels that are switched off while training."""


class ToyNetwork(nn.Module):
    """out = W2 tanh(W1 x + b1) + b2, token by token."""

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.inner = nn.Linear(spec.num_features, config.width)
        self.outer = nn.Linear(config.width, num_outputs)

    def forward(self, tokens):
        return self.outer(self.dropout(torch.tanh(self.inner(tokens.features))))


class ForgetfulNetwork(nn.Module):
    """state' = state / 2 + W1 x;  out = W2 (tanh(state') + previous actions), token by token."""

    sequence_length = 4

    def __init__(self, config, spec, num_outputs):
        super().__init__()
        self.state_width = config.width
        self.inner = nn.Linear(spec.num_features, config.width)
        self.outer = nn.Linear(config.width + spec.actions_per_token, num_outputs)

    def forward(self, tokens, history):
        steps, envs = history.starts.shape
        drive = self.inner(tokens.features).unflatten(0, (steps, envs))
        state, seen = history.state, []
        for step in range(steps):
            state = state.masked_fill(history.starts[step, :, None, None], 0.0)
            state = 0.5 * state + drive[step]
            seen.append(torch.cat((state.tanh(), history.previous_actions[step]), dim=-1))
        return self.outer(torch.stack(seen).flatten(0, 1)), state


TOY = MethodSpec(id="toy", config=ToyConfig, builder=ToyNetwork)
FORGETFUL = MethodSpec(
    id="forgetful",
    config=ToyConfig,
    builder=ForgetfulNetwork,
    capabilities=Capabilities(temporal=True),
)


class ShortSighted(ForgetfulNetwork):
    """The same, trained on single steps."""

    sequence_length = 1


SHORT_SIGHTED = replace(FORGETFUL, id="short-sighted", builder=ShortSighted)
METHODS = {"toy": TOY, "toy.py:SPEC": TOY, "forgetful": FORGETFUL, "short-sighted": SHORT_SIGHTED}


@pytest.fixture
def make_trainer(tmp_path):
    """Build a trainer: 4 environments x 16 steps, 5 iterations, horizon 10."""

    def make(
        name="run",
        *,
        method="toy",
        seed=0,
        dropout=0.0,
        interval=0.0,
        env_steps=320,
        rollout_length=16,
        precision="float32",
        order="dfs",
        action_std_end=None,
        normalization="per_feature",
        sampling_alpha=1.0,
        sampling_warmup_iterations=1,
        task=TASK,
        device="cpu",
        threads=1,
        **ppo,
    ):
        protocol = small_protocol(
            ppo,
            env_steps=env_steps,
            action_std_end=action_std_end,
            normalization=normalization,
            rollout_length=rollout_length,
            sampling_alpha=sampling_alpha,
            sampling_warmup_iterations=sampling_warmup_iterations,
        )
        spec = METHODS.get(method) or REGISTERED.load(method)
        settings = ToyConfig(dropout=dropout) if method in METHODS else spec.make_config("lite")
        config = small_config(
            method,
            settings,
            protocol,
            seed=seed,
            checkpoint_interval_s=interval,
            precision=precision,
            tokens=TokenConfig(order=order),
            device=device,
            threads=threads,
        )
        layout = replace(SPEC, num_heights=task.num_heights)
        trainer = trainer_of(config, spec, replace(task, horizon=10), BODIES, layout)
        return TrainerInFolder(trainer, config, tmp_path / name)

    return make


@pytest.fixture
def make_bank_trainer(tmp_path):
    """Build a trainer of separate MLPs: by default 8 environments per body, 5 iterations.

    Each body has 256 steps per iteration.
    """

    def make(
        name="run",
        *,
        bodies=THREE_BODIES,
        envs=8,
        iterations=5,
        interval=1e6,
        method=None,
        seed=0,
        normalization="per_feature",
        order="dfs",
        **ppo,
    ):
        count = len(bodies)
        protocol = small_protocol(
            {"batch_size": 4 * envs * count, **ppo},
            env_steps=256 * iterations * count,
            num_envs=envs * count,
            normalization=normalization,
            sampling_warmup_iterations=30,
        )
        config = small_config(
            "mlp",
            {} if method else {"hidden": [8, 6]},
            protocol,
            seed=seed,
            checkpoint_interval_s=interval,
            tokens=TokenConfig(order=order),
        )
        task, spec = replace(TASK, horizon=10), TokenSpec(max_limbs=6, joints_per_limb=2)
        trainer = trainer_of(config, method or REGISTERED.get("mlp"), task, bodies, spec)
        return TrainerInFolder(trainer, config, tmp_path / name)

    return make
