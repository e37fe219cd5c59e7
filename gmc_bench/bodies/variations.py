"""Variants of the train bodies of a set, for zero-shot tests: other dynamics or other kinematics.

Every variant has its base body's limb tree and differs in one property. What is drawn follows
from the base set, the property, the body and the number of the draw alone.

Source:
    Properties and counts: Gupta et al. 2022 (MetaMorph), arXiv:2203.11931 (100 train bodies give
    400 variants of each property). Differs: the ranges are our own, not taken from the archive
    of variants that its repository links, so scores cannot be compared with published ones; see
    docs/variations.md.
"""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

from gmc_bench.bodies import design
from gmc_bench.bodies.collision import Capsule, gap
from gmc_bench.bodies.parts import IDENTITY, Joint, Limb, scale_mass, scale_torque
from gmc_bench.bodies.refit import limb_origins, refit_loops
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.vectors import plus, times
from gmc_bench.core.config import shown
from gmc_bench.core.errors import (
    MorphologyError,
    MorphologySetError,
    UnknownNameError,
    did_you_mean,
)
from gmc_bench.core.types import Vec3

VERSION = 1
"""Of the rules below. Raised whenever any of them gives another body; ids carry it."""
DRAWS = 4
"""Variants of each train body and property."""

GROUPS = {
    "dynamics": ("armature", "damping", "gear", "density"),
    "kinematics": ("module-shape", "joint-angle"),
}
"""Properties by the name of their union."""
PROPERTIES = tuple(name for members in GROUPS.values() for name in members)
VARIATIONS = (*PROPERTIES, *GROUPS)
"""Everything that can follow the `+` in the id of a set, without its version."""

ARMATURE = (0.1, 1.0, 2.0)  # kg m^2: draws below and above the value of the published bodies
DAMPING = (0.1, 1.0, 3.0)  # N m s/rad, likewise
GEAR_FACTOR = (0.7, 1.3)
DENSITY_FACTOR = (0.8, 1.2)
RADIUS = (0.04, 0.06)  # m
HEIGHT = (0.15, 0.45)  # m
RANGE_OVERLAP = 0.5  # share of the old range that a new one must contain

_ID = re.compile(r"(?P<name>.+?)(?:-v(?P<version>[0-9]+))?")
_MAX_NUMBERS = 1_000  # draws per variant before giving up
_MAX_ATTEMPTS = 10_000  # shapes tried per draw; one or two are usual
_MIRROR_TOLERANCE = 1e-6  # m
_GRAZING = 1e-6  # m; surfaces this close may or may not touch in the engine
_SITE_TOLERANCE = 0.02  # m; rounding to centimetres moves the origins of published limbs by 0.007
_DIRECTION_TOLERANCE = math.radians(3.0)  # the same rounding turns short diagonal limbs
_AXIS_TOLERANCE = 0.1

PINNED: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8")
)
"""Hashes of the variants of released sets, by the hash of the base set and the property."""


def resolve_variation(name: str) -> str:
    """Return the full name of a variation, completing a missing version.

    Args:
        name: what follows the `+` in the id of a set, e.g. `armature` or `armature-v1`.

    Raises:
        UnknownNameError: no such variation, or none of this version.
    """
    found = _ID.fullmatch(name)
    known = [f"{variation}-v{VERSION}" for variation in VARIATIONS]
    if found is not None and found["name"] in VARIATIONS:
        full = f"{found['name']}-v{found['version'] or VERSION}"
        if full in known:
            return full
    raise UnknownNameError(f"unknown variation {name!r}{did_you_mean(name, known)}")


def build_variations(base: MorphologySet, name: str) -> MorphologySet:
    """Draw the variants of a set's train bodies.

    Args:
        base: the set; its test bodies are only looked at to repeat none of them.
        name: a property or a union of properties, with or without the version.

    Returns:
        A set with the base's train bodies, and the variants as its test split: by property, then
        by body in the base's order. No variant is a body of the base or another variant.

    Raises:
        UnknownNameError: no such variation.
        MorphologySetError: a body is not of the UNIMAL design space, as variants of its shape
            need; a body has too few different variants, or too long a name for theirs; or what
            was drawn is not what was released.
    """
    full = resolve_variation(name)
    members = GROUPS.get(full.rpartition("-v")[0])
    if members is None:
        members = (full.rpartition("-v")[0],)
        variants = tuple(_variants_of(base, members[0]))
    else:
        parts = [build_variations(base, member).split("test") for member in members]
        variants = tuple(variant for part in parts for variant in part)
    bodies = MorphologySet(
        id=f"{base.id}+{full}",
        splits={"train": base.split("train"), "test": variants},
        source=(
            f"{DRAWS} variants of each train body of {base.id} (hash {base.digest[:12]}) in "
            f"{', '.join(members)}, drawn by rule set v{VERSION} of gmc-bench; scores are not "
            f"comparable with published ones. {base.source}"
        ),
        licence=base.licence,
        notes=tuple(f"train: {' = '.join(group)}" for group in base.duplicates("train")),
    )
    expected = PINNED.get(base.digest, {}).get(full)
    if expected is not None and bodies.digest != expected:
        raise MorphologySetError(
            f"the set {bodies.id!r} came out as {bodies.digest[:12]} instead of {expected[:12]}; "
            f"this numpy ({np.__version__}) draws other numbers than the one it was released "
            f"with, so install a version that pyproject.toml allows"
        )
    return bodies


def _variants_of(base: MorphologySet, prop: str) -> Iterator[Morphology]:
    taken = {body.digest for split in ("train", "test") for body in base.split(split)}
    # Counted per content, so that a body that the set lists twice goes on with other draws.
    numbers: Counter[str] = Counter()
    for body in base.split("train"):
        last = numbers[body.digest] + _MAX_NUMBERS
        for index in range(DRAWS):
            while True:
                if numbers[body.digest] >= last:
                    raise MorphologySetError(
                        f"found only {index} variants of the body {body.name!r} in {prop}, "
                        f"expected {DRAWS}; leave the body out of the base set"
                    )
                variant = draw_variant(base.digest, prop, body, numbers[body.digest])
                numbers[body.digest] += 1
                if variant.digest not in taken:
                    break
            taken.add(variant.digest)
            yield _renamed(variant, f"{body.name}_{prop}_{index}", base.id)


def _renamed(variant: Morphology, name: str, base: str) -> Morphology:
    try:
        return replace(variant, name=name)
    except MorphologyError as error:
        raise MorphologySetError(
            f"the name of the body {shown(variant.name)} of the set {base!r} is too long to begin "
            f"those of its variants ({error}); rename the body in the set"
        ) from error


def draw_variant(base_digest: str, prop: str, body: Morphology, number: int) -> Morphology:
    """Draw one variant of one body.

    Args:
        base_digest: hash of the set that the body is from.
        prop: one of `PROPERTIES`.
        body: the body.
        number: of the draw, from 0; of armature and damping, even draws are below the published
            bodies' value and odd draws above.

    Returns:
        The variant, under the body's own name; it can be equal to the body where little can vary.

    Raises:
        MorphologySetError: see `build_variations`.
    """
    key = f"{base_digest}/{prop}-v{VERSION}/{body.digest}/{number}"
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(key.encode()).digest()[:16]))
    if prop == "armature":
        armature = _around(rng, ARMATURE, number)
        return _with_joints(body, lambda joint: replace(joint, armature=armature))
    if prop == "damping":
        damping = _around(rng, DAMPING, number)
        return _with_joints(body, lambda joint: replace(joint, damping=damping))
    if prop == "gear":
        return _vary_gear(body, rng)
    if prop == "density":
        return _vary_density(body, rng)
    if prop == "joint-angle":
        return _vary_ranges(body, rng)
    return _vary_shape(body, rng)


def _around(rng: np.random.Generator, bounds: tuple[float, float, float], number: int) -> float:
    low, middle, high = bounds
    return float(rng.uniform(low, middle) if number % 2 == 0 else rng.uniform(middle, high))


def _with_joints(body: Morphology, change: Callable[[Joint], Joint]) -> Morphology:
    limbs = tuple(
        replace(limb, joints=tuple(change(joint) for joint in limb.joints)) for limb in body.limbs
    )
    return replace(body, limbs=limbs)


def _vary_gear(body: Morphology, rng: np.random.Generator) -> Morphology:
    factors: dict[str, float] = {}
    for unit in _units(body):
        factor = float(rng.uniform(*GEAR_FACTOR))
        factors |= {joint.name: factor for limb in unit for joint in body.limbs[limb].joints}
    actuators = tuple(scale_torque(a, factors[a.joint]) for a in body.actuators)
    return replace(body, actuators=actuators)


def _vary_density(body: Morphology, rng: np.random.Generator) -> Morphology:
    torso, others = (float(factor) for factor in rng.uniform(*DENSITY_FACTOR, size=2))
    limbs = tuple(scale_mass(limb, torso if limb.parent < 0 else others) for limb in body.limbs)
    return replace(body, limbs=limbs)


def _vary_ranges(body: Morphology, rng: np.random.Generator) -> Morphology:
    limbs = list(body.limbs)
    for unit in _units(body):
        # One number per joint slot, so that both limbs of a pair choose alike.
        chosen = rng.random(size=body.joints_per_limb)
        for index in unit:
            joints = tuple(
                replace(joint, range=_choose_range(joint, float(chosen[joint.slot])))
                for joint in limbs[index].joints
            )
            limbs[index] = replace(limbs[index], joints=joints)
    return replace(body, limbs=tuple(limbs))


def _choose_range(joint: Joint, chosen: float) -> tuple[float, float]:
    if joint.kind == "slide" or not joint.limited:
        return joint.range
    low, high = joint.range
    options = [
        option
        for option in ((math.radians(a), math.radians(b)) for a, b in design.JOINT_RANGES)
        if min(high, option[1]) - max(low, option[0]) >= RANGE_OVERLAP * (high - low) - 1e-9
    ]
    return options[int(chosen * len(options))] if options else joint.range


def _vary_shape(body: Morphology, rng: np.random.Generator) -> Morphology:
    _require_design(body)
    overlapping = _contacts(body, -_GRAZING)  # limbs that only graze must not come closer
    units = _units(body)
    for _ in range(_MAX_ATTEMPTS):
        sizes = [(design.TORSO_RADIUS, 0.0)] * body.num_limbs
        for unit in units:
            size = (float(rng.uniform(*RADIUS)), float(rng.uniform(*HEIGHT)))
            for index in unit:
                sizes[index] = size
        variant = _rebuilt(body, sizes)
        if _contacts(variant, _GRAZING) <= overlapping:
            return variant
    raise MorphologySetError(
        f"found no other shape of the body {body.name!r} without new self-contact; leave the body "
        f"out of the base set"
    )


def _rebuilt(body: Morphology, sizes: Sequence[tuple[float, float]]) -> Morphology:
    """Return the body with other limb sizes: (radius, height) of every limb, m."""
    limbs = [body.limbs[0]]
    for limb, (radius, height) in zip(body.limbs[1:], sizes[1:], strict=True):
        parent = body.limbs[limb.parent]
        direction = _direction(limb)
        site = (0.0, 0.0, 0.0)
        if parent.parent >= 0:
            parent_radius, parent_height = sizes[limb.parent]
            share = 0.5 if _grows_at_middle(body, limb) else 1.0
            site = times(_direction(parent), parent_radius + share * parent_height)
        reach = limbs[limb.parent].geom.radius
        segment = times(direction, radius + height)
        limbs.append(
            replace(
                limb,
                position=plus(site, times(direction, reach)),
                geom=replace(limb.geom, radius=radius, end=segment),
                joints=tuple(
                    replace(
                        joint,
                        position=times(direction, -radius),
                        axis=design.hinge_axis("x" if joint.slot == 0 else "y", segment),
                    )
                    for joint in limb.joints
                ),
            )
        )
    loops = refit_loops(body, limbs) if body.loops else ()
    x, y, z = body.limbs[0].position
    raised = z + _lowest(body.limbs) - _lowest(limbs)
    limbs[0] = replace(body.limbs[0], position=(x, y, raised))
    return replace(body, limbs=tuple(limbs), loops=loops)


def _require_design(body: Morphology) -> None:
    """Refuse bodies whose limbs do not lie as the UNIMAL design space puts them.

    Raises:
        MorphologySetError: names the limb.
    """
    for limb in body.limbs:
        # Nothing says where other shapes and a centre of mass would go when a limb grows.
        if limb.more_geoms or limb.inertia is not None:
            has = "several shapes" if limb.more_geoms else "an inertia of its own"
            raise MorphologySetError(
                f"the shape of the body {body.name!r} cannot be varied, because its limb "
                f"{limb.name!r} has {has}, unlike any of the UNIMAL design space; choose another "
                f"variation or base set"
            )
    for limb in body.limbs[1:]:
        if not _is_of_design(body, limb):
            raise MorphologySetError(
                f"the shape of the body {body.name!r} cannot be varied, because its limb "
                f"{limb.name!r} does not lie as in the UNIMAL design space; choose another "
                f"variation or base set"
            )


def _is_of_design(body: Morphology, limb: Limb) -> bool:
    parent = body.limbs[limb.parent]
    if (limb.geom.kind, limb.geom.start, limb.orientation) != ("capsule", (0.0,) * 3, IDENTITY):
        return False
    if (parent.parent < 0) != (parent.geom.kind == "sphere") or parent.orientation != IDENTITY:
        return False
    site = (0.0, 0.0, 0.0)
    if parent.parent >= 0:
        site = times(parent.geom.end, _old_share(parent, _grows_at_middle(body, limb)))
    expected = plus(site, times(_direction(limb), parent.geom.radius))
    if math.dist(expected, limb.position) > _SITE_TOLERANCE:
        return False
    x, y, z = limb.geom.end
    if z > 0.0 == math.hypot(x, y):  # straight up: it has no such axes
        return False
    axes = {0: design.hinge_axis("x", limb.geom.end), 1: design.hinge_axis("y", limb.geom.end)}
    return all(
        joint.slot in axes and math.dist(joint.axis, axes[joint.slot]) <= _AXIS_TOLERANCE
        for joint in limb.joints
    )


def _grows_at_middle(body: Morphology, limb: Limb) -> bool:
    """Return whether a limb grows from the middle of its parent rather than from its end."""
    parent = body.limbs[limb.parent]
    site = plus(limb.position, times(_direction(limb), -parent.geom.radius))
    middle, end = (
        math.dist(site, times(parent.geom.end, _old_share(parent, middle)))
        for middle in (True, False)
    )
    return middle < end


def _old_share(parent: Limb, middle: bool) -> float:
    """Return where on a limb's segment a child grows: at the end, or half its height before."""
    length = math.hypot(*parent.geom.end)
    return (parent.geom.radius + (length - parent.geom.radius) / 2) / length if middle else 1.0


def _direction(limb: Limb) -> Vec3:
    """Return the unit vector of a limb; that of the design space where rounding moved it."""
    length = math.hypot(*limb.geom.end)
    x, y, z = (component / length for component in limb.geom.end)
    nearest = max(_DIRECTIONS, key=lambda d: d[0] * x + d[1] * y + d[2] * z)
    return nearest if math.dist(nearest, (x, y, z)) < _DIRECTION_TOLERANCE else (x, y, z)


_DIRECTIONS = tuple(
    dict.fromkeys(
        design.unit_direction(azimuth, inclination)
        for azimuth in design.AZIMUTHS
        for inclination in design.INCLINATIONS
    )
)


def _units(body: Morphology) -> list[tuple[int, ...]]:
    """Return what varies together: pairs of mirrored limbs, and the other limbs alone."""
    partner = dict(symmetric_pairs(body))
    seconds = set(partner.values())
    return [
        (index, partner[index]) if index in partner else (index,)
        for index in range(1, body.num_limbs)
        if index not in seconds
    ]


def symmetric_pairs(body: Morphology) -> tuple[tuple[int, int], ...]:
    """Find the pairs of limbs that are each other's mirror image about the xz plane.

    Args:
        body: the body.

    Returns:
        Indices of limbs, the earlier first. Both limbs have the same shape and joint slots, and
        their parents are one limb or a pair. Bodies whose limbs are turned against each other
        return the pairs they state themselves.
    """
    if any(limb.orientation != IDENTITY for limb in body.limbs):
        return tuple((min(pair), max(pair)) for pair in body.symmetric_limbs)
    shapes = _shapes(body.limbs)
    pairs: dict[int, int] = {}
    image = {0: 0}
    for first, second in combinations(range(1, body.num_limbs), 2):
        if first in image or second in image:
            continue
        one, other = body.limbs[first], body.limbs[second]
        shared = one.parent == other.parent or pairs.get(one.parent) == other.parent
        slots = [joint.slot for joint in one.joints] == [joint.slot for joint in other.joints]
        if shared and slots and _mirrors(shapes[first], shapes[second]):
            pairs[first] = second
            image |= {first: second, second: first}
    return tuple(pairs.items())


def _mirrors(first: Capsule, second: Capsule) -> bool:
    ends = ((first.start, second.start), (first.end, second.end))
    apart = max(math.dist((a[0], -a[1], a[2]), b) for a, b in ends)
    return apart < _MIRROR_TOLERANCE and abs(first.radius - second.radius) < _MIRROR_TOLERANCE


def _contacts(body: Morphology, margin: float) -> set[tuple[int, int]]:
    """Return the pairs of limbs closer than `margin` (m), parent and child left out."""
    shapes, parents = _shapes(body.limbs), body.parents
    return {
        (first, second)
        for first, second in combinations(range(body.num_limbs), 2)
        if parents[second] != first and gap(shapes[first], shapes[second]) < margin
    }


def _shapes(limbs: Sequence[Limb]) -> list[Capsule]:
    """Return the limbs' shapes in the torso frame; no limb is turned against its parent."""
    return [
        Capsule(plus(origin, limb.geom.start), plus(origin, limb.geom.end), limb.geom.radius)
        for origin, limb in zip(limb_origins(limbs), limbs, strict=True)
    ]


def _lowest(limbs: Sequence[Limb]) -> float:
    return min(min(s.start[2], s.end[2]) - s.radius for s in _shapes(limbs))
