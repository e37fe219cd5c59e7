"""Closing the loops of a body again after its limbs have changed their sizes."""

import math
from collections.abc import Sequence
from dataclasses import replace

from gmc_bench.bodies import design
from gmc_bench.bodies.parts import IDENTITY, Limb, Loop
from gmc_bench.bodies.schema import Morphology
from gmc_bench.bodies.vectors import minus, plus, times
from gmc_bench.core.errors import MorphologySetError
from gmc_bench.core.types import Vec3

_SAME = 1e-5  # m
_SHORTEST = 0.05  # m; a shorter bridge would be no limb


def refit_loops(body: Morphology, limbs: list[Limb]) -> tuple[Loop, ...]:
    """Close the loops of a grown body whose limbs have other sizes.

    A bridge spans its two tips wherever they are: its direction and length follow from them, and
    only its radius is kept. Tips that are joined directly stay joined half-way between them.

    Args:
        body: the body as it was.
        limbs: its limbs with other sizes; bridges are replaced in this list.

    Returns:
        The loops.

    Raises:
        MorphologySetError: a loop does not join two tips, or a limb is turned.
    """
    if any(limb.orientation != IDENTITY for limb in body.limbs):
        raise _not_grown(body)
    loops = []
    for loop in body.loops:
        old = _tips(body.limbs)
        anchor = plus(limb_origins(body.limbs)[loop.first], loop.anchor)
        bridged = math.dist(anchor, old[loop.second]) < _SAME
        if bridged:
            loops.append(_bridged(limbs, loop))
            continue
        if math.dist(anchor, _middle(old[loop.first], old[loop.second])) > _SAME:
            raise _not_grown(body)
        new = _tips(limbs)
        middle = _middle(new[loop.first], new[loop.second])
        loops.append(replace(loop, anchor=minus(middle, limb_origins(limbs)[loop.first])))
    return tuple(loops)


def _bridged(limbs: list[Limb], loop: Loop) -> Loop:
    """Lay a bridge from its parent's tip to the other limb's."""
    bridge = limbs[loop.first]
    parent, tips = limbs[bridge.parent], _tips(limbs)
    span = minus(tips[loop.second], tips[bridge.parent])
    length = math.hypot(*span)
    direction = times(span, 1.0 / length)
    ends = parent.geom.radius + limbs[loop.second].geom.radius
    segment = times(direction, max(_SHORTEST, length - ends))
    limbs[loop.first] = replace(
        bridge,
        position=plus(parent.geom.end, times(direction, parent.geom.radius)),
        geom=replace(bridge.geom, end=segment),
        joints=tuple(
            replace(
                joint,
                position=times(direction, -parent.geom.radius),
                axis=design.hinge_axis("x" if joint.slot == 0 else "y", segment),
            )
            for joint in bridge.joints
        ),
    )
    return replace(loop, anchor=minus(span, times(direction, parent.geom.radius)))


def _not_grown(body: Morphology) -> MorphologySetError:
    return MorphologySetError(
        f"the shape of the body {body.name!r} cannot be varied, because its loops do not join the "
        f"tips of limbs; choose another variation or base set"
    )


def limb_origins(limbs: Sequence[Limb]) -> list[Vec3]:
    """Return the limbs' origins in the torso frame; no limb is turned against its parent."""
    origins: list[Vec3] = []
    for limb in limbs:
        zero = (0.0, 0.0, 0.0)
        origins.append(zero if limb.parent < 0 else plus(origins[limb.parent], limb.position))
    return origins


def _tips(limbs: Sequence[Limb]) -> list[Vec3]:
    return [
        plus(origin, limb.geom.end) for origin, limb in zip(limb_origins(limbs), limbs, strict=True)
    ]


def _middle(first: Vec3, second: Vec3) -> Vec3:
    return times(plus(first, second), 0.5)
