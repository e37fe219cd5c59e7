"""The ground of an episode: a copy of random terrain, and how high it is under the torso."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gmc_bench.core.types import Array, DoubleArray
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.sim.terrain import CELLS_PER_METRE, ObstacleField

TerrainCopy = Mapping[str, Array]
"""Arrays of a `mujoco.MjModel` that hold its terrain, by name; empty where it is never random."""
HIDDEN = 5
"""Group of geoms that are not drawn."""
_FEW_LINES = 9

_OF_GEOMS = ("geom_pos", "geom_size", "geom_rbound", "geom_aabb", "geom_contype")
_OF_FIELDS = ("hfield_size", "hfield_nrow", "hfield_ncol", "hfield_adr", "hfield_data")


def copy_terrain(core: EnvironmentCore, row: int) -> TerrainCopy:
    """Copy the random terrain that a row stands on; a later reset does not change the copy.

    Args:
        core: the environments.
        row: one that was reset.
    """
    if core.simulator.ground is None:
        return {}
    model = core.simulator.model(row)
    count = int(model.body_geomnum[0])
    copies = {name: getattr(model, name)[:count].copy() for name in _OF_GEOMS}
    return copies | {name: getattr(model, name).copy() for name in _OF_FIELDS}


def put_terrain(model: Any, terrain: TerrainCopy) -> None:
    """Write a terrain into a drawing model; `Canvas.show` it afterwards.

    Parts that a terrain leaves over are hidden: they lie far below the ground. A height field
    that is the same all along y gets fewer lines, which leaves its surface as it is: its
    triangles are what takes time to draw.

    Args:
        model: from `drawing_model`, of the same scene.
        terrain: from `copy_terrain`.
    """
    for name, values in terrain.items():
        getattr(model, name)[: len(values)] = values
    if not terrain:
        return
    for field in range(model.nhfield):
        start, columns = int(model.hfield_adr[field]), int(model.hfield_ncol[field])
        end = start + columns * int(model.hfield_nrow[field])
        heights = model.hfield_data[start:end].reshape(-1, columns)
        if len(heights) > _FEW_LINES and (heights == heights[0]).all():
            model.hfield_nrow[field] = _FEW_LINES
    used = terrain["geom_contype"] != 0
    model.geom_group[: len(used)][~used] = HIDDEN


def ground_height(core: EnvironmentCore, row: int) -> float:
    """Return the height of the ground under the torso of a row, m, world.

    It is that of the ground below boxes and walls. Beside uneven ground it is that of the nearest
    cell, so that a camera does not fall off.

    Args:
        core: the environments.
        row: one that was reset.
    """
    task, ground = core.task, core.simulator.ground
    place: DoubleArray = np.array(core.simulator.data(row).qpos[:3])
    if not np.isfinite(place).all():
        return task.ground_height
    if ground is None or isinstance(ground.terrain, ObstacleField):
        return task.ground_height + (task.slope.rise * float(place[0]) if task.slope else 0.0)
    terrain = ground.terrain
    column = int(np.floor(place[0] * CELLS_PER_METRE)) - terrain.first_column
    line = int(np.floor(place[1] * CELLS_PER_METRE)) + terrain.num_rows // 2
    column = min(max(column, 0), terrain.num_columns - 1)
    line = min(max(line, 0), terrain.num_rows - 1)
    return float(ground.cells[row, line, column]) / 1000  # mm -> m
