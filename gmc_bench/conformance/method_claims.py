"""Checks of what a method claims to be: each claim must hold, and must not hold if not made."""

from dataclasses import replace

import numpy as np
import torch

from gmc_bench.conformance.method_subject import (
    NETWORKS,
    NUM_LIMBS,
    TOLERANCE,
    CheckFailedError,
    PolicyInput,
    Subject,
    call,
    compare,
    difference,
    gradients_of,
    make_scene,
    outputs_in_order,
    outputs_of,
    random_actions,
    show_again,
)
from gmc_bench.conformance.tokens import any_order, sibling_order, take_bodies
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.tokens import TokenBatch

_NUM_STEPS = 5


def check_order(subject: Subject) -> str:
    """The claim about the order of limbs holds, whichever it is."""
    claimed = subject.claims.permutation_equivariant
    siblings = sibling_order(subject.scene.tokens.table)
    if not claimed:
        return _check_order_matters(subject, siblings)
    largest = 0.0
    shuffled = any_order(np.random.default_rng(1), subject.scene.tokens.table)
    for cause, order in (("swapping siblings", siblings), ("reordering the limbs", shuffled)):
        for name in NETWORKS:
            found, expected, tokens = outputs_in_order(subject.policy, name, subject.scene, order)
            largest = max(largest, compare(cause, name, found, expected, tokens))
    return f"any order; largest difference {largest:.0e}"


def _check_order_matters(subject: Subject, order: torch.Tensor) -> str:
    moved = []
    for name in NETWORKS:
        found, expected, tokens = outputs_in_order(subject.policy, name, subject.scene, order)
        moved.append(difference(found, expected, tokens))
        if moved[-1] <= TOLERANCE:
            raise CheckFailedError(
                f"the {name} does not depend on the order of siblings: the outputs of the same "
                f"limbs move by {moved[-1]:.0e} of the largest, expected more than {TOLERANCE:g}; "
                f"declare the capability 'permutation_equivariant'"
            )
    return f"depends on the order of siblings, by {max(moved):.0%} of the largest output"


def check_tree(subject: Subject) -> str:
    """The claim about reading the limb tree holds, whichever it is."""
    claimed, tokens = subject.claims.uses_graph, subject.scene.tokens
    star = tokens.table.parents.clamp(max=0)  # every limb hangs on the torso
    other = replace(tokens, table=replace(tokens.table, parents=star))
    moved = []
    for name in NETWORKS:
        expected = outputs_of(subject.policy, name, subject.scene)
        found = outputs_of(subject.policy, name, PolicyInput(other, subject.scene.state))
        moved.append(difference(found, expected, tokens))
        if claimed and moved[-1] <= TOLERANCE:
            raise CheckFailedError(
                f"hanging every limb on the torso changes the {name}'s outputs by only "
                f"{moved[-1]:.0e} of the largest, but 'uses_graph' is claimed"
            )
        if not claimed:
            cause = (
                "the capability 'uses_graph' is not claimed, but hanging every limb on the torso"
            )
            compare(cause, name, found, expected, tokens)
    return f"read, moves outputs by {max(moved):.0%}" if claimed else "not read"


def check_memory(subject: Subject) -> str:
    """A memory is in the state and nowhere else; without a memory, the past changes nothing."""
    _require_no_writing(subject)
    if not subject.claims.temporal:
        return _check_no_memory(subject)
    policy, scene = subject.policy, subject.scene
    fresh = replace(scene, state=policy.initial_state(len(scene.tokens)))
    ended, state = [1, 4], scene.state.clone()
    state[ended] = 0.0
    for name in NETWORKS:
        expected, beginning = (outputs_of(policy, name, item) for item in (scene, fresh))
        if (moved := difference(beginning, expected, scene.tokens)) <= TOLERANCE:
            raise CheckFailedError(
                f"after two steps the {name}'s outputs differ by only {moved:.0e} of the largest "
                f"from those of a fresh episode, but 'temporal' is claimed"
            )
        found = outputs_of(policy, name, replace(scene, state=state))
        expected[ended] = beginning[ended]
        cause = f"zero state for environments {ended}, fresh among others that go on,"
        compare(cause, name, found, expected, scene.tokens)
    return f"{policy.state_width} numbers per token"


def _require_no_writing(subject: Subject) -> None:
    """Raise if running in training mode changes a number of the policy, as batch norms do."""
    policy = subject.build().train()
    before = {key: value.clone() for key, value in policy.state_dict().items()}
    for name in NETWORKS:
        outputs_of(policy, name, subject.scene)
    for key, value in policy.state_dict().items():
        if not torch.equal(value, before[key]):
            raise CheckFailedError(
                f"a forward pass in training mode changes {key!r}; what a network holds may change "
                f"by the optimiser alone, or updates see another policy than rollouts"
            )


def _check_no_memory(subject: Subject) -> str:
    other = make_scene(subject.policy, seed=3)
    for name in NETWORKS:
        first = outputs_of(subject.policy, name, subject.scene)
        outputs_of(subject.policy, name, other)
        again = outputs_of(subject.policy, name, subject.scene)
        cause = "the capability 'temporal' is not claimed, but having seen other inputs before"
        compare(cause, name, again, first, subject.scene.tokens)
    return "none"


def check_sequences(subject: Subject) -> str:
    """T steps at once, as training runs them, give what T single steps give."""
    if not subject.claims.temporal:
        return "no memory"
    policy, rng = subject.policy, np.random.default_rng(4)
    tokens, state = subject.scene.tokens, subject.scene.state
    starts = torch.zeros(_NUM_STEPS, len(tokens), dtype=torch.bool)
    starts[[0, 2, 1, 3], [1, 2, 3, 3]] = True  # environment 3 starts twice, 0 and 4 to 6 never
    shown = _episodes(rng, tokens, starts)
    actions = torch.stack([random_actions(rng, item) for item in shown])
    joined = TokenBatch(
        tokens.table,
        torch.cat([item.morphology_index for item in shown]),
        torch.cat([item.dynamic for item in shown]),
    )
    with torch.no_grad():
        expected = _single_steps(policy, shown, state, starts, actions)
        history = policy.history(state, starts, actions)
        found = (policy.distribution(joined, history).mean, policy.value(joined, history))
    cause = f"running {_NUM_STEPS} steps at once, in place of single steps,"
    compare(cause, "actor", found[0], expected[0], joined)
    shape = (len(joined), tokens.spec.max_limbs, 1)
    values, singly = (item.view(-1, 1, 1).expand(shape) for item in (found[1], expected[1]))
    largest = compare(cause, "critic", values, singly, joined)
    return f"{_NUM_STEPS} steps at once; largest difference {largest:.0e}"


def _episodes(
    rng: np.random.Generator, tokens: TokenBatch, starts: torch.Tensor
) -> list[TokenBatch]:
    """Return the tokens of T steps; with a new episode, `starts` (T, N), comes another body."""
    shown = []
    for started in starts:
        body = torch.where(started, tokens.morphology_index + 1, tokens.morphology_index)
        tokens = show_again(rng, replace(tokens, morphology_index=body % len(NUM_LIMBS)))
        shown.append(tokens)
    return shown


def _single_steps(
    policy: ActorCritic,
    shown: list[TokenBatch],
    state: torch.Tensor,
    starts: torch.Tensor,
    actions: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return means (T * N, L, J) and values (T * N,) of steps taken one by one."""
    means, values, state = [], [], state.clone()
    for tokens, started, action in zip(shown, starts, actions, strict=True):
        state[started] = 0.0
        values.append(policy.value(tokens, policy.one_step(state)))
        distribution, state = policy.step(tokens, state)
        state = policy.remember(state, action)
        means.append(distribution.mean)
    return torch.cat(means), torch.cat(values)


def check_body_weights(subject: Subject) -> str:
    """Bodies share all weights, or none if the method claims separate weights per body."""
    if subject.claims.per_body:
        return _check_separate_weights(subject)
    tokens = subject.scene.tokens
    last = len(NUM_LIMBS) - 1
    turned = take_bodies(tokens.table, torch.arange(last, -1, -1))
    other = replace(tokens, table=turned, morphology_index=last - tokens.morphology_index)
    for name in NETWORKS:
        expected = outputs_of(subject.policy, name, subject.scene)
        found = outputs_of(subject.policy, name, PolicyInput(other, subject.scene.state))
        cause = (
            "the capability 'per_body' is not claimed, but another order of the bodies in the table"
        )
        compare(cause, name, found, expected, tokens)
    return "shared by all bodies"


def _check_separate_weights(subject: Subject) -> str:
    scene = subject.scene
    for name in NETWORKS:
        network = getattr(subject.policy, name)
        owner = {key: torch.full_like(value, -1) for key, value in network.named_parameters()}
        for body in range(len(NUM_LIMBS)):
            rows = (scene.tokens.morphology_index == body).nonzero().squeeze(1).tolist()
            outputs = call(subject.policy, name, scene.select(rows))
            for key, gradient in gradients_of(network, outputs).items():
                used = gradient != 0
                taken = used & (owner[key] >= 0)
                if taken.any():
                    raise CheckFailedError(
                        f"'per_body' is claimed, but bodies {int(owner[key][taken][0])} and "
                        f"{body} share {int(taken.sum())} numbers of the {name}'s {key!r}"
                    )
                owner[key][used] = body
    return f"separate for {len(NUM_LIMBS)} bodies"
