"""Compiled loops that read the ground: height maps around the torsos, and visited cells."""

import math

import numba
import numpy as np

from gmc_bench.core.types import Array, BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.sim.columns import XQUAT
from gmc_bench.sim.engine import compiled, load_double
from gmc_bench.sim.terrain import CELLS_PER_METRE
from gmc_bench.sim.terrain_kernels import Ground

WALL_MM = 4000
OUTSIDE_MM = -10000


@compiled()
def _cell_height(cells: Array, row: int, column: int, wall_cells: int) -> int:
    num_rows, num_columns = cells.shape
    if 0 <= row < num_rows and 0 <= column < num_columns:
        return int(cells[row, column])
    in_wall = (
        -wall_cells <= row < num_rows + wall_cells
        and -wall_cells <= column < num_columns + wall_cells
    )
    return WALL_MM if in_wall else OUTSIDE_MM


@compiled()
def _find_cells(
    shape: tuple[int, int],
    row: np.int32,
    column: np.int32,
    wall_cells: int,
    along: Array,
    less: float,
    across: Array,
    more: float,
    place: Array,
    beyond: Array,
) -> None:
    """Find the cells of one line of a map, without a branch, so that they are found side by side.

    Args:
        shape: Y and X.
        row: of the torso's cell.
        column: int32, likewise.
        wall_cells: thickness of the walls.
        along: (N,) float64, offsets along x, of which `less` is taken away.
        less: see `along`.
        across: (N,) float64, offsets along y, to which `more` is added.
        more: see `across`.
        place: (N,) int32, number of the cell in the flat field, or 0 beyond the field, written.
        beyond: (N,) int32, mm, height beyond the field, or 0 inside, written.
    """
    num_rows, num_columns = shape
    for i in range(place.shape[0]):
        c = column + np.int32(np.rint(along[i] - less))
        r = row + np.int32(np.rint(across[i] + more))
        inside = (r >= 0) & (r < num_rows) & (c >= 0) & (c < num_columns)
        in_wall = (
            (r >= -wall_cells)
            & (r < num_rows + wall_cells)
            & (c >= -wall_cells)
            & (c < num_columns + wall_cells)
        )
        place[i] = r * num_columns + c if inside else 0
        beyond[i] = 0 if inside else WALL_MM if in_wall else OUTSIDE_MM


@compiled()
def _read_map(
    address: IntArray,
    torso: DoubleArray,
    cells: Array,
    ground: Ground,
    left: IntArray,
    front: IntArray,
    out: FloatArray,
) -> float:
    """Write one row's height map; return the height of the ground under the torso, m."""
    w, x = load_double(address[XQUAT], 4), load_double(address[XQUAT], 5)
    y, z = load_double(address[XQUAT], 6), load_double(address[XQUAT], 7)
    # The torso's x axis seen from above. Without a direction (it points straight up or down) the
    # map stays along the world's x.
    cos, sin = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z)
    norm = math.sqrt(cos * cos + sin * sin)
    cos, sin = (cos / norm, sin / norm) if norm > 1e-6 else (1.0, 0.0)
    far = 1e6  # cells; farther away all is outside, and numbers would not fit integers
    # The public code's rows run towards -y, and the one it takes for a place ends there.
    column = int(min(max(math.floor(CELLS_PER_METRE * torso[0]), -far), far)) - ground.first_column
    row = int(min(max(math.floor(CELLS_PER_METRE * torso[1]), -far), far))
    row += cells.shape[0] // 2 - 1
    base = _cell_height(cells, row, column, ground.wall_cells)
    count = front.shape[0]
    along, across = cos * front, sin * front
    place, beyond = np.empty(count, np.int32), np.empty(count, np.int32)
    flat = cells.ravel()
    at = 0
    for to_left in left:
        _find_cells(
            cells.shape, np.int32(row), np.int32(column), ground.wall_cells,
            along, sin * to_left, across, cos * to_left, place, beyond,
        )  # fmt: skip
        for i in range(count):
            height = beyond[i] if beyond[i] != 0 else np.int32(flat[np.uint32(place[i])])
            out[at + i] = (height - base) / 1000.0
        at += count
    return max(base, 0) / 1000.0


@compiled()
def read_maps_single_threaded(
    addresses: IntArray,
    rows: IntArray,
    torso: DoubleArray,
    cells: Array,
    ground: Ground,
    left: IntArray,
    front: IntArray,
    skipped: BoolArray,
    maps: FloatArray,
    heights: DoubleArray,
) -> None:
    """Write the height maps of some rows, on the calling thread.

    Heights are relative to the torso's cell; walls count as 4 m high and everything beyond the
    field as 10 m deep. The offsets are turned by the heading and rounded to cells. As in the public
    environments the cell of the torso is, along y, the one on the -y side of the cell it is in.

    Args:
        addresses: (B, NUM_ADDRESSES) int64, see `gmc_bench.sim.columns`.
        rows: (K,) int64.
        torso: (B, 3) float64, torso position, m, world.
        cells: (B, Y, X) int16, ground heights, mm; row 0 is at the lowest y.
        ground: the field.
        left: offsets of the cells to the left, see `height_map_offsets`.
        front: offsets of the cells to the front.
        skipped: (B,) bool, rows that are left as they are: their simulation diverged.
        maps: (B, G) float32, m, written.
        heights: (B,) float64, ground under the torso, m, not below 0, written.
    """
    for row in rows:
        if not skipped[row]:
            heights[row] = _read_map(
                addresses[row], torso[row], cells[row], ground, left, front, maps[row]
            )


@compiled(parallel=True)
def read_maps(
    addresses: IntArray,
    rows: IntArray,
    torso: DoubleArray,
    cells: Array,
    ground: Ground,
    left: IntArray,
    front: IntArray,
    skipped: BoolArray,
    maps: FloatArray,
    heights: DoubleArray,
) -> None:
    """Write the height maps of some rows, on all threads; see `read_maps_single_threaded`."""
    for k in numba.prange(rows.shape[0]):
        row = rows[k]
        if not skipped[row]:
            heights[row] = _read_map(
                addresses[row], torso[row], cells[row], ground, left, front, maps[row]
            )


@compiled()
def visit_cells(
    torso: DoubleArray,
    low: DoubleArray,
    size: float,
    skipped: BoolArray,
    visited: Array,
    new_cells: DoubleArray,
) -> None:
    """Mark the cell each torso stands on, and say where that is a new one.

    Args:
        torso: (B, 3) float64, torso position, m, world.
        low: (2,) float64, x and y where the grid begins, m.
        size: side of a cell, m.
        skipped: (B,) bool, rows that are left as they are: their simulation diverged.
        visited: (B, X, Y) uint8, 1 = visited, changed in place; nothing beyond it counts.
        new_cells: (B,) float64, 1 where the torso stands on a new cell, else 0, written.
    """
    for row in range(torso.shape[0]):
        new_cells[row] = 0.0
        if skipped[row]:
            continue
        x, y = (torso[row, 0] - low[0]) / size, (torso[row, 1] - low[1]) / size
        if not (0.0 <= x < visited.shape[1] and 0.0 <= y < visited.shape[2]):
            continue
        if visited[row, int(x), int(y)] == 0:
            visited[row, int(x), int(y)] = 1
            new_cells[row] = 1.0
