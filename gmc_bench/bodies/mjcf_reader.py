"""Reader of the robot in a MJCF text: MuJoCo parses it, nothing is compiled and no file opened.

Only the robot is taken: the torso's subtree and its motors. What belongs to the benchmark or to a
task is not: options and flags, friction and contact dimensions, limit softness, the floor, sensors,
sites, cameras, and the list of contact exclusions but those that `emit_mjcf` marks as the body's
own. UNIMAL's own environments drop the same parts when they put a body into their template.
Everything else that could move the physics is refused by name, so that no body is read into
something that it is not.

Source:
    Body conventions: agrimgupta92/derl; assembly of the environment's model:
    agrimgupta92/metamorph.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, cast

import mujoco
import numpy as np

from gmc_bench.bodies.engine_library import engine_library
from gmc_bench.bodies.mjcf_writer import KEPT_EXCLUSION
from gmc_bench.bodies.model_files import root_tag
from gmc_bench.bodies.schema import IDENTITY, Actuator, Geom, Inertia, Joint, Limb, Loop, Morphology
from gmc_bench.core.errors import MorphologyError
from gmc_bench.core.types import Quat

MAX_LIMBS = 256
"""Largest accepted body. The largest published bodies have 30 limbs; one token per limb and
attention over pairs of tokens make more than 256 useless, and the bound stops hostile files."""

# What opens files, multiplies bodies or moves them is refused before MuJoCo sees it, in comments
# too. Entities could expand to gigabytes; a number that is none makes MuJoCo write a log.
_REFUSED = re.compile(
    r"<\s*(!DOCTYPE|!ENTITY|attach|composite|flexcomp|frame|include|model|replicate)\b"
    r"|(?<!name)(?<!joint)(?<!class)(?<!body1)(?<!body2)(?<!model)=\s*[\"'](?:[^\"']*\s)?"
    r"[+-]?(nan)[\"'\s]",
    re.IGNORECASE,
)
_BOOKKEEPING = {
    "alt", "bodies", "cameras", "childclass", "classname", "compiler", "frame", "frames", "geoms",
    "group", "ialt", "id", "info", "joints", "lights", "name", "parent", "plugin", "signature",
    "sites", "type", "userdata",
}  # fmt: skip
_COMPILER = {
    "autolimits", "authored", "conflict", "degree", "eulerseq", "meshdir", "passthrough",
    "texturedir",
}  # fmt: skip
_BODY = {"pos", "quat", "explicitinertial", "mass", "ipos", "iquat", "inertia"}
_GEOM = {
    "size", "fromto", "pos", "density", "condim", "friction", "material", "rgba", "contype",
    "conaffinity",
}  # fmt: skip
_JOINT = {
    "pos", "axis", "range", "limited", "damping", "stiffness", "armature", "solimp_limit",
    "springref", "frictionloss",
}  # fmt: skip
_MOTOR = {"target", "trntype", "gear", "ctrlrange", "ctrllimited", "gainprm", "biasprm", "biastype"}
_LOOP = {"name1", "name2", "objtype", "data", "solref"}
_SOLIDS = ("sphere", "capsule", "cylinder", "box", "ellipsoid")


def parse_mjcf(text: str, name: str, slots: Mapping[str, int] | None = None) -> Morphology:
    """Read one robot body.

    A joint whose name starts with `limbx` takes slot 0 and `limby` slot 1; any other joint takes
    its place among the limb's joints. A `connect` or `weld` between two limbs closes a loop; how
    soft it is belongs to the benchmark. Mirrored limbs are not written in MJCF, so
    `symmetric_limbs` stays empty.

    Args:
        text: a complete MJCF document.
        name: the body's name, used in messages and results.
        slots: of joints that have another than this, by their names, see `own_slots`.

    Returns:
        The body; angles in rad whatever the file's unit.

    Raises:
        MorphologyError: the text is not such a robot; the message names the first reason.
    """
    try:
        return _read(text, name, slots or {})
    except _Refusal as refusal:
        raise MorphologyError(f"body {name!r} {refusal}") from refusal.__cause__


class _Refusal(Exception):  # noqa: N818 - never leaves this module
    """Why a text is not a robot; goes on after the body's name."""


def own_slots(body: Morphology) -> dict[str, int]:
    """Return the slots of joints that MJCF does not tell, by the joints' names."""
    return {
        joint.name: joint.slot
        for limb in body.limbs
        for place, joint in enumerate(limb.joints)
        if joint.slot != slot_of(joint.name, place)
    }


def _read(text: str, name: str, slots: Mapping[str, int]) -> Morphology:
    spec = _parse(text)
    _only(spec.compiler, _COMPILER, "<compiler>")
    limbs = _limbs(spec, math.radians(1.0) if spec.compiler.degree else 1.0)
    if slots:
        limbs = tuple(_with_slots(limb, slots) for limb in limbs)
    places = {limb.name: index for index, limb in enumerate(limbs)}
    order = {joint: place for place, joint in enumerate(j.name for o in limbs for j in o.joints)}
    # Unknown joints go last; the schema refuses them with a suggestion.
    actuators = sorted(
        map(_actuator, spec.actuators), key=lambda motor: order.get(motor.joint, len(order))
    )
    return Morphology(
        name=name,
        limbs=limbs,
        actuators=tuple(actuators),
        loops=tuple(_loop(equality, places) for equality in spec.equalities),
        exclusions=tuple(
            _pair(exclusion, places)
            for exclusion in spec.excludes
            if exclusion.name.startswith(KEPT_EXCLUSION)
        ),
    )


def _with_slots(limb: Limb, slots: Mapping[str, int]) -> Limb:
    joints = (replace(joint, slot=slots.get(joint.name, joint.slot)) for joint in limb.joints)
    return replace(limb, joints=tuple(joints))


def _parse(text: str) -> Any:
    refused = _REFUSED.search(text)
    if refused and refused[2]:
        raise _Refusal("has a number that is not finite")
    if refused and refused[1].startswith("!"):
        raise _Refusal("declares a document type or entities; remove the <!DOCTYPE ...> part")
    if refused:
        raise _Refusal(f"has a <{refused[1]}> element, which is not supported; remove it")
    if root_tag(text) != "mujoco":
        raise _Refusal(f"starts with <{root_tag(text)}>; a MJCF file needs <mujoco>")
    engine_library()
    try:
        spec = mujoco.MjSpec.from_string(text)
    except ValueError as error:
        raise _Refusal(f"is refused by MuJoCo ({' '.join(str(error).split())[:300]})") from error
    for what in ("pairs", "tendons", "flexes", "plugins"):
        if getattr(spec, what):
            raise _Refusal(f"has {what}, which are not supported; remove them")
    return spec


def _only(element: Any, allowed: set[str], what: str) -> None:
    """Refuse what an element sets, by itself or by its class, that is not in `allowed`."""
    kind: type = type(element)
    for key, default in _defaults(kind).items():
        if key not in allowed and _plain(getattr(element, key)) != default:
            raise _Refusal(
                f"sets {key!r} on {what}, which is not supported; supported are "
                f"{', '.join(sorted(allowed))}"
            )
    for way in [getattr(element, key).type for key in ("alt", "ialt") if hasattr(element, key)]:
        if way != mujoco.mjtOrientation.mjORIENTATION_QUAT:
            kind = way.name.removeprefix("mjORIENTATION_").lower()
            raise _Refusal(f"sets {kind!r} on {what}, which is not supported; use 'quat'")


def _plain(value: Any) -> Any:
    """Return a value that equals itself, also where it is not a number."""
    return value.tobytes() if isinstance(value, np.ndarray) else repr(value)


@cache
def _defaults(kind: type) -> dict[str, Any]:
    """Return what elements have that a file says nothing about, by the name of the property."""
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body()
    elements = (body, body.add_geom(), body.add_joint(), spec.add_actuator(), spec.add_equality())
    (found,) = (element for element in (*elements, spec.compiler) if type(element) is kind)
    names = [key for key in dir(kind) if isinstance(getattr(kind, key), property)]
    return {key: _plain(getattr(found, key)) for key in names if key not in _BOOKKEEPING}


def _limbs(spec: Any, unit: float) -> tuple[Limb, ...]:
    """Return the limbs depth first, siblings in the order of the file."""
    torsos = spec.worldbody.bodies
    if len(torsos) != 1:
        raise _Refusal(f"has {len(torsos)} bodies in its worldbody; expected one, the torso")
    free = torsos[0].joints
    if [joint.type for joint in free] != [mujoco.mjtJoint.mjJNT_FREE]:
        raise _Refusal(
            f"has {len(free)} joints on its torso; expected one free joint and nothing else"
        )
    for key in ("damping", "stiffness", "armature"):
        if np.any(getattr(free[0], key)):
            raise _Refusal(f"has {key} on its free joint; the torso must move freely")
    limbs: list[Limb] = []
    waiting = [(torsos[0], -1)]
    while waiting:
        body, parent = waiting.pop()
        waiting += [(child, len(limbs)) for child in reversed(body.bodies)]
        limbs.append(_limb(body, parent, unit))
        if len(limbs) > MAX_LIMBS:
            raise _Refusal(f"has more than {MAX_LIMBS} limbs, the most that is supported")
    return tuple(limbs)


def _limb(body: Any, parent: int, unit: float) -> Limb:
    if not body.name:
        raise _Refusal("has a limb without a name; give every <body> a name")
    what = f"limb {body.name!r}"
    _only(body, _BODY, what)
    if not body.geoms:
        raise _Refusal(f"has no geom in {what}; give it a shape")
    geoms = tuple(_geom(geom, what) for geom in body.geoms)
    joints = body.joints if parent >= 0 else ()
    return Limb(
        name=body.name,
        parent=parent,
        position=_vector(body.pos),
        orientation=_quaternion(body.quat, what),
        geom=geoms[0],
        more_geoms=geoms[1:],
        inertia=_inertia(body, what) if body.explicitinertial else None,
        joints=tuple(_joint(joint, place, what, unit) for place, joint in enumerate(joints)),
    )


def _vector(numbers: Iterable[float]) -> Any:
    return tuple(float(number) for number in numbers)


def _quaternion(numbers: Iterable[float], what: str) -> Quat:
    """Return a quaternion of unit length; `what` is what it turns."""
    values = _vector(numbers)
    length = math.hypot(*values)
    if length < 1e-9:
        raise _Refusal(f"has a zero orientation at {what}; expected a unit quaternion")
    # A unit quaternion passes unchanged, so that reading what was written is exact.
    scale = 1.0 if abs(length - 1.0) < 1e-12 else length
    return cast(Quat, tuple(value / scale for value in values))


def _inertia(body: Any, what: str) -> Inertia:
    if not np.any(body.inertia):
        raise _Refusal(f"states the inertia of {what} other than by one mass and diaginertia")
    return Inertia(
        mass=float(body.mass),
        centre=_vector(body.ipos),
        moments=_vector(body.inertia),
        orientation=_quaternion(body.iquat, f"the inertia of {what}"),
    )


def _geom(geom: Any, limb: str) -> Geom:
    kind = geom.type.name.removeprefix("mjGEOM_").lower()
    if kind not in _SOLIDS:
        raise _Refusal(
            f"has a {kind!r} geom in {limb}; expected a sphere, capsule, cylinder, box or ellipsoid"
        )
    sized, long = kind in ("box", "ellipsoid"), kind in ("capsule", "cylinder")
    _only(geom, _GEOM | {"quat"} if sized else _GEOM, f"the geom of {limb}")
    ends = _vector(geom.fromto)
    if long and math.isnan(ends[0]):
        raise _Refusal(f"has a {kind} without 'fromto' in {limb}; give its two ends")
    if not long and not math.isnan(ends[0]):
        raise _Refusal(f"has a {kind} with 'fromto' in {limb}; use 'pos'")
    size, middle = _vector(geom.size), _vector(geom.pos)
    return Geom(
        kind=kind,
        radius=max(size) if sized else size[0],
        start=ends[:3] if long else middle,
        end=ends[3:] if long else middle,
        density=float(geom.density),
        half_sizes=size if sized else (0.0, 0.0, 0.0),
        orientation=_quaternion(geom.quat, limb) if sized else IDENTITY,
        contype=int(geom.contype),
        conaffinity=int(geom.conaffinity),
    )


def _joint(joint: Any, place: int, limb: str, unit: float) -> Joint:
    """Read a hinge or slide; `place` is its slot unless its name tells another."""
    if not joint.name:
        raise _Refusal(f"has a joint without a name in {limb}")
    what = f"joint {joint.name!r}"
    kind = joint.type.name.removeprefix("mjJNT_").lower()
    if kind not in ("hinge", "slide"):
        raise _Refusal(f"has a {kind!r} joint {joint.name!r}; only hinges and slides are supported")
    _only(joint, _JOINT, what)
    lower, upper = _vector(joint.range)
    if lower == upper:
        raise _Refusal(f"has no limits at {what}; tokens need a range, so limit the joint")
    if np.any(joint.damping[1:]) or np.any(joint.stiffness[1:]):
        raise _Refusal(f"has higher powers of damping or stiffness at {what}; give one number")
    unit = unit if kind == "hinge" else 1.0
    return Joint(
        name=joint.name,
        axis=_vector(joint.axis),
        position=_vector(joint.pos),
        range=(lower * unit, upper * unit),
        slot=slot_of(joint.name, place),
        damping=float(joint.damping[0]),
        stiffness=float(joint.stiffness[0]),
        armature=float(joint.armature),
        kind="hinge" if kind == "hinge" else "slide",
        limited=joint.limited != mujoco.mjtLimited.mjLIMITED_FALSE,
        spring_reference=unit * float(joint.springref),
        friction_loss=float(joint.frictionloss),
    )


def slot_of(name: str, place: int) -> int:
    """Return the slot of a joint by its name, or else its place among the limb's joints."""
    if name.startswith("limbx"):
        return 0
    return 1 if name.startswith("limby") else place


def _actuator(actuator: Any) -> Actuator:
    """Read a motor, or a general actuator of the kind that `emit_mjcf` writes."""
    kind = actuator.type.name.removeprefix("mjACTUATOR_").lower()
    if kind not in ("motor", "general") or actuator.trntype != mujoco.mjtTrn.mjTRN_JOINT:
        raise _Refusal(f"has a <{kind}> actuator; only motors on joints are supported")
    what = f"the motor of joint {actuator.target!r}"
    _only(actuator, _MOTOR if kind == "motor" else {*_MOTOR, "forcerange", "forcelimited"}, what)
    control = _vector(actuator.ctrlrange)
    if control not in ((0.0, 0.0), (-1.0, 1.0)):
        raise _Refusal(f"has the control range {control} at {what}; expected (-1.0, 1.0)")
    # A joint's motor uses the first gear only.
    gear, bias = float(actuator.gear[0]), _vector(actuator.biasprm[:3])
    if kind == "motor":
        return Actuator(joint=actuator.target, gear=gear)
    if gear != 1.0 or actuator.biastype != mujoco.mjtBias.mjBIAS_AFFINE:
        raise _Refusal(f"has a <general> actuator at {what} with a gear or without affine bias")
    clamp = _vector(actuator.forcerange)
    return Actuator(
        joint=actuator.target,
        gear=float(actuator.gainprm[0]),
        bias=bias,
        torque_range=clamp if any(clamp) else None,
    )


def _loop(equality: Any, places: dict[str, int]) -> Loop:
    kind = equality.type.name.removeprefix("mjEQ_").lower()
    if kind not in ("connect", "weld"):
        raise _Refusal(
            f"has a <{kind}> constraint; loops are closed by connect or weld, so remove it"
        )
    _only(equality, _LOOP, f"the <{kind}> constraint")
    if np.any(equality.data[3:10]):
        raise _Refusal(f"sets 'relpose' on the <{kind}> constraint, which is not supported")
    if equality.data[10] != 1.0:
        raise _Refusal(f"sets 'torquescale' on the <{kind}> constraint, which is not supported")
    ends = [equality.name1, equality.name2]
    for end in ends:
        if end not in places:
            raise _Refusal(f"has a <{kind}> constraint to {end!r}; expected two of its limbs")
    # MJCF gives the anchor of a weld in the frame of the second body, see `emit_mjcf`.
    first, second = ends if kind == "connect" else reversed(ends)
    return Loop(
        first=places[first],
        second=places[second],
        anchor=_vector(equality.data[:3]),
        kind="connect" if kind == "connect" else "weld",
    )


def _pair(exclusion: Any, places: dict[str, int]) -> tuple[int, int]:
    ends = (exclusion.bodyname1, exclusion.bodyname2)
    if not all(end in places for end in ends):
        raise _Refusal("excludes contacts of a limb that does not exist")
    return places[ends[0]], places[ends[1]]
