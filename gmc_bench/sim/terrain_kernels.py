"""Compiled loops that draw terrain into models.

As in `gmc_bench.sim.kernels`, rows share nothing. A draw writes only what depends on the place
and the size of static geoms: position, size, bounding sphere and box, contact bits, the tree of
bounding boxes of the world, and for height fields their size and data. The engine reads nothing
else of them (world geoms have no mass, and their places in the world follow from the model at
every step).
"""

import math
from typing import Any, NamedTuple

import numba
import numpy as np

from gmc_bench.core.types import Array, DoubleArray, FloatArray, IntArray
from gmc_bench.sim.engine import compiled, pointer
from gmc_bench.sim.kernels import next_uniform
from gmc_bench.sim.terrain import BOX_CENTER, BOX_HALF_HEIGHT, CELLS_PER_METRE, DEPTH, SURFACE

# Columns of the table of addresses of a row's own model.
(
    GEOM_POS, GEOM_SIZE, GEOM_RBOUND, GEOM_AABB, GEOM_CONTYPE, GEOM_CONAFFINITY,
    BVH_CHILD, BVH_NODEID, BVH_AABB,
    HFIELD_SIZE, HFIELD_NROW, HFIELD_NCOL, HFIELD_ADR, HFIELD_DATA,
) = range(14)  # fmt: skip
NUM_TERRAIN_ADDRESSES = 14

SURFACE_MM = 1000
OBSTACLE_MM = 3000  # what a height map shows of a box: 2 m above the ground
_PARKING_Z = -10.0  # m
_PARKED_SIZE = 0.001  # m


class Ground(NamedTuple):
    """The field of a terrain: first column, half width in m, thickness of its walls in cells."""

    first_column: int
    half_width: float
    wall_cells: int


class _Geoms(NamedTuple):
    """Arrays of one model's geoms that a draw writes."""

    position: Any
    size: Any
    radius: Any
    bounds: Any
    contype: Any
    conaffinity: Any


@compiled()
def _geoms(address: IntArray, count: int) -> Any:
    return _Geoms(
        numba.carray(pointer(address[GEOM_POS]), (count, 3), np.float64),
        numba.carray(pointer(address[GEOM_SIZE]), (count, 3), np.float64),
        numba.carray(pointer(address[GEOM_RBOUND]), (count,), np.float64),
        numba.carray(pointer(address[GEOM_AABB]), (count, 6), np.float64),
        numba.carray(pointer(address[GEOM_CONTYPE]), (count,), np.int32),
        numba.carray(pointer(address[GEOM_CONAFFINITY]), (count,), np.int32),
    )


@compiled()
def _metres(cells: float) -> float:
    return cells / CELLS_PER_METRE


@compiled()
def _draw_index(stream: Array, count: int) -> int:
    return int(next_uniform(stream) * count)


@compiled()
def _draw_length(stream: Array, values: IntArray) -> int:
    return int(values[_draw_index(stream, values.shape[0])])


@compiled()
def _draw_height(stream: Array, values: DoubleArray) -> float:
    return float(values[_draw_index(stream, values.shape[0])])


@compiled()
def _place(
    geoms: Any, geom: int, x: float, y: float, z: float, half_x: float, half_y: float, half_z: float
) -> None:
    """Put a static box somewhere."""
    geoms.position[geom, 0] = x
    geoms.position[geom, 1] = y
    geoms.position[geom, 2] = z
    geoms.size[geom, 0] = half_x
    geoms.size[geom, 1] = half_y
    geoms.size[geom, 2] = half_z
    geoms.radius[geom] = math.sqrt(half_x * half_x + half_y * half_y + half_z * half_z)
    for axis in range(3):
        geoms.bounds[geom, axis] = 0.0
        geoms.bounds[geom, 3 + axis] = geoms.size[geom, axis]
    geoms.contype[geom] = 1
    geoms.conaffinity[geom] = 1


@compiled()
def _place_field(
    geoms: Any, geom: int, x: float, half_x: float, half_y: float, height: float
) -> None:
    """Put the geom of a height field somewhere, as MuJoCo's compiler would."""
    _place(
        geoms, geom, x, 0.0, 0.0, half_x, half_y, 0.25 * height + 0.5 * DEPTH
    )  # fmt: skip
    tall = max(height, DEPTH)
    geoms.radius[geom] = math.sqrt(half_x * half_x + half_y * half_y + tall * tall)
    geoms.bounds[geom, 2] = 0.5 * (height - DEPTH)
    geoms.bounds[geom, 5] = 0.5 * (height + DEPTH)


@compiled()
def _park(geoms: Any, geom: int, x: float) -> None:
    """Put a geom under the ground, where it touches nothing."""
    _place(geoms, geom, x, 0.0, _PARKING_Z, _PARKED_SIZE, _PARKED_SIZE, _PARKED_SIZE)
    geoms.contype[geom] = 0
    geoms.conaffinity[geom] = 0


@compiled()
def _refit(address: IntArray, geoms: Any, num_nodes: int) -> None:
    """Let the world's tree of bounding boxes fit its moved geoms, those of `geoms`.

    The engine skips contacts outside these boxes. Children stand behind their parents, so one
    pass from the end suffices; the tree itself stays as compiled.
    """
    child = numba.carray(pointer(address[BVH_CHILD]), (num_nodes, 2), np.int32)
    geom_of = numba.carray(pointer(address[BVH_NODEID]), (num_nodes,), np.int32)
    bounds = numba.carray(pointer(address[BVH_AABB]), (num_nodes, 6), np.float64)
    for node in range(num_nodes - 1, -1, -1):
        geom = geom_of[node]
        if geom >= geoms.position.shape[0]:
            # Never moved, and it may be turned, as drawn geoms never are: the compiled box holds.
            continue
        left, right = child[node, 0], child[node, 1]
        for axis in range(3):
            if geom >= 0:
                center = geoms.position[geom, axis] + geoms.bounds[geom, axis]
                half = geoms.bounds[geom, 3 + axis]
            else:
                low = min(
                    bounds[left, axis] - bounds[left, 3 + axis],
                    bounds[right, axis] - bounds[right, 3 + axis],
                )
                high = max(
                    bounds[left, axis] + bounds[left, 3 + axis],
                    bounds[right, axis] + bounds[right, 3 + axis],
                )
                center, half = 0.5 * (low + high), 0.5 * (high - low)
            bounds[node, axis] = center
            bounds[node, 3 + axis] = half


@compiled()
def _overlaps(places: IntArray, count: int, row: int, column: int, tall: int, long: int) -> bool:
    for i in range(count):
        apart_x = column - long >= places[i, 0] + places[i, 2] or places[i, 0] - places[i, 2] >= (
            column + long
        )
        apart_y = row - tall >= places[i, 1] + places[i, 3] or places[i, 1] - places[i, 3] >= (
            row + tall
        )
        if not (apart_x or apart_y):
            return True
    return False


@compiled()
def place_boxes(
    address: IntArray, num_nodes: int, stream: Array, ground: Ground, tables: Any, cells: Array
) -> None:
    """Draw the boxes of an `ObstacleField` into one row's model and its cells.

    Args:
        address: (NUM_TERRAIN_ADDRESSES,) int64, of the row's own model.
        num_nodes: nodes of the world's tree of bounding boxes.
        stream: (4,) uint64, advanced.
        ground: the field.
        tables: geoms before the boxes, number of boxes, tries per box, half sizes in cells,
            free cells at both ends.
        cells: (Y, X) int16, ground heights, mm, written.
    """
    num_fixed, num_boxes, num_tries, half_sizes, clear = tables
    num_rows, num_columns = cells.shape
    places = np.empty((num_boxes, 4), np.int64)  # column and row of the middle, half sizes
    count = 0
    for _ in range(num_boxes):
        long, tall = _draw_length(stream, half_sizes), _draw_length(stream, half_sizes)
        for _ in range(num_tries):
            low = clear + long
            column = low + _draw_index(stream, num_columns - 2 * low + 1)
            row = tall + _draw_index(stream, num_rows - 2 * tall + 1)
            if _overlaps(places, count, row, column, tall, long):
                continue
            at = count  # sorted by x, which suits the tree of bounding boxes
            while at > 0 and places[at - 1, 0] > column:
                places[at] = places[at - 1]
                at -= 1
            places[at, 0], places[at, 1], places[at, 2], places[at, 3] = column, row, long, tall
            count += 1
            break
    cells[:] = SURFACE_MM
    geoms = _geoms(address, num_fixed + num_boxes)
    for i in range(count):
        column, row, long, tall = places[i]
        cells[row - tall : row + tall, column - long : column + long] = OBSTACLE_MM
        _place(
            geoms, num_fixed + i, _metres(column + ground.first_column),
            _metres(row) - ground.half_width, BOX_CENTER, _metres(long), _metres(tall),
            BOX_HALF_HEIGHT,
        )  # fmt: skip
    for i in range(count, num_boxes):
        _park(geoms, num_fixed + i, _metres(num_columns - clear + ground.first_column))
    _refit(address, geoms, num_nodes)


@compiled()
def _slope(profile: DoubleArray, height: float) -> None:
    for c in range(profile.shape[0]):
        profile[c] = height * math.sin(math.pi * c / (profile.shape[0] - 1))


@compiled()
def _steps(profile: DoubleArray, heights: DoubleArray) -> None:
    part = profile.shape[0] // heights.shape[0]
    for c in range(profile.shape[0]):
        profile[c] = heights[c // part]


@compiled()
def _triangle_wave(profile: DoubleArray, frequency: int, clip: float) -> None:
    for c in range(profile.shape[0]):
        phase = 0.5 * frequency * c / (profile.shape[0] - 1)
        phase -= math.floor(phase)
        profile[c] = min(2.0 * (1.0 - abs(2.0 * phase - 1.0)), clip)


@compiled()
def _write_row(profile: DoubleArray, data: FloatArray, cells: Array, row: int) -> float:
    """Write a profile along x to one row of a patch, in m; return its greatest height."""
    highest = 0.0
    for c in range(profile.shape[0]):
        data[row, c] = SURFACE + profile[c]
        cells[row, c] = int(np.rint(1000.0 * (SURFACE + profile[c])))
        highest = max(highest, float(data[row, c]))
    return highest


@compiled()
def _lay_patch(stream: Array, kind: int, tables: Any, data: FloatArray, cells: Array) -> float:
    """Draw one patch; return its greatest height, m, to which its data are scaled."""
    slope_heights, step_profile, strip_cells, frequencies, clips = tables
    num_rows, num_columns = data.shape
    profile = np.empty(num_columns)
    starts = np.empty(num_rows + 1, np.int64)  # of the strips of equal rows, and the end
    starts[0] = 0
    num_strips, highest = 1, 0.0
    if kind == 0:
        _slope(profile, _draw_height(stream, slope_heights))
        highest = _write_row(profile, data, cells, 0)
        starts[1] = num_rows
    elif kind == 1:
        _steps(profile, step_profile)
        highest = _write_row(profile, data, cells, 0)
        starts[1] = num_rows
    else:
        num_strips = 0
        while starts[num_strips] < num_rows:
            start = starts[num_strips]
            width = strip_cells[0] + _draw_index(stream, strip_cells[1] - strip_cells[0] + 1)
            frequency = _draw_length(stream, frequencies)
            _triangle_wave(profile, frequency, _draw_height(stream, clips))
            highest = max(highest, _write_row(profile, data, cells, start))
            num_strips += 1
            starts[num_strips] = min(start + width, num_rows)
    # The next whole centimetre: the engine looks for no contacts above it. The heights are single
    # precision, so whole ones can stand a little above themselves.
    scale = math.ceil(100.0 * highest - 1e-3) / 100.0
    for strip in range(num_strips):
        start = starts[strip]
        for c in range(num_columns):
            data[start, c] /= scale
        # Only a strip's first row is computed: the others take most of the time even so.
        for r in range(start + 1, starts[strip + 1]):
            data[r] = data[start]
            cells[r] = cells[start]
    return scale


@compiled()
def lay_corridor(
    address: IntArray, num_nodes: int, stream: Array, ground: Ground, tables: Any, cells: Array
) -> None:
    """Draw the pieces of a `Corridor` into one row's model and its cells.

    Args:
        address: as in `place_boxes`.
        num_nodes: as in `place_boxes`.
        stream: as in `place_boxes`.
        ground: as in `place_boxes`.
        cells: as in `place_boxes`.
        tables: number of flat geoms and of height fields, length of the first flat piece, of
            flat pieces, of slopes, heights of slopes, lengths of steps, their profile, lengths
            of rugged patches, widths of strips, frequencies, clip heights; lengths in cells.
    """
    (
        num_flats, num_patches, first_flat, flats, slopes, slope_heights, steps, step_profile,
        rugged, strip_cells, frequencies, clips,
    ) = tables  # fmt: skip
    details = (slope_heights, step_profile, strip_cells, frequencies, clips)
    num_rows, num_columns = cells.shape
    geoms = _geoms(address, num_flats + num_patches)
    sizes = numba.carray(pointer(address[HFIELD_SIZE]), (num_patches, 4), np.float64)
    nrow = numba.carray(pointer(address[HFIELD_NROW]), (num_patches,), np.int32)
    ncol = numba.carray(pointer(address[HFIELD_NCOL]), (num_patches,), np.int32)
    place = numba.carray(pointer(address[HFIELD_ADR]), (num_patches,), np.int32)
    flat, patch, column, used = 0, 0, 0, 0
    while column < num_columns:
        length = first_flat if flat == 0 else _draw_length(stream, flats)
        length = min(length, num_columns - column)
        cells[:, column : column + length] = SURFACE_MM
        x = _metres(column + 0.5 * length + ground.first_column)
        _place(geoms, flat, x, 0.0, 0.0, _metres(0.5 * length), ground.half_width, SURFACE)
        column += length
        flat += 1
        if flat == 1 or column >= num_columns:
            # A flat piece follows the first one, too.
            continue
        kind = _draw_index(stream, 3)
        length = _draw_length(stream, slopes if kind == 0 else steps if kind == 1 else rugged)
        if column + length > num_columns:
            continue
        data = numba.carray(
            pointer(address[HFIELD_DATA] + 4 * used), (num_rows, length), np.float32
        )
        highest = _lay_patch(stream, kind, details, data, cells[:, column : column + length])
        half, x = _metres(0.5 * length), _metres(column + 0.5 * length + ground.first_column)
        _place_field(geoms, num_flats + patch, x, half, ground.half_width, highest)
        sizes[patch, 0], sizes[patch, 1] = half, ground.half_width
        sizes[patch, 2], sizes[patch, 3] = highest, DEPTH
        nrow[patch], ncol[patch], place[patch] = num_rows, length, used
        used += num_rows * length
        column += length
        patch += 1
    parking = _metres(num_columns + ground.first_column - 1)
    for i in range(flat, num_flats):
        _park(geoms, i, parking)
    for i in range(patch, num_patches):
        _park(geoms, num_flats + i, parking)
    _refit(address, geoms, num_nodes)


@compiled()
def draw_boxes_single_threaded(
    addresses: IntArray, rows: IntArray, num_nodes: int, streams: Array, ground: Ground,
    tables: Any, cells: Array,
) -> None:  # fmt: skip
    """Draw an `ObstacleField` for each of some rows, on the calling thread.

    Args:
        addresses: (B, NUM_TERRAIN_ADDRESSES) int64, of each row's own model.
        rows: (K,) int64, without repeats.
        num_nodes: as in `place_boxes`.
        streams: (B, 4) uint64, those of the given rows are advanced.
        ground: as in `place_boxes`.
        tables: as in `place_boxes`.
        cells: (B, Y, X) int16, written.
    """
    for row in rows:
        place_boxes(addresses[row], num_nodes, streams[row], ground, tables, cells[row])


@compiled(parallel=True)
def draw_boxes(
    addresses: IntArray, rows: IntArray, num_nodes: int, streams: Array, ground: Ground,
    tables: Any, cells: Array,
) -> None:  # fmt: skip
    """Draw an `ObstacleField` for each of some rows, on all threads."""
    for k in numba.prange(rows.shape[0]):
        row = rows[k]
        place_boxes(addresses[row], num_nodes, streams[row], ground, tables, cells[row])


@compiled()
def draw_corridors_single_threaded(
    addresses: IntArray, rows: IntArray, num_nodes: int, streams: Array, ground: Ground,
    tables: Any, cells: Array,
) -> None:  # fmt: skip
    """Draw a `Corridor` for each of some rows, on the calling thread.

    Args:
        addresses: (B, NUM_TERRAIN_ADDRESSES) int64, of each row's own model.
        rows: (K,) int64, without repeats.
        num_nodes: as in `lay_corridor`.
        streams: (B, 4) uint64, those of the given rows are advanced.
        ground: as in `lay_corridor`.
        tables: as in `lay_corridor`.
        cells: (B, Y, X) int16, written.
    """
    for row in rows:
        lay_corridor(addresses[row], num_nodes, streams[row], ground, tables, cells[row])


@compiled(parallel=True)
def draw_corridors(
    addresses: IntArray, rows: IntArray, num_nodes: int, streams: Array, ground: Ground,
    tables: Any, cells: Array,
) -> None:  # fmt: skip
    """Draw a `Corridor` for each of some rows, on all threads."""
    for k in numba.prange(rows.shape[0]):
        row = rows[k]
        lay_corridor(addresses[row], num_nodes, streams[row], ground, tables, cells[row])
