"""A camera that follows a body and keeps the whole of it in the picture."""

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from gmc_bench.core.types import DoubleArray

SMOOTHING = 0.4  # s, standard deviation of the window that smooths the torso's path


@dataclass(frozen=True, kw_only=True)
class View:
    """From where to look, and which part of the picture the body may fill."""

    azimuth: float = 105.0
    """Degrees; 90 looks along world +y, so that +x points to the right."""
    elevation: float = -14.0
    """Degrees; negative looks down."""
    share_x: float = 0.88
    """Share of the picture's width that the body may fill."""
    share_y: float = 0.62
    """The same of its height; the rest is for what is written over the picture."""

    @property
    def axes(self) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """Forward, right and up, unit vectors (3,), world frame."""
        azimuth, elevation = np.radians(self.azimuth), np.radians(self.elevation)
        right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
        level = np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
        forward = np.cos(elevation) * level + np.array([0.0, 0.0, np.sin(elevation)])
        return forward, right, np.cross(right, forward)


def outline(model: Any, states: DoubleArray) -> tuple[DoubleArray, DoubleArray]:
    """Return spheres that together cover a body, in every state.

    Args:
        model: from `drawing_model`.
        states: (T, nq) float64, positions.

    Returns:
        (T, 2 G, 3) float64 centres of the ends of the G limb shapes, m, world; (2 G,) float64
        radii, m.
    """
    data = mujoco.MjData(model)
    geoms = np.flatnonzero(model.geom_bodyid > 0)
    capsule = model.geom_type[geoms] == mujoco.mjtGeom.mjGEOM_CAPSULE
    half = np.where(capsule, model.geom_size[geoms, 1], 0.0)
    centers = np.empty((len(states), 2, len(geoms), 3))
    for index, state in enumerate(states):
        data.qpos[:] = state
        mujoco.mj_kinematics(model, data)
        middle = data.geom_xpos[geoms]
        reach = data.geom_xmat[geoms][:, 2::3] * half[:, None]
        centers[index] = middle + reach, middle - reach
    # Spheres and capsules are exact; of other shapes it is the sphere around them.
    round_ = capsule | (model.geom_type[geoms] == mujoco.mjtGeom.mjGEOM_SPHERE)
    radii = np.where(round_, model.geom_size[geoms, 0], model.geom_rbound[geoms])
    return centers.reshape(len(states), -1, 3), np.concatenate([radii, radii])


def follow(torso: DoubleArray, middle: float | DoubleArray, dt: float) -> DoubleArray:
    """Return the points a camera looks at: the torso's path along the ground, smoothed.

    The window is centred, because the whole path is known: the camera does not lag behind.

    Args:
        torso: (T, 3) float64, torso positions, m, world.
        middle: height of all the points, m, world; or (T,) float64, one height for each torso
            position, which is smoothed, too.
        dt: s between two positions.

    Returns:
        (T, 3) float64, m, world.
    """
    reach = max(1, round(3 * SMOOTHING / dt))
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) * dt / SMOOTHING) ** 2)
    weights /= weights.sum()
    points = torso.copy()
    points[:, 2] = middle
    # A height that never changes is kept to the last bit.
    for axis in (0, 1) if np.ptp(points[:, 2]) == 0.0 else (0, 1, 2):
        padded = np.pad(points[:, axis], reach, mode="edge")
        points[:, axis] = np.convolve(padded, weights, mode="valid")
    return points


def fit_distance(
    centers: DoubleArray,
    radii: DoubleArray,
    points: DoubleArray,
    view: View,
    field_of_view: float,
    aspect: float,
) -> float:
    """Return the smallest distance from which every sphere is in the picture at every time.

    Args:
        centers: (T, K, 3) float64, m, world.
        radii: (K,) float64, m.
        points: (T, 3) float64, what the camera looks at, m, world.
        view: direction, and the share of the picture to stay in.
        field_of_view: vertical, degrees.
        aspect: width / height of the picture.

    Returns:
        Distance of the camera from the points, m.
    """
    forward, right, up = view.axes
    offset = centers - points[:, None]
    slope = np.tan(np.radians(field_of_view) / 2)
    needed = []
    for axis, share in ((right, view.share_x * aspect), (up, view.share_y)):
        edge = slope * share
        # A sphere touches the side of the picture where its radius is seen at a slant.
        beside = np.abs(offset @ axis) + radii * np.sqrt(1 + edge**2)
        needed.append((beside / edge - offset @ forward).max())
    return float(max(needed))
