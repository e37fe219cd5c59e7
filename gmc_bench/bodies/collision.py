"""Exact distances between spheres and capsules, so that growth needs no engine."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gmc_bench.bodies.vectors import minus
from gmc_bench.core.jit import njit
from gmc_bench.core.types import BoolArray, DoubleArray, Vec3

TOUCHING = 1e-6  # m; shapes this close count as touching, whatever the engine's rounding


@dataclass(frozen=True, slots=True)
class Capsule:
    """A capsule, or a sphere when both ends are equal, in one common frame."""

    start: Vec3
    """m."""
    end: Vec3
    """m."""
    radius: float
    """m."""


def touches(first: Capsule, second: Capsule) -> bool:
    """Return whether two shapes overlap or touch."""
    return gap(first, second) < TOUCHING


def gap(first: Capsule, second: Capsule) -> float:
    """Return the distance between two surfaces, m; negative where they overlap.

    Source:
        Closest points of two segments: Ericson, Real-Time Collision Detection, section 5.1.9.
    """
    u, v = minus(first.end, first.start), minus(second.end, second.start)
    between = minus(first.start, second.start)
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


def _any_near(
    start: DoubleArray,
    end: DoubleArray,
    starts: DoubleArray,
    ends: DoubleArray,
    reach: DoubleArray,
    counts: BoolArray,
) -> bool:
    """Return whether one shape comes near others in some pose.

    Args:
        start: (N, 3) float64, m: one end of the shape's axis in each of N poses.
        end: (N, 3) float64, m: the other end.
        starts: (K, N, 3) float64, m: the same of K other shapes; (K, 1, 3) if they stand still.
        ends: (K, N, 3) or (K, 1, 3) float64, m.
        reach: (K,) float64, m: distances between the axes below which they are near.
        counts: (K, N) bool: which poses count.

    Source:
        As `gap`.
    """
    still = starts.shape[1] == 1
    u, v, between = np.empty(3), np.empty(3), np.empty(3)
    for k in range(starts.shape[0]):
        for n in range(start.shape[0]):
            if not counts[k, n]:
                continue
            m = 0 if still else n
            uu, uv, vv, along_u, along_v = 0.0, 0.0, 0.0, 0.0, 0.0
            for c in range(3):
                u[c] = end[n, c] - start[n, c]
                v[c] = ends[k, m, c] - starts[k, m, c]
                between[c] = start[n, c] - starts[k, m, c]
                uu += u[c] * u[c]
                uv += u[c] * v[c]
                vv += v[c] * v[c]
                along_u += u[c] * between[c]
                along_v += v[c] * between[c]
            spread = uu * vv - uv * uv
            s = (uv * along_v - along_u * vv) / spread if spread > 1e-12 else 0.0
            s = min(1.0, max(0.0, s))
            t = (uv * s + along_v) / vv if vv > 0.0 else -1.0
            if t < 0.0 or t > 1.0:
                t = min(1.0, max(0.0, t))
                s = min(1.0, max(0.0, (uv * t - along_u) / uu)) if uu > 0.0 else 0.0
            square = 0.0
            for c in range(3):
                apart = between[c] + s * u[c] - t * v[c]
                square += apart * apart
            if square < reach[k] * reach[k]:
                return True
    return False


any_near: Callable[..., bool] = njit(cache=True)(_any_near)
"""See `_any_near`, of which this is the compiled form: growth calls it thousands of times."""


def _dot(first: Vec3, second: Vec3) -> float:
    return first[0] * second[0] + first[1] * second[1] + first[2] * second[2]


def _clamped(fraction: float) -> float:
    return min(1.0, max(0.0, fraction))
