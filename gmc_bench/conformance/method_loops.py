"""The check that a controller takes bodies with closed loops."""

from dataclasses import replace

import numpy as np
import torch

from gmc_bench.conformance.method_layouts import (
    require_finite_gradients,
    require_finite_outputs,
    require_shapes,
)
from gmc_bench.conformance.method_subject import (
    NETWORKS,
    PADDING,
    TOLERANCE,
    PolicyInput,
    Subject,
    call,
    compare,
    difference,
    gradients_of,
    outputs_in_order,
    outputs_of,
)
from gmc_bench.conformance.tokens import any_order, close_loops, random_loops

LOOPS = {0: 3, 3: 1}
"""Closed loops of the bodies that get some: the one that fills the layout, and one with padding."""


def check_loops(subject: Subject) -> str:
    """Bodies may have closed loops, which change nothing on the bodies without.

    A method that does not read the limb tree does not read loops either; one that reads it may.
    """
    scene = close(subject.scene)
    policy = subject.policy
    require_shapes(policy, scene)
    require_finite_outputs(policy, scene)
    moved = [_compare_with_trees(subject, scene, name) for name in NETWORKS]
    _check_padding(subject, scene)
    if subject.claims.permutation_equivariant:
        _check_order(subject, scene)
    with torch.random.fork_rng(devices=[]):  # the checks that follow draw what they always have
        for name in NETWORKS:
            outputs = call(policy, name, scene)[~scene.tokens.limb_padding_mask]
            require_finite_gradients(name, gradients_of(getattr(policy, name), outputs))
    return f"read, move outputs by {max(moved):.1%}" if max(moved) > TOLERANCE else "not read"


def close(scene: PolicyInput) -> PolicyInput:
    """Return a scene in which some bodies have closed loops between random limbs."""
    rng, table = np.random.default_rng(5), scene.tokens.table
    loops = {}
    for body, count in LOOPS.items():
        parents = table.parents[body, : int(table.num_limbs[body])].tolist()
        loops[body] = random_loops(rng, parents, count)
    return replace(scene, tokens=replace(scene.tokens, table=close_loops(table, loops)))


def _compare_with_trees(subject: Subject, scene: PolicyInput, name: str) -> float:
    """Return how far loops move the outputs of their own bodies; raise if they move others."""
    tokens = scene.tokens
    expected = outputs_of(subject.policy, name, subject.scene)
    found = outputs_of(subject.policy, name, scene)
    own = torch.isin(tokens.morphology_index, torch.tensor(tuple(LOOPS)))
    moved = difference(found, expected, tokens)
    if not subject.claims.uses_graph:
        cause = "the capability 'uses_graph' is not claimed, but closing loops"
        compare(cause, name, found, expected, tokens)
    found[own] = expected[own]
    compare("closing loops of other bodies", name, found, expected, tokens)
    return moved


def _check_padding(subject: Subject, scene: PolicyInput) -> None:
    cause = f"filling the padding of bodies with loops with {PADDING:g}"
    filled = scene.fill_padding()
    for name in NETWORKS:
        found, expected = (outputs_of(subject.policy, name, item) for item in (filled, scene))
        compare(cause, name, found, expected, scene.tokens)


def _check_order(subject: Subject, scene: PolicyInput) -> None:
    order = any_order(np.random.default_rng(6), scene.tokens.table)
    cause = "reordering the limbs of bodies with loops"
    for name in NETWORKS:
        found, expected, tokens = outputs_in_order(subject.policy, name, scene, order)
        compare(cause, name, found, expected, tokens)
