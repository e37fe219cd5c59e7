import itertools
import math

import numpy as np
import pytest

from gmc_bench.conformance.tokens import random_parents
from gmc_bench.tokens import traversal

#      0
#    1   4        4 has the child 5, 1 has 2 and 3
FORK = (-1, 0, 1, 1, 0, 4)


def rng(seed=0):
    return np.random.default_rng(seed)


def is_preorder(order, parents):
    """Every limb follows its parent, and every subtree stands together."""
    place = {limb: k for k, limb in enumerate(order)}
    below = {limb: {limb} for limb in range(len(parents))}
    for limb in reversed(range(len(parents))):
        if parents[limb] >= 0:
            below[parents[limb]] |= below[limb]
    return all(
        sorted(place[k] for k in group) == list(range(place[limb], place[limb] + len(group)))
        for limb, group in below.items()
    )


def test_depth_first_is_the_engines_order():
    assert traversal.depth_first(FORK) == (0, 1, 2, 3, 4, 5)


def test_breadth_first_goes_by_depth_and_then_by_the_engines_order():
    assert traversal.breadth_first(FORK) == (0, 1, 4, 2, 3, 5)
    assert traversal.breadth_first((-1, 0, 1, 2)) == (0, 1, 2, 3)


def test_a_random_order_moves_the_torso_too():
    orders = [traversal.random_order(FORK, rng(seed)) for seed in range(30)]
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert len({order.index(0) for order in orders}) == 6
    assert not all(is_preorder(order, FORK) for order in orders)


def test_all_sibling_orders_are_found_once():
    found = traversal.sibling_orders(FORK, rng())
    assert found.total == 4
    assert found.known[0] == (0, 1, 2, 3, 4, 5)
    assert {*found.known, *found.unseen} == {
        (0, 1, 2, 3, 4, 5), (0, 1, 3, 2, 4, 5), (0, 4, 5, 1, 2, 3), (0, 4, 5, 1, 3, 2),
    }  # fmt: skip
    assert len(found.known) == len(found.unseen) == 2


@pytest.mark.parametrize("seed", range(20))
def test_sibling_orders_of_random_trees(seed):
    parents = random_parents(rng(seed), 9)
    found = traversal.sibling_orders(parents, rng(seed))
    orders = [*found.known, *found.unseen]
    children = [parents.count(limb) for limb in range(9)]
    assert found.total == math.prod(map(math.factorial, children))
    assert len(set(orders)) == len(orders) <= found.total
    assert all(is_preorder(order, parents) for order in orders)
    if found.total <= traversal.MAX_ORDERS:
        others = found.total - 1
        assert len(orders) == found.total
        assert len(found.unseen) == min(50, math.ceil(others / 2))


def test_every_order_of_a_star_is_a_sibling_order():
    star = (-1, 0, 0, 0, 0)
    found = traversal.sibling_orders(star, rng())
    expected = {(0, *rest) for rest in itertools.permutations(range(1, 5))}
    assert {*found.known, *found.unseen} == expected


def test_more_orders_than_are_looked_at_are_drawn():
    star = (-1, *[0] * 8)
    found = traversal.sibling_orders(star, rng())
    assert found.total == math.factorial(8)
    assert len(found.unseen) == 50
    assert len(found.known) + len(found.unseen) in (256, 257)  # with the canonical order
    assert not set(found.known) & set(found.unseen)
    again = traversal.sibling_orders(star, rng())
    assert again == found
    assert traversal.sibling_orders(star, rng(1)).unseen != found.unseen


def test_a_chain_has_one_order():
    found = traversal.sibling_orders((-1, 0, 1), rng())
    assert found == traversal.SiblingOrders(((0, 1, 2),), (), 1)
