"""Read the robot out of a MJCF text, without the engine.

Only the robot is taken: the torso's subtree and its motors. What belongs to the benchmark or to a
task is not: options and flags, friction and contact dimensions, limit softness, the floor, sensors,
sites, cameras, and the list of contact exclusions but those that `emit_mjcf` marks as the body's
own. UNIMAL's own environments drop the same parts when they put a body into their template.
Everything else that could move the physics is refused by name, so that no body is read into
something that it is not.

Source:
    MJCF attributes: MuJoCo XML reference. Body conventions: agrimgupta92/derl; assembly of the
    environment's model: agrimgupta92/metamorph.
"""

from collections.abc import Iterator

from gmc_bench.bodies.mjcf_document import MAIN, Element, MjcfDocument
from gmc_bench.bodies.mjcf_elements import (
    read_actuator,
    read_geom,
    read_inertia,
    read_joint,
)
from gmc_bench.bodies.mjcf_writer import KEPT_EXCLUSION
from gmc_bench.bodies.schema import IDENTITY, Actuator, Limb, Loop, Morphology
from gmc_bench.core.types import Quat

MAX_LIMBS = 256
"""Largest accepted body. The largest published bodies have 30 limbs; one token per limb and
attention over pairs of tokens make more than 256 useless, and the bound stops hostile files."""

_BODY = {"name", "pos", "quat", "childclass", "user"}
_BODY_CHILDREN = {"body", "joint", "freejoint", "geom", "inertial", "site", "camera", "light"}
_LOOP = {"name", "class", "body1", "body2", "anchor", "solref"}


def parse_mjcf(text: str, name: str) -> Morphology:
    """Read one robot body.

    A joint whose name starts with `limbx` takes slot 0 and `limby` slot 1; any other joint takes
    its place among the limb's joints. A `connect` or `weld` between two limbs closes a loop; how
    soft it is belongs to the benchmark. Mirrored limbs are not written in MJCF, so
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
    return Morphology(
        name=name,
        limbs=limbs,
        actuators=_actuators(document, limbs),
        loops=_loops(document, limbs),
        exclusions=_exclusions(document, limbs),
    )


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
    geoms = tuple(
        read_geom(document, document.resolve(geom, childclass), name)
        for geom in body.findall("geom")
    )
    if not geoms:
        raise document.fail(f"has no geom in limb {name!r}; give it a shape")
    hinges = body.findall("joint") if parent >= 0 else []
    if parent >= 0 and body.find("freejoint") is not None:
        raise document.fail(f"has a free joint in limb {name!r}; only the torso moves freely")
    return Limb(
        name=name,
        parent=parent,
        position=document.vec3(body.get("pos", "0 0 0"), f"the position of limb {name!r}"),
        orientation=_orientation(document, body, name),
        geom=geoms[0],
        more_geoms=geoms[1:],
        inertia=read_inertia(document, body.findall("inertial"), name),
        joints=tuple(
            read_joint(document, document.resolve(hinge, childclass), place, name)
            for place, hinge in enumerate(hinges)
        ),
    )


def _orientation(document: MjcfDocument, body: Element, name: str) -> Quat:
    if "quat" not in body.attrib:
        return IDENTITY
    return document.quat(body.attrib["quat"], f"limb {name!r}")


def _actuators(document: MjcfDocument, limbs: tuple[Limb, ...]) -> tuple[Actuator, ...]:
    motors = [motor for section in document.root.iterfind("actuator") for motor in section]
    actuators = [read_actuator(document, motor) for motor in motors]
    hinges = [joint.name for limb in limbs for joint in limb.joints]
    order = {name: place for place, name in enumerate(hinges)}
    # Unknown joints go last; the schema refuses them with a suggestion.
    return tuple(sorted(actuators, key=lambda a: order.get(a.joint, len(order))))


def _loops(document: MjcfDocument, limbs: tuple[Limb, ...]) -> tuple[Loop, ...]:
    places = {limb.name: index for index, limb in enumerate(limbs)}
    closures = [closure for part in document.root.iterfind("equality") for closure in part]
    return tuple(_loop(document, closure, places) for closure in closures)


def _loop(document: MjcfDocument, closure: Element, places: dict[str, int]) -> Loop:
    kind = closure.tag
    if kind not in ("connect", "weld"):
        raise document.fail(
            f"has a <{kind}> constraint; loops are closed by connect or weld, so remove it"
        )
    given = document.resolve(closure, MAIN)
    document.only(given, _LOOP, f"the <{kind}> constraint")
    ends = [given.get(key, "") for key in ("body1", "body2")]
    for end in ends:
        if end not in places:
            raise document.fail(f"has a <{kind}> constraint to {end!r}; expected two of its limbs")
    # MJCF gives the anchor of a weld in the frame of the second body, see `emit_mjcf`.
    first, second = ends if kind == "connect" else reversed(ends)
    return Loop(
        first=places[first],
        second=places[second],
        anchor=document.vec3(given.get("anchor", "0 0 0"), f"the anchor of the <{kind}>"),
        kind="connect" if kind == "connect" else "weld",
    )


def _exclusions(document: MjcfDocument, limbs: tuple[Limb, ...]) -> tuple[tuple[int, int], ...]:
    places = {limb.name: index for index, limb in enumerate(limbs)}
    pairs = []
    for part in document.root.iterfind("contact"):
        for exclusion in part.iterfind("exclude"):
            if not exclusion.get("name", "").startswith(KEPT_EXCLUSION):
                continue
            ends = [places.get(exclusion.get(key, "")) for key in ("body1", "body2")]
            first, second = ends
            if first is None or second is None:
                raise document.fail("excludes contacts of a limb that does not exist")
            pairs.append((first, second))
    return tuple(pairs)
