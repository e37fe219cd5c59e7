"""Orders in which the limbs of a tree can be read.

A tree is given by the parent of every limb, -1 for the torso, which is limb 0. The tree of a
body's joints is in the engine's order: depth first, parents before their children. Another
spanning tree of a body with closed loops need not be. An order is the list of limbs as they are
read.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Order = tuple[int, ...]

MAX_UNSEEN = 50
"""Most sibling orders of a body that are held out from training; the RecMorph paper's number."""
MAX_ORDERS = 256
"""Most sibling orders of a body that are considered."""


@dataclass(frozen=True)
class SiblingOrders:
    """Depth-first orders of one body that differ in the order of siblings.

    Half of the orders other than the canonical one are held out from training (rounded up, at most
    `MAX_UNSEEN`), so that a policy trained under permutations can be tested under unseen ones.
    """

    known: tuple[Order, ...]
    """The canonical order first, then those that training may use."""
    unseen: tuple[Order, ...]
    """Those that training does not use."""
    total: int
    """Different orders that the body has: the product of the factorials of its child counts."""


def depth_first(parents: Sequence[int]) -> Order:
    """Return the canonical order, siblings by index; the engine's, if the tree is its own."""
    return _preorder(_children(parents))


def breadth_first(parents: Sequence[int]) -> Order:
    """Return the limbs by depth, those of one depth in the engine's order."""
    depth = [0] * len(parents)
    for limb in depth_first(parents)[1:]:
        depth[limb] = depth[parents[limb]] + 1
    return tuple(sorted(range(len(parents)), key=lambda limb: depth[limb]))


def random_order(parents: Sequence[int], rng: np.random.Generator) -> Order:
    """Return the limbs, torso included, in an order that has nothing to do with the tree."""
    return tuple(rng.permutation(len(parents)).tolist())


def sibling_orders(parents: Sequence[int], rng: np.random.Generator) -> SiblingOrders:
    """Return the sibling orders of a body, and which of them are held out from training.

    Args:
        parents: of every limb.
        rng: decides which orders are held out, and draws the orders where there are more than
            `MAX_ORDERS`.
    """
    children = _children(parents)
    total = math.prod(math.factorial(len(group)) for group in children)
    canonical = depth_first(parents)
    others: dict[Order, None] = {}
    if total <= MAX_ORDERS:
        for groups in itertools.product(*map(itertools.permutations, children)):
            others[_preorder(groups)] = None
    else:
        while len(others) < MAX_ORDERS:
            groups = tuple(tuple(rng.permutation(group).tolist()) for group in children)
            others[_preorder(groups)] = None
    others.pop(canonical, None)
    candidates = list(others)
    shuffled = [candidates[k] for k in rng.permutation(len(candidates)).tolist()]
    kept = min(MAX_UNSEEN, math.ceil(len(shuffled) / 2))
    return SiblingOrders((canonical, *shuffled[kept:]), tuple(shuffled[:kept]), total)


def _children(parents: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in parents]
    for limb, parent in enumerate(parents):
        if parent >= 0:
            found[parent].append(limb)
    return found


def _preorder(children: Sequence[Sequence[int]]) -> Order:
    found: list[int] = []
    waiting = [0]
    while waiting:
        limb = waiting.pop()
        found.append(limb)
        waiting.extend(reversed(children[limb]))
    return tuple(found)
