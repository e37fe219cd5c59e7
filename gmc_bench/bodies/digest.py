"""The content hash of a body: over what moves its physics, and nothing else."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from gmc_bench.bodies.parts import IDENTITY, Actuator, Geom, Joint, Limb, Loop


def digest_parts(
    limbs: Sequence[Limb],
    actuators: Sequence[Actuator],
    loops: Sequence[Loop],
    exclusions: Sequence[tuple[int, int]],
) -> str:
    """Return a SHA-256 as 64 hex digits.

    What has its default is left out where the field came later, so that hashes stay for ever.

    Args:
        limbs: in the body's order.
        actuators: in joint order.
        loops: what closes loops.
        exclusions: pairs of limbs that never touch.
    """
    joint_ids: dict[str, int] = {}
    rows: list[Any] = []
    for limb in limbs:
        for joint in limb.joints:
            joint_ids[joint.name] = len(joint_ids)
        rows.append(_limb(limb))
    motors = [[joint_ids[motor.joint], *_motor(motor)] for motor in actuators]
    parts: list[Any] = [rows, motors]
    if loops:
        parts.append([[o.kind, o.first, o.second, _canonical(o.anchor)] for o in loops])
    if exclusions:
        parts.append({"exclusions": sorted(exclusions)})
    text = json.dumps(parts, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _limb(limb: Limb) -> list[Any]:
    row = [
        limb.parent,
        _canonical(limb.position),
        _canonical(limb.orientation),
        _geom(limb.geom),
        [_joint(joint) for joint in limb.joints],
    ]
    if limb.more_geoms:
        row.append({"geoms": [_geom(geom) for geom in limb.more_geoms]})
    if limb.inertia is not None:
        body = limb.inertia
        numbers = (body.mass, *body.centre, *body.moments, *body.orientation)
        row.append({"inertia": _precise(numbers)})
    return row


def _geom(geom: Geom) -> list[Any]:
    row: list[Any] = [
        geom.kind,
        _canonical((geom.radius, *geom.start, *geom.end, geom.density)),
    ]
    if any(geom.half_sizes) or geom.orientation != IDENTITY:
        row.append({"box": _precise((*geom.half_sizes, *geom.orientation))})
    if (geom.contype, geom.conaffinity) != (1, 1):
        row.append({"contacts": [geom.contype, geom.conaffinity]})
    return row


def _joint(joint: Joint) -> list[Any]:
    row: list[Any] = [
        _canonical(joint.axis),
        _canonical(joint.position),
        _canonical(joint.range),
        joint.slot,
        _canonical((joint.damping, joint.stiffness, joint.armature)),
    ]
    later = (joint.kind, joint.limited, joint.spring_reference, joint.friction_loss)
    if later != ("hinge", True, 0.0, 0.0):
        row.append([joint.kind, joint.limited, *_precise(later[2:])])
    return row


def _motor(motor: Actuator) -> list[Any]:
    row: list[Any] = [_canonical((motor.gear,))]
    if any(motor.bias):
        row.append({"bias": _precise(motor.bias)})
    if motor.torque_range is not None:
        row.append({"torque": _precise(motor.torque_range)})
    return row


def _canonical(numbers: Iterable[float]) -> list[str]:
    # Nine decimals hide the last-digit noise of numbers found by arithmetic; + 0.0 drops -0.0.
    return [f"{round(number, 9) + 0.0:.9f}" for number in numbers]


def _precise(numbers: Iterable[Any]) -> list[str]:
    # Nine digits wherever the point is: inertias of small parts are below 1e-6.
    return [f"{number + 0.0:.9g}" for number in numbers]
