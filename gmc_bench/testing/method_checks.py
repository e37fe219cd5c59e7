"""The checks behind `check_method`: each returns quietly or raises `CheckFailedError`."""

import copy
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from gmc_bench.methods.policy import ActorCritic
from gmc_bench.methods.spec import MethodSpec
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.testing.tokens import (
    any_order,
    random_tokens,
    reorder,
    select,
    sibling_order,
    widen,
)
from gmc_bench.tokens.spec import TokenSpec

_SPEC = TokenSpec(max_limbs=12)
_NUM_LIMBS = (12, 5, 2, 9, 7)
_TOLERANCE = 1e-4
"""Relative to the largest output: float32 sums of some hundred terms in another order."""
_PADDING = 1e6
"""Written into padding: any use of it moves the outputs far beyond the tolerance."""


@dataclass(frozen=True)
class Subject:
    """A controller under test, in evaluation mode, with perturbed parameters."""

    method: MethodSpec
    config: Any
    policy: ActorCritic
    tokens: TokenBatch

    def networks(self) -> list[tuple[str, nn.Module]]:
        """Return both networks with their names."""
        return [("actor", self.policy.actor), ("critic", self.policy.critic)]


class CheckFailedError(Exception):
    """A check found a difference; the text says what was found and expected."""


def make_subject(method: MethodSpec, preset: str | None) -> Subject:
    """Build a controller for random bodies of 2 to 12 limbs.

    Parameters are perturbed, so that heads which start at zero count too.
    """
    torch.manual_seed(0)
    config = method.make_config(preset)
    policy = ActorCritic(method, config, _SPEC).eval()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    tokens = random_tokens(np.random.default_rng(0), _SPEC, _NUM_LIMBS, batch_size=7)
    return Subject(method, config, policy, tokens)


def _check_parameters(subject: Subject) -> None:
    """The published parameter counts are those of the networks."""
    for preset, expected in subject.method.parameters.items():
        policy = ActorCritic(subject.method, subject.method.make_config(preset), _SPEC)
        if policy.num_parameters() != expected:
            raise CheckFailedError(
                f"preset {preset!r} has {policy.num_parameters()} trainable parameters, but the "
                f"spec says {expected}"
            )


def _check_shapes(subject: Subject) -> None:
    """Batches of 1 and 7 give (B, L, num_outputs)."""
    for size in (1, 7):
        tokens = select(subject.tokens, range(size))
        outputs = (_SPEC.actions_per_token, 1)
        for (name, network), width in zip(subject.networks(), outputs, strict=True):
            shape = tuple(_forward(network, tokens).shape)
            if shape != (size, _SPEC.max_limbs, width):
                raise CheckFailedError(
                    f"the {name} returned {shape}, expected {(size, _SPEC.max_limbs, width)}"
                )


def _check_finite(subject: Subject) -> None:
    """Outputs of real limbs are finite."""
    real = ~subject.tokens.limb_padding_mask
    for name, network in subject.networks():
        if not _forward(network, subject.tokens)[real].isfinite().all():
            raise CheckFailedError(f"the {name} returned numbers that are not finite")


def _check_inputs_kept(subject: Subject) -> None:
    """A forward pass leaves its inputs as they are; actor and critic share them."""
    fields = ("dynamic", "features", "packed_features", "limb_padding_mask", "parents")
    for name, network in subject.networks():
        tokens = select(subject.tokens, range(len(subject.tokens)))
        before = {field: getattr(tokens, field).clone() for field in fields}
        table = copy.deepcopy(tokens.table)
        _forward(network, tokens)
        changed = [
            field for field in fields if not torch.equal(before[field], getattr(tokens, field))
        ]
        if not torch.equal(table.context, tokens.table.context):
            changed.append("table.context")
        if changed:
            raise CheckFailedError(f"the {name} changed its input: {', '.join(changed)}")


def _check_padding(subject: Subject) -> None:
    """Numbers in padding change nothing on real limbs."""
    tokens = subject.tokens
    dynamic = tokens.dynamic.masked_fill(tokens.limb_padding_mask.unsqueeze(-1), _PADDING)
    filled = TokenBatch(tokens.table, tokens.morphology_index, dynamic)
    for name, network in subject.networks():
        expected = _forward(network, tokens)
        _compare(
            name, _forward(network, filled), expected, tokens, f"filling padding with {_PADDING:g}"
        )


def _check_batch(subject: Subject) -> None:
    """Bodies in one batch do not influence each other."""
    for name, network in subject.networks():
        together = _forward(network, subject.tokens)
        for row in range(len(subject.tokens)):
            alone = select(subject.tokens, [row])
            _compare(
                name,
                together[row : row + 1],
                _forward(network, alone),
                alone,
                "other bodies in the batch",
            )


def _check_slots(subject: Subject) -> None:
    """More token slots change nothing on real limbs; tables per slot may grow at their end."""
    wide = widen(subject.tokens, _SPEC.max_limbs + 3)
    policy = ActorCritic(subject.method, subject.config, wide.spec).eval()
    state = policy.state_dict()
    for name, value in subject.policy.state_dict().items():
        state[name][tuple(slice(0, size) for size in value.shape)] = value
    policy.load_state_dict(state)
    for name, network in subject.networks():
        expected = _forward(network, subject.tokens)
        found = _forward(getattr(policy, name), wide)[:, : _SPEC.max_limbs]
        _compare(name, found, expected, subject.tokens, "adding token slots")


def _check_gradients(subject: Subject) -> None:
    """Every trainable parameter gets a gradient."""
    tokens = subject.tokens
    for name, network in subject.networks():
        network.zero_grad()
        output = network(tokens)[~tokens.limb_padding_mask]
        (output * torch.randn_like(output)).sum().backward()
        without = [
            key
            for key, parameter in network.named_parameters()
            if parameter.requires_grad and (parameter.grad is None or not parameter.grad.any())
        ]
        network.zero_grad()
        if without:
            raise CheckFailedError(
                f"{len(without)} parameters of the {name} get no gradient: {', '.join(without[:5])}"
            )


def _check_state_dict(subject: Subject) -> None:
    """Saved and loaded weights give the same outputs."""
    file = io.BytesIO()
    torch.save(subject.policy.state_dict(), file)
    file.seek(0)
    torch.manual_seed(1)
    fresh = ActorCritic(subject.method, subject.config, _SPEC).eval()
    fresh.load_state_dict(torch.load(file, weights_only=True))
    real = ~subject.tokens.limb_padding_mask
    for name, network in subject.networks():
        found = _forward(getattr(fresh, name), subject.tokens)[real]
        if not torch.equal(found, _forward(network, subject.tokens)[real]):
            raise CheckFailedError(
                f"the {name} differs after its state dict was saved and loaded; register every "
                f"tensor as a parameter or buffer"
            )


def _check_seed(subject: Subject) -> None:
    """The same seed builds the same networks."""
    states = []
    for _ in range(2):
        torch.manual_seed(2)
        states.append(ActorCritic(subject.method, subject.config, _SPEC).state_dict())
    for key, value in states[0].items():
        if not torch.equal(value, states[1][key]):
            raise CheckFailedError(
                f"{key!r} differs between two builds with the same torch seed; draw initial "
                f"values from torch's global generator only"
            )


def _check_permutation(subject: Subject) -> None:
    """The claim about the order of limbs holds, whichever it is."""
    claimed = subject.method.capabilities.permutation_equivariant
    tokens = subject.tokens
    order = any_order(np.random.default_rng(1), tokens) if claimed else sibling_order(tokens)
    reordered = reorder(tokens, order)
    rows = torch.arange(len(tokens)).unsqueeze(1)
    for name, network in subject.networks():
        expected = _forward(network, tokens)[rows, order]
        found = _forward(network, reordered)
        if claimed:
            _compare(name, found, expected, reordered, "reordering the limbs")
        elif _difference(found, expected, reordered) <= _TOLERANCE:
            raise CheckFailedError(
                f"the {name} does not depend on the order of limbs; declare the capability "
                f"'permutation_equivariant'"
            )


def _check_graph(subject: Subject) -> None:
    """The claim about reading the limb tree holds, whichever it is."""
    claimed = subject.method.capabilities.uses_graph
    tokens = subject.tokens
    star = tokens.table.parents.clamp(max=0)  # every limb hangs on the torso
    table = replace(tokens.table, parents=star)
    other = TokenBatch(table, tokens.morphology_index, tokens.dynamic)
    for name, network in subject.networks():
        difference = _difference(_forward(network, other), _forward(network, tokens), tokens)
        if (difference > _TOLERANCE) != claimed:
            raise CheckFailedError(
                f"another limb tree changes the {name}'s outputs by {difference:.1e} of the "
                f"largest, but the capability 'uses_graph' is {claimed}"
            )


CHECKS: dict[str, Callable[[Subject], None]] = {
    "parameter counts": _check_parameters,
    "output shapes": _check_shapes,
    "finite outputs": _check_finite,
    "inputs unchanged": _check_inputs_kept,
    "padding ignored": _check_padding,
    "bodies independent": _check_batch,
    "more token slots": _check_slots,
    "gradients": _check_gradients,
    "state dict": _check_state_dict,
    "seeded build": _check_seed,
    "limb order": _check_permutation,
    "limb tree": _check_graph,
}
"""Name to check, in the order of the report."""


def _forward(network: nn.Module, tokens: TokenBatch) -> torch.Tensor:
    with torch.no_grad():
        output: torch.Tensor = network(tokens)
    return output


def _difference(found: torch.Tensor, expected: torch.Tensor, tokens: TokenBatch) -> float:
    """Return the largest difference on real limbs, relative to the largest expected number."""
    real = ~tokens.limb_padding_mask
    scale = expected[real].abs().max().clamp(min=1e-6)
    return float((found[real] - expected[real]).abs().max() / scale)


def _compare(
    name: str, found: torch.Tensor, expected: torch.Tensor, tokens: TokenBatch, cause: str
) -> None:
    difference = _difference(found, expected, tokens)
    if not difference <= _TOLERANCE:
        raise CheckFailedError(
            f"{cause} changes the {name}'s outputs of real limbs by {difference:.1e} of the "
            f"largest; at most {_TOLERANCE:g} is rounding"
        )
