"""Read single MJCF elements: shapes, inertias, joints and actuators."""

from typing import cast

from gmc_bench.bodies.mjcf_document import MAIN, Attributes, Element, MjcfDocument
from gmc_bench.bodies.schema import IDENTITY, Actuator, Geom, Inertia, Joint
from gmc_bench.core.types import Quat, Vec3

_GEOM = {
    "name", "class", "type", "size", "fromto", "pos", "density", "condim", "friction", "material",
    "rgba", "group", "user", "contype", "conaffinity",
}  # fmt: skip
_BOX = _GEOM - {"fromto"} | {"quat"}
_JOINT = {
    "name", "class", "type", "pos", "axis", "range", "limited", "damping", "stiffness", "armature",
    "solimplimit", "group", "user", "springref", "frictionloss",
}  # fmt: skip
_INERTIAL = {"pos", "quat", "mass", "diaginertia"}
_MOTOR = {"name", "class", "joint", "gear", "ctrlrange", "ctrllimited", "group", "user"}
_GENERAL = _MOTOR | {"gainprm", "biastype", "biasprm", "forcerange", "forcelimited"}


def read_geom(document: MjcfDocument, given: Attributes, limb: str) -> Geom:
    """Read a shape from its attributes.

    Raises:
        MorphologyError: another kind than those of `Geom`, or a value is wrong.
    """
    kind = given.get("type", "sphere")
    document.only(given, _BOX if kind in ("box", "ellipsoid") else _GEOM, f"the geom of {limb!r}")
    density = document.number(given.get("density", "1000"), f"the density of limb {limb!r}")
    bits = [given.get(key, "1") for key in ("contype", "conaffinity")]
    if not all(bit.isdecimal() and len(bit) < 11 for bit in bits):
        raise document.fail(f"has the contact bits {bits} in limb {limb!r}; expected two numbers")
    contype, conaffinity = (int(bit) for bit in bits)
    radius, start, end, half_sizes, orientation = _measures(document, given, kind, limb)
    return Geom(
        kind=kind,  # type: ignore[arg-type]
        radius=radius,
        start=start,
        end=end,
        density=density,
        half_sizes=half_sizes,
        orientation=orientation,
        contype=contype,
        conaffinity=conaffinity,
    )


def _measures(
    document: MjcfDocument, given: Attributes, kind: str, limb: str
) -> tuple[float, Vec3, Vec3, Vec3, Quat]:
    words = given.get("size", "").split()
    zero = (0.0, 0.0, 0.0)
    if kind in ("sphere", "box", "ellipsoid"):
        if "fromto" in given:
            raise document.fail(f"has a {kind} with 'fromto' in limb {limb!r}; use 'pos'")
        centre = document.vec3(given.get("pos", "0 0 0"), f"the geom position of limb {limb!r}")
        if kind == "sphere":
            radius = document.number(words[0] if words else "", f"the radius of limb {limb!r}")
            return radius, centre, centre, zero, IDENTITY
        half_sizes = document.vec3(given.get("size", ""), f"the {kind} of limb {limb!r}")
        turned = document.quat(given["quat"], f"limb {limb!r}") if "quat" in given else IDENTITY
        return max(half_sizes), centre, centre, half_sizes, turned
    if kind not in ("capsule", "cylinder"):
        raise document.fail(
            f"has a {kind!r} geom in limb {limb!r}; expected a sphere, capsule, cylinder, box or "
            f"ellipsoid"
        )
    # MuJoCo takes the radius from the first number when the segment gives the length.
    radius = document.number(words[0] if words else "", f"the radius of limb {limb!r}")
    if "fromto" not in given:
        raise document.fail(f"has a {kind} without 'fromto' in limb {limb!r}; give its two ends")
    ends = document.numbers(given["fromto"], f"the {kind} of limb {limb!r}", 6)
    return radius, (ends[0], ends[1], ends[2]), (ends[3], ends[4], ends[5]), zero, IDENTITY


def read_inertia(document: MjcfDocument, elements: list[Element], limb: str) -> Inertia | None:
    """Read the stated inertia of a limb, if it has one.

    Raises:
        MorphologyError: there are several, or a value is wrong or missing.
    """
    if not elements:
        return None
    given = elements[0].attrib
    document.only(given, _INERTIAL, f"the inertia of limb {limb!r}")
    if len(elements) > 1 or "mass" not in given or "diaginertia" not in given:
        raise document.fail(
            f"states the inertia of limb {limb!r} other than by one mass and diaginertia"
        )
    return Inertia(
        mass=document.number(given["mass"], f"the mass of limb {limb!r}"),
        centre=document.vec3(given.get("pos", "0 0 0"), f"the centre of mass of limb {limb!r}"),
        moments=document.vec3(given["diaginertia"], f"the inertia of limb {limb!r}"),
        orientation=document.quat(given["quat"], f"the inertia of limb {limb!r}")
        if "quat" in given
        else IDENTITY,
    )


def read_joint(document: MjcfDocument, given: Attributes, place: int, limb: str) -> Joint:
    """Read a hinge or slide; `place` is its slot unless its name tells another.

    Raises:
        MorphologyError: it is another kind of joint, has no name or range, or a value is wrong.
    """
    name = given.get("name")
    if not name:
        raise document.fail(f"has a joint without a name in limb {limb!r}")
    what = f"joint {name!r}"
    document.only(given, _JOINT, what)
    kind = given.get("type", "hinge")
    if kind not in ("hinge", "slide"):
        raise document.fail(f"has a {kind!r} joint {name!r}; only hinges and slides are supported")
    limited = given.get("limited", "auto") != "false"
    if "range" not in given:
        raise document.fail(f"has no limits at {what}; tokens need a range, so limit the joint")
    lower, upper = document.numbers(given["range"], f"the range of {what}", 2)
    unit = document.radians_per_unit if kind == "hinge" else 1.0
    return Joint(
        name=name,
        axis=document.vec3(given.get("axis", "0 0 1"), f"the axis of {what}"),
        position=document.vec3(given.get("pos", "0 0 0"), f"the position of {what}"),
        range=(lower * unit, upper * unit),
        slot=slot_of(name, place),
        damping=document.number(given.get("damping", "0"), f"the damping of {what}"),
        stiffness=document.number(given.get("stiffness", "0"), f"the stiffness of {what}"),
        armature=document.number(given.get("armature", "0"), f"the armature of {what}"),
        kind="hinge" if kind == "hinge" else "slide",
        limited=limited,
        spring_reference=unit
        * document.number(given.get("springref", "0"), f"the spring of {what}"),
        friction_loss=document.number(given.get("frictionloss", "0"), f"the friction of {what}"),
    )


def slot_of(name: str, place: int) -> int:
    """Return the slot of a joint by its name, or else its place among the limb's joints."""
    if name.startswith("limbx"):
        return 0
    return 1 if name.startswith("limby") else place


def read_actuator(document: MjcfDocument, element: Element) -> Actuator:
    """Read a motor, or a general actuator of the kind that `emit_mjcf` writes.

    Raises:
        MorphologyError: it is another actuator, or a value is wrong.
    """
    if element.tag not in ("motor", "general"):
        raise document.fail(f"has a <{element.tag}> actuator; only motors on joints are supported")
    given = document.resolve(element, MAIN)
    what = f"the motor of joint {given.get('joint')!r}"
    document.only(given, _MOTOR if element.tag == "motor" else _GENERAL, what)
    if "joint" not in given:
        raise document.fail("has a motor without a joint; only motors on joints are supported")
    control = document.numbers(given.get("ctrlrange", "-1 1"), f"the control range of {what}", 2)
    if control != (-1.0, 1.0):
        raise document.fail(f"has the control range {control} at {what}; expected (-1.0, 1.0)")
    # A joint's motor uses the first gear only; MuJoCo fills the others with zeros.
    words = given.get("gear", "1").split()
    gear = document.number(words[0] if words else "", f"the gear of {what}")
    if element.tag == "motor":
        return Actuator(joint=given["joint"], gear=gear)
    if gear != 1.0 or given.get("biastype") != "affine":
        raise document.fail(
            f"has a <general> actuator at {what} with a gear or without affine bias"
        )
    clamp = None
    if "forcerange" in given:
        clamp = document.numbers(given["forcerange"], f"the torque range of {what}", 2)
    return Actuator(
        joint=given["joint"],
        gear=document.number(given.get("gainprm", "1"), f"the gain of {what}"),
        bias=document.vec3(given.get("biasprm", "0 0 0"), f"the bias of {what}"),
        torque_range=cast(tuple[float, float] | None, clamp),
    )
