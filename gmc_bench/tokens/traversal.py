"""Orders in which the limbs of a tree can be read.

A tree is given by the parent of every limb, -1 for the torso, in the engine's order: depth first,
parents before their children. An order is the list of limbs as they are read.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Order = tuple[int, ...]

MAX_UNSEEN = 50
"""Sibling orders of a body that are kept from training, at most; the RecMorph paper's number."""
MAX_ORDERS = 256
"""Sibling orders of a body that are looked at, at most."""


@dataclass(frozen=True)
class SiblingOrders:
    """Depth-first orders of one body that differ in the order of siblings.

    Half of the orders other than the canonical one are kept from training (rounded up, at most
    `MAX_UNSEEN`), so that a policy trained under permutations can be tested under unseen ones.
    """

    known: tuple[Order, ...]
    """The canonical order first, then those that training may use."""
    unseen: tuple[Order, ...]
    """Those that training does not use."""
    total: int
    """Different orders that the body has: the product of the factorials of its child counts."""


def depth_first(parents: Sequence[int]) -> Order:
    """Return the canonical order, which is the engine's."""
    return tuple(range(len(parents)))


def breadth_first(parents: Sequence[int]) -> Order:
    """Return the limbs by depth, those of one depth in the engine's order."""
    depth: list[int] = []
    for parent in parents:
        depth.append(0 if parent < 0 else depth[parent] + 1)
    return tuple(sorted(range(len(parents)), key=lambda limb: depth[limb]))


def random_order(parents: Sequence[int], rng: np.random.Generator) -> Order:
    """Return the limbs, torso included, in an order that has nothing to do with the tree."""
    return tuple(rng.permutation(len(parents)).tolist())


def sibling_orders(parents: Sequence[int], rng: np.random.Generator) -> SiblingOrders:
    """Return the sibling orders of a body, and which of them are kept from training.

    Args:
        parents: of every limb.
        rng: decides which orders are kept, and draws them where there are more than `MAX_ORDERS`.
    """
    children: list[list[int]] = [[] for _ in parents]
    for limb, parent in enumerate(parents):
        if parent >= 0:
            children[parent].append(limb)
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


def _preorder(children: Sequence[Sequence[int]]) -> Order:
    found: list[int] = []
    waiting = [0]
    while waiting:
        limb = waiting.pop()
        found.append(limb)
        waiting.extend(reversed(children[limb]))
    return tuple(found)
