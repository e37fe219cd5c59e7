"""Subjects of the checks of controllers: built policies, their inputs, and differences."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from torch import nn

from gmc_bench.conformance.tokens import random_tokens, reorder_bodies, select, widen
from gmc_bench.core.errors import PluginError
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.methods.spec import Capabilities, MethodSpec
from gmc_bench.nn.history import History
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.tokens.spec import TokenSpec

N = TypeVar("N", bound=nn.Module)

SPEC = TokenSpec(max_limbs=12)
NUM_LIMBS = (12, 5, 2, 9, 7)
"""Limbs of the bodies: one fills the layout, the others leave padding."""
BATCH_SIZE = 7
NETWORKS = ("actor", "critic")
PADDING = 1e6
"""Written into padding: any use of it moves the outputs far beyond the tolerance."""
TOLERANCE = 1e-4
"""Relative to the largest output: float32 sums of some hundred terms in another order."""


class CheckFailedError(Exception):
    """A check found a difference; the text says what was found and expected."""


class NotComparableError(CheckFailedError):
    """Outputs have a wrong shape, are no numbers, or are others with every call.

    Comparisons of them say nothing.
    """


class NotRebuiltError(CheckFailedError):
    """A new network with the same weights is another one: comparisons with it say nothing."""


@dataclass(frozen=True)
class PolicyInput:
    """What a policy sees in one control step.

    Args:
        tokens: of B environments.
        state: (B, L, S), what the policy remembers; S is 0 without a memory.
    """

    tokens: TokenBatch
    state: torch.Tensor

    def select(self, environments: Sequence[int]) -> "PolicyInput":
        """Return some environments, in the given order."""
        return PolicyInput(select(self.tokens, environments), self.state[list(environments)])

    def widen(self, max_limbs: int) -> "PolicyInput":
        """Return the input with more token slots, all added ones padding."""
        extra = max_limbs - self.state.shape[1]
        added = self.state.new_zeros(len(self.tokens), extra, self.state.shape[2])
        return PolicyInput(widen(self.tokens, max_limbs), torch.cat((self.state, added), dim=1))

    def double(self) -> "PolicyInput":
        """Return the input in float64."""
        tokens, heights = self.tokens, self.tokens.height_map
        table = replace(
            tokens.table,
            context=tokens.table.context.double(),
            scaled_context=tokens.table.scaled_context.double(),
        )
        heights = None if heights is None else heights.double()
        wide = TokenBatch(table, tokens.morphology_index, tokens.dynamic.double(), heights)
        return PolicyInput(wide, self.state.double())

    def reorder(self, order: torch.Tensor) -> "PolicyInput":
        """Return the input with the limbs of every body in the order (M, L) int64."""
        rows = torch.arange(len(self.tokens)).unsqueeze(1)
        state = self.state[rows, order[self.tokens.morphology_index]]
        return PolicyInput(reorder_bodies(self.tokens, order), state)

    def fill_padding(self) -> "PolicyInput":
        """Return the input with `PADDING` in the padding of time-varying features and state.

        The table stays, because the token interface promises context of zero in padding.
        """
        padding = self.tokens.limb_padding_mask.unsqueeze(-1)
        dynamic = self.tokens.dynamic.masked_fill(padding, PADDING)
        state = self.state.masked_fill(padding, PADDING)
        return PolicyInput(replace(self.tokens, dynamic=dynamic), state)


@dataclass(frozen=True)
class Subject:
    """A controller under test, with one policy and one scene that most checks share."""

    method: MethodSpec
    preset: str | None
    config: Any
    backend: str
    policy: ActorCritic
    scene: PolicyInput

    @property
    def claims(self) -> Capabilities:
        """What the method claims in this preset."""
        return self.method.capabilities_of(self.preset)

    def build(self, spec: TokenSpec = SPEC) -> ActorCritic:
        """Build another policy, in evaluation mode, for the bodies of the scenes."""
        return build_policy(self.method, self.config, spec)


def make_subject(method: MethodSpec, preset: str | None, backend: str) -> Subject:
    """Build a controller for random bodies of 2 to 12 limbs.

    Raises:
        GmcBenchError: it cannot be built, or claims for the preset what building cannot follow.
    """
    common, own = method.capabilities, method.capabilities_of(preset)
    if (own.temporal, own.per_body) != (common.temporal, common.per_body):
        raise PluginError(
            f"preset {preset!r} of the method {method.id!r} differs in 'temporal' or 'per_body', "
            f"which must be the same in all presets because they decide how networks are called"
        )
    config = method.make_config(preset)
    torch.manual_seed(0)
    policy = perturb(build_policy(method, config))
    return Subject(method, preset, config, backend, policy, make_scene(policy))


def build_policy(method: MethodSpec, config: Any, spec: TokenSpec = SPEC) -> ActorCritic:
    """Build a policy, in evaluation mode, for the bodies of the scenes."""
    return ActorCritic(method, config, spec, num_bodies=len(NUM_LIMBS)).eval()


@torch.no_grad()
def perturb(networks: N) -> N:
    """Move every parameter, so that heads which start at zero count too; return the networks."""
    for parameter in networks.parameters():
        parameter.add_(0.05 * torch.randn_like(parameter))
    return networks


@torch.no_grad()
def make_scene(
    policy: ActorCritic, seed: int = 0, num_limbs: Sequence[int] = NUM_LIMBS
) -> PolicyInput:
    """Draw bodies and what they show; a policy with a memory has lived through two steps before."""
    rng = np.random.default_rng(seed)
    tokens = random_tokens(rng, policy.spec, num_limbs, BATCH_SIZE)
    state = policy.initial_state(len(tokens))
    for _ in range(2 if policy.temporal else 0):
        _, state = policy.step(show_again(rng, tokens), state)
        state = policy.remember(state, random_actions(rng, tokens))
    return PolicyInput(tokens, state)


def show_again(rng: np.random.Generator, tokens: TokenBatch) -> TokenBatch:
    """Return the same environments with other random time-varying features."""
    dynamic = torch.from_numpy(rng.standard_normal(tuple(tokens.dynamic.shape))).float()
    return replace(tokens, dynamic=dynamic)


def random_actions(rng: np.random.Generator, tokens: TokenBatch) -> torch.Tensor:
    """Draw standard normal actions (B, L, J), zero where there is no actuator."""
    mask = tokens.action_padding_mask
    drawn = torch.from_numpy(rng.standard_normal(tuple(mask.shape))).float()
    return drawn.masked_fill(mask, 0.0)


def call(
    policy: ActorCritic,
    name: str,
    scene: PolicyInput,
    network: nn.Module | None = None,
    history: History | None = None,
) -> torch.Tensor:
    """Run one network for one control step, whether it has a memory or not.

    Args:
        policy: whose network it is.
        name: `actor` or `critic`.
        scene: what it sees.
        network: run this in place of the policy's own network, e.g. a compiled one.
        history: show this in place of a new one with the scene's state.

    Returns:
        (B, L, num_outputs).
    """
    own = getattr(policy, name)
    history = history or policy.one_step(scene.state)
    runner = own if network is None else network
    if history is None:
        outputs: torch.Tensor = runner(scene.tokens)
        return outputs
    first = 0 if name == "actor" else policy.actor.state_width
    part = history.state[..., first : first + own.state_width]
    outputs, _ = runner(scene.tokens, replace(history, state=part))
    return outputs


def outputs_of(policy: ActorCritic, name: str, scene: PolicyInput) -> torch.Tensor:
    """Return a network's outputs (B, L, num_outputs), without gradient."""
    with torch.no_grad():
        return call(policy, name, scene)


def outputs_in_order(
    policy: ActorCritic, name: str, scene: PolicyInput, order: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, TokenBatch]:
    """Return outputs after reordering limbs, reordered outputs, and the tokens both belong to.

    Args:
        policy: whose network it is.
        name: of the network.
        scene: what it sees.
        order: (M, L) int64, see `PolicyInput.reorder`.
    """
    shuffled = scene.reorder(order)
    rows = torch.arange(len(scene.tokens)).unsqueeze(1)
    expected = outputs_of(policy, name, scene)[rows, order[scene.tokens.morphology_index]]
    return outputs_of(policy, name, shuffled), expected, shuffled.tokens


def gradients_of(network: nn.Module, outputs: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the gradient of a random weighting of outputs for every parameter that it reaches.

    Args:
        network: whose trainable parameters are asked about.
        outputs: of any shape, computed by the network.
    """
    weights = {key: value for key, value in network.named_parameters() if value.requires_grad}
    total = (outputs * torch.randn_like(outputs)).sum()
    if not total.requires_grad:
        return {}
    found = torch.autograd.grad(total, list(weights.values()), allow_unused=True)
    return {key: grad for key, grad in zip(weights, found, strict=True) if grad is not None}


def difference(found: torch.Tensor, expected: torch.Tensor, tokens: TokenBatch) -> float:
    """Return the largest difference on real limbs, relative to the largest expected number."""
    real = ~tokens.limb_padding_mask
    return float((found[real] - expected[real]).abs().max() / _scale(expected[real]))


def compare(
    cause: str,
    name: str,
    found: torch.Tensor,
    expected: torch.Tensor,
    tokens: TokenBatch,
    tolerance: float = TOLERANCE,
) -> float:
    """Hold outputs (B, L, O) of real limbs against others.

    Args:
        cause: what was changed, as the subject of the sentence, e.g. `"adding token slots"`.
        name: of the network.
        found: with the change.
        expected: without it.
        tokens: whose limbs these are.
        tolerance: allowed difference, relative to the largest expected number.

    Returns:
        The largest difference, relative to the largest expected number.

    Raises:
        CheckFailedError: a number differs by more, or either is not one; the text names the first.
    """
    if found.shape != expected.shape:
        raise CheckFailedError(
            f"{cause} changes the shape of the {name}'s outputs: {tuple(found.shape)}, "
            f"expected {tuple(expected.shape)}"
        )
    found, real = found.detach(), ~tokens.limb_padding_mask
    unknown = real.unsqueeze(-1) & ~expected.isfinite()
    if unknown.any():
        place = tuple(unknown.nonzero()[0].tolist())
        raise CheckFailedError(
            f"{cause} cannot be judged, because the {name}'s outputs to compare with are not "
            f"finite: {locate(tokens, place)} is {float(expected[place])}"
        )
    scale = _scale(expected[real])
    wrong = real.unsqueeze(-1) & ~((found - expected).abs() <= tolerance * scale)
    if wrong.any():
        place = tuple(wrong.nonzero()[0].tolist())
        raise CheckFailedError(
            f"{cause} changes the {name}'s outputs: {locate(tokens, place)} is "
            f"{float(found[place]):.6g}, expected {float(expected[place]):.6g} "
            f"(tolerance {tolerance * float(scale):.1e})"
        )
    return difference(found, expected, tokens)


def locate(tokens: TokenBatch, place: Sequence[int]) -> str:
    """Return words for the output `place` = (environment, slot, output)."""
    environment, slot, output = place
    return (
        f"environment {environment} (body {int(tokens.morphology_index[environment])} with "
        f"{int(tokens.num_limbs[environment])} limbs), slot {slot}, output {output}"
    )


def _scale(expected: torch.Tensor) -> torch.Tensor:
    return expected.abs().max().clamp(min=1e-6)
