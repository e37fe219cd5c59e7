"""Drawings of bodies made of limbs: their shapes in the start pose, seen from in front and above.

They need neither a simulator nor OpenGL, and are the same bytes everywhere. Ellipsoids are drawn
as their bounding boxes.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from gmc_bench.bodies.parts import Geom
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import GmcBenchError
from gmc_bench.core.types import DoubleArray

AZIMUTH, ELEVATION = 35.0, 18.0  # degrees, of who looks
CM = 100.0  # per m, so that numbers stay short
COLOURS = 8
"""Of limbs, in turn; the style sheet has them."""
MARGIN = 12.0  # cm


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


@dataclass(frozen=True, slots=True)
class Drawing:
    """Strokes from back to front."""

    view_box: str
    ground: float
    """y of the floor below the torso."""
    strokes: tuple[Stroke, ...]


@dataclass(frozen=True, slots=True)
class BodySet:
    """The bodies of a set that are at hand, or why there are none."""

    bodies: dict[str, Morphology]
    """By digest."""
    licence: str = ""
    missing: str = ""
    """A sentence that says what is needed; empty where nothing is."""


@cache
def bodies_at_hand(set_id: str, digest: str) -> BodySet:
    """Return the bodies of a set as far as they are here.

    Args:
        set_id: id of the set; sets that grow from seeds are grown.
        digest: of the set that records name.
    """
    from gmc_bench.bodies.sets import load_morphologies  # loads the engine

    try:
        found = load_morphologies(set_id)
    except GmcBenchError as error:
        return BodySet({}, missing=f"The bodies of this set are not drawn: {error}.")
    if found.digest != digest:
        return BodySet(
            {},
            missing=f"The bodies of this set are not drawn: the set {set_id} that is here is "
            f"another one (digest {found.digest[:8]}, not {digest[:8]}).",
        )
    bodies = [body for split in found.splits for body in found.split(split)]
    kept = {body.digest: body for body in bodies if isinstance(body, Morphology)}
    missing = "" if kept else "The bodies of this set are not drawn: they are not made of limbs."
    return BodySet(kept, found.licence, missing)


def draw(body: Morphology) -> Drawing:
    """Return a drawing of a body in its start pose."""
    view = _view()
    found: list[tuple[float, Stroke]] = []
    corners: list[DoubleArray] = []
    places, turns = _poses(body)
    for number, limb in enumerate(body.limbs):
        for geom in limb.geoms:
            points = _points_of(geom) @ turns[number].T + places[number]
            flat = points @ view.T * CM  # (points, 3): right, down, away
            radius = 0.0 if geom.kind in {"box", "ellipsoid"} else geom.radius * CM
            corners += [flat[:, :2] - radius, flat[:, :2] + radius]
            outline = flat[:, :2] if radius else _hull(flat[:, :2])
            colour = number % COLOURS
            is_round = geom.kind != "cylinder"
            stroke = Stroke(_text(outline), _short(2 * radius), _short(2 * radius + 1.6), colour,
                            is_round)  # fmt: skip
            found.append((-float(flat[:, 2].mean()), stroke))
    found.sort(key=lambda item: item[0])
    low = np.concatenate(corners).min(axis=0) - MARGIN
    high = np.concatenate(corners).max(axis=0) + MARGIN
    ground = float((places[0] * np.array([1.0, 1.0, 0.0]) @ view.T * CM)[1])
    high[1] = max(high[1], ground + MARGIN)
    size = high - low
    box = " ".join(f"{_short(value):g}" for value in (*low, *size))
    return Drawing(box, _short(ground), tuple(stroke for _, stroke in found))


def _view() -> DoubleArray:
    """Return (3, 3) float64 with the rows right, down and away from who looks."""
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
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    turn = _rotation(geom.orientation).T
    found: DoubleArray = signs * np.array(geom.half_sizes) @ turn + np.array(geom.start)
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
