"""Mutation of grown bodies: one random change after which all limbs still have room.

Source:
    Gupta et al. 2021 (DERL), arXiv:2102.02202: its operators, drawn uniformly. Differs: hinges,
    ranges and gears change at one limb or pair, never at all of them, so that a child stays close
    to its parent; after every change the limbs of the whole body are kept clear of each other as
    when it grew, where DERL checks only limbs that are added.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gmc_bench.bodies import design
from gmc_bench.core.errors import MorphologyError
from gmc_bench.generation.bodies import Form, grow_limbs
from gmc_bench.generation.grow import choice, draw_hinges
from gmc_bench.generation.growing_body import GrowingBody
from gmc_bench.generation.grown_limbs import (
    TORSO,
    GrownLimb,
    Growth,
    Hinge,
    Site,
    is_free,
    limb_site,
    place,
)

MIN_LIMBS = 3
"""Fewest limbs that a mutation leaves, the torso not counted."""
MAX_LIMBS = 10
"""Most limbs after a mutation, as in the published bodies."""

_TRIES = 200  # changes drawn before giving up; most bodies take a few

_Group = tuple[int, ...]  # number of a limb, or the numbers of a pair
_Change = Callable[[np.random.Generator, GrowingBody], GrowingBody | None]


def mutate(rng: np.random.Generator, body: GrowingBody) -> GrowingBody:
    """Return a body that differs from another in one respect.

    A limb or pair is added; a leaf or a pair of leaves is removed; a limb or pair gets another
    height, other hinges, ranges or gears; or torso and limbs get other densities. Pairs stay each
    other's mirror images.

    Args:
        rng: the only source of randomness; equal generators give equal bodies.
        body: a symmetric body without loops; left as it is.

    Raises:
        MorphologyError: no change was found that leaves room.
    """
    for _ in range(_TRIES):
        child = choice(rng, _CHANGES)(rng, body)
        if child is not None and _traits(child) != _traits(body):
            return child
    raise MorphologyError(
        f"found no mutation of a body with {len(body.parts)} limbs in {_TRIES} tries; mutate "
        f"another body"
    )


def _traits(body: GrowingBody) -> tuple[Any, ...]:
    """Return everything that decides the body."""
    return body.torso_density, body.limb_density, tuple(body.parts)


def _add_limbs(rng: np.random.Generator, body: GrowingBody) -> GrowingBody | None:
    child = replace(body)
    return child if grow_limbs(rng, child, MAX_LIMBS, Form()) else None


def _remove_limbs(rng: np.random.Generator, body: GrowingBody) -> GrowingBody | None:
    parents = {part.site.parent for part in body.parts}
    leaves = [group for group in _groups(body.parts) if not parents.intersection(group)]
    gone = choice(rng, leaves)
    if len(body.parts) - len(gone) < MIN_LIMBS:
        return None
    return _regrown(rng, body, [p for n, p in enumerate(body.parts) if n not in gone], gone)


def _change_height(rng: np.random.Generator, body: GrowingBody) -> GrowingBody | None:
    height = choice(rng, design.LIMB_HEIGHTS)
    return _with_changed(rng, body, lambda part: replace(part, height=height))


def _change_hinges(rng: np.random.Generator, body: GrowingBody) -> GrowingBody | None:
    hinges = draw_hinges(rng, choice(rng, design.AXIS_SETS), design.JOINT_RANGES)
    return _with_changed(rng, body, lambda part: replace(part, hinges=hinges))


def _change_ranges(rng: np.random.Generator, body: GrowingBody) -> GrowingBody | None:
    drawn = _drawn_per_axis(rng)
    return _with_hinges(rng, body, lambda hinge: replace(hinge, range=drawn[hinge.axis].range))


def _change_gears(rng: np.random.Generator, body: GrowingBody) -> GrowingBody | None:
    drawn = _drawn_per_axis(rng)
    return _with_hinges(rng, body, lambda hinge: replace(hinge, gear=drawn[hinge.axis].gear))


def _change_densities(rng: np.random.Generator, body: GrowingBody) -> GrowingBody | None:
    return replace(
        body,
        torso_density=choice(rng, design.DENSITIES),
        limb_density=choice(rng, design.DENSITIES),
    )


_CHANGES: tuple[_Change, ...] = (
    _add_limbs,
    _remove_limbs,
    _change_height,
    _change_hinges,
    _change_ranges,
    _change_gears,
    _change_densities,
)


def _drawn_per_axis(rng: np.random.Generator) -> dict[design.JointAxis, Hinge]:
    return {hinge.axis: hinge for hinge in draw_hinges(rng, ("x", "y"), design.JOINT_RANGES)}


def _groups(parts: Sequence[GrownLimb]) -> list[_Group]:
    """Return limbs and pairs in the order of their growth; a pair is numbered in a row."""
    return [
        (number,) if part.partner is None else (number, part.partner)
        for number, part in enumerate(parts)
        if part.partner is None or number < part.partner
    ]


def _with_hinges(
    rng: np.random.Generator, body: GrowingBody, change: Callable[[Hinge], Hinge]
) -> GrowingBody | None:
    return _with_changed(
        rng, body, lambda part: replace(part, hinges=tuple(map(change, part.hinges)))
    )


def _with_changed(
    rng: np.random.Generator, body: GrowingBody, change: Callable[[GrownLimb], GrownLimb]
) -> GrowingBody | None:
    """Change one limb or pair; `None` where it then has no room."""
    group = choice(rng, _groups(body.parts))
    changed = [change(part) if n in group else part for n, part in enumerate(body.parts)]
    return _regrown(rng, body, changed)


def _regrown(
    rng: np.random.Generator, body: GrowingBody, parts: Sequence[GrownLimb], gone: _Group = ()
) -> GrowingBody | None:
    """Put parts together anew, because places and room follow from what they grow on.

    Args:
        rng: draws the angles of the random poses.
        body: has their densities.
        parts: direction, height, radius and hinges count, and where they grow.
        gone: numbers of parts that were taken out; `parts` still names its sites by old numbers.

    Returns:
        The body; `None` when a limb has no room.
    """
    draft = GrowingBody(torso_density=body.torso_density, limb_density=body.limb_density)
    while len(draft.parts) < len(parts):
        first = parts[len(draft.parts)]
        pair = parts[len(draft.parts) :][: 1 if first.partner is None else 2]
        growth = Growth(
            tuple(_moved(draft.parts, part.site, gone) for part in pair),
            tuple(part.direction for part in pair),
        )
        new = place(draft.parts, growth, first.height, first.hinges, first.radius)
        if not is_free(draft.parts, new) or not draft.add(new, rng):
            return None
    return draft


def _moved(parts: Sequence[GrownLimb], site: Site, gone: _Group) -> Site:
    """Return a site of the old body where it is on the new one."""
    if site.parent == TORSO:
        return site
    number = site.parent - sum(other < site.parent for other in gone)
    return limb_site(parts, number, middle=site.middle)
