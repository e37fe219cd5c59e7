"""Checks that a network is the same however built and run: saved, in parts, reduced, compiled."""

import io
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch

from gmc_bench.conformance.dropout import without_dropout
from gmc_bench.conformance.method_layouts import require_finite_outputs
from gmc_bench.conformance.method_subject import (
    NETWORKS,
    PADDING,
    TOLERANCE,
    CheckFailedError,
    NotComparableError,
    NotRebuiltError,
    PolicyInput,
    Subject,
    call,
    compare,
    gradients_of,
    outputs_of,
    perturb,
)
from gmc_bench.methods.policy import ActorCritic, shared_tensors
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.suites.unimal import SUITE

_ROLLOUT = math.gcd(*(protocol.rollout_length for protocol in SUITE.protocols.values()))
"""Control steps of which the rollouts of every shipped protocol are a multiple."""
_NUM_UPDATES = 10
"""Gradient steps, each after two control steps, before a policy is saved."""
_REDUCED_TOLERANCE = 0.05
"""Relative to the largest output. bfloat16 keeps 8 bits: each layer rounds by up to 2^-9 = 0.2 %,
and errors of some twenty layers in a row, with gains around one, add up to a few percent."""
_REDUCED_COSINE = 0.995
"""Random errors of 5 % of the outputs' size leave a cosine of 0.9987; a wrong sign far less."""
_COMPILED_TOLERANCE = 1e-4
"""Relative to the largest number: compilers fuse and reorder float32 sums."""


class CheckSkippedError(Exception):
    """A check was not made; the text says why."""


def check_state_dict(subject: Subject) -> str:
    """Saved and loaded weights give the same outputs, also those of a policy that has been at work.

    A resumed run has nothing else: what a network counts or keeps beside its parameters and buffers
    is lost, or stays from before.
    """
    scene, policy = subject.scene, _reloaded(subject, subject.policy)
    cause = (
        "a tensor that is neither parameter nor persistent buffer: saving and loading the state "
        "dict"
    )
    for name in NETWORKS:
        expected = outputs_of(subject.policy, name, scene)
        try:
            compare(cause, name, outputs_of(policy, name, scene), expected, scene.tokens, 0.0)
        except CheckFailedError as failure:
            raise NotRebuiltError(str(failure)) from failure
    before = _in_both_modes(policy, scene)
    _put_to_work(policy, scene.select(range(2)))
    try:
        require_finite_outputs(policy, scene)
    except CheckFailedError as failure:
        raise CheckFailedError(
            f"after {_NUM_UPDATES} gradient steps on the mean square of outputs, {failure}"
        ) from failure
    after = _in_both_modes(policy, scene)
    cause = (
        f"something that is neither parameter nor buffer: saving and loading the state dict after "
        f"{_NUM_UPDATES} steps of training"
    )
    _compare_runs(cause, _in_both_modes(_reloaded(subject, policy), scene), after, scene)
    policy.load_state_dict(subject.policy.state_dict())
    cause = "going back to the weights of before, after some steps of training,"
    _compare_runs(cause, _in_both_modes(policy, scene), before, scene)
    return f"bit for bit, also after {_NUM_UPDATES} steps of training"


def _reloaded(subject: Subject, policy: ActorCritic) -> ActorCritic:
    """Return a new policy, in evaluation mode, with the weights of another one."""
    file = io.BytesIO()
    torch.save(policy.state_dict(), file)
    file.seek(0)
    torch.manual_seed(1)
    fresh = subject.build()
    fresh.load_state_dict(torch.load(file, weights_only=True))
    return fresh


def _put_to_work(policy: ActorCritic, scene: PolicyInput) -> None:
    """Act and train in turns, as a run does; the policy is in evaluation mode afterwards."""
    parameters = [value for value in policy.parameters() if value.requires_grad]
    optimizer = torch.optim.Adam(parameters or [torch.zeros(1)], lr=1e-4)
    with torch.random.fork_rng(devices=[]):
        for _ in range(_NUM_UPDATES):
            policy.eval()
            with fixed_weights(policy):
                _, state = policy.act(scene.tokens, scene.state, None)
                policy.act(scene.tokens, state, None)
            policy.train()
            optimizer.zero_grad()
            for name in NETWORKS:
                outputs = call(policy, name, scene)[~scene.tokens.limb_padding_mask]
                if outputs.requires_grad:
                    outputs.square().mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    policy.eval()


_Outputs = tuple[dict[str, torch.Tensor], torch.Tensor]
"""Outputs (B, L, O) of actor and critic, and the state (B, L, S) after the step."""


def _in_both_modes(policy: ActorCritic, scene: PolicyInput) -> dict[str, _Outputs]:
    """Return what a policy puts out in evaluation and training mode, always with one seed."""
    found = {}
    for mode in ("evaluation", "training"):
        policy.train(mode == "training")
        outputs = {name: _seeded_run(policy, name, scene, 1).outputs for name in NETWORKS}
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(1)
            found[mode] = (outputs, policy.step(scene.tokens, scene.state)[1])
    policy.eval()
    return found


def _compare_runs(
    cause: str, found: dict[str, _Outputs], expected: dict[str, _Outputs], scene: PolicyInput
) -> None:
    """Hold what `_in_both_modes` returned against another one, bit for bit."""
    real = ~scene.tokens.limb_padding_mask
    for mode, (outputs, state) in expected.items():
        others, other = found[mode]
        where = f"{cause} in {mode} mode"
        for name in NETWORKS:
            compare(where, name, others[name], outputs[name], scene.tokens, 0.0)
        if not torch.equal(other[real], state[real]):
            raise CheckFailedError(f"{where} changes the memory that the policy returns")


def check_seed(subject: Subject) -> str:
    """The same seed builds the same networks, another one is not put in its place.

    Builds have no tensor in common, so that training one policy leaves the others alone.
    """
    policies, ends = [], []
    for seed in (3, 2, 2):
        torch.manual_seed(seed)
        policies.append(subject.build())
        ends.append(torch.get_rng_state())
    if names := shared_tensors(policies[0], policies[1]):
        raise CheckFailedError(
            f"two builds share {names[0]!r}, expected tensors of their own; make all modules anew "
            f"in the builder, because training one policy would change the other"
        )
    states = [policy.state_dict() for policy in policies]
    if torch.equal(ends[0], ends[1]):
        raise CheckFailedError(
            "builds with different torch seeds leave torch's global generator in the same state, "
            "which makes the seeds of a comparison one; do not seed it in builder or network"
        )
    for key, value in states[1].items():
        if not torch.equal(value, states[2][key]):
            raise CheckFailedError(
                f"{key!r} differs between two builds with the same torch seed; draw initial "
                f"values from torch's global generator only"
            )
    return ""


def check_repeatable(subject: Subject) -> str:
    """The same input gives the same bits, twice in a row; also in training mode.

    There dropout may draw from torch's generator, so that resumed runs end in the same bits, and
    seeds stay different ones. Policies are trained in this mode and scored in evaluation mode: what
    draws nothing once dropout is left out must be the same policy in both.
    """
    scene, policy, evaluated = subject.scene, subject.policy, {}
    for name in NETWORKS:
        evaluated[name], again = (outputs_of(policy, name, scene) for _ in range(2))
        try:
            compare("calling it again", name, again, evaluated[name], scene.tokens, 0.0)
        except CheckFailedError as failure:
            raise NotComparableError(str(failure)) from failure
    # The same network, because a new one may differ for a cause that the state dict has.
    with _in_training(policy):
        compared = [_repeats_in_training(policy, name, scene, evaluated[name]) for name in NETWORKS]
    end = "" if all(compared) else "; draws otherwise than by dropout in training"
    return f"bit for bit{end}"


@contextmanager
def _in_training(policy: ActorCritic) -> Iterator[None]:
    """Put a policy into training mode; afterwards its mode and its numbers are as before."""
    before = {key: value.clone() for key, value in policy.state_dict().items()}
    policy.train()
    try:
        yield
    finally:
        policy.eval()
        policy.load_state_dict(before)


def _repeats_in_training(
    policy: ActorCritic, name: str, scene: PolicyInput, evaluated: torch.Tensor
) -> bool:
    """Raise unless a network in training mode does the same for the same seed.

    Args:
        policy: in training mode.
        name: of the network.
        scene: what it sees.
        evaluated: (B, L, O), its outputs in evaluation mode.

    Returns:
        Whether they could be compared with those without dropout.
    """
    runs = [_seeded_run(policy, name, scene, seed) for seed in (1, 1, 2)]
    cause = "calling it again in training mode, with the same torch seed,"
    compare(cause, name, runs[1].outputs, runs[0].outputs, scene.tokens, 0.0)
    _require_own_draws(policy, name, runs[0], runs[2])
    with without_dropout(policy):
        undropped = _seeded_run(policy, name, scene, 1)
    if undropped.drawn:
        return False
    cause = "training mode, apart from dropout,"
    compare(cause, name, undropped.outputs, evaluated, scene.tokens)
    return True


@dataclass(frozen=True)
class _Run:
    """Outputs (B, L, O) of a network, and what it has done to torch's generator."""

    outputs: torch.Tensor
    drawn: bool
    """Whether the generator has moved."""
    end: torch.Tensor
    """The generator's state afterwards."""


def _seeded_run(policy: ActorCritic, name: str, scene: PolicyInput, seed: int) -> _Run:
    with torch.random.fork_rng(devices=[]):  # the checks that follow draw what they always have
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        outputs = outputs_of(policy, name, scene)
        end = torch.get_rng_state()
    return _Run(outputs, not torch.equal(before, end), end)


def _require_own_draws(policy: ActorCritic, name: str, first: _Run, other: _Run) -> None:
    """Raise if a network sets torch's seed, or draws for some inputs only.

    Args:
        policy: in training mode.
        name: of the network.
        first: its run with one seed.
        other: its run with another one.
    """
    if torch.equal(first.end, other.end):
        raise CheckFailedError(
            f"in training mode the {name} leaves torch's global generator in the same state "
            f"whatever the seed, so all steps would draw the same numbers; do not seed it"
        )
    # Networks that draw nothing are trained side by side in threads.
    if first.drawn and not policy.draws_random_numbers:
        raise CheckFailedError(
            f"in training mode the {name} draws from torch's generator here, but not for features "
            f"of zero; let it draw for all inputs or for none"
        )


def check_sequence_length(subject: Subject) -> str:
    """The steps that training keeps together divide the rollouts of all protocols."""
    steps = subject.policy.sequence_length
    if _ROLLOUT % steps:
        raise CheckFailedError(
            f"'sequence_length' must divide {_ROLLOUT}, so that the rollouts of all protocols are "
            f"whole sequences, got {steps}"
        )
    return f"{steps} steps" if subject.claims.temporal else "no memory"


def check_fixed_weights(subject: Subject) -> str:
    """Keeping what depends on the bodies alone changes nothing, and is forgotten afterwards."""
    scene, policy = subject.scene, subject.build()
    policy.load_state_dict(subject.policy.state_dict())
    scenes = (scene.select([3, 1]), scene)  # the second one finds kept results
    cause = "calling it within `fixed_weights`"
    for name in NETWORKS:
        expected = [outputs_of(policy, name, item) for item in scenes]
        with fixed_weights(policy):
            found = [outputs_of(policy, name, item) for item in scenes]
        for item, new, old in zip(scenes, found, expected, strict=True):
            compare(cause, name, new, old, item.tokens)
    fresh = perturb(subject.build())
    policy.load_state_dict(fresh.state_dict())
    for name in NETWORKS:
        cause = "having run with other weights before"
        new, old = (outputs_of(item, name, scene) for item in (policy, fresh))
        compare(cause, name, new, old, scene.tokens)
    return "same outputs, nothing kept afterwards"


def check_padded_rows(subject: Subject) -> str:
    """A network that knows rows with padding treats real limbs as without."""
    policy, tokens, state = subject.policy, subject.scene.tokens, subject.scene.state
    if not policy.padded_rows:
        return "not declared"
    real = ~tokens.limb_padding_mask
    filled = tokens.dynamic.masked_fill(~real.unsqueeze(-1), PADDING)
    padded = PolicyInput(replace(tokens, dynamic=filled, padded=True), state)
    cause, worst = "rows of padding, which the attribute 'padded_rows' promises to bear,", 0.0
    for name in NETWORKS:
        expected, found = (call(policy, name, scene) for scene in (subject.scene, padded))
        worst = max(worst, compare(f"adding {cause}", name, found, expected.detach(), tokens))
        gradients = []
        for outputs in (expected, found):
            with torch.random.fork_rng(devices=[]):  # the same weighting for both
                torch.manual_seed(0)
                gradients.append(gradients_of(getattr(policy, name), outputs[real]))
        for key, own in gradients[0].items():
            error = float((gradients[1][key] - own).abs().max() / own.abs().max().clamp(min=1e-12))
            if not error <= TOLERANCE:
                raise CheckFailedError(
                    f"{cause} change the gradient of the {name}'s {key!r} by {error:.1%}; remove "
                    f"the attribute"
                )
    return f"largest difference {worst:.0e}"


def check_bfloat16(subject: Subject) -> str:
    """Forward and backward run under bfloat16 autocast, close to float32."""
    worst, least = 0.0, 1.0
    tokens = subject.scene.tokens
    real = ~tokens.limb_padding_mask
    cause = "running under bfloat16 autocast"
    for name in NETWORKS:
        expected = outputs_of(subject.policy, name, subject.scene)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = call(subject.policy, name, subject.scene)
        found = outputs.float()
        error = compare(cause, name, found, expected, tokens, _REDUCED_TOLERANCE)
        cosine = _cosine(found[real], expected[real])
        worst, least = max(worst, error), min(least, cosine)
        if not cosine >= _REDUCED_COSINE:
            raise CheckFailedError(
                f"{cause} turns the {name}'s outputs: their cosine with those of float32 is "
                f"{cosine:.4f}, expected at least {_REDUCED_COSINE}"
            )
        gradients = gradients_of(getattr(subject.policy, name), found[real])
        _require_float32_gradients(name, gradients)
    return f"largest difference {worst:.1%}, cosine {least:.5f}"


def _require_float32_gradients(name: str, gradients: dict[str, torch.Tensor]) -> None:
    for key, gradient in gradients.items():
        if gradient.dtype != torch.float32 or not gradient.isfinite().all():
            raise CheckFailedError(
                f"under bfloat16 autocast the gradient of the {name}'s {key!r} is {gradient.dtype} "
                f"with {int((~gradient.isfinite()).sum())} numbers that are not finite, expected "
                f"finite torch.float32"
            )


def check_compiled(subject: Subject) -> str:
    """The actor compiled by torch.compile gives the same outputs and gradients.

    The critic is the same network with one output; compiling takes seconds.
    """
    if subject.backend == "none":
        raise CheckSkippedError("skipped, as asked for")
    network, tokens = subject.policy.actor, subject.scene.tokens
    parameters = [p for p in network.parameters() if p.requires_grad]
    torch.compiler.reset()
    compiled: Any = torch.compile(network, backend=subject.backend)
    results = []
    for runner in (network, compiled):
        outputs = call(subject.policy, "actor", subject.scene, runner)
        total = outputs[~tokens.limb_padding_mask].square().sum()
        found = torch.autograd.grad(total, parameters, allow_unused=True) if parameters else ()
        flat = torch.cat([total.new_zeros(0), *(g.flatten() for g in found if g is not None)])
        results.append((outputs.detach(), flat))
    torch.compiler.reset()
    (expected, d_expected), (outputs, d_outputs) = results
    cause = f"compiling with {subject.backend}"
    error = compare(cause, "actor", outputs, expected, tokens, _COMPILED_TOLERANCE)
    cosine = _cosine(d_outputs, d_expected)
    if not cosine >= 1 - _COMPILED_TOLERANCE:
        raise CheckFailedError(
            f"{cause} changes the actor's gradients: their cosine with those of the network as it "
            f"is is {cosine:.5f}, expected 1"
        )
    return f"{subject.backend}; largest difference {error:.0e}"


def _cosine(found: torch.Tensor, expected: torch.Tensor) -> float:
    if torch.equal(found, expected):  # also if all numbers are zero
        return 1.0
    pair = (found.detach().double().flatten(), expected.double().flatten())
    return float(torch.nn.functional.cosine_similarity(*pair, dim=0))
