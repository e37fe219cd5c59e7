"""Shapes and inertias of a foreign robot, in the frames of its limbs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from gmc_bench.bodies.sandbox import FlawError
from gmc_bench.bodies.schema import Geom, Inertia
from gmc_bench.core.types import DoubleArray, Quat, Vec3

_DIGITS = 12  # decimals of coordinates; what is beyond them is noise of the arithmetic
_SMALLEST = 1e-4  # m, half size; flat meshes have none
_MAX_GEOMS = 64
_TURNED = {"box", "ellipsoid"}
_SOLIDS = {"sphere", "capsule", "cylinder", *_TURNED}


def vector(numbers: Any) -> Any:
    """Return numbers as a tuple of floats without the noise of the arithmetic."""
    return tuple(round(float(number), _DIGITS) + 0.0 for number in numbers)


def quaternion(axes: DoubleArray) -> Quat:
    """Return the unit quaternion of a rotation matrix (3, 3), its scalar not negative."""
    # The eigenvector of the largest eigenvalue is exact for every angle (Bar-Itzhack 2000).
    (xx, xy, xz), (yx, yy, yz), (zx, zy, zz) = axes
    matrix = np.array([
        [xx - yy - zz, 0.0, 0.0, 0.0],
        [yx + xy, yy - xx - zz, 0.0, 0.0],
        [zx + xz, zy + yz, zz - xx - yy, 0.0],
        [zy - yz, xz - zx, yx - xy, xx + yy + zz],
    ])  # fmt: skip
    values, vectors = np.linalg.eigh(matrix / 3.0)
    x, y, z, w = vectors[:, np.argmax(values)]
    sign = -1.0 if w < 0 else 1.0
    found = np.round(sign * np.array([w, x, y, z]), _DIGITS) + 0.0
    return cast(Quat, tuple(float(number) for number in found / np.linalg.norm(found)))


def merge_inertia(
    bodies: Sequence[dict[str, Any]], origin: DoubleArray, axes: DoubleArray, limb: str
) -> Inertia:
    """Add up bodies that move as one.

    Args:
        bodies: with `mass`, `centre`, `axes` and `moments`, world.
        origin: (3,) of the limb's frame, world.
        axes: (3, 3) of the limb's frame, world.
        limb: its name.

    Returns:
        Their common inertia, limb frame.

    Raises:
        FlawError: they have no mass.
    """
    masses = np.array([body["mass"] for body in bodies])
    mass = float(masses.sum())
    if not mass > 0:
        raise FlawError(f"has no mass at {limb!r}; give it geoms or an inertia")
    centres = np.array([body["centre"] for body in bodies])
    centre = masses @ centres / mass
    total = np.zeros((3, 3))
    for body, arm in zip(bodies, centres - centre, strict=True):
        turn = np.reshape(body["axes"], (3, 3))
        total += turn @ np.diag(body["moments"]) @ turn.T
        total += body["mass"] * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    if len(bodies) == 1:
        moments, frame = np.array(bodies[0]["moments"]), np.reshape(bodies[0]["axes"], (3, 3))
    else:
        moments, frame = np.linalg.eigh(total)
        frame = frame * np.sign(np.linalg.det(frame))
    # Engines refuse moments that no body can have; rounding may lead there.
    largest = int(np.argmax(moments))
    others = float(moments.sum() - moments[largest])
    moments = np.maximum(moments, 1e-12)
    moments[largest] = min(moments[largest], others * (1 - 1e-9)) if others > 0 else 1e-12
    return Inertia(
        mass=mass,
        centre=vector(axes.T @ (centre - origin)),
        moments=cast(Vec3, tuple(float(moment) for moment in moments)),
        orientation=quaternion(axes.T @ frame),
    )


def build_geoms(
    found: Sequence[dict[str, Any]],
    origin: DoubleArray,
    axes: DoubleArray,
    inertia: Inertia,
    limb: str,
    notes: list[str],
) -> list[Geom]:
    """Return the shapes of a limb, the largest first.

    Shapes that touch nothing are kept only where there are no others. Meshes become boxes.

    Args:
        found: geoms of the limb's bodies, world.
        origin: (3,) of the limb's frame, world.
        axes: (3, 3) of the limb's frame, world.
        inertia: of the limb; its mass is spread evenly over the shapes.
        limb: its name.
        notes: what changed is added.
    """
    usable = [geom for geom in found if geom["kind"] in {*_SOLIDS, "mesh"}]
    if len(usable) < len(found):
        notes.append(f"planes, height fields and the like are left out: {limb}")
    solid = [geom for geom in usable if geom["contype"] or geom["conaffinity"]]
    chosen = solid or usable
    if any(geom["kind"] == "mesh" for geom in chosen):
        notes.append(f"meshes became the boxes around them: {limb}")
    geoms = [_geom(geom, origin, axes) for geom in chosen]
    geoms.sort(key=lambda geom: -geom.volume)  # stable, so equal shapes keep their order
    if len(geoms) > _MAX_GEOMS:
        notes.append(f"shapes beyond the {_MAX_GEOMS} largest are left out: {limb}")
        geoms = geoms[:_MAX_GEOMS]
    if not geoms:
        radius = float(np.clip(np.sqrt(2.5 * max(inertia.moments) / inertia.mass), 0.01, 0.1))
        notes.append(f"limbs without shape, shown as balls that touch nothing: {limb}")
        place = inertia.centre
        ghost = Geom(kind="sphere", radius=radius, start=place, end=place, contype=0, conaffinity=0)
        geoms = [ghost]
    density = inertia.mass / sum(geom.volume for geom in geoms)
    return [replace(geom, density=float(f"{density:.12g}")) for geom in geoms]


def _geom(geom: dict[str, Any], origin: DoubleArray, axes: DoubleArray) -> Geom:
    turn = np.reshape(geom["turn"], (3, 3))
    centre = np.array(geom["position"])
    kind, size = geom["kind"], np.array(geom["size"])
    if kind == "mesh":
        kind, size = "box", np.array(geom["box"][3:])
        centre = centre + turn @ geom["box"][:3]
    contacts = {"contype": geom["contype"], "conaffinity": geom["conaffinity"]}
    middle = vector(axes.T @ (centre - origin))
    if kind in _TURNED:
        half_sizes = vector(np.maximum(size, _SMALLEST))
        return Geom(
            kind=kind,
            radius=max(half_sizes),
            start=middle,
            end=middle,
            half_sizes=half_sizes,
            orientation=quaternion(axes.T @ turn),
            **contacts,
        )
    radius = max(float(f"{size[0]:.12g}"), _SMALLEST)
    if kind == "sphere" or (kind == "capsule" and size[1] < _SMALLEST):
        return Geom(kind="sphere", radius=radius, start=middle, end=middle, **contacts)
    reach = turn[:, 2] * max(size[1], _SMALLEST)
    ends = [vector(axes.T @ (centre + side * reach - origin)) for side in (-1.0, 1.0)]
    return Geom(kind=kind, radius=radius, start=ends[0], end=ends[1], **contacts)


def lowest_point(geom: Geom, origin: DoubleArray, axes: DoubleArray) -> float:
    """Return how low a shape of a limb reaches, m, world; infinity where it touches nothing."""
    if not (geom.contype or geom.conaffinity):
        return np.inf
    ends = np.array([geom.start, geom.end]) @ axes.T + origin
    low = float(ends[:, 2].min())
    if geom.kind in _TURNED:
        down = axes[2] @ rotation(geom.orientation) * geom.half_sizes
        return low - float(np.abs(down).sum() if geom.kind == "box" else np.linalg.norm(down))
    if geom.kind == "cylinder":
        along = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
        return low - geom.radius * float(np.sqrt(max(0.0, 1.0 - along[2] ** 2)))
    return low - geom.radius


def rotation(quat: Quat) -> DoubleArray:
    """Return the rotation matrix (3, 3) of a unit quaternion."""
    w, x, y, z = quat
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip
