"""Choosing actions: latency, throughput and memory of many methods, measured in one run.

Every figure stands beside that of a plain per-token network with as many parameters, which sees
every token slot and lets tokens not communicate: what the same number of weights costs without
any structure. Bodies are random trees, all of the stated number of limbs, so that no method gains
from padding.
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from gmc_bench.core.table import Table
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.policies.torch_state import forked_rng, torch_threads
from gmc_bench.profiling.report import Report
from gmc_bench.profiling.setting import Setting
from gmc_bench.profiling.timing import repeat, side, take_turns
from gmc_bench.profiling.workload import MIB, acting, anew, full_bodies, make_networks, peak_bytes

BATCHES = (1, 32, 512, 4096)
TOKENS = (12, 30, 64)
SCALING_TOKENS = (32, 64, 128, 256, 512, 1024)
SCALING_BATCH = 8
BODIES = 100
"""Different bodies in a table; a batch shows as many as it has room for."""
MAX_SCALING_BYTES = 4 * 2**30
"""A method whose intermediate results would exceed this is not run at so many tokens."""


def profile_policy(setting: Setting) -> Report:
    """Measure how fast methods choose actions.

    Returns:
        `methods`: for each id its `preset`, `parameters` of the actor (of one body's, where each
        has its own), `cells` (tokens, batch, `latency_ms`, `samples_per_s`, `ratio_to_mlp`,
        `peak_mib`) and `scaling` (`tokens`, `latency_ms`, `slope`); `setting`: where it was
        measured.

    Raises:
        ConfigError: the suite's bodies are not made of limbs, or two methods have one id.
    """
    setting.require_limbs("policy")
    with torch_threads(setting.num_threads), forked_rng():
        found = {method.id: _profile(method, setting) for method in setting.each_method()}
    figures = {
        "methods": found,
        "reference": "per-token MLP with as many parameters as the actor, same run",
        "scaling_batch": SCALING_BATCH,
    }
    sizes = f"{', '.join(map(str, TOKENS[:-1]))} and {TOKENS[-1]}"
    drawn = f"Random trees of {sizes} limbs, all token slots filled"
    return setting.report("policy", _tables(found), figures, drawn=drawn)


def _profile(method: MethodSpec, setting: Setting) -> dict[str, Any]:
    preset = setting.preset(method)
    seconds = setting.seconds / (len(TOKENS) * len(BATCHES) + len(SCALING_TOKENS))
    cells = []
    size = 0
    for tokens in TOKENS:
        model = make_networks(method, preset, tokens, BODIES)
        size = sum(parameter.numel() for parameter in model.actor.parameters())
        if method.capabilities.per_body:
            size //= BODIES
        mlp = per_token_mlp(model.spec.num_features, model.spec.actions_per_token, size)
        cells += [measure_cell(model, mlp, batch, seconds) for batch in BATCHES]
    return {
        "preset": preset or "default",
        "parameters": size,
        "cells": cells,
        "scaling": _scaling(method, preset, seconds),
    }


def measure_cell(model: ActorCritic, mlp: nn.Module, batch: int, seconds: float) -> dict[str, Any]:
    """Measure acting on one batch of bodies that fill every slot, beside the plain network."""
    tokens = full_bodies(model.spec, min(BODIES, batch), batch)
    act = acting(model, tokens)

    def act_plainly() -> None:
        with torch.no_grad():
            mlp(anew(tokens).features)

    with fixed_weights(model):
        act()  # without counting: what depends on the bodies alone is computed now
        peak = peak_bytes(act)
        found = take_turns({"ours": side(act, batch), "mlp": side(act_plainly)}, seconds / 2)
    ours = found["ours"]
    return {
        "tokens": model.spec.max_limbs,
        "batch": batch,
        "latency_ms": 1e3 * ours.median,
        "samples_per_s": batch / ours.median,
        "ratio_to_mlp": found["mlp"].median / ours.median,
        "peak_mib": peak / MIB,
    }


def _scaling(method: MethodSpec, preset: str | None, seconds: float) -> dict[str, Any]:
    """Measure latency over token counts, and the slope of log time over log tokens."""
    counts, latencies = [], []
    for count in SCALING_TOKENS:
        model = make_networks(method, preset, count, SCALING_BATCH)
        act = acting(model, full_bodies(model.spec, SCALING_BATCH, SCALING_BATCH))
        with fixed_weights(model):
            act()
            if peak_bytes(act) > MAX_SCALING_BYTES:
                break
            latencies.append(1e3 * repeat(act, seconds).median)
        counts.append(count)
    slope = None
    if len(counts) > 1:
        slope = float(np.polyfit(np.log(counts), np.log(latencies), 1)[0])
    return {"tokens": counts, "latency_ms": latencies, "slope": slope}


def per_token_mlp(inputs: int, outputs: int, parameters: int) -> nn.Module:
    """Return the plain network of about so many parameters."""
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


def _tables(methods: dict[str, Any]) -> list[Table]:
    headings = ("method", "actor params", *(f"ms, batch {batch}" for batch in BATCHES),
                "samples/s", "ratio to MLP", "peak MiB")  # fmt: skip
    tables = []
    for tokens in TOKENS:
        rows = []
        for name, found in methods.items():
            cells = [cell for cell in found["cells"] if cell["tokens"] == tokens]
            last = cells[-1]
            rows.append(
                [
                    name,
                    f"{found['parameters']:,}",
                    *(f"{cell['latency_ms']:.2f}" for cell in cells),
                    f"{last['samples_per_s']:,.0f}",
                    f"{last['ratio_to_mlp']:.3f}",
                    f"{last['peak_mib']:.1f}",
                ]
            )
        title = f"{tokens} tokens; the last three at batch {BATCHES[-1]}"
        tables.append(Table(headings, rows, title))
    rows = []
    for name, found in methods.items():
        scaling = found["scaling"]
        shown = [f"{value:.1f}" for value in scaling["latency_ms"]]
        slope = "-" if scaling["slope"] is None else f"{scaling['slope']:.2f}"
        rows.append([name, slope, *shown, *["-"] * (len(SCALING_TOKENS) - len(shown))])
    title = f"latency over tokens, batch {SCALING_BATCH}; slope of log time over log tokens"
    headings = ("method", "slope", *(f"ms, {count}" for count in SCALING_TOKENS))
    return [*tables, Table(headings, rows, title)]
