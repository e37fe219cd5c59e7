"""The limb graph against walking the tree."""

import numpy as np
import pytest
import torch

from gmc_bench.nn import LimbGraph
from gmc_bench.testing.tokens import any_order, random_table, random_tokens, reorder_bodies
from gmc_bench.tokens import TokenSpec

SIZES = (1, 2, 5, 9, 9)


def walked(parents):
    """Joints between any two limbs of one body, by walking outwards from each."""
    limbs = [limb for limb, parent in enumerate(parents) if parent >= -1]
    found = np.full((len(parents), len(parents)), len(parents))
    np.fill_diagonal(found, 0)
    for start in limbs:
        front, reached = {start}, {start}
        for steps in range(1, len(limbs)):
            front = {
                j for i in front for j in limbs if parents[i] == j or parents[j] == i
            } - reached
            reached |= front
            found[start, list(front)] = steps
    return found


@pytest.mark.parametrize("shuffled", [False, True])
def test_distance_is_the_number_of_joints_between_limbs(shuffled):
    rng = np.random.default_rng(0)
    tokens = random_tokens(rng, TokenSpec(9), SIZES, len(SIZES))
    if shuffled:  # parents may then come after their children
        tokens = reorder_bodies(tokens, any_order(rng, tokens.table))
    graph = tokens.table.graph
    for found, parents in zip(graph.distance.numpy(), graph.parents.tolist(), strict=True):
        np.testing.assert_array_equal(found, walked(parents))


def test_a_long_chain_counts_exactly_under_autocast():
    """bfloat16 would round counts beyond 256."""
    parents = torch.arange(-1, 299).unsqueeze(0)
    with torch.autocast("cpu", torch.bfloat16):
        distance = LimbGraph(parents, torch.zeros(1, 300, dtype=torch.bool)).distance
    assert torch.equal(distance[0, 0], torch.arange(300))


def test_kinds_of_limb_and_degrees_by_hand():
    parents = torch.tensor([[-1, 0, 1, 0, -2]])
    graph = LimbGraph(parents, parents == -2)
    assert graph.limb_type.tolist() == [[0, 1, 2, 2, -1]]
    assert graph.degree.tolist() == [[2, 2, 1, 1, 0]]


def test_a_table_makes_its_graph_once():
    table = random_table(np.random.default_rng(0), TokenSpec(4), (2, 4))
    assert table.graph is table.graph
    assert table.graph.distance is table.graph.distance
