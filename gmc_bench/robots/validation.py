"""Rules that make parts a quadruped: four legs in the shared order, with physical numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from gmc_bench.core.types import UNIT_TOLERANCE
from gmc_bench.robots.parts import Base, Foot, Gains, Inertial, LegJoint, Link, Pose, Shape

SOURCE_GROUPS = (
    "base", "hip", "thigh", "calf", "foot", "shapes", "imu", "drive", "feature_ranges",
    "joint_dynamics", "gains", "pose", "heights", "soft_limit_factor", "native_orders",
)  # fmt: skip
"""Groups of numbers of a robot that must name their source."""

_NUM_LINKS = 12
_NUM_FEET = 4
_SLACK = 1e-6  # relative; published tensors are rounded


def find_flaw(
    base: Base,
    links: Sequence[Link],
    feet: Sequence[Foot],
    gains: Gains,
    pose: Pose,
    soft_limit_factor: float,
    native_orders: Mapping[str, Sequence[str]],
    sources: Mapping[str, str],
) -> str | None:
    """Return what keeps a description from being a quadruped, or `None`.

    Args are the fields of `Robot`.

    Returns:
        The rest of a sentence that starts with the robot's name, saying how to fix the first flaw.
    """
    # Lazy, in this order: later checks, also within a part, rely on what earlier ones established.
    flaws = chain(
        _tree_flaws(base, links),
        _inertial_flaws(base.name, base.inertial),
        *(_inertial_flaws(link.name, link.inertial) for link in links),
        _shape_flaws(base.name, base.shapes),
        *(_shape_flaws(link.name, link.shapes) for link in links),
        *(_joint_flaws(link.joint) for link in links),
        _foot_flaws(feet),
        _stance_flaws(links, gains, pose, soft_limit_factor),
        _order_flaws(links, native_orders),
        _source_flaws(sources),
    )
    return next(flaws, None)


def _tree_flaws(base: Base, links: Sequence[Link]) -> Iterator[str]:
    if len(links) != _NUM_LINKS:
        yield f"has {len(links)} links; expected {_NUM_LINKS}: hip, thigh and calf per leg"
    for index, link in enumerate(links):
        expected = -1 if index % 3 == 0 else index - 1
        if link.parent != expected:
            yield (
                f"has parent {link.parent} at link {link.name!r}, expected {expected}; list the "
                f"legs as FL, FR, RL, RR and each as hip, thigh, calf"
            )
        if not np.isfinite(link.position).all():
            yield f"has the position {link.position} at link {link.name!r}; use finite numbers"
    bodies = [base.name, *(link.name for link in links)]
    joints = [link.joint.name for link in links]
    for names, what in ((bodies, "link"), (joints, "joint")):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            yield f"has the {what} name {twice[0]!r} twice; names must be unique"


def _inertial_flaws(name: str, inertial: Inertial) -> Iterator[str]:
    if not np.isfinite([inertial.mass, *inertial.com, *inertial.inertia]).all():
        yield f"has an inertial that is not finite at link {name!r}; use finite numbers"
    if inertial.mass <= 0:
        yield f"has mass {inertial.mass} kg at link {name!r}; it must be positive"
    xx, yy, zz, xy, xz, yz = inertial.inertia
    moments = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    if moments[0] <= 0 or moments[0] + moments[1] < moments[2] * (1 - _SLACK):
        yield (
            f"has the principal moments {', '.join(f'{moment:.4g}' for moment in moments)} kg m^2 "
            f"at link {name!r}; each must be positive and at most the sum of the others"
        )


def _shape_flaws(name: str, shapes: Sequence[Shape]) -> Iterator[str]:
    for shape in shapes:
        box, sphere = shape.kind == "box", shape.kind == "sphere"
        given = (shape.end is not None, shape.radius is not None, shape.half_extents is not None)
        if given != (not box and not sphere, not box, box):
            yield (
                f"has a {shape.kind} with the wrong sizes at link {name!r}; a sphere takes a "
                f"radius, a capsule or cylinder an end and a radius, a box half extents"
            )
        sizes = shape.half_extents if shape.half_extents is not None else (shape.radius or 0.0,)
        places = [*shape.start, *(shape.end or ())]
        if not np.isfinite([*sizes, *places]).all() or min(sizes) <= 0 or shape.start == shape.end:
            yield (
                f"has a {shape.kind} without extent at link {name!r}; its sizes must be finite "
                f"and positive"
            )


def _joint_flaws(joint: LegJoint) -> Iterator[str]:
    where = f"at joint {joint.name!r}"
    (lower, upper), (seen_lower, seen_upper) = joint.range, joint.feature_range
    if not -math.inf < lower < upper < math.inf:
        yield f"has the range {joint.range} {where}; lower must be below upper, both finite"
    if not lower <= seen_lower < seen_upper <= upper:
        yield f"has the feature range {joint.feature_range} {where}; it must lie in {joint.range}"
    if abs(math.hypot(*joint.axis) - 1) > UNIT_TOLERANCE:
        yield f"has the axis {joint.axis} {where}; it must have length 1"
    positive = (joint.torque_limit, joint.velocity_limit, joint.saturation_torque)
    if not all(0 < number < math.inf for number in positive):
        yield f"has the limits {positive} {where}; torques and velocity must be positive"
    if joint.saturation_torque < joint.torque_limit:
        yield (
            f"has saturation torque {joint.saturation_torque} below its torque limit "
            f"{joint.torque_limit} {where}; it must not be lower"
        )
    passive = (joint.armature, joint.damping, joint.frictionloss)
    if not all(0 <= number < math.inf for number in passive):
        yield f"has armature, damping and dry friction {passive} {where}; none may be negative"


def _foot_flaws(feet: Sequence[Foot]) -> Iterator[str]:
    calves = [2 + 3 * leg for leg in range(_NUM_FEET)]
    if [foot.link for foot in feet] != calves:
        yield f"has feet on the links {[foot.link for foot in feet]}; expected the calves {calves}"
    for foot in feet:
        if not np.isfinite(foot.position).all() or not 0 < foot.radius < math.inf:
            yield f"has a foot of radius {foot.radius} at {foot.position}; use a positive radius"


def _stance_flaws(
    links: Sequence[Link], gains: Gains, pose: Pose, soft_limit_factor: float
) -> Iterator[str]:
    if len(pose.angles) != _NUM_LINKS:
        yield f"has a stance of {len(pose.angles)} angles; expected one per joint, {_NUM_LINKS}"
    for link, angle in zip(links, pose.angles, strict=True):
        lower, upper = link.joint.feature_range
        if not lower <= angle <= upper:
            yield (
                f"stands with {angle} rad at joint {link.joint.name!r}, outside "
                f"{link.joint.feature_range}; change the stance or the range"
            )
    heights = (pose.base_height, pose.spawn_height)
    if not all(0 < height < math.inf for height in heights):
        yield f"has the heights {heights}; both must be positive"
    numbers = (gains.kp, gains.kd, gains.action_scale)
    if not all(0 < number < math.inf for number in numbers):
        yield f"has gains and action scale {numbers}; all must be positive"
    if not 0 < soft_limit_factor <= 1:
        yield f"has soft limit factor {soft_limit_factor}; it must be above 0 and at most 1"


def _order_flaws(
    links: Sequence[Link], native_orders: Mapping[str, Sequence[str]]
) -> Iterator[str]:
    joints = sorted(link.joint.name for link in links)
    for name, order in native_orders.items():
        if sorted(order) != joints:
            yield f"has the joint order {name!r} that does not list each of its joints once; fix it"


def _source_flaws(sources: Mapping[str, str]) -> Iterator[str]:
    for group in SOURCE_GROUPS:
        if not sources.get(group, "").strip():
            yield f"names no source for the group {group!r}; say where its numbers come from"
