"""Make trees of URDF files with loops, and mend what the engine refuses; used inside the worker."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from gmc_bench.bodies.model_files import clean_name

_MOMENTS = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
_THIN = 1e-3  # least second moment of a mended inertia, of the greatest
_LEAST = 1e-12  # kg m^2; the engine takes moments below 1e-14 for none
_ROUNDING = 1e-9  # relative; by so much the moments of a plate may miss equality
_LOOSE = (
    (re.compile(r"<\?xml\b.*?\?>", re.DOTALL), ""),
    (re.compile(r"\sxmlns(:[\w.-]+)?\s*=\s*(\"[^\"]*\"|'[^']*')"), ""),
    (re.compile(r"(</?[\w.-]+):(?=[\w.-])"), r"\1_"),
    (re.compile(r"(\s[\w.-]+):([\w.-]+\s*=)"), r"\1_\2"),
    (re.compile(r"&(?!#?\w+;)"), "&amp;"),
)
"""What the engine reads and XML forbids, or means otherwise: declarations anywhere, names with a
colon, which are no namespaces to the engine, and ampersands."""
_RIGID = ("fixed", "floating")
"""Types of joints that turn or slide nothing."""


class RefusalError(Exception):
    """A model that is not described; the message is for the user."""


def world_point(data: Any, body: int, point: Any) -> list[float]:
    """Return the world position of a point of a body, m."""
    world: list[float] = (data.xpos[body] + data.xmat[body].reshape(3, 3) @ point).tolist()
    return world


def turn_between(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return the angle between two orientations, rad, each a product of quaternions."""
    products = []
    for factors in (one, other):
        product = np.array([1.0, 0.0, 0.0, 0.0])
        for factor in factors:
            mujoco.mju_mulQuat(product, product.copy(), np.array(factor, dtype=float))
        products.append(product / max(float(np.linalg.norm(product)), 1e-9))
    return float(2.0 * np.arccos(np.clip(abs(products[0] @ products[1]), 0.0, 1.0)))


def untie(text: str) -> tuple[str, list[ET.Element], list[str]]:
    """Return a URDF that is a tree, the joints that would give links a second parent, and more.

    The third are the names of joints that became fixed ones, see `_fix_locked`.

    Raises:
        RefusalError: it has no base, a limb that floats, a joint with limits the wrong way round,
            or one that is locked elsewhere than at 0.
    """
    root = _parse(text)
    completed = _complete_limits(root)
    locked = _fix_locked(root)
    _require_no_floating_limbs(root)
    children: set[str] = set()
    extra = []
    for joint in root.findall("joint"):
        child = _link(joint, "child")
        if child in children:
            extra.append(joint)
            root.remove(joint)
        children.add(child)
    links = {link.get("name", "") for link in root.findall("link")}
    if links and links <= children:
        raise RefusalError(
            "has no base: every link is the child of a joint; let one link be no joint's child"
        )
    changed = ET.tostring(root, encoding="unicode") if extra or locked or completed else text
    return changed, extra, locked


def _parse(text: str) -> ET.Element:
    """Parse a URDF without comments as loosely as the engine does.

    Raises:
        RefusalError: it is no XML.
    """
    for pattern, replacement in _LOOSE:
        text = pattern.sub(replacement, text)
    end = text.rfind("</robot>")
    try:
        return ET.fromstring(text[: end + len("</robot>")] if end >= 0 else text)
    except ET.ParseError as error:
        raise RefusalError(f"is no well-formed XML ({error})") from error


def _complete_limits(root: ET.Element) -> bool:
    """Let the engine read the limits of joints as URDF means them, and return whether any changed.

    A limit that is not stated beside another is 0, where MuJoCo would drop both, and a continuous
    joint has none, also where some are stated.
    """
    changed = False
    for joint in root.findall("joint"):
        for limit in joint.findall("limit"):
            stated = {"lower", "upper"} & set(limit.keys())
            if joint.get("type") == "continuous":
                for name in stated:
                    del limit.attrib[name]
                changed |= bool(stated)
            elif joint.get("type") in ("revolute", "prismatic") and len(stated) == 1:
                limit.attrib = {"lower": "0", "upper": "0", **limit.attrib}
                changed = True
    return changed


def _fix_locked(root: ET.Element) -> list[str]:
    """Make joints fixed whose limits are both 0, which MuJoCo takes for none, and name them.

    Raises:
        RefusalError: a joint is locked elsewhere, or has a lower limit above its upper one.
    """
    locked = []
    for joint in root.findall("joint"):
        lower, upper = _stated_limits(joint) or (0.0, 1.0)
        if not lower >= upper:  # nor where one is not a number, which is told later
            continue
        name = clean_name(joint.get("name", ""))
        if lower != upper:
            raise RefusalError(
                f"has a joint {name!r} whose lower limit {lower:g} is above its upper limit "
                f"{upper:g}; exchange them"
            )
        if lower != 0.0:
            raise RefusalError(
                f"has a joint {name!r} that is locked at {lower:g} (lower = upper); make it fixed, "
                f"and turn or move its origin by that"
            )
        joint.set("type", "fixed")
        locked.append(name)
    return locked


def _require_no_floating_limbs(root: ET.Element) -> None:
    """Raise if a joint lets a limb float, which MuJoCo takes for a robot of its own.

    What floats is the base where its joint comes from links that nothing else moves against, such
    as one that stands for the world.
    """
    joints = root.findall("joint")
    still = {link.get("name", "") for link in root.findall("link")}
    still -= {_link(joint, "child") for joint in joints}
    waiting = list(still)
    while waiting:
        parent = waiting.pop()
        rigid = [j for j in joints if j.get("type") == "fixed" and _link(j, "parent") == parent]
        waiting += {_link(joint, "child") for joint in rigid} - still
        still |= {_link(joint, "child") for joint in rigid}
    above = {_link(joint, "parent") for joint in joints if joint.get("type") not in _RIGID}
    for joint in joints:
        if joint.get("type") == "floating" and (
            _link(joint, "parent") not in still or above & still
        ):
            raise RefusalError(
                f"has the floating joint {clean_name(joint.get('name', ''))!r} below its base, but "
                f"only the base can float; replace it by hinges and slides, or make it fixed"
            )


def _stated_limits(joint: ET.Element) -> tuple[float, float] | None:
    """Return the limits of a joint, rad or m; `None` if it has, states or needs no numbers."""
    limit = joint.find("limit")
    if limit is None or joint.get("type") not in ("revolute", "prismatic"):
        return None
    if limit.get("lower") is None and limit.get("upper") is None:
        return None  # MuJoCo and others let it turn freely
    try:
        return float(limit.get("lower", "0")), float(limit.get("upper", "0"))
    except ValueError:
        return None  # MuJoCo says so


def _link(joint: ET.Element, role: str) -> str:
    element = joint.find(role)
    return "" if element is None else element.get("link", "")


def mend(text: str) -> tuple[str, list[str]]:
    """Return a URDF without what the engine refuses but need not, and the links that changed.

    Visual shapes, which it reads more strictly than others do and then leaves out, are removed; if
    the file asks to keep them, their materials. Inertias that no rigid body has get the nearest
    second moments of mass that some body has (with the same axes), as in the pseudo-inertia of
    Wensing, Kim and Slotine (2018).
    """
    root = _parse(text)
    compilers = root.findall("mujoco/compiler")
    kept = any(compiler.get("discardvisual") == "false" for compiler in compilers)
    mended = []
    for link in root.findall("link"):
        for visual in link.findall("visual"):
            for material in visual.findall("material"):
                visual.remove(material)
            if not kept:
                link.remove(visual)
        element = link.find("inertial/inertia")
        if element is not None and _mend_inertia(element):
            mended.append(clean_name(link.get("name", "")))
    return ET.tostring(root, encoding="unicode"), mended


def without_weights(text: str) -> tuple[str, list[str]]:
    """Return a URDF whose links without `<inertial>` have no mass, and the links that keep one.

    The engine would give each of them the mass that its collision shapes have at the density of
    water, which is kept only where no link that is fixed to it states a mass.
    """
    root = _parse(text)
    links = {link.get("name", ""): link for link in root.findall("link")}
    bare = [
        name
        for name, link in links.items()
        if link.find("inertial") is None and link.find("collision") is not None
    ]
    if not bare:
        return text, []
    above = {name: name for name in links}

    def group(name: str) -> str:
        while above[name] != name:
            above[name] = above[above[name]]
            name = above[name]
        return name

    for joint in root.findall("joint"):
        ends = [_link(joint, role) for role in ("child", "parent")]
        if joint.get("type") == "fixed" and all(end in links for end in ends):
            above[group(ends[0])] = group(ends[1])
    weighed = {group(name) for name, link in links.items() if _states_mass(link)}
    for name in bare:
        if group(name) in weighed:
            inertial = ET.SubElement(links[name], "inertial")
            ET.SubElement(inertial, "mass", value="0")
            ET.SubElement(inertial, "inertia", dict.fromkeys(_MOMENTS, "0"))
    kept = [clean_name(name) for name in bare if group(name) not in weighed]
    return ET.tostring(root, encoding="unicode"), kept


def _states_mass(link: ET.Element) -> bool:
    mass = link.find("inertial/mass")
    try:
        return mass is not None and float(mass.get("value", "0")) > 0.0
    except ValueError:  # the engine says so
        return False


def _mend_inertia(element: ET.Element) -> bool:
    """Change an inertia that no rigid body has, and return whether it was one.

    That of a plate, which the engine may refuse for rounding, changes by about as much. Products of
    inertia that are not stated are 0.
    """
    for name in _MOMENTS[3:]:
        element.set(name, element.get(name, "0"))
    try:
        xx, yy, zz, xy, xz, yz = (float(element.get(name, "0")) for name in _MOMENTS)
        moments, axes = np.linalg.eigh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    except (ValueError, np.linalg.LinAlgError):  # the engine says so
        return False
    spare = moments[0] + moments[1] - moments[2]
    possible = moments[0] > _LEAST / 10 and spare > -_ROUNDING * moments[2]
    if moments.sum() < -_LEAST or (possible and spare > _ROUNDING * moments[2]):
        return False
    # The moment about an axis is the sum of the second moments along the other two.
    along = moments.sum() / 2 - moments
    along = np.maximum(along, max(_LEAST, (_ROUNDING if possible else _THIN) * along.max()))
    inertia = axes @ np.diag(along.sum() - along) @ axes.T
    places = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))
    for name, place in zip(_MOMENTS, places, strict=True):
        element.set(name, repr(float(inertia[place])))
    return not possible


def describe_ties(model: Any, data: Any, joints: list[ET.Element]) -> list[dict[str, Any]]:
    """Describe joints that close loops as constraints at the origin of their child link.

    Raises:
        RefusalError: it is no joint that keeps two points together.
    """
    names = {model.body(b).name: b for b in range(model.nbody)}
    found = []
    for joint in joints:
        kind = joint.get("type", "")
        first, second = (_link(joint, role) for role in ("parent", "child"))
        if kind not in ("revolute", "continuous", "fixed", "spherical"):
            raise RefusalError(
                f"closes a loop by the {clean_name(kind)!r} joint of {clean_name(second)!r}; "
                f"a loop can be closed by a revolute, continuous or fixed joint"
            )
        if first not in names or second not in names:
            raise RefusalError(f"has a joint between unknown links at {clean_name(second)!r}")
        point, angles = _origin(joint, "xyz"), _origin(joint, "rpy")
        own = np.zeros(4)
        mujoco.mju_euler2Quat(own, angles, "XYZ")
        ends = [names[first], names[second]]
        found.append({
            "kind": "weld" if kind == "fixed" else "connect",
            "hinge": kind in ("revolute", "continuous"),
            "active": True,
            "bodies": ends,
            "turn": turn_between([data.xquat[ends[0]], own], [data.xquat[ends[1]]])
            if kind == "fixed"
            else 0.0,
            "anchors": [world_point(data, ends[0], point), world_point(data, ends[1], np.zeros(3))],
        })  # fmt: skip
    return found


def _origin(joint: ET.Element, key: str) -> Any:
    origin = joint.find("origin")
    words = "0 0 0" if origin is None else origin.get(key, "0 0 0")
    try:
        x, y, z = map(float, words.split())
    except ValueError:
        raise RefusalError(
            f"has a joint {clean_name(joint.get('name', ''))!r} whose origin has {key} = "
            f"{clean_name(words)!r}; expected three numbers"
        ) from None
    return np.array([x, y, z])
