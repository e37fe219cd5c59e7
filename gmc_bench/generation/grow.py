"""Growing random UNIMAL bodies limb by limb.

Source:
    Gupta et al. 2021 (DERL), arXiv:2102.02202, growth operator of agrimgupta92/derl. Differs:
    bodies grow and are not mutated otherwise; touching shapes are found by exact distances in the
    start pose instead of one engine step; the lowest point of the body itself, not of a marker,
    is put 0.2 m above the ground.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from gmc_bench.errors import MorphologyError
from gmc_bench.generation import design
from gmc_bench.generation.collision import Shape, touches
from gmc_bench.morphology.schema import Actuator, Geom, Joint, Limb, Morphology
from gmc_bench.types import Vec3

T = TypeVar("T")

_TORSO = -1  # parent of limbs that grow at the torso's centre
_ATTEMPTS = 50  # draws per growth, as in DERL
_RESTARTS = 100  # bodies begun before giving up; half or more of them reach 1 to 29 limbs


@dataclass(frozen=True, slots=True)
class _Hinge:
    axis: design.JointAxis
    range: tuple[int, int]  # deg
    gear: float  # N m


@dataclass(frozen=True, slots=True)
class _Site:
    """A place where limbs can grow."""

    parent: int  # limb number, or _TORSO
    position: Vec3  # parent's frame, m
    middle: bool  # in the middle of the parent rather than at its end


@dataclass(frozen=True, slots=True)
class _Part:
    """One grown limb."""

    site: _Site
    direction: Vec3
    height: float  # m
    hinges: tuple[_Hinge, ...]
    partner: int | None  # number of its mirror image
    position: Vec3  # origin in the parent's frame, m
    shape: Shape  # torso frame


@dataclass(frozen=True, slots=True)
class _Growth:
    """Limbs that would be added together, at one site or at a site and its mirror image."""

    sites: tuple[_Site, ...]
    directions: tuple[Vec3, ...]


def grow_body(rng: np.random.Generator, num_limbs: int, name: str) -> Morphology:
    """Grow one random body that is its own mirror image about the xz plane.

    Limbs are added one or two at a time: at the torso or an unpaired limb one limb, or a mirrored
    pair; at a paired limb always one limb and its image at the partner. No two limbs touch in the
    start pose, apart from parent and child and the two limbs of a pair grown at one site. Both
    limbs of a pair share size, hinges, ranges and gears; as in the published bodies the ranges
    are shared as numbers, so that hinges about the limb's x axis do not mirror.

    Args:
        rng: the only source of randomness; equal generators give equal bodies.
        num_limbs: limbs to grow, the torso not counted; at least 1.
        name: the body's name.

    Returns:
        A body with `num_limbs + 1` limbs, each but the torso with one or two driven hinges.

    Raises:
        MorphologyError: no body of this size was found; only sizes far above the published
            bodies' 10 limbs, or below 1, meet this.
    """
    if num_limbs < 1:
        raise MorphologyError(f"cannot grow a body with {num_limbs} limbs; ask for at least 1")
    for _ in range(_RESTARTS):
        parts: list[_Part] = []
        torso_density, limb_density = _choice(rng, design.DENSITIES), _choice(rng, design.DENSITIES)
        while len(parts) < num_limbs and _grow(rng, parts, num_limbs):
            pass
        if len(parts) == num_limbs:
            return _morphology(parts, torso_density, limb_density, name)
    raise MorphologyError(
        f"found no body with {num_limbs} limbs in {_RESTARTS} tries; ask for fewer limbs"
    )


def _choice(rng: np.random.Generator, options: Sequence[T]) -> T:
    return options[int(rng.integers(len(options)))]


def _grow(rng: np.random.Generator, parts: list[_Part], num_limbs: int) -> bool:
    """Add one limb or one pair to `parts`; return False when no draw was acceptable."""
    for _ in range(_ATTEMPTS):
        growth = _draw_growth(rng, parts)
        height = _choice(rng, design.LIMB_HEIGHTS)
        hinges = tuple(
            _Hinge(axis, _choice(rng, design.JOINT_RANGES), _choice(rng, design.GEARS))
            for axis in _choice(rng, design.AXIS_SETS)
        )
        if growth is None or len(parts) + len(growth.sites) > num_limbs:
            continue
        new = _place(parts, growth, height, hinges)
        if _is_free(parts, new):
            parts += new
            return True
    return False


def _draw_growth(rng: np.random.Generator, parts: list[_Part]) -> _Growth | None:
    """Draw site, number and direction; None where the symmetry rules forbid the combination."""
    site = _choice(rng, _sites(parts))
    pair = bool(rng.integers(2))
    azimuth, inclination = _choice(rng, design.AZIMUTHS), _choice(rng, design.INCLINATIONS)
    x, y, z = design.unit_direction(min(azimuth, 360 - azimuth), inclination)
    if site.parent != _TORSO:
        parent = parts[site.parent]
        if _inside_parent(parent, site, (x, y, z)):
            return None
        if parent.partner is not None:
            # Equal directions at both images keep the symmetry only inside the plane.
            image = _Site(parent.partner, _mirrored(site.position), site.middle)
            return _Growth((site, image), ((x, y, z), (x, y, z))) if y == 0.0 else None
    if pair:
        return _Growth((site, site), ((x, y, z), (x, -y, z))) if y != 0.0 else None
    return _Growth((site,), ((x, y, z),)) if y == 0.0 else None


def _inside_parent(parent: _Part, site: _Site, direction: Vec3) -> bool:
    """Return whether a new limb would run along the inside of its parent."""
    backwards = tuple(0.0 - component for component in parent.direction)
    return direction == backwards or (site.middle and direction == parent.direction)


def _sites(parts: list[_Part]) -> list[_Site]:
    sites = [_Site(_TORSO, (0.0, 0.0, 0.0), middle=False)]
    for number, part in enumerate(parts):
        half = design.LIMB_RADIUS + part.height / 2
        whole = design.segment_length(part.height)
        sites.append(_Site(number, design.along(part.direction, half), middle=True))
        sites.append(_Site(number, design.along(part.direction, whole), middle=False))
    return sites


def _mirrored(vector: Vec3) -> Vec3:
    x, y, z = vector
    return (x, 0.0 - y, z)


def _place(
    parts: list[_Part], growth: _Growth, height: float, hinges: tuple[_Hinge, ...]
) -> list[_Part]:
    count, new = len(growth.sites), []
    for index, (site, direction) in enumerate(zip(growth.sites, growth.directions, strict=True)):
        on_torso = site.parent == _TORSO
        reach = design.TORSO_RADIUS if on_torso else design.LIMB_RADIUS
        position = design.add(site.position, design.along(direction, reach))
        base = (0.0, 0.0, 0.0) if on_torso else parts[site.parent].shape.start
        start = design.add(base, position)
        end = design.add(start, design.along(direction, design.segment_length(height)))
        partner = len(parts) + 1 - index if count == 2 else None
        shape = Shape(start, end, design.LIMB_RADIUS)
        new.append(_Part(site, direction, height, hinges, partner, position, shape))
    return new


def _is_free(parts: list[_Part], new: list[_Part]) -> bool:
    """Return whether no new limb touches anything but its parent and a twin at the same site."""
    torso = Shape((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), design.TORSO_RADIUS)
    for part in new:
        others = [(number, other.shape) for number, other in enumerate(parts)]
        others.append((_TORSO, torso))
        if any(touches(part.shape, s) for number, s in others if number != part.site.parent):
            return False
    twins = len(new) == 2 and new[0].site == new[1].site
    return len(new) < 2 or twins or not touches(new[0].shape, new[1].shape)


def _morphology(
    parts: list[_Part], torso_density: float, limb_density: float, name: str
) -> Morphology:
    order = _depth_first(parts)
    place = {number: index for index, number in enumerate(order, start=1)}
    lowest = min(-design.TORSO_RADIUS, *(p.shape.end[2] - design.LIMB_RADIUS for p in parts))
    centre = (0.0, 0.0, round(design.GROUND_CLEARANCE - lowest, 2))
    torso_geom = Geom(kind="sphere", radius=design.TORSO_RADIUS, density=torso_density)
    limbs = [Limb(name="torso/0", parent=-1, position=centre, geom=torso_geom)]
    for number in order:
        parent = place.get(parts[number].site.parent, 0)
        limbs.append(_limb(parts[number], number, parent, limb_density))
    actuators = tuple(
        Actuator(joint=f"limb{hinge.axis}/{number}", gear=hinge.gear)
        for number in order
        for hinge in parts[number].hinges
    )
    pairs = tuple(
        (place[number], place[part.partner])
        for number, part in enumerate(parts)
        if part.partner is not None and number < part.partner
    )
    return Morphology(name=name, limbs=tuple(limbs), actuators=actuators, symmetric_limbs=pairs)


def _depth_first(parts: list[_Part]) -> list[int]:
    """Return the limb numbers in preorder, siblings in the order of their growth."""
    children: dict[int, list[int]] = {}
    for number, part in enumerate(parts):
        children.setdefault(part.site.parent, []).append(number)
    order: list[int] = []
    waiting = children[_TORSO][::-1]
    while waiting:
        number = waiting.pop()
        order.append(number)
        waiting += children.get(number, [])[::-1]
    return order


def _limb(part: _Part, number: int, parent: int, density: float) -> Limb:
    segment = design.along(part.direction, design.segment_length(part.height))
    geom = Geom(kind="capsule", radius=design.LIMB_RADIUS, end=segment, density=density)
    joints = tuple(
        Joint(
            name=f"limb{hinge.axis}/{number}",
            axis=design.hinge_axis(hinge.axis, segment),
            position=design.along(part.direction, -design.LIMB_RADIUS),
            range=(math.radians(hinge.range[0]), math.radians(hinge.range[1])),
            slot=0 if hinge.axis == "x" else 1,
        )
        for hinge in part.hinges
    )
    name = f"limb/{number}"
    return Limb(name=name, parent=parent, position=part.position, geom=geom, joints=joints)
