"""Read the robot out of a MJCF text, without the engine.

Only the robot is taken: the torso's subtree and its motors. What belongs to the benchmark or to a
task is not: options and flags, friction and contact dimensions, limit softness, the floor, sensors,
sites, cameras, and the list of contact exclusions. UNIMAL's own environments drop the same parts
when they put a body into their template. Everything else that could move the physics is refused
by name, so that no body is read into something that it is not.

Source:
    MJCF attributes: MuJoCo XML reference. Body conventions: agrimgupta92/derl; assembly of the
    environment's model: agrimgupta92/metamorph.
"""

import math
from collections.abc import Iterator

from gmc_bench.morphology.mjcf_document import MAIN, Attributes, Element, MjcfDocument
from gmc_bench.morphology.schema import IDENTITY, Actuator, Geom, Joint, Limb, Morphology
from gmc_bench.types import Quat

MAX_LIMBS = 256
"""Largest accepted body. The largest published bodies have 30 limbs; one token per limb and
attention over pairs of tokens make more than 256 useless, and the bound stops hostile files."""

_BODY = {"name", "pos", "quat", "childclass", "user"}
_BODY_CHILDREN = {"body", "joint", "freejoint", "geom", "site", "camera", "light"}
_GEOM = {
    "name", "class", "type", "size", "fromto", "pos", "density", "condim", "friction", "material",
    "rgba", "group", "user",
}  # fmt: skip
_JOINT = {
    "name", "class", "type", "pos", "axis", "range", "limited", "damping", "stiffness", "armature",
    "solimplimit", "group", "user",
}  # fmt: skip
_MOTOR = {"name", "class", "joint", "gear", "ctrlrange", "ctrllimited", "group", "user"}


def parse_mjcf(text: str, name: str) -> Morphology:
    """Read one robot body.

    A joint whose name starts with `limbx` takes slot 0 and `limby` slot 1; any other joint takes
    its place among the limb's joints. Mirrored limbs are not written in MJCF, so
    `symmetric_limbs` stays empty.

    Args:
        text: a complete MJCF document.
        name: the body's name, used in messages and results.

    Returns:
        The body; angles in rad whatever the file's unit.

    Raises:
        MorphologyError: the text is not such a robot; the message names the first reason.
    """
    document = MjcfDocument(text, name)
    limbs = tuple(
        _limb(document, body, parent, childclass)
        for body, parent, childclass in _bodies(document, _torso(document))
    )
    return Morphology(name=name, limbs=limbs, actuators=_actuators(document, limbs))


def _torso(document: MjcfDocument) -> Element:
    roots = [
        body for world in document.root.iterfind("worldbody") for body in world.iterfind("body")
    ]
    if len(roots) != 1:
        raise document.fail(f"has {len(roots)} bodies in its worldbody; expected one, the torso")
    joints = [child for child in roots[0] if child.tag in ("joint", "freejoint")]
    if len(joints) != 1 or not _is_free(document, joints[0], roots[0].get("childclass", MAIN)):
        raise document.fail(
            f"has {len(joints)} joints on its torso; expected one free joint and nothing else"
        )
    return roots[0]


def _is_free(document: MjcfDocument, joint: Element, childclass: str) -> bool:
    if joint.tag == "freejoint":
        return True
    given = document.resolve(joint, childclass)
    for key in ("damping", "stiffness", "armature"):
        if given.get("type") == "free" and document.number(given.get(key, "0"), key) != 0.0:
            raise document.fail(f"has {key} on its free joint; the torso must move freely")
    return given.get("type") == "free"


def _bodies(document: MjcfDocument, torso: Element) -> Iterator[tuple[Element, int, str]]:
    """Yield (body, parent index, inherited default class) depth first, in file order."""
    waiting = [(torso, -1, MAIN)]
    count = 0
    while waiting:
        body, parent, inherited = waiting.pop()
        childclass = body.get("childclass", inherited)
        yield body, parent, childclass
        waiting += [(child, count, childclass) for child in reversed(body.findall("body"))]
        count += 1
        if count > MAX_LIMBS:
            raise document.fail(f"has more than {MAX_LIMBS} limbs, the most that is supported")


def _limb(document: MjcfDocument, body: Element, parent: int, childclass: str) -> Limb:
    name = body.get("name")
    if not name:
        raise document.fail("has a limb without a name; give every <body> a name")
    document.only(body.attrib, _BODY, f"limb {name!r}")
    for child in body:
        if child.tag not in _BODY_CHILDREN:
            raise document.fail(f"has <{child.tag}> in limb {name!r}, which is not supported")
    geoms = body.findall("geom")
    if len(geoms) != 1:
        raise document.fail(f"has {len(geoms)} geoms in limb {name!r}; expected exactly one")
    hinges = body.findall("joint") if parent >= 0 else []
    if parent >= 0 and body.find("freejoint") is not None:
        raise document.fail(f"has a free joint in limb {name!r}; only the torso moves freely")
    return Limb(
        name=name,
        parent=parent,
        position=document.vec3(body.get("pos", "0 0 0"), f"the position of limb {name!r}"),
        orientation=_orientation(document, body, name),
        geom=_geom(document, document.resolve(geoms[0], childclass), name),
        joints=tuple(
            _joint(document, document.resolve(hinge, childclass), place, name)
            for place, hinge in enumerate(hinges)
        ),
    )


def _orientation(document: MjcfDocument, body: Element, name: str) -> Quat:
    if "quat" not in body.attrib:
        return IDENTITY
    values = document.numbers(body.attrib["quat"], f"the orientation of limb {name!r}", 4)
    length = math.hypot(*values)
    if length < 1e-9:
        raise document.fail(f"has a zero orientation at limb {name!r}; expected a unit quaternion")
    # A unit quaternion passes unchanged, so that reading what was written is exact.
    scale = 1.0 if abs(length - 1.0) < 1e-12 else length
    w, x, y, z = (value / scale for value in values)
    return (w, x, y, z)


def _geom(document: MjcfDocument, given: Attributes, limb: str) -> Geom:
    document.only(given, _GEOM, f"the geom of limb {limb!r}")
    kind = given.get("type", "sphere")
    if kind not in ("sphere", "capsule"):
        raise document.fail(f"has a {kind!r} geom in limb {limb!r}; expected a sphere or a capsule")
    density = document.number(given.get("density", "1000"), f"the density of limb {limb!r}")
    words = given.get("size", "").split()
    # MuJoCo takes the radius from the first number when the segment gives the length.
    radius = document.number(words[0] if words else "", f"the radius of limb {limb!r}")
    if kind == "sphere":
        if "fromto" in given:
            raise document.fail(f"has a sphere with 'fromto' in limb {limb!r}; use 'pos'")
        centre = document.vec3(given.get("pos", "0 0 0"), f"the geom position of limb {limb!r}")
        return Geom(kind="sphere", radius=radius, start=centre, end=centre, density=density)
    if "fromto" not in given:
        raise document.fail(f"has a capsule without 'fromto' in limb {limb!r}; give its two ends")
    ends = document.numbers(given["fromto"], f"the capsule of limb {limb!r}", 6)
    start, end = (ends[0], ends[1], ends[2]), (ends[3], ends[4], ends[5])
    return Geom(kind="capsule", radius=radius, start=start, end=end, density=density)


def _joint(document: MjcfDocument, given: Attributes, place: int, limb: str) -> Joint:
    name = given.get("name")
    if not name:
        raise document.fail(f"has a joint without a name in limb {limb!r}")
    what = f"joint {name!r}"
    document.only(given, _JOINT, what)
    if given.get("type", "hinge") != "hinge":
        raise document.fail(f"has a {given['type']!r} joint {name!r}; only hinges are supported")
    if "range" not in given or given.get("limited", "auto") == "false":
        raise document.fail(f"has no limits at {what}; tokens need a range, so limit the joint")
    lower, upper = document.numbers(given["range"], f"the range of {what}", 2)
    unit = document.radians_per_unit
    return Joint(
        name=name,
        axis=document.vec3(given.get("axis", "0 0 1"), f"the axis of {what}"),
        position=document.vec3(given.get("pos", "0 0 0"), f"the position of {what}"),
        range=(lower * unit, upper * unit),
        slot=_slot(name, place),
        damping=document.number(given.get("damping", "0"), f"the damping of {what}"),
        stiffness=document.number(given.get("stiffness", "0"), f"the stiffness of {what}"),
        armature=document.number(given.get("armature", "0"), f"the armature of {what}"),
    )


def _actuators(document: MjcfDocument, limbs: tuple[Limb, ...]) -> tuple[Actuator, ...]:
    motors = [motor for section in document.root.iterfind("actuator") for motor in section]
    actuators = [_actuator(document, motor) for motor in motors]
    hinges = [joint.name for limb in limbs for joint in limb.joints]
    order = {name: place for place, name in enumerate(hinges)}
    # Unknown joints go last; the schema refuses them with a suggestion.
    return tuple(sorted(actuators, key=lambda a: order.get(a.joint, len(order))))


def _actuator(document: MjcfDocument, motor: Element) -> Actuator:
    if motor.tag != "motor":
        raise document.fail(f"has a <{motor.tag}> actuator; only motors on joints are supported")
    given = document.resolve(motor, MAIN)
    what = f"the motor of joint {given.get('joint')!r}"
    document.only(given, _MOTOR, what)
    if "joint" not in given:
        raise document.fail("has a motor without a joint; only motors on joints are supported")
    control = document.numbers(given.get("ctrlrange", "-1 1"), f"the control range of {what}", 2)
    if control != (-1.0, 1.0):
        raise document.fail(f"has the control range {control} at {what}; expected (-1.0, 1.0)")
    # A joint's motor uses the first gear only; MuJoCo fills the others with zeros.
    words = given.get("gear", "1").split()
    gear = document.number(words[0] if words else "", f"the gear of {what}")
    return Actuator(joint=given["joint"], gear=gear)


def _slot(name: str, place: int) -> int:
    if name.startswith("limbx"):
        return 0
    return 1 if name.startswith("limby") else place
