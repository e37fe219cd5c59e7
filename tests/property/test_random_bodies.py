"""Every method on bodies that nobody wrote down: 2 to 64 limbs, any tree, closed loops."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmc_bench.conformance.method_subject import (
    NETWORKS,
    PADDING,
    PolicyInput,
    compare,
    make_scene,
    outputs_of,
    perturb,
)
from gmc_bench.conformance.tokens import (
    any_order,
    close_loops,
    random_loops,
    sibling_order,
)
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.tokens.spec import TokenSpec

METHOD_IDS = [name for name in METHODS.names() if name != "mlp-10m"]  # which is mlp, longer
BODIES = 3
WIDER = 70  # token slots
FEW, MANY = 2, 100

scenes = st.tuples(
    st.lists(st.integers(2, 64), min_size=BODIES, max_size=BODIES),
    st.integers(0, 2**32 - 1),
    st.integers(0, 3),
)
"""Limbs of the bodies, a seed for everything else, and loops of each body."""


@cache
def policy_of(method: str) -> ActorCritic:
    spec = METHODS.get(method)
    torch.manual_seed(0)
    config = spec.make_config("lite")
    return perturb(ActorCritic(spec, config, TokenSpec(64), num_bodies=BODIES).eval())


@cache
def wider_policy_of(method: str) -> ActorCritic:
    """Return the same policy for more token slots; tables per slot grow at their end."""
    narrow = policy_of(method)
    spec = METHODS.get(method)
    policy = ActorCritic(spec, spec.make_config("lite"), TokenSpec(WIDER), num_bodies=BODIES).eval()
    state = policy.state_dict()
    for name, value in narrow.state_dict().items():
        state[name][tuple(slice(0, size) for size in value.shape)] = value
    policy.load_state_dict(state)
    return policy


def scene_of(policy: ActorCritic, limbs: list[int], seed: int, loops: int) -> PolicyInput:
    scene = make_scene(policy, seed, num_limbs=limbs)
    table, rng = scene.tokens.table, np.random.default_rng(seed)
    closed = {
        body: random_loops(rng, table.parents[body, :count].tolist(), loops)
        for body, count in enumerate(limbs)
        if loops and count > 4
    }
    if not closed:
        return scene
    tokens = replace(scene.tokens, table=close_loops(table, closed))
    return replace(scene, tokens=tokens)


def check(method: str, limbs: list[int], seed: int, loops: int) -> None:
    policy = policy_of(method)
    scene = scene_of(policy, limbs, seed, loops)
    tokens, real = scene.tokens, ~scene.tokens.limb_padding_mask
    padding = tokens.limb_padding_mask.unsqueeze(-1)
    garbage = PolicyInput(
        replace(tokens, dynamic=tokens.dynamic.masked_fill(padding, PADDING)),
        scene.state.masked_fill(padding, PADDING),
    )
    orders = [sibling_order(tokens.table), any_order(np.random.default_rng(seed), tokens.table)]
    rows = torch.arange(len(tokens)).unsqueeze(1)
    wide, wider = wider_policy_of(method), scene.widen(WIDER)
    for name in NETWORKS:
        expected = outputs_of(policy, name, scene)
        assert expected[real].isfinite().all()
        found = outputs_of(policy, name, garbage)
        compare("filling padding", name, found, expected, tokens)
        found = outputs_of(wide, name, wider)[:, : expected.shape[1]]
        compare("adding token slots", name, found, expected, tokens)
        alone = [outputs_of(policy, name, scene.select([row])) for row in range(len(tokens))]
        compare("putting bodies into one batch", name, torch.cat(alone), expected, tokens)
        if not policy.method.capabilities_of("lite").permutation_equivariant:
            continue
        for order in orders:
            moved = scene.reorder(order)
            found = outputs_of(policy, name, moved)
            places = order[tokens.morphology_index]
            compare("relabelling limbs", name, found, expected[rows, places], moved.tokens)


@pytest.mark.parametrize("method", METHOD_IDS)
@settings(max_examples=FEW, deadline=None, derandomize=True)
@given(scenes)
def test_padding_batches_and_labels_change_nothing(method, scene):
    check(method, *scene)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("method", METHOD_IDS)
@settings(max_examples=MANY, deadline=None)
@given(scenes)
def test_padding_batches_and_labels_change_nothing_on_many_bodies(method, scene):
    check(method, *scene)
