"""Limb trees as SWAT sees them: places of limbs in traversals, and relations between limbs.

Source:
    Hong et al. 2022 (SWAT), section 4; sunghoonhong/SWAT, repeated in MasterXiong/ModuMorph.
"""

import itertools
from collections.abc import Sequence

import numpy as np

from gmc_bench.core.types import Array, BoolArray, DoubleArray, FloatArray, IntArray

NUM_TRAVERSALS = 3
"""Pre-order, in-order and post-order."""
NUM_RELATIONS = 3
"""Personalised PageRank, normalised Laplacian, distance."""
_CHUNK_NUMBERS = 2**20
"""Relations computed at once; whole tables of many bodies would take gigabytes."""
DAMPING = 0.9
"""Probability that the walker of the personalised PageRank takes another step."""

_IN_ORDER, _POST_ORDER = 1, 2  # links of a limb that are followed before the limb itself


def traversal_indices(parents: IntArray) -> IntArray:
    """Return where every limb stands in three walks over its body.

    Pre-order is the token order. The other two walk the left-child right-sibling tree, in which
    a limb's first link leads to its first child and its second to its next sibling; siblings are
    ordered by token slot. A limb without children has its next sibling as first link, so the
    in-order walk takes the sibling before the limb: a quirk of the reference, kept here.

    Args:
        parents: (M, L) int64, -1 torso, -2 padding.

    Returns:
        (M, L, 3) int64: pre-order, in-order, post-order; zero in padding.
    """
    found = np.zeros((*parents.shape, NUM_TRAVERSALS), dtype=np.int64)
    for row, all_parents in zip(found, parents.tolist(), strict=True):
        limbs = [limb for limb, parent in enumerate(all_parents) if parent >= -1]
        links = _child_sibling_links(all_parents, limbs)
        torso = all_parents.index(-1)
        row[limbs, 0] = np.arange(len(limbs))
        row[_walk(links, torso, _IN_ORDER), 1] = np.arange(len(limbs))
        row[_walk(links, torso, _POST_ORDER), 2] = np.arange(len(limbs))
    return found


def _child_sibling_links(parents: Sequence[int], limbs: Sequence[int]) -> dict[int, list[int]]:
    """Return the links of every limb: first child and next sibling, those that exist."""
    children: dict[int, list[int]] = {limb: [] for limb in limbs}
    for limb in limbs:
        if parents[limb] >= 0:
            children[parents[limb]].append(limb)
    links = {limb: found[:1] for limb, found in children.items()}
    for siblings in children.values():
        for limb, following in itertools.pairwise(siblings):
            links[limb].append(following)
    return links


def _walk(links: dict[int, list[int]], start: int, links_before: int) -> list[int]:
    """Return limbs in the order of a walk that takes `links_before` links, then the limb."""
    order: list[int] = []
    stack = [(start, 0)]  # limb, and how many of its links have been followed
    while stack:
        limb, followed = stack.pop()
        if followed == min(links_before, len(links[limb])):
            order.append(limb)
        if followed < len(links[limb]):
            stack += [(limb, followed + 1), (links[limb][followed], 0)]
    return order


def limb_relations(adjacency: BoolArray, distance: IntArray, num_limbs: IntArray) -> FloatArray:
    """Return how the limbs of every body relate to each other.

    PPR  = (1 - g) (I - g S)^-1 with S the adjacency with self loops, rows divided by their sum
    Lap  = D^-1/2 (D - A) D^-1/2 with D the degrees
    Dist = joints between two limbs / number of limbs

    All three are defined on any graph, so that closed loops count in them.

    Args:
        adjacency: (M, L, L) bool, True between limbs that are joined, both ways.
        distance: (M, L, L) integers, joints on the shortest path between two limbs; anything from
            and to padding.
        num_limbs: (M,) int64, real limbs of every body; they come first.

    Returns:
        (M, L, L, 3) float32: personalised PageRank from the first limb to the second, normalised
        Laplacian, distance; zero from and to padding.
    """
    found = np.empty((*adjacency.shape, NUM_RELATIONS), np.float32)
    rows = max(1, _CHUNK_NUMBERS // max(1, adjacency.shape[1] ** 2))
    for start in range(0, len(adjacency), rows):
        chunk = slice(start, start + rows)
        found[chunk] = _relations(adjacency[chunk], distance[chunk], num_limbs[chunk])
    return found


def _relations(adjacency: BoolArray, distance: IntArray, num_limbs: IntArray) -> DoubleArray:
    """Return `limb_relations` of a few bodies, in float64."""
    linked = adjacency.astype(np.float64)
    real = np.arange(linked.shape[1]) < num_limbs[:, None]  # (M, L)
    found = np.stack(
        (
            _personalised_pagerank(linked),
            _normalised_laplacian(linked),
            distance / num_limbs[:, None, None],
        ),
        axis=-1,
    )
    found[~(real[:, :, None] & real[:, None, :])] = 0.0
    return found


def _personalised_pagerank(linked: DoubleArray) -> Array:
    # Padding is linked to itself alone, so it neither disturbs limbs nor makes a matrix singular.
    identity = np.eye(linked.shape[1])
    steps = linked + identity
    steps /= steps.sum(axis=2, keepdims=True)
    rank: Array = (1 - DAMPING) * np.linalg.inv(identity - DAMPING * steps)
    return rank


def _normalised_laplacian(linked: DoubleArray) -> DoubleArray:
    degree = linked.sum(axis=2)
    # Without neighbours the Laplacian is zero, whatever it is divided by.
    scale = 1 / np.sqrt(np.maximum(degree, 1))
    laplacian: DoubleArray = degree[:, :, None] * np.eye(linked.shape[1]) - linked
    laplacian *= scale[:, :, None] * scale[:, None, :]
    return laplacian
