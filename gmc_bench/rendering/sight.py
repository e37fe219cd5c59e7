"""Surroundings that are drawn with a body: its trace, near ground, and nothing in front of it."""

from typing import Any, NamedTuple

import mujoco
import numpy as np

from gmc_bench.core.types import BoolArray, DoubleArray, IntArray
from gmc_bench.rendering.camera import View
from gmc_bench.rendering.ground import HIDDEN
from gmc_bench.rendering.scene import FIELD_OF_VIEW
from gmc_bench.tasks.spec import VisitGrid

_FAINT = 0.15  # opacity of what stands in front of the body
_ROOM = 0.5  # m, beside the line of sight that is kept clear for the body


class Tiles(NamedTuple):
    """Squares that are coloured on the ground."""

    centers: DoubleArray
    """(K, 3) float64, m, world."""
    half_side: float
    """m."""


class Sight:
    """Clears the view of one drawing model, picture by picture.

    Height fields have hundreds of thousands of triangles, so that those which cannot be in the
    picture are left out.

    Args:
        model: from `drawing_model`, with its terrain.
    """

    def __init__(self, model: Any) -> None:
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        self._model = model
        static = (model.geom_bodyid == 0) & (model.geom_group != HIDDEN)
        box = (model.geom_type == mujoco.mjtGeom.mjGEOM_BOX) & (model.geom_matid < 0)
        self._boxes: IntArray = np.flatnonzero(static & box)
        self._fields: IntArray = np.flatnonzero(
            static & (model.geom_type == mujoco.mjtGeom.mjGEOM_HFIELD)
        )
        self._places: DoubleArray = data.geom_xpos.copy()
        self._axes: DoubleArray = data.geom_xmat.reshape(-1, 3, 3).copy()

    def look(self, point: DoubleArray, distance: float, view: View, aspect: float) -> None:
        """Prepare the model for a picture from one place.

        Args:
            point: (3,) float64, what the camera looks at, m, world.
            distance: of the camera from it, m.
            view: direction.
            aspect: width / height of the picture.
        """
        forward, right, _ = view.axes
        eye = point - distance * forward
        in_front = self._crossed(eye, point)
        self._model.geom_rgba[self._boxes, 3] = np.where(in_front, _FAINT, 1.0)
        if not len(self._fields):
            return
        sizes = self._model.geom_size[self._fields]
        # The farthest ground seen is behind the body, at the far edge of the field.
        depth = distance + 2 * sizes[:, 1].max()
        slope = np.tan(np.radians(FIELD_OF_VIEW) / 2) * aspect
        reach = depth * (slope + abs(forward[0])) / max(abs(right[0]), 1e-6)
        gap = np.abs(self._places[self._fields, 0] - point[0]) - sizes[:, 0]
        self._model.geom_group[self._fields] = np.where(gap > reach, HIDDEN, 0)

    def _crossed(self, eye: DoubleArray, point: DoubleArray) -> BoolArray:
        """Return which boxes the line from the eye to the point goes through, (boxes,) bool."""
        turn, place = self._axes[self._boxes], self._places[self._boxes]
        start = np.einsum("kji,kj->ki", turn, eye - place)
        way = np.einsum("kji,kj->ki", turn, np.broadcast_to(point - eye, place.shape))
        size = self._model.geom_size[self._boxes] + np.array([_ROOM, _ROOM, 0.0])
        way = np.where(np.abs(way) < 1e-9, 1e-9, way)
        ends = np.stack([(-size - start) / way, (size - start) / way])
        enter, leave = ends.min(axis=0).max(axis=1), ends.max(axis=0).min(axis=1)
        found: BoolArray = (enter <= leave) & (leave > 0.0) & (enter < 1.0)
        return found


class Trace:
    """The cells of a task's grid that a torso has visited.

    Args:
        grid: of the task.
        path: (T, 3) float64, torso positions, m, world.
        height: of the ground, m, world.
    """

    def __init__(self, grid: VisitGrid, path: DoubleArray, height: float) -> None:
        cells = np.floor((path[:, :2] - np.array(grid.low)) / grid.cell_size).astype(np.int64)
        inside = ((cells >= 0) & (cells < np.array(grid.shape))).all(axis=1)
        found, first = np.unique(cells[inside], axis=0, return_index=True)
        self._first: IntArray = np.flatnonzero(inside)[first]
        corners = np.array(grid.low) + found * grid.cell_size
        middle = corners + grid.cell_size / 2
        self._centers: DoubleArray = np.column_stack([middle, np.full(len(found), height)])
        self._half_side = 0.47 * grid.cell_size  # the edges of the ground's squares stay visible

    def until(self, step: int) -> Tiles:
        """Return the cells visited from the start to one place of the path."""
        return Tiles(self._centers[self._first <= step], self._half_side)
