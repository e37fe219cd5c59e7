"""Closing loops: by a limb that bridges two tips, or by joining two tips.

A pair of mirrored limbs gets two loops, or one between its two limbs.
"""

import math
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from gmc_bench.bodies import design
from gmc_bench.bodies.collision import Capsule
from gmc_bench.bodies.vectors import plus, times
from gmc_bench.core.types import Vec3
from gmc_bench.generation.grow import draw_hinges
from gmc_bench.generation.growing_body import GrowingBody
from gmc_bench.generation.grown_limbs import Closure, GrownLimb, Hinge, Site

BRIDGED = (0.3, 0.65)
"""Distances between two tips that a bridge can span, m."""
JOINED = 0.35
"""Largest distance between two tips that are joined, m."""
BRIDGE_RANGES = tuple(pair for pair in design.JOINT_RANGES if pair[0] < 0 < pair[1])
"""Ranges of a bridge's hinges, deg: a hinge that starts at its limit would hold the loop still."""

_DECIMALS = 6  # of a bridge's lengths; its tips are whole centimetres apart in each direction

_Ends = tuple[tuple[int, int], ...]  # of loops that are closed together


def add_bridges(
    rng: np.random.Generator, draft: GrowingBody, loops: int
) -> tuple[Closure, ...] | None:
    """Close loops by new limbs, each from one tip to a lower or equally low one.

    A bridge is a limb with two hinges at its upper end; its lower end is joined to the other tip.
    It leaves a gap of one radius to both tips' centres, like any limb that grows at a tip.

    Args:
        rng: the source of randomness.
        draft: the body's tree; gets the new limbs.
        loops: how many to close.

    Returns:
        The loops; `None` when there is no place for all of them.
    """

    def bridge(ends: _Ends) -> tuple[Closure, ...] | None:
        hinges = draw_hinges(rng, design.AXIS_SETS[-1], BRIDGE_RANGES)
        new, closures = [], []
        for index, (upper, lower) in enumerate(ends):
            partner = len(draft.parts) + 1 - index if len(ends) == 2 else None
            part, anchor = _bridge(draft.parts, upper, lower, hinges, partner)
            closures.append(Closure(len(draft.parts) + index, lower, anchor))
            new.append(part)
        # That nothing is in their way, in the start pose either, is what the draft looks at.
        added = draft.add(new, rng, [lower for _, lower in ends])
        return tuple(closures) if added else None

    return _close_all(rng, draft, loops, BRIDGED, bridge)


def join_tips(
    rng: np.random.Generator, draft: GrowingBody, loops: int
) -> tuple[Closure, ...] | None:
    """Close loops by joining two tips each at the point half-way between them.

    Args:
        rng: the source of randomness.
        draft: the body's tree.
        loops: how many to close.

    Returns:
        The loops; `None` when there are not that many pairs of tips so close to each other.
    """

    def join(ends: _Ends) -> tuple[Closure, ...]:
        closures = []
        for first, second in ends:
            shape = draft.parts[first].shape
            middle = times(plus(shape.end, draft.parts[second].shape.end), 0.5)
            anchor = _rounded(plus(middle, times(shape.start, -1.0)))
            closures.append(Closure(first, second, anchor))
        return tuple(closures)

    return _close_all(rng, draft, loops, (0.0, JOINED), join)


def _close_all(
    rng: np.random.Generator,
    draft: GrowingBody,
    loops: int,
    distances: tuple[float, float],
    close: Callable[[_Ends], tuple[Closure, ...] | None],
) -> tuple[Closure, ...] | None:
    closed: tuple[Closure, ...] = ()
    used: set[int] = set()
    while len(closed) < loops:
        options = [
            ends
            for ends in _options(draft.parts, used, distances)
            if len(ends) <= loops - len(closed)
        ]
        new = None
        while options and new is None:
            ends = options.pop(int(rng.integers(len(options))))
            new = close(ends)
        if new is None:
            return None
        closed += new
        # A tip has room for one joint.
        used |= {end for pair in ends for end in pair} | {c.first for c in new}
    return closed


def _options(
    parts: list[GrownLimb], used: set[int], distances: tuple[float, float]
) -> Iterator[_Ends]:
    """Yield the tips that could be joined, the higher first; mirror images together."""
    parents = {part.site.parent for part in parts}
    tips = [number for number in range(len(parts)) if number not in parents | used]
    for first, second in combinations(tips, 2):
        upper, lower = sorted((first, second), key=lambda tip: -parts[tip].shape.end[2])
        apart = math.dist(parts[upper].shape.end, parts[lower].shape.end)
        if not distances[0] <= apart <= distances[1]:
            continue
        images = parts[upper].partner, parts[lower].partner
        if images == (None, None) or images == (lower, upper):
            yield ((upper, lower),)
        elif images[0] is not None and images[1] is not None and upper < images[0]:
            yield ((upper, lower), (images[0], images[1]))


def _bridge(
    parts: list[GrownLimb], upper: int, lower: int, hinges: tuple[Hinge, ...], partner: int | None
) -> tuple[GrownLimb, Vec3]:
    """Return a bridge and the loop's anchor in its frame."""
    radius = parts[upper].radius
    tip = parts[upper].shape.end
    span = plus(parts[lower].shape.end, times(tip, -1.0))
    length = math.hypot(*span)
    direction = times(span, 1.0 / length)
    offset = _rounded(times(direction, radius))
    segment = _rounded(times(direction, length - 2 * radius))
    start = plus(tip, offset)
    part = GrownLimb(
        site=Site(upper, parts[upper].segment, middle=False),
        direction=direction,
        segment=segment,
        radius=radius,
        height=length - 3 * radius,
        hinges=hinges,
        partner=partner,
        position=_rounded(plus(parts[upper].segment, offset)),
        pivot=times(offset, -1.0),
        shape=Capsule(start, plus(start, segment), radius),
    )
    return part, _rounded(plus(span, times(offset, -1.0)))


def _rounded(vector: Vec3) -> Vec3:
    x, y, z = (round(number, _DECIMALS) + 0.0 for number in vector)
    return (x, y, z)
