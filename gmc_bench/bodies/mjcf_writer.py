"""The parts of a robot as MJCF elements.

Attributes with their defaults are left out where a part got them later, so that the text of a
published body stays as it is.
"""

from collections.abc import Sequence
from xml.sax.saxutils import quoteattr

from gmc_bench.bodies.parts import IDENTITY, Actuator, Geom, Inertia, Joint, Limb, Loop
from gmc_bench.core.types import Vec3

ROOT_JOINT = "root"
"""Name of the torso's free joint in every written model."""
FLOOR, WALL, PATCH, BOX = SCENERY = ("floor/", "wall/", "patch/", "box/")
"""Starts of the names of a scene's geoms; limbs take no such names, whatever scene they meet."""
FLAT_GROUND = f'<geom name="{FLOOR}0" type="box" size="100 100 1" pos="0 0 0"/>'
"""Ground that bodies are tried out on, like that of the flat task."""
FLAT_HEIGHT = 1.0
"""m, top of this ground."""
KEPT_EXCLUSION = "kept/"
"""Start of the name of a contact exclusion that belongs to the body itself."""

_LOOP_STIFFNESS = "0.01 1"  # solref: the shortest time constant that is stable with this timestep


def quoted(text: str) -> str:
    """Return a text as the value of an attribute, its own quotes escaped.

    The reader looks for what it refuses before it reads, and a name may look like it in quotes.
    """
    return quoteattr(text, {'"': "&quot;", "'": "&apos;"})


def limb_lines(limb: Limb, shift: Vec3, indent: str) -> list[str]:
    """Return the opening tag of a limb's body and what it holds besides other limbs.

    Args:
        limb: the limb.
        shift: added to its position, m.
        indent: put before every line.
    """
    name = quoted(limb.name)
    position = (
        tuple(a + b for a, b in zip(limb.position, shift, strict=True))
        if any(shift)
        else limb.position
    )
    turned = "" if limb.orientation == IDENTITY else f' quat="{_text(limb.orientation)}"'
    lines = [f'<body name={name} pos="{_text(position)}"{turned}>']
    if limb.parent < 0:
        lines.append(f'  <freejoint name="{ROOT_JOINT}"/>')
    if limb.inertia is not None:
        lines.append(f"  {_inertial(limb.inertia)}")
    lines += [f"  {_joint(joint)}" for joint in limb.joints]
    lines.append(f"  <geom name={name} {_shape(limb.geom)}/>")
    lines += [f"  <geom {_shape(geom)}/>" for geom in limb.more_geoms]
    return [f"{indent}{line}" for line in lines]


def actuator_text(actuator: Actuator) -> str:
    """Return a `motor`, or a `general` actuator where the torque depends on more."""
    name = quoted(actuator.joint)
    if not any(actuator.bias) and actuator.torque_range is None:
        return f'<motor name={name} joint={name} gear="{_number(actuator.gear)}"/>'
    clamped = ""
    if actuator.torque_range is not None:
        clamped = f' forcerange="{_text(actuator.torque_range)}" forcelimited="true"'
    return (
        f'<general name={name} joint={name} gear="1" gainprm="{_number(actuator.gear)}" '
        f'biastype="affine" biasprm="{_text(actuator.bias)}" ctrlrange="-1 1" '
        f'ctrllimited="true"{clamped}/>'
    )


def loop_text(loop: Loop, names: Sequence[str]) -> str:
    """Return the constraint that closes a loop between limbs of these names."""
    first, second = quoted(names[loop.first]), quoted(names[loop.second])
    # The anchor of a weld is in the frame of its second body.
    bodies = (first, second) if loop.kind == "connect" else (second, first)
    return (
        f'<{loop.kind} body1={bodies[0]} body2={bodies[1]} anchor="{_text(loop.anchor)}" '
        f'solref="{_LOOP_STIFFNESS}"/>'
    )


def exclusion_text(first: str, second: str, name: str = "") -> str:
    """Return what keeps two limbs from touching."""
    named = f"name={quoted(name)} " if name else ""
    return f"<exclude {named}body1={quoted(first)} body2={quoted(second)}/>"


def kept_exclusion_texts(pairs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the exclusions that a body itself asks for, each with a name that tells so."""
    texts: dict[str, str] = {}
    for first, second in pairs:
        name = stem = f"{KEPT_EXCLUSION}{first}/{second}"
        count = 2
        while name in texts:  # names of limbs may have slashes
            name, count = f"{stem}/{count}", count + 1
        texts[name] = exclusion_text(first, second, name)
    return list(texts.values())


def _inertial(inertia: Inertia) -> str:
    return (
        f'<inertial pos="{_text(inertia.centre)}" quat="{_text(inertia.orientation)}" '
        f'mass="{_number(inertia.mass)}" diaginertia="{_text(inertia.moments)}"/>'
    )


def _joint(joint: Joint) -> str:
    text = (
        f'<joint name={quoted(joint.name)} pos="{_text(joint.position)}" '
        f'axis="{_text(joint.axis)}" range="{_text(joint.range)}" '
        f'damping="{_number(joint.damping)}" stiffness="{_number(joint.stiffness)}" '
        f'armature="{_number(joint.armature)}"'
    )
    if joint.kind != "hinge":
        text += f' type="{joint.kind}"'
    if not joint.limited:
        text += ' limited="false"'
    if joint.spring_reference:
        text += f' springref="{_number(joint.spring_reference)}"'
    if joint.friction_loss:
        text += f' frictionloss="{_number(joint.friction_loss)}"'
    return f"{text}/>"


def _shape(geom: Geom) -> str:
    if geom.kind in ("box", "ellipsoid"):
        turned = "" if geom.orientation == IDENTITY else f' quat="{_text(geom.orientation)}"'
        place = f'pos="{_text(geom.start)}"{turned} size="{_text(geom.half_sizes)}"'
    elif geom.kind == "sphere":
        place = f'pos="{_text(geom.start)}" size="{_number(geom.radius)}"'
    else:
        place = f'fromto="{_text((*geom.start, *geom.end))}" size="{_number(geom.radius)}"'
    text = f'type="{geom.kind}" {place} density="{_number(geom.density)}"'
    if (geom.contype, geom.conaffinity) != (1, 1):
        text += f' contype="{geom.contype}" conaffinity="{geom.conaffinity}"'
    return text


def _text(numbers: Sequence[float]) -> str:
    return " ".join(map(_number, numbers))


def _number(number: float) -> str:
    return repr(float(number))  # numbers of numpy name their type
