"""Drawings of bodies: their shapes in the start pose, seen from in front and above, on the floor.

They need neither a simulator nor OpenGL, and are the same bytes everywhere. Light comes from
above: capsules have a bright line, boxes a bright top, and all cast a shadow straight down.
Ellipsoids are drawn as their bounding boxes.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from gmc_bench.bodies.parts import Geom
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import GmcBenchError
from gmc_bench.core.types import DoubleArray
from gmc_bench.robots.parts import Shape
from gmc_bench.robots.schema import Robot

AZIMUTH, ELEVATION = 35.0, 18.0  # degrees, of the viewer
CM = 100.0  # per m, so that numbers stay short
COLOURS = 8
"""Of limbs, in turn; the style sheet has them, and those of a quadruped's base and feet after."""
BASE, LEG, FOOT = 8, 1, 9
MARGIN = 12.0  # cm
_RIM = 0.8  # cm, dark edge
_SHINE = (0.35, 0.4)  # of the bright line: width / diameter, height above the middle / radius

Drawable = Morphology | Robot


@dataclass(frozen=True, slots=True)
class Stroke:
    """A capsule, cylinder or sphere as a thick line, or a box as a polygon; cm."""

    points: str
    """`x,y x,y ...`; two of a line, which are equal for a sphere."""
    width: float
    """0 for a polygon."""
    rim: float
    """Width with the dark edge."""
    colour: int
    round: bool
    bright: str
    """Points of the line, or of the top, that is bright."""
    shine: float
    """Width of that line; 0 for a polygon."""


@dataclass(frozen=True, slots=True)
class Shadow:
    """A shape as seen from straight above, cm: a thick line, or a polygon of width 0."""

    points: str
    width: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """Strokes from back to front."""

    view_box: str
    floor: str
    """Matrix of SVG that takes a place on the floor, cm, into the picture."""
    shadows: tuple[Shadow, ...]
    """On the floor."""
    strokes: tuple[Stroke, ...]


@dataclass(frozen=True, slots=True)
class _Solid:
    """One shape in the world, m."""

    points: DoubleArray
    """(N, 3) float64: both ends of an axis, or the eight corners of a box."""
    radius: float
    """0 of a box."""
    colour: int
    round: bool = True


@dataclass(frozen=True, slots=True)
class DrawnSet:
    """The bodies of a set that are at hand, or why there are none."""

    bodies: dict[str, Drawable]
    """By digest."""
    licence: str = ""
    missing: str = ""
    """A sentence that says what is needed; empty where nothing is."""


@cache
def bodies_at_hand(set_id: str, digest: str) -> DrawnSet:
    """Return the bodies of a set as far as they are here.

    Args:
        set_id: id of the set; sets that grow from seeds are grown.
        digest: of the set that records name.
    """
    from gmc_bench.bodies.sets import load_morphologies  # loads the engine

    try:
        found = load_morphologies(set_id)
    except GmcBenchError as error:
        return DrawnSet({}, missing=f"The bodies of this set are not drawn: {error}.")
    if found.digest != digest:
        return DrawnSet(
            {},
            missing=f"The bodies of this set are not drawn: the set {set_id} that is here is "
            f"another one (digest {found.digest[:8]}, not {digest[:8]}).",
        )
    bodies = [body for split in found.splits for body in found.split(split)]
    # A robot that was read from a file has meshes, and whose they are is not known.
    kept = {body.digest: body for body in bodies if type(body) in (Morphology, Robot)}
    missing = "" if kept else "The bodies of this set are not drawn: they have other shapes."
    return DrawnSet(kept, found.licence, missing)


def draw(body: Drawable) -> Drawing:
    """Return a drawing of a body in its start pose."""
    view = _view()
    found: list[tuple[float, Stroke]] = []
    shadows: list[Shadow] = []
    corners: list[DoubleArray] = []
    for solid in _solids_of_robot(body) if isinstance(body, Robot) else _solids(body):
        flat = solid.points @ view.T * CM  # (points, 3): right, down, away
        below = solid.points * (1.0, 1.0, 0.0) @ view.T * CM
        radius = solid.radius * CM
        corners += [both[:, :2] + sign * radius for both in (flat, below) for sign in (-1, 1)]
        found.append((-float(flat[:, 2].mean()), _stroke(solid, flat[:, :2])))
        outline = solid.points[:, :2] * CM
        shadows.append(Shadow(_text(outline if radius else _hull(outline)), _short(2.0 * radius)))
    found.sort(key=lambda item: item[0])
    low = np.concatenate(corners).min(axis=0) - MARGIN
    high = np.concatenate(corners).max(axis=0) + MARGIN
    box = " ".join(f"{_short(value):g}" for value in (*low, *(high - low)))
    floor = " ".join(f"{value:.4f}" for value in view[:2, :2].T.ravel())
    return Drawing(box, f"{floor} 0 0", tuple(shadows), tuple(stroke for _, stroke in found))


def _stroke(solid: _Solid, flat: DoubleArray) -> Stroke:
    """Return a shape whose points in the picture are given, cm."""
    if not solid.radius:
        top = np.argsort(-solid.points[:, 2], kind="stable")[:4]
        return Stroke(
            points=_text(_hull(flat)), width=0.0, rim=0.0, colour=solid.colour, round=True,
            bright=_text(_hull(flat[top])), shine=0.0,
        )  # fmt: skip
    radius = solid.radius * CM
    share, height = _SHINE
    return Stroke(
        points=_text(flat), width=_short(2.0 * radius), rim=_short(2.0 * (radius + _RIM)),
        colour=solid.colour, round=solid.round,
        bright=_text(flat - np.array([0.0, height * radius])), shine=_short(2.0 * share * radius),
    )  # fmt: skip


def _solids(body: Morphology) -> Iterator[_Solid]:
    """Yield the shapes of a body made of limbs."""
    places, turns = _poses(body)
    for number, limb in enumerate(body.limbs):
        for geom in limb.geoms:
            points = _points_of(geom) @ turns[number].T + places[number]
            radius = 0.0 if geom.kind in {"box", "ellipsoid"} else geom.radius
            yield _Solid(points, radius, number % COLOURS, geom.kind != "cylinder")


def _solids_of_robot(robot: Robot) -> Iterator[_Solid]:
    """Yield the shapes of a quadruped in its stance."""
    places, turns = [np.array([0.0, 0.0, robot.pose.base_height])], [np.eye(3)]
    for link, angle in zip(robot.links, robot.pose.angles, strict=True):
        place, turn = places[link.parent + 1], turns[link.parent + 1]
        places.append(place + turn @ np.array(link.position))
        half = angle / 2.0
        turned = _rotation((math.cos(half), *(math.sin(half) * x for x in link.joint.axis)))
        turns.append(turn @ turned)
    groups = [robot.base.shapes, *(link.shapes for link in robot.links)]
    for number, (shapes, place, turn) in enumerate(zip(groups, places, turns, strict=True)):
        for shape in shapes:
            points = _points_of_shape(shape) @ turn.T + place
            colour = LEG if number else BASE
            yield _Solid(points, shape.radius or 0.0, colour, shape.kind != "cylinder")
    for foot in robot.feet:
        place = places[foot.link + 1] + turns[foot.link + 1] @ np.array(foot.position)
        yield _Solid(np.stack([place, place]), foot.radius, FOOT)


def _points_of_shape(shape: Shape) -> DoubleArray:
    """Return (N, 3) float64 in the link's frame, m."""
    if shape.half_extents is None:
        return np.array([shape.start, shape.start if shape.end is None else shape.end])
    found: DoubleArray = _corners(shape.half_extents) + np.array(shape.start)
    return found


def _view() -> DoubleArray:
    """Return (3, 3) float64 with the rows right, down and away from the viewer."""
    azimuth, elevation = math.radians(AZIMUTH), math.radians(ELEVATION)
    away = np.array(
        [
            -math.cos(elevation) * math.sin(azimuth),
            math.cos(elevation) * math.cos(azimuth),
            -math.sin(elevation),
        ]
    )
    right = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
    return np.stack([right, np.cross(away, right), away])


def _poses(body: Morphology) -> tuple[list[DoubleArray], list[DoubleArray]]:
    """Return (3,) places, m, and (3, 3) rotations of all limbs in the world."""
    places: list[DoubleArray] = []
    turns: list[DoubleArray] = []
    for limb in body.limbs:
        place, turn = np.array(limb.position), _rotation(limb.orientation)
        if limb.parent >= 0:
            place = places[limb.parent] + turns[limb.parent] @ place
            turn = turns[limb.parent] @ turn
        places.append(place)
        turns.append(turn)
    return places, turns


def _rotation(quaternion: Sequence[float]) -> DoubleArray:
    w, x, y, z = quaternion
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def _points_of(geom: Geom) -> DoubleArray:
    """Return (N, 3) float64 in the limb's frame, m: both ends of an axis, or corners of a box."""
    if geom.kind not in {"box", "ellipsoid"}:
        return np.array([geom.start, geom.end])
    turn = _rotation(geom.orientation).T
    found: DoubleArray = _corners(geom.half_sizes) @ turn + np.array(geom.start)
    return found


def _corners(half_sizes: Sequence[float]) -> DoubleArray:
    """Return (8, 3) float64, corners of a box around the origin."""
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    found: DoubleArray = signs * np.array(half_sizes)
    return found


def _hull(points: DoubleArray) -> DoubleArray:
    """Return the convex hull of (N, 2) points, in order (Andrew's monotone chain)."""
    ordered = sorted(map(tuple, points.tolist()))

    def half(there: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
        found: list[tuple[float, ...]] = []
        for point in there:
            while len(found) > 1 and _turn(found[-2], found[-1], point) <= 0.0:
                found.pop()
            found.append(point)
        return found[:-1]

    return np.array([*half(ordered), *half(ordered[::-1])])


def _turn(a: Sequence[float], b: Sequence[float], c: Sequence[float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _text(points: DoubleArray) -> str:
    return " ".join(f"{_short(x):g},{_short(y):g}" for x, y in points.tolist())


def _short(value: float) -> float:
    return round(float(value), 1) + 0.0
