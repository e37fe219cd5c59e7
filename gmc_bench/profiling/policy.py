"""Choosing actions, beside a plain per-token network of the same size."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.envs.normalization import TokenNormalizer
from gmc_bench.evaluation.policy_file import token_table
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.profiling.setting import Setting

BATCHES = (1, 64, 1024)
ROUNDS = 8
"""Turns in which both sides are timed alternately."""


def profile_policy(setting: Setting) -> dict[str, Any]:
    """Measure actions per second of a method and of a per-token MLP with as many parameters.

    The reference sees every token slot, padding included, and lets tokens not communicate: it is
    what the same number of weights costs without any structure.

    Returns:
        For each batch size `actions_per_s_...`, `mlp_per_s_...` and their `ratio_...`, what
        each means, and the setting.
    """
    torch.set_num_threads(setting.num_threads)
    torch.manual_seed(0)
    settings = setting.method.make_config(setting.protocol.preset)
    model = ActorCritic(setting.method, settings, setting.spec, setting.protocol.action_std).eval()
    size = sum(parameter.numel() for parameter in model.actor.parameters())
    mlp = _per_token_mlp(setting.spec.num_features, setting.spec.actions_per_token, size)
    figures: dict[str, Any] = {}
    explained: dict[str, str] = {}
    for batch in BATCHES:
        tokens = _tokens(setting, batch)
        generator = torch.Generator().manual_seed(0)
        sides = (
            lambda tokens=tokens, generator=generator: model.act(
                tokens, model.initial_state(len(tokens)), generator
            ),
            lambda tokens=tokens: mlp(tokens.features),
        )
        with torch.no_grad():
            ours, plain = _rates(sides, batch, setting.seconds / len(BATCHES))
        figures[f"actions_per_s_batch_{batch}"] = ours
        figures[f"mlp_per_s_batch_{batch}"] = plain
        figures[f"ratio_to_mlp_batch_{batch}"] = ours / plain
        explained[f"actions_per_s_batch_{batch}"] = f"{setting.method.id}, {size:,} parameters"
        explained[f"mlp_per_s_batch_{batch}"] = "per-token MLP of equal size, all slots"
        explained[f"ratio_to_mlp_batch_{batch}"] = "first / second"
    return {**figures, "explained": explained, "setting": setting.describe()}


def _per_token_mlp(inputs: int, outputs: int, parameters: int) -> nn.Module:
    # inputs * w + w + w * w + w + w * outputs + outputs = parameters, solved for w
    linear = inputs + outputs + 2
    width = int((-linear + np.sqrt(linear**2 + 4 * (parameters - outputs))) / 2)
    return nn.Sequential(
        nn.Linear(inputs, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, outputs),
    ).eval()


def _tokens(setting: Setting, batch: int) -> TokenBatch:
    core = EnvironmentCore(
        setting.task, setting.bodies, batch, token_spec=setting.spec, num_threads=setting.threads
    )
    rows = np.arange(batch)
    core.reset(rows, rows % len(setting.bodies))
    normalizer = TokenNormalizer(core.table)
    padding = core.table.limb_padding_mask[core.morphology_index]
    normalizer.update(core.dynamic, padding)
    return TokenBatch(
        token_table(core.table, normalizer),
        torch.from_numpy(core.morphology_index.copy()),
        torch.from_numpy(normalizer.normalize(core.dynamic, padding)),
    )


def _rates(
    sides: tuple[Callable[[], object], ...], batch: int, seconds: float
) -> tuple[float, ...]:
    """Return samples per second of each side, timed in turns."""
    for side in sides:
        side()
    spent, done = [0.0] * len(sides), [0] * len(sides)
    for _ in range(ROUNDS):
        for place, side in enumerate(sides):
            started = time.perf_counter()
            while time.perf_counter() - started < seconds / (ROUNDS * len(sides)):
                side()
                done[place] += 1
            spent[place] += time.perf_counter() - started
    return tuple(batch * count / time_ for count, time_ in zip(done, spent, strict=True))
