"""Digests of what bodies share with others: the tree of their limbs, and their geometry.

Both are short; equal ones mean alike. Names and the order of siblings do not count.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from gmc_bench.bodies.parts import IDENTITY, Limb
from gmc_bench.bodies.schema import Morphology

DIGITS = 16
"""Hex digits of a digest."""
_LONGEST = 2**20
"""Characters of a limb's text. Each level quotes the one below, which doubles its backslashes, so a
longer text stands for itself by its digest: otherwise a chain of 26 limbs would need 1 GB."""


def limb_tree(body: Morphology) -> str:
    """Return a digest of which limb is attached to which, regardless of size, joints and motors."""
    return _digest(body, lambda limb: [])


def geometry(body: Morphology) -> str:
    """Return a digest of the limb tree with positions and shapes, rounded to micrometres.

    Joints, motors and densities do not count.
    """
    return _digest(body, _shape)


def _digest(body: Morphology, of_limb: Callable[[Limb], list[Any]]) -> str:
    children: dict[int, list[int]] = {}
    for number, parent in enumerate(body.parents):
        children.setdefault(parent, []).append(number)

    def text(number: int) -> str:
        below = sorted(text(child) for child in children.get(number, []))
        found = json.dumps([of_limb(body.limbs[number]), below], separators=(",", ":"))
        return found if len(found) <= _LONGEST else _sha256(found)

    return _sha256(text(0))[:DIGITS]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _shape(limb: Limb) -> list[Any]:
    places = [limb.position if limb.parent >= 0 else (), limb.orientation]
    shapes = sorted(
        [
            geom.kind,
            *_rounded((geom.radius, *geom.start, *geom.end, *geom.half_sizes)),
            # Left out where it is the default, so that digests in records stay.
            *(_rounded(geom.orientation) if geom.orientation != IDENTITY else []),
        ]
        for geom in limb.geoms
    )
    return [*(_rounded(place) for place in places), shapes]


def _rounded(numbers: tuple[float, ...]) -> list[str]:
    return [f"{round(number, 6) + 0.0:.6f}" for number in numbers]
