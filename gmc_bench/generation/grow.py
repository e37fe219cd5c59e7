"""Growing random UNIMAL bodies limb by limb.

Source:
    Gupta et al. 2021 (DERL), arXiv:2102.02202, growth operator of agrimgupta92/derl. Differs:
    bodies grow and are not mutated otherwise; touching shapes are found by exact distances in the
    start pose instead of one engine step; the lowest point of the body itself, not of a marker,
    is put 0.2 m above the ground.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from gmc_bench.bodies import design
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import MorphologyError
from gmc_bench.core.types import Vec3
from gmc_bench.generation.grown_limbs import (
    TORSO,
    GrownLimb,
    Growth,
    Hinge,
    Site,
    assemble,
    draw_site,
    is_free,
    mirrored,
    place,
)

T = TypeVar("T")

_ATTEMPTS = 50  # draws per growth, as in DERL
_RESTARTS = 100  # bodies begun before giving up; half or more of them reach 1 to 29 limbs


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
        parts: list[GrownLimb] = []
        torso_density, limb_density = choice(rng, design.DENSITIES), choice(rng, design.DENSITIES)
        while len(parts) < num_limbs and _grow(rng, parts, num_limbs):
            pass
        if len(parts) == num_limbs:
            return assemble(parts, torso_density, limb_density, name)
    raise MorphologyError(
        f"found no body with {num_limbs} limbs in {_RESTARTS} tries; ask for fewer limbs"
    )


def choice(rng: np.random.Generator, options: Sequence[T]) -> T:
    """Return one of the options, all equally likely."""
    return options[int(rng.integers(len(options)))]


def _grow(rng: np.random.Generator, parts: list[GrownLimb], num_limbs: int) -> bool:
    """Add one limb or one pair to `parts`; return False when no draw was acceptable."""
    for _ in range(_ATTEMPTS):
        growth = draw_growth(rng, parts)
        height = choice(rng, design.LIMB_HEIGHTS)
        hinges = draw_hinges(rng, choice(rng, design.AXIS_SETS), design.JOINT_RANGES)
        if growth is None or len(parts) + len(growth.sites) > num_limbs:
            continue
        new = place(parts, growth, height, hinges)
        if is_free(parts, new):
            parts += new
            return True
    return False


def draw_hinges(
    rng: np.random.Generator,
    axes: Sequence[design.JointAxis],
    ranges: Sequence[tuple[int, int]],
) -> tuple[Hinge, ...]:
    """Draw range and gear of a hinge about each of the axes; ranges in degrees."""
    return tuple(Hinge(axis, choice(rng, ranges), choice(rng, design.GEARS)) for axis in axes)


def draw_growth(
    rng: np.random.Generator, parts: Sequence[GrownLimb], *, symmetric: bool = True
) -> Growth | None:
    """Draw site, number and direction of new limbs.

    Args:
        rng: the source of randomness.
        parts: what has grown so far.
        symmetric: keep the body its own mirror image; without, one limb grows in any direction.

    Returns:
        What would grow; `None` where the rules forbid the combination that was drawn.
    """
    site = draw_site(rng, parts)
    pair = bool(rng.integers(2))
    azimuth, inclination = choice(rng, design.AZIMUTHS), choice(rng, design.INCLINATIONS)
    if not symmetric:
        direction = design.unit_direction(azimuth, inclination)
        blocked = site.parent != TORSO and _inside_parent(parts[site.parent], site, direction)
        return None if blocked else Growth((site,), (direction,))
    x, y, z = design.unit_direction(min(azimuth, 360 - azimuth), inclination)
    if site.parent != TORSO:
        parent = parts[site.parent]
        if _inside_parent(parent, site, (x, y, z)):
            return None
        if parent.partner is not None:
            # Equal directions at both images keep the symmetry only inside the plane.
            image = Site(parent.partner, mirrored(site.position), site.middle)
            return Growth((site, image), ((x, y, z), (x, y, z))) if y == 0.0 else None
    if pair:
        return Growth((site, site), ((x, y, z), (x, -y, z))) if y != 0.0 else None
    return Growth((site,), ((x, y, z),)) if y == 0.0 else None


def _inside_parent(parent: GrownLimb, site: Site, direction: Vec3) -> bool:
    """Return whether a new limb would run along the inside of its parent."""
    backwards = tuple(0.0 - component for component in parent.direction)
    return direction == backwards or (site.middle and direction == parent.direction)
