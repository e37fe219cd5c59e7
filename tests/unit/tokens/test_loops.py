"""Spanning trees and loop marks, against walking the graph."""

import itertools

import numpy as np
import pytest

from gmc_bench.conformance.tokens import random_loops, random_parents
from gmc_bench.tokens.loops import breadth_first_tree, limbs_in_loops

#    0
#  1   3     a leg whose two chains meet in the loop 2-4; 5 hangs on 4
#  2   4
#      5
LEG = [-1, 0, 1, 0, 3, 4]


def edges_of(parents, loops):
    joints = [(parent, limb) for limb, parent in enumerate(parents) if parent >= 0]
    return {(min(pair), max(pair)) for pair in [*joints, *loops]}


def draw(seed):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, int(rng.integers(2, 12)))
    return parents, random_loops(rng, parents, int(rng.integers(0, 4)))


def distances(count, edges):
    """Steps from limb 0."""
    found, front, steps = {0: 0}, {0}, 0
    while front:
        steps += 1
        front = {j for pair in edges for i, j in (pair, pair[::-1]) if i in front} - set(found)
        found |= dict.fromkeys(front, steps)
    return [found[limb] for limb in range(count)]


def test_a_leg_by_hand():
    assert limbs_in_loops(LEG, [(2, 4)]) == [True] * 5 + [False]
    assert limbs_in_loops(LEG, [(1, 3)]) == [True, True, False, True, False, False]
    assert limbs_in_loops(LEG, [(3, 5)]) == [False, False, False, True, True, True]
    assert limbs_in_loops(LEG, []) == [False] * 6


def test_breadth_first_by_hand():
    # From the torso, 5 is nearer over the loop than along its chain.
    assert breadth_first_tree(LEG, [(0, 5)]) == ([-1, 0, 1, 0, 3, 0], [(4, 5)])
    # 4 is as near over 3 as over 5; the lower index counts.
    assert breadth_first_tree(LEG, [(2, 4)]) == (LEG, [(2, 4)])
    assert breadth_first_tree([-1, 0, 1, 2, 0], [(3, 4)]) == ([-1, 0, 1, 4, 0], [(2, 3)])
    # 4 is reached before 3, but 5 is as near over both.
    assert breadth_first_tree([-1, 0, 0, 2, 1, 4], [(3, 5)]) == ([-1, 0, 0, 2, 1, 3], [(4, 5)])
    # 2 and 5 are next to the torso now; what is left over is in ascending order.
    assert breadth_first_tree(LEG, [(0, 2), (0, 5)]) == ([-1, 0, 0, 0, 3, 0], [(1, 2), (4, 5)])


@pytest.mark.parametrize("seed", range(30))
def test_the_tree_spans_the_graph_by_shortest_paths(seed):
    parents, loops = draw(seed)
    found, left = breadth_first_tree(parents, loops)
    edges = edges_of(parents, loops)
    assert edges_of(found, left) == edges
    assert len(left) == len(loops)
    from_torso = distances(len(parents), edges)
    for limb, parent in enumerate(found[1:], start=1):
        nearer = [
            i + j - limb for i, j in edges if limb in (i, j)
            if from_torso[i + j - limb] == from_torso[limb] - 1
        ]  # fmt: skip
        assert parent == min(nearer)


@pytest.mark.parametrize("seed", range(30))
def test_a_limb_is_in_a_loop_if_a_cycle_leads_through_it(seed):
    parents, loops = draw(seed)
    edges = edges_of(parents, loops)
    expected = [False] * len(parents)
    for limb, neighbour in itertools.chain(edges, [pair[::-1] for pair in edges]):
        rest = edges - {(min(limb, neighbour), max(limb, neighbour))}
        reached, front = {limb}, {limb}
        while front:
            front = {j for pair in rest for i, j in (pair, pair[::-1]) if i in front} - reached
            reached |= front
        expected[limb] |= neighbour in reached
    assert limbs_in_loops(parents, loops) == expected
    assert limbs_in_loops(*breadth_first_tree(parents, loops)) == expected


def test_trees_stay_what_they_are():
    for seed in range(10):
        parents = random_parents(np.random.default_rng(seed), 9)
        assert breadth_first_tree(parents, []) == (parents, [])
