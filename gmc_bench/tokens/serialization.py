"""In which order the limbs of a body stand in its sequence of tokens.

A serialization belongs to what a policy sees, not to the method: features are measured and
normalised in the order of the engine, then rearranged; actions are put back before they reach the
motors.

Source:
    The RecMorph paper compares depth-first, breadth-first and random orders, and permutes the
    children of limbs. What it leaves open is decided here: a random order is drawn once per body
    and includes the torso, and every draw follows from the body's content.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import TypeVar, cast, get_args

import numpy as np

from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.core.types import Array, BoolArray, IntArray
from gmc_bench.tokens import traversal
from gmc_bench.tokens.config import Order
from gmc_bench.tokens.table import MorphologyTable

A = TypeVar("A", bound=Array)


class Serialization:
    """R token sequences of M bodies; every body has at least one.

    Args:
        orders: for every body, the orders in which its limbs are read.
        max_limbs: L, token slots; places after the last limb are padding.

    Shapes:
        `body` (R,) int64, rising, the body that each sequence shows; `limbs` (R, L) int64, the
        limb at each place; `places` (R, L) int64, the place of each limb; `first`, `count` (M,)
        int64, where the sequences of a body begin and how many they are.
    """

    def __init__(self, orders: Sequence[Sequence[traversal.Order]], max_limbs: int) -> None:
        self.count: IntArray = np.array([len(group) for group in orders], np.int64)
        self.first: IntArray = np.cumsum(self.count) - self.count
        self.body: IntArray = np.repeat(np.arange(len(orders)), self.count)
        rows = [order for group in orders for order in group]
        self.limbs: IntArray = np.tile(np.arange(max_limbs), (len(rows), 1))
        for row, order in zip(self.limbs, rows, strict=True):
            row[: len(order)] = order
        self.places: IntArray = np.argsort(self.limbs, axis=1)

    def __len__(self) -> int:
        return len(self.body)

    @cached_property
    def canonical(self) -> bool:
        """Every body has one sequence, the engine's, so that nothing is ever rearranged."""
        same = self.limbs == np.arange(self.limbs.shape[1])
        return len(self) == len(self.count) and bool(same.all())

    def choose(self, body: IntArray, uniform: Array) -> IntArray:
        """Return a sequence of each body.

        Args:
            body: (K,) int64.
            uniform: (K,) float64 in [0, 1), decides among the sequences of the body.

        Returns:
            (K,) int64, rows of `limbs`.
        """
        chosen = (uniform * self.count[body]).astype(np.int64)
        return self.first[body] + np.minimum(chosen, self.count[body] - 1)

    def arrange(self, values: A, sequences: IntArray) -> A:
        """Return values of limbs (K, L, ...) in the order of each row's sequence (K,)."""
        return self._take(values, self.limbs, sequences)

    def restore(self, values: A, sequences: IntArray) -> A:
        """Return values of places (K, L, ...) in the order of the engine."""
        return self._take(values, self.places, sequences)

    def _take(self, values: A, source: IntArray, sequences: IntArray) -> A:
        if self.canonical:
            return values
        index = source[sequences].reshape(*values.shape[:2], *(1,) * (values.ndim - 2))
        return cast(A, np.take_along_axis(values, index, axis=1))

    def parents(self, parents: IntArray) -> IntArray:
        """Return the place of each place's parent.

        Args:
            parents: (M, L) int64, limb of each limb's parent; -1 torso, -2 padding.

        Returns:
            (R, L) int64, with the same marks.
        """
        read = np.take_along_axis(parents[self.body], self.limbs, axis=1)
        return self._places_of(read)

    def loops(self, loops: IntArray) -> IntArray:
        """Return the places that closed loops join.

        Args:
            loops: (M, E, 2) int64, limbs; -1 where a body has fewer loops.

        Returns:
            (R, E, 2) int64, with the same marks.
        """
        read = loops[self.body]
        return self._places_of(read.reshape(len(read), -1)).reshape(read.shape)

    def _places_of(self, limbs: IntArray) -> IntArray:
        """Return the places of limbs (R, K); negative marks stay."""
        places = np.take_along_axis(self.places, np.maximum(limbs, 0), axis=1)
        found: IntArray = np.where(limbs >= 0, places, limbs)
        return found


def make_serialization(order: Order, table: MorphologyTable) -> Serialization:
    """Return the sequences that a training run or an evaluation shows.

    They follow the spanning trees of the table, see `TokenSpec.tree`.

    Args:
        order: depth first, breadth first and random give every body one sequence; `siblings`
            gives it all those that training may use, the depth-first one first.
        table: the bodies.

    Raises:
        ConfigError: no such order.
    """
    if order not in get_args(Order):
        raise ConfigError(
            f"unknown order of limbs {order!r}{did_you_mean(str(order), get_args(Order))}"
        )
    trees = _trees(table)
    if order == "dfs":
        orders = [[traversal.depth_first(tree)] for tree in trees]
    elif order == "bfs":
        orders = [[traversal.breadth_first(tree)] for tree in trees]
    elif order == "random":
        orders = [
            [traversal.random_order(tree, _rng("random", digest))]
            for tree, digest in zip(trees, table.digests, strict=True)
        ]
    else:
        orders = [list(found.known) for found in _sibling_orders(table)]
    return Serialization(orders, table.spec.max_limbs)


def make_sibling_test(
    table: MorphologyTable,
) -> tuple[Serialization, BoolArray, tuple[int, ...]]:
    """Return what the robustness to sibling orders is tested with.

    Args:
        table: the bodies.

    Returns:
        For every body its depth-first order, then up to 50 others, those held out from training
        first; (R,) bool, the order is held out from training; how many different sibling orders
        each of the M bodies has, which no fixed width holds (21 legs have 21!).
    """
    found = _sibling_orders(table)
    orders, unseen = [], []
    for item in found:
        others = [*item.unseen, *item.known[1:]][: traversal.MAX_UNSEEN]
        orders.append([item.known[0], *others])
        unseen += [order in item.unseen for order in orders[-1]]
    totals = tuple(item.total for item in found)
    return Serialization(orders, table.spec.max_limbs), np.array(unseen, np.bool_), totals


def _sibling_orders(table: MorphologyTable) -> list[traversal.SiblingOrders]:
    return [
        traversal.sibling_orders(tree, _rng("siblings", digest))
        for tree, digest in zip(_trees(table), table.digests, strict=True)
    ]


def _trees(table: MorphologyTable) -> list[list[int]]:
    return [row[:count].tolist() for row, count in zip(table.parents, table.num_limbs, strict=True)]


def _rng(purpose: str, digest: str) -> np.random.Generator:
    key = hashlib.sha256(f"serialization/{purpose}/{digest}".encode()).digest()
    return np.random.default_rng(int.from_bytes(key[:16]))
