"""Share of a policy's arithmetic that goes into padding when unlike bodies share a batch.

Counted, not timed: the multiplications and additions of matrix products and attention in one
forward pass of the actor over a minibatch of training, which are the same on every machine. What
is needed is what the same bodies take when every batch holds bodies of one size and the layout has
exactly as many slots.
"""

import warnings
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from gmc_bench.conformance.tokens import random_table, take_bodies
from gmc_bench.core.table import Table
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.policies.torch_state import forked_rng, torch_threads
from gmc_bench.profiling.report import Report
from gmc_bench.profiling.setting import Setting
from gmc_bench.tokens.spec import TokenSpec


def profile_padding(setting: Setting) -> Report:
    """Count the arithmetic of methods on a batch that mixes the bodies of a set.

    Only the sizes of the bodies matter; their trees and features are random.

    Returns:
        `methods`: for each id its `preset`, `mflop` per environment of the mixed batch,
        `needed_mflop` per environment, and `waste`, the share of the former that is not needed (0
        of a network without matrix products); `limbs`: smallest, mean and largest number; `rows`;
        `slots`; `setting`.

    Raises:
        ConfigError: the suite's bodies are not made of limbs, or two methods have one id.
    """
    setting.require_limbs("padding")
    sizes = [body.num_limbs for body in setting.bodies]
    with torch_threads(setting.num_threads), forked_rng():
        found = {method.id: _profile(method, setting, sizes) for method in setting.each_method()}
    limbs = {
        "smallest": min(sizes),
        "mean": float(np.mean(sizes)),
        "largest": max(sizes),
    }
    envs, slots = _rows(setting), setting.spec.max_limbs
    title = (
        f"arithmetic of a batch of {envs} environments, bodies of {limbs['smallest']} to "
        f"{limbs['largest']} limbs (mean {limbs['mean']:.1f}) in {slots} slots"
    )
    rows = [
        [name, f"{of['mflop']:.3f}", f"{of['needed_mflop']:.3f}", f"{100 * of['waste']:.1f} %"]
        for name, of in found.items()
    ]
    table = Table(("method", "MFLOP per body", "needed", "waste"), rows, title)
    figures = {"methods": found, "limbs": limbs, "rows": envs, "slots": slots}
    figures["setting"] = {"num_envs": envs}
    return setting.report("padding", [table], figures)


def _rows(setting: Setting) -> int:
    """Return the environments of the batch: a minibatch of training in which all bodies occur."""
    count = len(setting.bodies)
    return -(-setting.protocol.ppo.batch_size // count) * count


def _profile(method: MethodSpec, setting: Setting, sizes: list[int]) -> dict[str, Any]:
    preset = setting.preset(method)
    config = method.make_config(preset)
    spec = TokenSpec(setting.spec.max_limbs, setting.spec.joints_per_limb)
    table = random_table(np.random.default_rng(0), spec, sizes)
    rows = _rows(setting)
    repeats = rows // len(sizes)
    mixed = _flops(method, config, table, repeats)
    needed = sum(
        _flops(method, config, _of_size(table, size), repeats) for size in sorted(set(sizes))
    )
    return {
        "preset": preset or "default",
        "mflop": mixed / rows / 1e6,
        "needed_mflop": needed / rows / 1e6,
        "waste": 1.0 - needed / mixed if mixed else 0.0,
    }


def _of_size(table: TokenTable, size: int) -> TokenTable:
    """Return the bodies of one size, without padding."""
    of_size = take_bodies(table, (table.num_limbs == size).nonzero().squeeze(1))
    arrays: dict[str, Any] = {
        field.name: value[:, :size] if value.dim() > 1 else value
        for field in fields(of_size)[1:]
        if (value := getattr(of_size, field.name)) is not None
    }
    return replace(of_size, spec=replace(table.spec, max_limbs=size), **arrays)


def _flops(method: MethodSpec, config: Any, table: TokenTable, repeats: int) -> int:
    """Return the floating-point operations of one forward pass over every body, repeated."""
    torch.manual_seed(0)
    spec, rows = table.spec, len(table) * repeats
    model = ActorCritic(method, config, spec, num_bodies=len(table)).eval()
    dynamic = torch.randn(rows, spec.max_limbs, spec.num_dynamic)
    tokens = TokenBatch(table, torch.arange(rows) % len(table), dynamic)
    history = model.one_step(model.initial_state(rows))
    # The counter knows matrix products alone, so attention and recurrences are taken apart into
    # them, and does not know those that add to a tensor in place.
    counter = FlopCounterMode(
        display=False, custom_mapping={torch.ops.aten.addmm_: _product_in_place}
    )
    with (
        warnings.catch_warnings(action="ignore"),  # that the switch of oneDNN has no TF32 here
        torch.no_grad(),
        sdpa_kernel(SDPBackend.MATH),
        torch.backends.mkldnn.flags(enabled=False),
        counter,
    ):
        assert model.distribution(tokens, history).mode.isfinite().all()
    return int(counter.get_total_flops())


def _product_in_place(_: Any, left: Any, right: Any, *__: Any, **___: Any) -> int:
    """Return the operations of `tensor.addmm_(left, right)`, given the shapes."""
    return int(2 * left[0] * left[1] * right[1])
