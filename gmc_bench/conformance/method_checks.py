"""The checks behind `check_method`: each returns what it found or raises `CheckFailedError`."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch

from gmc_bench.conformance.method_claims import (
    check_body_weights,
    check_memory,
    check_order,
    check_sequences,
    check_tree,
)
from gmc_bench.conformance.method_execution import (
    check_bfloat16,
    check_compiled,
    check_fixed_weights,
    check_padded_rows,
    check_repeatable,
    check_seed,
    check_sequence_length,
    check_state_dict,
)
from gmc_bench.conformance.method_gradients import DRAWS, check_gradients, require_gradients
from gmc_bench.conformance.method_layouts import (
    check_layouts,
    require_finite_outputs,
    require_shapes,
)
from gmc_bench.conformance.method_loops import check_loops
from gmc_bench.conformance.method_representations import check_representations
from gmc_bench.conformance.method_subject import (
    NETWORKS,
    PADDING,
    SPEC,
    TOLERANCE,
    CheckFailedError,
    NotComparableError,
    NotRebuiltError,
    PolicyInput,
    Subject,
    call,
    compare,
    difference,
    make_scene,
    outputs_of,
    perturb,
)
from gmc_bench.conformance.tokens import join_bodies, take_bodies
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.methods.spec import LITE_PARAMETERS, LITE_SPREAD
from gmc_bench.nn.history import History
from gmc_bench.tokens.spec import TokenSpec

_NUM_HEIGHTS = 30


def _check_parameters(subject: Subject) -> str:
    """The stated parameter counts are those of the networks; all of them without a preset.

    That of `lite` is within the limits that make scores compare architectures.
    """
    method = subject.method
    presets = method.parameters if subject.preset is None else (subject.preset,)
    counts = []
    for preset in presets:
        found = ActorCritic(method, method.make_config(preset), SPEC).num_parameters()
        expected = method.parameters.get(preset)
        if found != expected:
            stated = "nothing" if expected is None else f"{expected:,}"
            raise CheckFailedError(
                f"preset {preset!r} has {found:,} trainable parameters in actor and critic, but "
                f"the spec's 'parameters' states {stated}"
            )
        if preset == "lite" and method.trainable:
            _require_size(found)
        counts.append(f"{found:,}")
    return ", ".join(counts)


def _require_size(count: int) -> None:
    least = math.ceil(LITE_PARAMETERS * (1 - LITE_SPREAD))
    most = math.floor(LITE_PARAMETERS * (1 + LITE_SPREAD))
    if not least <= count <= most:
        raise CheckFailedError(
            f"the preset 'lite' has {count:,} trainable parameters in actor and critic, expected "
            f"{least:,} to {most:,}, so that scores compare architectures; change its width"
        )


def _check_shapes(subject: Subject) -> str:
    """Batches of 1 and 7 give (B, L, num_outputs)."""
    try:
        for size in (1, 7):
            require_shapes(subject.policy, subject.scene.select(range(size)))
    except CheckFailedError as failure:
        raise NotComparableError(str(failure)) from failure
    return "batches of 1 and 7"


def _check_finite(subject: Subject) -> str:
    """Outputs of real limbs are finite."""
    try:
        require_finite_outputs(subject.policy, subject.scene)
    except CheckFailedError as failure:
        raise NotComparableError(str(failure)) from failure
    return ""


def _check_inputs_kept(subject: Subject) -> str:
    """A forward pass leaves its inputs as they are; actor and critic share them."""
    for name in NETWORKS:
        scene = subject.scene.select(range(len(subject.scene.tokens)))
        history = subject.policy.one_step(scene.state)
        inputs = _inputs(scene, history)
        before = {key: value.clone() for key, value in inputs.items()}
        with torch.no_grad():
            call(subject.policy, name, scene, history=history)
        changed = [key for key, value in inputs.items() if not torch.equal(before[key], value)]
        for key, value in before.items():
            inputs[key].copy_(value)  # the checks that follow share the table
        if changed:
            raise CheckFailedError(
                f"the {name} changed its input: {', '.join(changed)}; work on a copy"
            )
    return ""


_SHARED = (
    "morphology_index", "dynamic", "features", "packed_features", "packed_parents", "packed_edges",
    "parents", "num_limbs", "limb_padding_mask", "action_padding_mask",
)  # fmt: skip
"""Of a token batch, what is kept for both networks and for the distribution of actions."""


def _inputs(scene: PolicyInput, history: History | None) -> dict[str, torch.Tensor]:
    tokens, table = scene.tokens, scene.tokens.table
    graph = ("adjacency", "distance", "degree", "limb_type")
    past = () if history is None else ("previous_actions", "starts")
    return {
        "state": scene.state,
        **{f"history.{key}": getattr(history, key) for key in past},
        **{f"tokens.{key}": getattr(tokens, key) for key in _SHARED},
        "tokens.packing.slots": tokens.packing.slots,
        **{f"table.{name}": value for name, value in table.tensors().items()},
        **{f"table.graph.{key}": getattr(table.graph, key) for key in graph},
    }


def _check_padding(subject: Subject) -> str:
    """Numbers in padding change nothing on real limbs."""
    cause = f"filling padding with {PADDING:g}"
    return _same_outputs(cause, subject, subject.policy, subject.scene.fill_padding())


def _check_batch(subject: Subject) -> str:
    """Bodies in one batch, and those in the table, do not influence each other."""
    largest, scene = 0.0, subject.scene
    for name in NETWORKS:
        rows = [scene.select([row]) for row in range(len(scene.tokens))]
        alone = torch.cat([outputs_of(subject.policy, name, row) for row in rows])
        together = outputs_of(subject.policy, name, scene)
        cause = "putting environments into one batch"
        largest = max(largest, compare(cause, name, together, alone, scene.tokens))
        if not subject.claims.per_body:  # whose weights belong to rows of the table
            largest = max(largest, _compare_other_tables(subject.policy, name, scene, together))
    return f"largest difference {largest:.0e}"


def _compare_other_tables(
    policy: ActorCritic, name: str, scene: PolicyInput, expected: torch.Tensor
) -> float:
    """Hold outputs (B, L, O) against those with more bodies in the table, and with one alone."""
    tokens, others = scene.tokens, make_scene(policy, seed=8).tokens.table
    index = tokens.morphology_index + len(others)
    more = replace(tokens, table=join_bodies(others, tokens.table), morphology_index=index)
    found = outputs_of(policy, name, replace(scene, tokens=more))
    largest = compare("putting more bodies into the table", name, found, expected, tokens)
    for body in range(len(tokens.table)):
        rows = (tokens.morphology_index == body).nonzero().squeeze(1).tolist()
        shown = scene.select(rows)
        own = take_bodies(tokens.table, torch.tensor([body]))
        index = torch.zeros_like(shown.tokens.morphology_index)
        alone = replace(shown.tokens, table=own, morphology_index=index)
        found = outputs_of(policy, name, replace(shown, tokens=alone))
        cause = "leaving the other bodies out of the table"
        largest = max(largest, compare(cause, name, found, expected[rows], shown.tokens))
    return largest


def _check_slots(subject: Subject) -> str:
    """More token slots change nothing on real limbs; tables per slot may grow at their end."""
    wide = subject.scene.widen(SPEC.max_limbs + 3)
    policy = subject.build(wide.tokens.spec)
    state = policy.state_dict()
    for name, value in subject.policy.state_dict().items():
        state[name][tuple(slice(0, size) for size in value.shape)] = value
    policy.load_state_dict(state)
    return _same_outputs("adding token slots", subject, policy, wide)


def _same_outputs(cause: str, subject: Subject, policy: ActorCritic, scene: PolicyInput) -> str:
    """Hold the outputs of a policy and scene against those of the subject."""
    largest = 0.0
    for name in NETWORKS:
        expected = outputs_of(subject.policy, name, subject.scene)
        found = outputs_of(policy, name, scene)[:, : expected.shape[1]]
        largest = max(largest, compare(cause, name, found, expected, subject.scene.tokens))
    return f"largest difference {largest:.0e}"


def _check_height_map(subject: Subject) -> str:
    """With a height map, outputs depend on it, and each environment's on its own alone."""
    policy = perturb(subject.build(TokenSpec(SPEC.max_limbs, num_heights=_NUM_HEIGHTS)))
    scene = make_scene(policy)
    require_shapes(policy, scene)
    tokens = scene.tokens
    others = []
    for _ in range(DRAWS):
        heights = tokens.height_map.clone()  # type: ignore[union-attr]  # the layout has one
        heights[0] = torch.randn(_NUM_HEIGHTS)
        others.append(PolicyInput(replace(tokens, height_map=heights), scene.state))
    first = scene.select([0]).tokens
    kept = tokens.height_map.clone()  # type: ignore[union-attr]
    for name in NETWORKS:
        expected = outputs_of(policy, name, scene)
        if not torch.equal(kept, tokens.height_map):  # type: ignore[arg-type]
            raise CheckFailedError(
                f"the {name} changed its input: tokens.height_map; work on a copy"
            )
        found = [outputs_of(policy, name, other) for other in others]
        moved = max(difference(outputs[:1], expected[:1], first) for outputs in found)
        if moved <= TOLERANCE and subject.method.trainable:
            raise CheckFailedError(
                f"another height map changes the {name}'s outputs of environment 0 by {moved:.0e} "
                f"of the largest, expected more than {TOLERANCE:g}; use `LimbDecoder`"
            )
        for outputs in found:
            outputs[0] = expected[0]
            compare("another height map of environment 0", name, outputs, expected, tokens)
    require_gradients(policy)
    return f"{_NUM_HEIGHTS} heights"


Check = Callable[[Subject], str]

CHECKS: dict[str, Check] = {
    "parameter counts": _check_parameters,
    "output shapes": _check_shapes,
    "finite outputs": _check_finite,
    "inputs unchanged": _check_inputs_kept,
    "repeatable": check_repeatable,  # before all that compare outputs, which it would fail too
    "state dict": check_state_dict,  # likewise before all that compare with a new network
    "padding ignored": _check_padding,
    "bodies independent": _check_batch,
    "more token slots": _check_slots,
    "other layouts": check_layouts,
    "gradients": check_gradients,
    "seeded build": check_seed,
    "limb order": check_order,
    "limb tree": check_tree,
    "closed loops": check_loops,
    "memory": check_memory,
    "sequence length": check_sequence_length,
    "steps at once": check_sequences,
    "weights per body": check_body_weights,
    "height map": _check_height_map,
    "representations": check_representations,
    "fixed weights": check_fixed_weights,
    "padded rows": check_padded_rows,
    "bfloat16": check_bfloat16,
    "torch.compile": check_compiled,
}
"""Name to check, in the order of the report."""
COMPARISONS = frozenset(CHECKS) - {
    "parameter counts",
    "output shapes",
    "inputs unchanged",
    "other layouts",
    "seeded build",
    "sequence length",
}
"""Checks that look at numbers put out, most of them beside those of another call."""
FOLLOWING: dict[type[CheckFailedError], frozenset[str]] = {
    NotComparableError: COMPARISONS,
    NotRebuiltError: frozenset({"more token slots", "gradients", "fixed weights"}),
}
"""Checks that are not made after a failure, because they would fail for the same cause."""
