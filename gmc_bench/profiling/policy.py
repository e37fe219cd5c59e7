"""Choosing actions: latency, throughput and memory of many methods, measured in one run.

Every figure stands beside that of a plain per-token network with as many parameters, which sees
every token slot and lets tokens not communicate: what the same number of weights costs without
any structure. Bodies are random trees, all of the stated number of limbs, so that no method gains
from padding.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn
from tqdm import tqdm

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.profiling.memory import PeakMemory
from gmc_bench.profiling.setting import Setting
from gmc_bench.tokens.spec import TokenSpec

BATCHES = (1, 32, 512, 4096)
TOKENS = (12, 30, 64)
SCALING_TOKENS = (32, 64, 128, 256, 512, 1024)
SCALING_BATCH = 8
BODIES = 100
"""Different bodies in a table; a batch shows as many as it has room for."""
ROUNDS = 3
"""Turns in which both sides are timed alternately."""
MAX_SCALING_BYTES = 4 * 2**30
"""A method whose intermediate results would exceed this is not run at so many tokens."""


def profile_policy(setting: Setting) -> dict[str, Any]:
    """Measure how fast methods choose actions.

    Returns:
        `methods`: for each id its `preset`, `parameters` of the actor (of one body's, where each
        has its own), `cells` (tokens, batch,
        `latency_ms`, `samples_per_s`, `ratio_to_mlp`, `peak_mib`) and `scaling` (`tokens`,
        `latency_ms`, `slope`); `setting`: where it was measured.
    """
    torch.set_num_threads(setting.num_threads)
    with tqdm(setting.methods, unit="method", desc="profile") as methods:
        found = {method.id: _profile(method, setting) for method in methods}
    return {
        "methods": found,
        "reference": "per-token MLP with as many parameters as the actor, same run",
        "scaling_batch": SCALING_BATCH,
        "setting": setting.describe(),
    }


def _profile(method: MethodSpec, setting: Setting) -> dict[str, Any]:
    preset = setting.protocol.preset if setting.protocol.preset in method.presets else None
    config = method.make_config(preset)
    seconds = setting.seconds / (len(TOKENS) * len(BATCHES) + len(SCALING_TOKENS))
    cells = []
    size = 0
    for tokens in TOKENS:
        model = _policy(method, config, tokens, BODIES)
        size = sum(parameter.numel() for parameter in model.actor.parameters())
        if method.capabilities.per_body:
            size //= BODIES
        mlp = _per_token_mlp(model.spec.num_features, model.spec.actions_per_token, size)
        cells += [_cell(model, mlp, batch, seconds) for batch in BATCHES]
    return {
        "preset": preset or "default",
        "parameters": size,
        "cells": cells,
        "scaling": _scaling(method, config, seconds),
    }


def _cell(model: ActorCritic, mlp: nn.Module, batch: int, seconds: float) -> dict[str, Any]:
    tokens = _tokens(model.spec, batch)
    act = _actor(model, tokens)
    with fixed_weights(model):
        act()  # without counting: what depends on the bodies alone is computed now
        peak = _peak(act)
        ours, plain = _latencies((act, lambda: mlp(_same(tokens).features)), seconds)
    return {
        "tokens": model.spec.max_limbs,
        "batch": batch,
        "latency_ms": 1e3 * ours,
        "samples_per_s": batch / ours,
        "ratio_to_mlp": plain / ours,
        "peak_mib": peak / 2**20,
    }


def _scaling(method: MethodSpec, config: Any, seconds: float) -> dict[str, Any]:
    """Measure latency over token counts, and the slope of log time over log tokens."""
    counts, latencies = [], []
    for count in SCALING_TOKENS:
        model = _policy(method, config, count, SCALING_BATCH)
        act = _actor(model, _tokens(model.spec, SCALING_BATCH))
        with fixed_weights(model):
            act()
            if _peak(act) > MAX_SCALING_BYTES:
                break
            (latency,) = _latencies((act,), seconds)
        counts.append(count)
        latencies.append(1e3 * latency)
    slope = None
    if len(counts) > 1:
        slope = float(np.polyfit(np.log(counts), np.log(latencies), 1)[0])
    return {"tokens": counts, "latency_ms": latencies, "slope": slope}


def _policy(method: MethodSpec, config: Any, tokens: int, bodies: int) -> ActorCritic:
    torch.manual_seed(0)
    return ActorCritic(method, config, TokenSpec(tokens), num_bodies=bodies).eval()


def _tokens(spec: TokenSpec, batch: int) -> TokenBatch:
    bodies = min(BODIES, batch)
    return random_tokens(np.random.default_rng(0), spec, (spec.max_limbs,) * bodies, batch)


def _same(tokens: TokenBatch) -> TokenBatch:
    """Return the batch anew, so that what it works out on demand is part of the measurement."""
    return TokenBatch(tokens.table, tokens.morphology_index, tokens.dynamic)


def _actor(model: ActorCritic, tokens: TokenBatch) -> Callable[[], torch.Tensor]:
    """Return what chooses actions for a batch, with an empty memory where the method has one."""
    history = model.one_step(model.initial_state(len(tokens)))

    def act() -> torch.Tensor:
        return model.distribution(_same(tokens), history).mode

    return act


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


def _peak(run: Callable[[], object]) -> int:
    """Return the bytes that intermediate results take at most."""
    with torch.no_grad(), PeakMemory() as peak:
        run()
        found: int = peak.nbytes
    return found


def _latencies(
    sides: Sequence[Callable[[], object]], seconds: float, *, gradients: bool = False
) -> list[float]:
    """Return the median seconds per call of each side, timed in turns."""
    spent: list[list[float]] = [[] for _ in sides]
    with torch.set_grad_enabled(gradients):
        for side in sides:
            side()
        for _ in range(ROUNDS):
            for side, times in zip(sides, spent, strict=True):
                until = time.perf_counter() + seconds / (ROUNDS * len(sides))
                while not times or time.perf_counter() < until:
                    started = time.perf_counter()
                    side()
                    times.append(time.perf_counter() - started)
    return [median(times) for times in spent]


def policy_tables(figures: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield the tables of a measurement: title, headings, rows."""
    methods = figures["methods"]
    for tokens in TOKENS:
        headings = ["method", "actor params", *(f"ms, batch {batch}" for batch in BATCHES)]
        headings += ["samples/s", "ratio to MLP", "peak MiB"]
        rows = []
        for name, found in methods.items():
            cells = [cell for cell in found["cells"] if cell["tokens"] == tokens]
            rows.append(
                [
                    name,
                    f"{found['parameters']:,}",
                    *(f"{cell['latency_ms']:.2f}" for cell in cells),
                    f"{cells[-1]['samples_per_s']:,.0f}",
                    f"{cells[-1]['ratio_to_mlp']:.3f}",
                    f"{cells[-1]['peak_mib']:.1f}",
                ]
            )
        yield f"{tokens} tokens; the last three at batch {BATCHES[-1]}", headings, rows
    headings = ["method", "slope", *(f"ms, {count}" for count in SCALING_TOKENS)]
    rows = []
    for name, found in methods.items():
        scaling = found["scaling"]
        shown = [f"{value:.1f}" for value in scaling["latency_ms"]]
        shown += ["-"] * (len(SCALING_TOKENS) - len(shown))
        slope = "-" if scaling["slope"] is None else f"{scaling['slope']:.2f}"
        rows.append([name, slope, *shown])
    title = (
        f"latency over tokens, batch {figures['scaling_batch']}; slope of log time over log tokens"
    )
    yield title, headings, rows
