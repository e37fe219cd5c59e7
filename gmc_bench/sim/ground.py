"""The random ground of a batch: one draw per row, in the row's own model."""

from typing import Any

import numpy as np

from gmc_bench.core.types import Array, BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.sim import ground_kernels, terrain_kernels
from gmc_bench.sim.height_map import height_map_offsets
from gmc_bench.sim.terrain import ObstacleField, Terrain


class RandomGround:
    """Terrain of B rows: draws it, knows its heights, and can draw the same again.

    Args:
        terrain: what is drawn.
        num_envs: B.
        model: a `mujoco.MjModel` with the terrain's parts as its first geoms; the parts of all
            rows' models stand at the same places.
    """

    def __init__(self, terrain: Terrain, num_envs: int, model: Any) -> None:
        self.terrain = terrain
        self.cells: Array = np.zeros((num_envs, terrain.num_rows, terrain.num_columns), np.int16)
        """(B, Y, X) int16, height of each cell of 0.1 m, mm; row 0 is at the lowest y."""
        self.streams: Array = np.zeros((num_envs, 4), np.uint64)
        """(B, 4) uint64, what each row's terrain was drawn from; zero for none."""
        self._addresses = np.zeros((num_envs, terrain_kernels.NUM_TERRAIN_ADDRESSES), np.int64)
        self._num_nodes = int(model.body_bvhnum[0])
        self._field = terrain_kernels.Ground(
            terrain.first_column, float(terrain.half_width), terrain.wall_cells
        )
        self._tables = terrain.tables
        self._draws = (
            (terrain_kernels.draw_boxes_single_threaded, terrain_kernels.draw_boxes)
            if isinstance(terrain, ObstacleField)
            else (terrain_kernels.draw_corridors_single_threaded, terrain_kernels.draw_corridors)
        )

    def attach(self, row: int, model: Any) -> None:
        """Let a row draw into another model of its own; it has no terrain until it draws."""
        self._addresses[row] = [
            getattr(model, name).ctypes.data
            for name in (
                "geom_pos", "geom_size", "geom_rbound", "geom_aabb", "geom_contype",
                "geom_conaffinity", "bvh_child", "bvh_nodeid", "bvh_aabb", "hfield_size",
                "hfield_nrow", "hfield_ncol", "hfield_adr", "hfield_data",
            )
        ]  # fmt: skip
        self.streams[row] = 0

    def draw(self, rows: IntArray, streams: Array, *, single_threaded: bool) -> None:
        """Draw new terrain.

        Args:
            rows: (K,) int64, without repeats.
            streams: (B, 4) uint64, those of the given rows are advanced.
            single_threaded: stay on the calling thread.
        """
        self.streams[rows] = streams[rows]
        self._draws[0 if single_threaded else 1](
            self._addresses, rows, self._num_nodes, streams, self._field, self._tables, self.cells
        )

    def draw_again(self, streams: Array, *, single_threaded: bool) -> None:
        """Draw what was drawn from `streams` (B, 4), where another terrain stands now."""
        rows = np.flatnonzero((self.streams != streams).any(axis=1) & streams.any(axis=1))
        self.draw(rows, streams.copy(), single_threaded=single_threaded)

    def read(
        self,
        addresses: IntArray,
        rows: IntArray,
        torso_position: DoubleArray,
        skipped: BoolArray,
        maps: FloatArray,
        heights: DoubleArray,
        *,
        single_threaded: bool,
    ) -> None:
        """Write height maps and heights under the torso, see `read_maps_single_threaded`."""
        left, front = height_map_offsets()
        read = (
            ground_kernels.read_maps_single_threaded
            if single_threaded
            else ground_kernels.read_maps
        )
        read(
            addresses, rows, torso_position, self.cells, self._field, left, front, skipped, maps,
            heights,
        )  # fmt: skip
