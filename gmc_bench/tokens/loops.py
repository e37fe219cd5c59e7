"""Spanning trees of bodies with closed loops, and which of their limbs are part of a loop.

The graph of a body has an edge for every joint of its tree and one for every closed loop. A tree
is given by the parent of every limb, -1 for the torso, which is limb 0.
"""

from collections.abc import Sequence

Edge = tuple[int, int]


def breadth_first_tree(
    parents: Sequence[int], loops: Sequence[Edge]
) -> tuple[list[int], list[Edge]]:
    """Grow a spanning tree of a body's graph from the torso, breadth first.

    The parent of a limb is the one of least index among its neighbours that are one step nearer
    to the torso. A body without loops keeps its tree.

    Args:
        parents: of every limb, in the body's own tree.
        loops: pairs of limbs that close loops.

    Returns:
        The parent of every limb, and the edges that are not in the tree, smaller index first,
        sorted.
    """
    neighbours = _neighbours(parents, loops)
    found = [-1] * len(parents)
    reached, front = {0}, [0]
    while front:
        following = []
        for limb in sorted(front):
            for neighbour in neighbours[limb]:
                if neighbour not in reached:
                    reached.add(neighbour)
                    found[neighbour] = limb
                    following.append(neighbour)
        front = following
    edges = {(min(pair), max(pair)) for pair in [*_joints(parents), *loops]}
    left = edges - {(min(pair), max(pair)) for pair in _joints(found)}
    return found, sorted(left)


def limbs_in_loops(parents: Sequence[int], loops: Sequence[Edge]) -> list[bool]:
    """Return for every limb whether it is on a cycle of the body's graph.

    It is enough to look at fundamental cycles: an edge outside the tree, and the path in the tree
    between its ends.

    Args:
        parents: of every limb, in any spanning tree.
        loops: the edges that are not in it.
    """
    found = [False] * len(parents)
    for first, second in loops:
        above = [_to_torso(parents, end) for end in (first, second)]
        shared = set(above[0]) & set(above[1])
        meeting = next(limb for limb in above[0] if limb in shared)
        for path in above:
            for limb in path[: path.index(meeting) + 1]:
                found[limb] = True
    return found


def _joints(parents: Sequence[int]) -> list[Edge]:
    return [(parent, limb) for limb, parent in enumerate(parents) if parent >= 0]


def _neighbours(parents: Sequence[int], loops: Sequence[Edge]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in parents]
    for first, second in [*_joints(parents), *loops]:
        found[first].append(second)
        found[second].append(first)
    return found


def _to_torso(parents: Sequence[int], limb: int) -> list[int]:
    path = [limb]
    while parents[path[-1]] >= 0:
        path.append(parents[path[-1]])
    return path
