"""Exact distances between spheres and capsules, so that growth needs no engine."""

from dataclasses import dataclass

from gmc_bench.types import Vec3

_TOUCHING = 1e-6  # m; shapes this close count as touching, whatever the engine's rounding


@dataclass(frozen=True, slots=True)
class Shape:
    """A capsule, or a sphere when both ends are equal, in one common frame."""

    start: Vec3
    """m."""
    end: Vec3
    """m."""
    radius: float
    """m."""


def touches(first: Shape, second: Shape) -> bool:
    """Return whether two shapes overlap or touch."""
    return gap(first, second) < _TOUCHING


def gap(first: Shape, second: Shape) -> float:
    """Return the distance between two surfaces, m; negative where they overlap.

    Source:
        Closest points of two segments: Ericson, Real-Time Collision Detection, section 5.1.9.
    """
    u, v = _minus(first.end, first.start), _minus(second.end, second.start)
    between = _minus(first.start, second.start)
    uu, uv, vv = _dot(u, u), _dot(u, v), _dot(v, v)
    along_u, along_v = _dot(u, between), _dot(v, between)
    spread = uu * vv - uv * uv
    s = _clamped((uv * along_v - along_u * vv) / spread) if spread > 1e-12 else 0.0
    t = (uv * s + along_v) / vv if vv > 0.0 else 0.0
    if not 0.0 <= t <= 1.0 or vv == 0.0:
        t = _clamped(t)
        s = _clamped((uv * t - along_u) / uu) if uu > 0.0 else 0.0
    x, y, z = (b + s * a - t * c for a, b, c in zip(u, between, v, strict=True))
    distance: float = (x * x + y * y + z * z) ** 0.5
    return distance - first.radius - second.radius


def _minus(first: Vec3, second: Vec3) -> Vec3:
    return (first[0] - second[0], first[1] - second[1], first[2] - second[2])


def _dot(first: Vec3, second: Vec3) -> float:
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


def _clamped(fraction: float) -> float:
    return min(1.0, max(0.0, fraction))
