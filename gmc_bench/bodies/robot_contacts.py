"""Pairs of limbs of a foreign robot that never touch each other."""

from collections.abc import Sequence
from typing import Any

from gmc_bench.bodies.robot_repair import meet
from gmc_bench.bodies.robot_tree import Draft, Part
from gmc_bench.bodies.schema import Limb, Loop


def build_exclusions(
    draft: Draft, limbs: Sequence[Limb], loops: Sequence[Loop]
) -> tuple[tuple[int, int], ...]:
    """Return the pairs of limbs whose contacts the file excludes.

    A file excludes contacts of two bodies, which may be parts of larger limbs here, and neighbours
    never touch; notes tell where either takes contacts away that the file has.

    Args:
        draft: the robot with its parts; notes are added.
        limbs: of the parts.
        loops: of the body; limbs that one joins do not touch anyway.
    """
    solid: dict[int, list[dict[str, Any]]] = {}  # shapes that touch others, by body
    for geom in draft.model["geoms"]:
        if geom["contype"] or geom["conaffinity"]:
            solid.setdefault(geom["body"], []).append(geom)
    # What has no such shapes touches nothing, but may be part of a limb that does.
    stated = {
        (min(pair), max(pair)) for pair in draft.model["exclusions"] if solid.keys() >= {*pair}
    }

    def touching(one: Part, other: Part) -> bool:
        """Return whether the file lets bodies of two parts touch."""
        pairs = ((a, b) for a in one.members for b in other.members)
        return any(
            meet(first, second)
            for a, b in pairs
            if (min(a, b), max(a, b)) not in stated
            for first in solid.get(a, ())
            for second in solid.get(b, ())
        )

    for limb, part in zip(limbs, draft.parts, strict=True):
        # Bodies that stood between it and its parent passed their joints on.
        chained = any(joint["body"] != part.frame for joint in part.joints)
        if chained and touching(part, draft.parts[part.parent]):
            draft.notes.append(
                f"limbs that could touch their parent and no longer can: {limb.name}"
            )
    ends = (sorted(draft.part_of.get(body, -1) for body in pair) for pair in stated)
    pairs = {
        (first, second)
        for first, second in ends
        if first >= 0 and first != second and limbs[second].parent != first
    }
    kept = sorted(pairs - {(min(o.first, o.second), max(o.first, o.second)) for o in loops})
    for first, second in kept:
        if touching(draft.parts[first], draft.parts[second]):
            names = f"{limbs[first].name!r} and {limbs[second].name!r}"
            draft.notes.append(f"exclusions that count for more than the bodies they name: {names}")
    return tuple(kept)
