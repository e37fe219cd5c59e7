"""The limb graph against walking the tree, and the loops."""

import numpy as np
import pytest
import torch

from gmc_bench.conformance.tokens import (
    any_order,
    close_loops,
    random_loops,
    random_table,
    random_tokens,
    reorder_bodies,
)
from gmc_bench.nn import LimbGraph
from gmc_bench.nn import graph as module
from gmc_bench.tokens import TokenSpec

SIZES = (1, 2, 5, 9, 9)


def walked(parents, loops=()):
    """Joints between any two limbs of one body, by walking outwards from each."""
    joined = {*loops, *(pair[::-1] for pair in loops)}
    limbs = [limb for limb, parent in enumerate(parents) if parent >= -1]
    found = np.full((len(parents), len(parents)), len(parents))
    np.fill_diagonal(found, 0)
    for start in limbs:
        front, reached = {start}, {start}
        for steps in range(1, len(limbs)):
            front = {
                j
                for i in front
                for j in limbs
                if parents[i] == j or parents[j] == i or (i, j) in joined
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
    turned = torch.tensor([[1, 2, -1, 2, -2]])  # the torso need not come first
    assert LimbGraph(turned, turned == -2).limb_type.tolist() == [[2, 1, 0, 2, -1]]


def draw_loops(rng, table):
    """Up to three loops for every body, none for some."""
    loops = {}
    for row, count in enumerate(table.num_limbs.tolist()):
        loops[row] = random_loops(rng, table.parents[row, :count].tolist(), row % 4)
    return loops


@pytest.mark.parametrize("seed", range(5))
def test_loops_are_short_cuts(seed):
    rng = np.random.default_rng(seed)
    table = random_table(rng, TokenSpec(9), (9, 9, 5, 9, 8, 4, 9, 7))
    loops = draw_loops(rng, table)
    graph = close_loops(table, loops).graph
    for row, parents in enumerate(graph.parents.tolist()):
        expected = walked(parents, loops[row])
        np.testing.assert_array_equal(graph.distance[row].numpy(), expected)
        np.testing.assert_array_equal(graph.adjacency[row].numpy(), expected == 1)
        degree = (expected == 1).sum(axis=1)
        np.testing.assert_array_equal(graph.degree[row].numpy(), degree)
        count = int(table.num_limbs[row])
        kinds = [0, *(1 if degree[limb] > 1 else 2 for limb in range(1, count))]
        assert graph.limb_type[row].tolist() == kinds + [-1] * (9 - count)


def test_a_body_without_loops_has_the_same_graph_beside_bodies_with_them():
    rng = np.random.default_rng(0)
    table = random_table(rng, TokenSpec(9), (9, 6, 9))
    graph, looped = table.graph, close_loops(table, {1: [(1, 5)]}).graph
    for name in ("adjacency", "distance", "degree", "limb_type"):
        before, after = getattr(graph, name), getattr(looped, name)
        assert before.dtype == after.dtype
        assert torch.equal(before[[0, 2]], after[[0, 2]])


BYTES_PER_BODY = 8 * 9 * 10
"""float64, of 9 limbs and 9 + 1 that lie above them."""


@pytest.mark.parametrize(
    ("limit", "parts"),
    [(4 * BYTES_PER_BODY, [4, 4, 4, 3]), (BYTES_PER_BODY // 2, [1] * 15)],
    ids=["four bodies", "half a body"],
)
def test_many_bodies_are_done_in_parts_that_change_nothing(monkeypatch, limit, parts):
    """At least one at a time."""
    rng = np.random.default_rng(0)
    table = random_table(rng, TokenSpec(9), [9, 3, 7] * 5)
    table = close_loops(table, draw_loops(rng, table))
    whole = table.graph.distance
    sizes, tree_distance = [], module._tree_distance

    def counted(parents):
        sizes.append(len(parents))
        return tree_distance(parents)

    monkeypatch.setattr(module, "_tree_distance", counted)
    monkeypatch.setattr(module, "_CHUNK_BYTES", limit)
    found = LimbGraph(table.parents, table.limb_padding_mask, table.loops).distance
    assert sizes == parts
    assert found.dtype == torch.int16
    assert torch.equal(whole, found)


def test_a_table_makes_its_graph_once():
    table = random_table(np.random.default_rng(0), TokenSpec(4), (2, 4))
    assert table.graph is table.graph
    assert table.graph.distance is table.graph.distance
