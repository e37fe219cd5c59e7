import math

import numpy as np
import pytest

from gmc_bench.sim import columns
from gmc_bench.sim.ground_kernels import read_maps_single_threaded, visit_cells
from gmc_bench.sim.height_map import height_map_offsets
from gmc_bench.sim.terrain_kernels import Ground

LEFT, FRONT = height_map_offsets()
ROWS, COLUMNS = 120, 200  # cells: y from -6 m to 6 m, x from -3 m to 17 m
SOUTH, WEST = -60, -30


def read(cells, place, quaternion=(1.0, 0.0, 0.0, 0.0), wall_cells=0):
    """Return the height map of one torso, (47, 30) from left to right, and the ground under it."""
    quaternions = np.array([[1.0, 0.0, 0.0, 0.0], quaternion])  # the world's, the torso's
    addresses = np.zeros((1, columns.NUM_ADDRESSES), np.int64)
    addresses[0, columns.XQUAT] = quaternions.ctypes.data
    maps, heights = np.zeros((1, LEFT.size * FRONT.size), np.float32), np.zeros(1)
    read_maps_single_threaded(
        addresses, np.array([0]), np.array([[*place, 1.5]]), cells[None],
        Ground(WEST, -SOUTH / 10, wall_cells), LEFT, FRONT, np.zeros(1, np.bool_), maps, heights,
    )  # fmt: skip
    return maps[0].reshape(LEFT.size, FRONT.size), heights[0]


@pytest.fixture
def cells():
    """Every cell has a height of its own: 1 m, 1 mm per column and 0.2 m per row."""
    column, row = np.meshgrid(np.arange(COLUMNS), np.arange(ROWS))
    return (1000 + column + 200 * row).astype(np.int16)


def expected(cells, row, column):
    return (
        cells[row + LEFT[:, None], column + FRONT[None]].astype(float) - cells[row, column]
    ) / 1000


def test_a_map_shows_cells_from_left_to_right_each_from_behind_to_the_front(cells):
    # x = 7.25 lies in column 72 + 30; y = 0.33 in the cell from 0.3, and the one beside it counts.
    found, under = read(cells, (7.25, 0.33))
    np.testing.assert_allclose(found, expected(cells, 63 - 1, 102), atol=1e-6)
    assert under == cells[62, 102] / 1000


def test_a_map_turns_with_the_heading(cells):
    row, column = 62, 102
    for quarter in range(4):
        half = quarter * math.pi / 4
        found, _ = read(cells, (7.25, 0.33), (math.cos(half), 0.0, 0.0, math.sin(half)))
        cosine, sine = round(math.cos(2 * half)), round(math.sin(2 * half))
        to_left, to_front = LEFT[:, None], FRONT[None]
        rows = row + sine * to_front + cosine * to_left
        columns = column + cosine * to_front - sine * to_left
        np.testing.assert_allclose(
            found, (cells[rows, columns].astype(float) - cells[row, column]) / 1000, atol=1e-6
        )


def test_pitch_and_roll_do_not_turn_a_map(cells):
    straight, _ = read(cells, (7.25, 0.33))
    for quaternion in ((0.8, 0.6, 0.0, 0.0), (0.9, 0.0, math.sqrt(0.19), 0.0), (0.0, 1.0, 0.0, 0)):
        np.testing.assert_array_equal(read(cells, (7.25, 0.33), quaternion)[0], straight)


def test_a_map_turns_with_the_heading_of_a_torso_that_points_nearly_straight_up(cells):
    turn, pitch = math.pi / 4, math.radians(-40)  # half angles: to the left, then up
    cosine, sine = math.cos(turn), math.sin(turn)
    level, _ = read(cells, (7.25, 0.33), (cosine, 0.0, 0.0, sine))
    up, along = math.sin(pitch), math.cos(pitch)
    steep = (cosine * along, -sine * up, cosine * up, sine * along)
    np.testing.assert_array_equal(read(cells, (7.25, 0.33), steep)[0], level)


def test_a_torso_that_points_straight_up_looks_along_x(cells):
    straight, _ = read(cells, (7.25, 0.33))
    upright, _ = read(cells, (7.25, 0.33), (math.sqrt(0.5), 0.0, -math.sqrt(0.5), 0.0))
    np.testing.assert_array_equal(upright, straight)


@pytest.mark.parametrize("wall_cells", [0, 10])
def test_beyond_the_field_are_walls_and_then_a_depth(wall_cells):
    flat = np.full((ROWS, COLUMNS), 1000, np.int16)
    found, under = read(flat, (16.95, 0.05), wall_cells=wall_cells)  # in the last column
    assert under == 1.0
    middle = found[LEFT == 0][0]
    wall = (FRONT > 0) & (wall_cells >= FRONT)
    assert (middle[FRONT <= 0] == 0.0).all()
    assert (middle[wall] == 3.0).all()
    assert (middle[wall_cells < FRONT] == -11.0).all()


@pytest.mark.parametrize(
    "place",
    [(17.45, 0.05), (-3.45, 0.05), (5.05, 6.35), (5.05, -6.25), (17.45, 6.35), (-3.45, -6.25)],
)
def test_a_torso_on_a_wall_sees_the_field_and_all_edges_of_the_walls(place):
    wall_cells = 10
    row, column = math.floor(10 * place[1]) - SOUTH - 1, math.floor(10 * place[0]) - WEST

    def height(r, c):
        if 0 <= r < ROWS and 0 <= c < COLUMNS:
            return 1.0
        inside = -10 <= r < ROWS + 10 and -10 <= c < COLUMNS + 10
        return 4.0 if inside else -10.0

    expected = [[height(row + left, column + front) - 4.0 for front in FRONT] for left in LEFT]
    assert {-14.0, -3.0, 0.0} == set(np.ravel(expected))
    flat = np.full((ROWS, COLUMNS), 1000, np.int16)
    found, under = read(flat, place, wall_cells=wall_cells)
    np.testing.assert_array_equal(found, expected)
    assert under == 4.0


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    ("beyond", "height"), [(-0.05, 1.0), (0.05, 4.0), (0.95, 4.0), (1.05, 0.0)]
)
def test_a_torso_stands_on_the_field_and_on_its_walls_up_to_their_edges(axis, beyond, height):
    """Walls are 1 m thick; along y, the cell that counts is that 0.1 m to the right."""
    low, high = ((-3.0, 17.0), (-5.9, 6.1))[axis]
    flat = np.full((ROWS, COLUMNS), 1000, np.int16)
    for place in (low - beyond, high + beyond):
        found = read(flat, (place, 0.05) if axis == 0 else (5.05, place), wall_cells=10)
        assert found[1] == height


@pytest.mark.parametrize("place", [(1e30, 0.0), (-1e30, -1e30), (30.0, 0.0)])
def test_far_beyond_the_field_all_is_equally_deep(cells, place):
    found, under = read(cells, place)
    assert (found == 0.0).all()
    assert under == 0.0


def test_cells_count_once_and_only_inside_the_grid():
    torso = np.array([[0.5, 0.5, 1.0], [1.5, 0.5, 1.0], [-0.1, 0.5, 1.0], [0.5, 2.0, 1.0]])
    visited = np.zeros((4, 3, 4), np.uint8)
    new, nobody = np.full(4, 9.0), np.zeros(4, np.bool_)
    low = np.array([0.0, -2.0])
    visit_cells(torso, low, 1.0, nobody, visited, new)
    assert new.tolist() == [1.0, 1.0, 0.0, 0.0]
    assert visited[0, 0, 2] == visited[1, 1, 2] == visited.sum() / 2 == 1
    torso[1, 0] = 0.5
    visit_cells(torso, low, 1.0, nobody, visited, new)
    assert new.tolist() == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("x", "y", "cell"),
    [
        (1.0, -2.0, (0, 0)),
        (1.75, -1.25, (1, 1)),
        (2.49, -0.01, (2, 3)),
        (0.99, -1.0, None),
        (2.5, -1.0, None),
        (1.2, -2.01, None),
        (1.2, 0.0, None),
    ],
)
def test_a_grid_of_half_metres_ends_at_its_edges(x, y, cell):
    """3 x 4 cells from x = 1 and y = -2 on; a second row stands where nothing may be written."""
    torso, visited, new = np.array([[x, y, 1.0], [9.0, 9.0, 1.0]]), np.zeros((2, 3, 4)), np.zeros(2)
    visited = visited.astype(np.uint8)
    visit_cells(torso, np.array([1.0, -2.0]), 0.5, np.zeros(2, np.bool_), visited, new)
    assert new.tolist() == [float(cell is not None), 0.0]
    assert np.argwhere(visited).tolist() == ([] if cell is None else [[0, *cell]])


def test_broken_rows_visit_nothing():
    visited, new = np.zeros((3, 3, 4), np.uint8), np.full(3, 9.0)
    torso = np.array([[0.5, 0.5, 1.0], [np.nan, 0.5, 1.0], [1.5, 0.5, 1.0]])
    visit_cells(torso, np.array([0.0, -2.0]), 1.0, np.array([False, True, True]), visited, new)
    assert new.tolist() == [1.0, 0.0, 0.0]
    assert visited.sum() == 1
