"""Make trees of URDF files with loops; used inside the worker process."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from gmc_bench.bodies.model_files import clean_name


class RefusalError(Exception):
    """A model that is not described; the message is for the user."""


def world_point(data: Any, body: int, point: Any) -> list[float]:
    """Return a point of a body in the world, m."""
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


def untie(text: str) -> tuple[str, list[ET.Element]]:
    """Return a URDF that is a tree, and the joints that would give links a second parent.

    Raises:
        RefusalError: it has no base, or a joint with limits the wrong way round.
    """
    root = ET.fromstring(text)
    _require_limits_in_order(root)
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
    return (ET.tostring(root, encoding="unicode") if extra else text), extra


def _require_limits_in_order(root: ET.Element) -> None:
    """Raise if a joint has a lower limit above its upper one, which MuJoCo takes for none."""
    for joint in root.findall("joint"):
        limit = joint.find("limit")
        if limit is None or joint.get("type") not in ("revolute", "prismatic"):
            continue
        lower, upper = (limit.get(name, "0") for name in ("lower", "upper"))
        try:
            in_order = float(lower) <= float(upper)
        except ValueError:
            continue  # MuJoCo says so
        if not in_order:
            raise RefusalError(
                f"has a joint {clean_name(joint.get('name', ''))!r} whose lower limit "
                f"{float(lower):g} is above its upper limit {float(upper):g}; exchange them"
            )


def _link(joint: ET.Element, role: str) -> str:
    element = joint.find(role)
    return "" if element is None else element.get("link", "")


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
    return np.array([float(word) for word in words.split()])
