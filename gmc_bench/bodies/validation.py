"""Rules that make limbs and motors a robot: one tree, driven, with physical numbers."""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, get_args

from gmc_bench.bodies.parts import (
    IDENTITY,
    Actuator,
    Geom,
    GeomKind,
    Inertia,
    Joint,
    JointKind,
    Limb,
    Loop,
    LoopKind,
)
from gmc_bench.core.arguments import is_finite
from gmc_bench.core.errors import did_you_mean
from gmc_bench.core.types import UNIT_TOLERANCE

_ZERO = 1e-9  # shorter vectors have no direction
_MAX_BITS = 2**31 - 1
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML has no characters for. The engine reads some of it; other readers do not."""
_LONGEST_NAME = 255  # characters; files are named after bodies


def find_flaw(
    limbs: Sequence[Limb],
    actuators: Sequence[Actuator],
    symmetric_limbs: Sequence[tuple[int, int]],
    loops: Sequence[Loop] = (),
    exclusions: Sequence[tuple[int, int]] = (),
) -> str | None:
    """Return what keeps these parts from being a body, or `None`.

    Args:
        limbs: depth-first preorder, torso first.
        actuators: in joint order.
        symmetric_limbs: pairs of indices into `limbs`.
        loops: what joins limbs outside the tree.
        exclusions: pairs of indices into `limbs`.

    Returns:
        The rest of a sentence that starts with the body's name, saying how to fix the first flaw.
    """
    return next(_flaws(limbs, actuators, symmetric_limbs, loops, exclusions), None)


def _flaws(
    limbs: Sequence[Limb],
    actuators: Sequence[Actuator],
    symmetric_limbs: Sequence[tuple[int, int]],
    loops: Sequence[Loop],
    exclusions: Sequence[tuple[int, int]],
) -> Iterator[str]:
    """Yield flaws, in this order: later checks rely on what earlier ones have established."""
    yield from _part_flaws(limbs, actuators, loops)
    yield from _pair_flaws(symmetric_limbs, "symmetric_limbs")
    yield from _pair_flaws(exclusions, "exclusions")
    yield from _tree_flaws(limbs)
    yield from _kind_flaws(limbs, loops)
    yield from _joint_flaws(limbs)
    yield from _actuator_flaws(limbs, actuators)
    for limb in limbs:
        yield from _vector_flaws(limb)
    for limb in limbs:
        yield from _number_flaws(limb)
    yield from _symmetry_flaws(len(limbs), symmetric_limbs)
    yield from _loop_flaws(limbs, loops)
    yield from _exclusion_flaws(len(limbs), exclusions)


def find_name_flaw(name: object) -> str | None:
    """Return what keeps something from being the name of a body, or `None`.

    Returns:
        The rest of a sentence that starts with the name.
    """
    if isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable():
        return None
    return f"is no name of a body; expected printable text of 1 to {_LONGEST_NAME} characters"


def _part_flaws(
    limbs: Sequence[Limb], actuators: Sequence[Actuator], loops: Sequence[Loop]
) -> Iterator[str]:
    """Yield flaws of parts that have a wrong type, or whose fields have."""
    for parts, kind, what in ((limbs, Limb, "limbs"), (actuators, Actuator, "actuators"),
                              (loops, Loop, "loops")):  # fmt: skip
        yield from _not_parts(parts, kind, what)
    for limb in limbs:
        where = f" of limb {limb.name!r}"
        yield from _not_parts((limb.geom,), Geom, f"geom{where}")
        yield from _not_parts(limb.more_geoms, Geom, f"more_geoms{where}")
        yield from _not_parts(limb.joints, Joint, f"joints{where}")
        if limb.inertia is not None:
            yield from _not_parts((limb.inertia,), Inertia, f"inertia{where}")


def _pair_flaws(pairs: Any, what: str) -> Iterator[str]:
    right = isinstance(pairs, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and all(map(_is_whole, pair)) for pair in pairs
    )
    if not right:
        yield f"has {pairs!r} as {what}; expected a tuple of pairs of ints"


_WORDS: dict[Any, str] = {
    float: "a number", int: "an int", str: "text", bool: "True or False",
}  # fmt: skip
_PLAIN: dict[type[Any], tuple[tuple[str, Any], ...]] = {
    kind: tuple(
        (item.name, item.type)
        for item in fields(kind)
        if item.type in _WORDS and item.name not in ("parent", "slot")  # checked with their tree
    )
    for kind in (Limb, Geom, Joint, Inertia, Actuator, Loop)
}
"""Fields of a part that are no vector, index or word of a list, with their type."""


def _not_parts(parts: Any, kind: type[Any], what: str) -> Iterator[str]:
    if not isinstance(parts, tuple) or not all(isinstance(part, kind) for part in parts):
        shown = parts[0] if isinstance(parts, tuple) and len(parts) == 1 else parts
        yield f"has {shown!r} as {what}; expected {kind.__name__}(...), several as a tuple"
        return
    for part in parts:
        for name, of in _PLAIN[kind]:
            value = getattr(part, name)
            right = _is_number(value) if of is float else isinstance(value, of)
            if not (_is_whole(value) if of is int else right):
                yield f"has {value!r} as {name} in its {what}; expected {_WORDS[of]}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _tree_flaws(limbs: Sequence[Limb]) -> Iterator[str]:
    if not limbs:
        yield "has no limbs; it needs at least a torso and one actuated limb"
        return
    if not _is_whole(limbs[0].parent) or limbs[0].parent != -1:
        yield f"starts with {limbs[0].name!r}, which has a parent; the torso must come first"
    path = [0]
    for index, limb in enumerate(limbs[1:], start=1):
        if not _is_whole(limb.parent):
            yield (
                f"has {limb.parent!r} as parent of limb {limb.name!r}; expected the index of an "
                f"earlier limb, an int"
            )
        if not 0 <= limb.parent < index:
            yield (
                f"is not a tree: limb {limb.name!r} has parent {limb.parent}, "
                f"expected the index of an earlier limb"
            )
        while path and path[-1] != limb.parent:
            path.pop()
        if not path:
            yield (
                f"is not in depth-first order at limb {limb.name!r}; list every limb right "
                f"after its parent's previous subtree"
            )
        path.append(index)
    yield from _name_flaws([limb.name for limb in limbs], "limb")


def _is_whole(number: object) -> bool:
    # Integers of numpy cannot be written into a digest.
    return isinstance(number, int) and not isinstance(number, bool)


def _kind_flaws(limbs: Sequence[Limb], loops: Sequence[Loop]) -> Iterator[str]:
    kinds: list[tuple[object, object, str]] = []
    for limb in limbs:
        kinds += [(geom.kind, GeomKind, f"a shape of limb {limb.name!r}") for geom in limb.geoms]
        kinds += [(joint.kind, JointKind, f"joint {joint.name!r}") for joint in limb.joints]
    kinds += [
        (loop.kind, LoopKind, f"the loop of {loop.first} and {loop.second}") for loop in loops
    ]
    for kind, known, what in kinds:
        if kind not in get_args(known):
            yield f"has {kind!r} as kind of {what}; expected one of {', '.join(get_args(known))}"


def _joint_flaws(limbs: Sequence[Limb]) -> Iterator[str]:
    if limbs[0].joints:
        yield "has hinges on its torso; the torso moves freely and takes none"
    yield from _name_flaws([joint.name for limb in limbs for joint in limb.joints], "joint")
    for limb in limbs:
        slots = [joint.slot for joint in limb.joints]
        if not all(map(_is_whole, slots)):
            yield f"has joints of limb {limb.name!r} in the slots {slots}; expected an int each"
        if len(set(slots)) != len(slots) or any(slot < 0 for slot in slots):
            yield f"has joints of limb {limb.name!r} in the slots {slots}; each needs its own"


def _actuator_flaws(limbs: Sequence[Limb], actuators: Sequence[Actuator]) -> Iterator[str]:
    if not actuators:
        yield "has no actuators; add a motor to at least one joint"
    yield from _name_flaws([motor.joint for motor in actuators], "actuated joint")
    joints = [joint.name for limb in limbs for joint in limb.joints]
    for motor in actuators:
        if motor.joint not in joints:
            suggestion = did_you_mean(motor.joint, joints)
            yield f"drives the joint {motor.joint!r}, which does not exist{suggestion}"
        vectors: list[tuple[str, Any, int]] = [("bias", motor.bias, 3)]
        if motor.torque_range is not None:
            vectors.append(("torque_range", motor.torque_range, 2))
        yield from _not_tuples(vectors, f"the motor of {motor.joint!r}")
        if not (is_finite(motor.gear) and motor.gear != 0):
            yield f"has gear {motor.gear} at {motor.joint!r}; it must be finite and not zero"
        lower, upper = motor.torque_range or (-1.0, 1.0)
        if not all(map(is_finite, (*motor.bias, lower, upper))) or lower >= upper:
            yield (
                f"has the bias {motor.bias} and torque range {motor.torque_range} at "
                f"{motor.joint!r}; both must be finite, and the range must rise"
            )
    places = [joints.index(motor.joint) for motor in actuators]
    if places != sorted(places):
        yield "lists its motors in another order than its joints; sort them by joint"


def _vector_flaws(limb: Limb) -> Iterator[str]:
    vectors: list[tuple[str, Any, int]] = []
    vectors += [("position", limb.position, 3), ("orientation", limb.orientation, 4)]
    for geom in limb.geoms:
        vectors += [("start", geom.start, 3), ("end", geom.end, 3)]
        vectors += [("half_sizes", geom.half_sizes, 3), ("orientation", geom.orientation, 4)]
    for joint in limb.joints:
        vectors += [("axis", joint.axis, 3), ("position", joint.position, 3)]
        vectors.append(("range", joint.range, 2))
    if limb.inertia is not None:
        vectors += [("centre", limb.inertia.centre, 3), ("moments", limb.inertia.moments, 3)]
        vectors.append(("orientation", limb.inertia.orientation, 4))
    yield from _not_tuples(vectors, f"limb {limb.name!r}")


def _not_tuples(vectors: Sequence[tuple[str, Any, int]], where: str) -> Iterator[str]:
    for what, vector, length in vectors:
        # Arrays of numpy would be compared number by number.
        right = isinstance(vector, tuple) and len(vector) == length
        if not right or not all(map(_is_number, vector)):
            yield f"has {vector!r} as {what} at {where}; expected a tuple of {length} numbers"


def _number_flaws(limb: Limb) -> Iterator[str]:
    numbers = [*limb.position, *limb.orientation]
    for geom in limb.geoms:
        numbers += [*geom.start, *geom.end, geom.radius, geom.density]
        numbers += [*geom.half_sizes, *geom.orientation]
    for joint in limb.joints:
        numbers += [*joint.axis, *joint.position, *joint.range]
        numbers += [joint.damping, joint.stiffness, joint.armature]
        numbers += [joint.spring_reference, joint.friction_loss]
    inertia = limb.inertia
    if inertia is not None:
        numbers += [inertia.mass, *inertia.centre, *inertia.moments, *inertia.orientation]
    if not all(is_finite(number) for number in numbers):
        yield f"has a number that is not finite at limb {limb.name!r}; use finite numbers"
    turned = [(limb.orientation, "limb")]
    turned += [(geom.orientation, "a shape of limb") for geom in limb.geoms]
    if inertia is not None:
        turned.append((inertia.orientation, "the inertia of limb"))
    for orientation, what in turned:
        # The engine would normalise it silently: one robot would have several digests.
        length = math.hypot(*orientation)
        if abs(length - 1.0) > UNIT_TOLERANCE:
            fix = "" if length < _ZERO else ", such as this one divided by its length"
            yield (
                f"has the orientation {orientation} of length {length:.9g} at {what} "
                f"{limb.name!r}; expected a unit quaternion{fix}"
            )
    for geom in limb.geoms:
        yield from _geom_flaws(geom, limb.name)
    if inertia is not None and not (inertia.mass > 0 and min(inertia.moments) > 0):
        yield (
            f"has mass {inertia.mass} and moments of inertia {inertia.moments} at limb "
            f"{limb.name!r}; all must be positive"
        )
    if inertia is not None:
        low, middle, high = sorted(inertia.moments)
        if low + middle < high:  # as the engine compares them
            yield (
                f"has the moments of inertia {inertia.moments} at limb {limb.name!r}; no body has "
                f"one that is larger than the sum of the others"
            )
    for joint in limb.joints:
        yield from _hinge_flaws(joint)


def _geom_flaws(geom: Geom, limb: str) -> Iterator[str]:
    if geom.radius <= 0 or geom.density <= 0:
        yield (
            f"has radius {geom.radius} and density {geom.density} at limb {limb!r}; "
            f"both must be positive"
        )
    if geom.kind in ("capsule", "cylinder") and geom.start == geom.end:
        yield f"has a {geom.kind} without length at limb {limb!r}; use a sphere"
    if geom.kind not in ("capsule", "cylinder") and geom.start != geom.end:
        yield f"has a {geom.kind} with two ends at limb {limb!r}; make them equal"
    sized = geom.kind in ("box", "ellipsoid")
    if sized and (min(geom.half_sizes) <= 0 or max(geom.half_sizes) != geom.radius):
        yield (
            f"has a {geom.kind} with half sizes {geom.half_sizes} and radius {geom.radius} at limb "
            f"{limb!r}; sizes must be positive and the radius the largest of them"
        )
    if not sized and (any(geom.half_sizes) or geom.orientation != IDENTITY):
        yield (
            f"has a {geom.kind} with half sizes or an orientation at limb {limb!r}; leave them "
            f"out, because only boxes and ellipsoids have any"
        )
    if min(geom.contype, geom.conaffinity) < 0 or max(geom.contype, geom.conaffinity) > _MAX_BITS:
        yield (
            f"has the contact bits {geom.contype} and {geom.conaffinity} at limb {limb!r}; "
            f"expected 0 to {_MAX_BITS}"
        )


def _hinge_flaws(joint: Joint) -> Iterator[str]:
    if not joint.range[0] < joint.range[1]:
        yield f"has the range {joint.range} at joint {joint.name!r}; lower must be below upper"
    if math.hypot(*joint.axis) < _ZERO:
        yield f"has a zero axis at joint {joint.name!r}; give its direction"
    if min(joint.damping, joint.stiffness, joint.armature, joint.friction_loss) < 0:
        yield (
            f"has damping {joint.damping}, stiffness {joint.stiffness} and armature "
            f"{joint.armature} at joint {joint.name!r}; none may be negative, nor its friction"
        )


def _symmetry_flaws(num_limbs: int, pairs: Sequence[tuple[int, int]]) -> Iterator[str]:
    for first, second in pairs:
        if first == second or not all(0 < side < num_limbs for side in (first, second)):
            yield (
                f"has the symmetric pair {(first, second)}; both must be different limbs "
                f"from 1 to {num_limbs - 1}"
            )
    for limb, count in Counter(side for pair in pairs for side in pair).items():
        if count > 1:
            yield f"has limb {limb} in {count} symmetric pairs; a limb has one mirror image"


def _loop_flaws(limbs: Sequence[Limb], loops: Sequence[Loop]) -> Iterator[str]:
    seen = set()
    for loop in loops:
        yield from _not_tuples([("anchor", loop.anchor, 3)], f"the loop of limb {loop.first}")
        ends = tuple(sorted((loop.first, loop.second)))
        if not all(0 <= end < len(limbs) for end in ends) or ends[0] == ends[1]:
            yield (
                f"has a loop between the limbs {loop.first} and {loop.second}; both must be "
                f"different limbs from 0 to {len(limbs) - 1}"
            )
            return
        if limbs[ends[1]].parent == ends[0]:
            yield (
                f"has a loop between limb {limbs[ends[1]].name!r} and its parent; a loop joins "
                f"limbs that no joint joins"
            )
        if ends in seen:
            yield f"has two loops between the limbs {ends[0]} and {ends[1]}; keep one of them"
        if not all(is_finite(number) for number in loop.anchor):
            yield f"has a loop with the anchor {loop.anchor}; it must be finite"
        seen.add(ends)


def _exclusion_flaws(num_limbs: int, pairs: Sequence[tuple[int, int]]) -> Iterator[str]:
    for first, second in pairs:
        if not 0 <= first < second < num_limbs:
            yield (
                f"excludes contacts of the limbs {(first, second)}; expected two different "
                f"limbs from 0 to {num_limbs - 1}, the lower first"
            )
    for pair, count in Counter(pairs).items():
        if count > 1:
            yield f"excludes contacts of the limbs {pair} {count} times; once is enough"


def _name_flaws(names: Sequence[str], what: str) -> Iterator[str]:
    if "" in names:
        yield f"has an empty {what} name; each needs a name"
    for name in names:
        if _UNWRITABLE.search(name):
            yield f"has the {what} name {name!r}, which cannot be written into a file; rename it"
    for name, count in Counter(names).items():
        if count > 1:
            yield f"has the {what} name {name!r} twice; names must be unique"
