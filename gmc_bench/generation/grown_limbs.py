"""Limbs of a body that is being grown, and how they become a body."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gmc_bench.bodies import design
from gmc_bench.bodies.clearance import CLEARANCE
from gmc_bench.bodies.collision import Capsule, touches
from gmc_bench.bodies.parts import Actuator, Geom, Joint, Limb, Loop
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.types import Vec3

TORSO = -1
"""Parent of limbs that grow at the torso's centre."""
TORSO_SHAPE = Capsule((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), design.TORSO_RADIUS)


@dataclass(frozen=True, slots=True)
class Hinge:
    """One hinge of a limb that is being grown, with its motor."""

    axis: design.JointAxis
    range: tuple[int, int]
    """deg."""
    gear: float
    """N m."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place where limbs can grow."""

    parent: int
    """Number of a limb, or `TORSO`."""
    position: Vec3
    """Parent's frame, m."""
    middle: bool
    """In the middle of the parent rather than at its end."""


@dataclass(frozen=True, slots=True)
class GrownLimb:
    """One grown limb."""

    site: Site
    direction: Vec3
    segment: Vec3
    """Far end of the capsule's axis, limb frame, m."""
    radius: float
    """m."""
    height: float
    """m; the segment is one radius longer."""
    hinges: tuple[Hinge, ...]
    partner: int | None
    """Number of its mirror image."""
    position: Vec3
    """Origin in the parent's frame, m."""
    pivot: Vec3
    """Where its hinges are, limb frame, m."""
    shape: Capsule
    """Torso frame."""


@dataclass(frozen=True, slots=True)
class Growth:
    """Limbs that would be added together, at one site or at a site and its mirror image."""

    sites: tuple[Site, ...]
    directions: tuple[Vec3, ...]


@dataclass(frozen=True, slots=True)
class Closure:
    """A loop to be closed between two parts."""

    first: int
    """Number of one part."""
    second: int
    """Number of the other."""
    anchor: Vec3
    """In the frame of `first`, m."""


def draw_site(rng: np.random.Generator, parts: Sequence[GrownLimb]) -> Site:
    """Draw a place where limbs can grow, all equally likely.

    They are the torso's centre, and the middle and the end of each limb.
    """
    number, end = divmod(int(rng.integers(1 + 2 * len(parts))) - 1, 2)
    if number < 0:
        return Site(TORSO, (0.0, 0.0, 0.0), middle=False)
    return limb_site(parts, number, middle=not end)


def limb_site(parts: Sequence[GrownLimb], number: int, *, middle: bool) -> Site:
    """Return the site in the middle or at the end of a limb, given by its number."""
    part = parts[number]
    if not middle:
        return Site(number, part.segment, middle=False)
    half = design.along(part.direction, part.radius + part.height / 2)
    return Site(number, half, middle=True)


def mirrored(vector: Vec3) -> Vec3:
    """Return the image of a vector about the xz plane."""
    x, y, z = vector
    return (x, 0.0 - y, z)


def place(
    parts: Sequence[GrownLimb],
    growth: Growth,
    height: float,
    hinges: tuple[Hinge, ...],
    radius: float = design.LIMB_RADIUS,
) -> list[GrownLimb]:
    """Return the limbs of a growth with their places; `parts` is left as it is.

    Args:
        parts: what has grown so far; the new limbs are numbered from its length.
        growth: sites and directions.
        height: of each new limb, m.
        hinges: of each new limb.
        radius: of each new limb, m.
    """
    count, new = len(growth.sites), []
    for index, (site, direction) in enumerate(zip(growth.sites, growth.directions, strict=True)):
        on_torso = site.parent == TORSO
        reach = design.TORSO_RADIUS if on_torso else parts[site.parent].radius
        position = design.add(site.position, design.along(direction, reach))
        base = (0.0, 0.0, 0.0) if on_torso else parts[site.parent].shape.start
        segment = design.along(direction, radius + height)
        start = design.add(base, position)
        end = design.add(start, segment)
        new.append(
            GrownLimb(
                site=site,
                direction=direction,
                segment=segment,
                radius=radius,
                height=height,
                hinges=hinges,
                partner=len(parts) + 1 - index if count == 2 else None,
                position=position,
                # At the site, whatever the sizes; on the torso inside it, around its centre.
                pivot=design.along(direction, -radius if on_torso else -reach),
                shape=Capsule(start, end, radius),
            )
        )
    return new


def is_free(parts: Sequence[GrownLimb], new: Sequence[GrownLimb]) -> bool:
    """Return whether no new limb touches anything but its parent and a twin at the same site.

    Only the start pose counts.
    """
    for part in new:
        others = [(number, other.shape) for number, other in enumerate(parts)]
        others.append((TORSO, TORSO_SHAPE))
        if any(touches(part.shape, s) for number, s in others if number != part.site.parent):
            return False
    twins = len(new) == 2 and new[0].site == new[1].site
    return len(new) < 2 or twins or not touches(new[0].shape, new[1].shape)


def lowest_point(parts: Sequence[GrownLimb]) -> float:
    """Return the height of the lowest point above the torso's centre, m; never positive."""
    ends = (min(p.shape.start[2], p.shape.end[2]) - p.radius for p in parts)
    return min(-design.TORSO_RADIUS, *ends)


def make_limb(part: GrownLimb, number: int, parent: int, density: float) -> Limb:
    """Return a part as a limb; its name and those of its hinges follow from its number.

    Args:
        part: the part.
        number: its number among the grown parts.
        parent: index of its parent in the list that the limb is for; the torso is 0.
        density: kg/m^3.
    """
    geom = Geom(kind="capsule", radius=part.radius, end=part.segment, density=density)
    joints = tuple(
        Joint(
            name=f"limb{hinge.axis}/{number}",
            axis=design.hinge_axis(hinge.axis, part.segment),
            position=part.pivot,
            range=(math.radians(hinge.range[0]), math.radians(hinge.range[1])),
            slot=0 if hinge.axis == "x" else 1,
        )
        for hinge in part.hinges
    )
    name = f"limb/{number}"
    return Limb(name=name, parent=parent, position=part.position, geom=geom, joints=joints)


def assemble(
    parts: Sequence[GrownLimb],
    torso_density: float,
    limb_density: float,
    name: str,
    closures: Sequence[Closure] = (),
) -> Morphology:
    """Make a body of parts; its lowest point starts 0.2 m above the ground.

    Args:
        parts: in the order of their growth, parents before their children; at least one.
        torso_density: kg/m^3.
        limb_density: of all limbs, kg/m^3.
        name: the body's name.
        closures: the loops.
    """
    order = _depth_first(parts)
    index = {number: place for place, number in enumerate(order, start=1)}
    height = round(CLEARANCE - lowest_point(parts), 2)
    torso_geom = Geom(kind="sphere", radius=design.TORSO_RADIUS, density=torso_density)
    limbs = [Limb(name="torso/0", parent=-1, position=(0.0, 0.0, height), geom=torso_geom)]
    for number in order:
        parent = index.get(parts[number].site.parent, 0)
        limbs.append(make_limb(parts[number], number, parent, limb_density))
    return Morphology(
        name=name,
        limbs=tuple(limbs),
        actuators=tuple(
            Actuator(joint=f"limb{hinge.axis}/{number}", gear=hinge.gear)
            for number in order
            for hinge in parts[number].hinges
        ),
        symmetric_limbs=tuple(
            (index[number], index[part.partner])
            for number, part in enumerate(parts)
            if part.partner is not None and number < part.partner
        ),
        loops=tuple(
            Loop(first=index[c.first], second=index[c.second], anchor=c.anchor) for c in closures
        ),
    )


def _depth_first(parts: Sequence[GrownLimb]) -> list[int]:
    """Return the limb numbers in preorder, siblings in the order of their growth."""
    children: dict[int, list[int]] = {}
    for number, part in enumerate(parts):
        children.setdefault(part.site.parent, []).append(number)
    order: list[int] = []
    waiting = children[TORSO][::-1]
    while waiting:
        number = waiting.pop()
        order.append(number)
        waiting += children.get(number, [])[::-1]
    return order
