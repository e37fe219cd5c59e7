import itertools
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import chain
from gmc_bench.core.errors import ConfigError
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.model import Scene, compile_model
from gmc_bench.sim.terrain import walls
from gmc_bench.tasks import unimal_obstacles, unimal_vt

FIELD = unimal_obstacles.TERRAIN
CORRIDOR = unimal_vt.TERRAIN


@pytest.mark.parametrize(("terrain", "columns", "wall"), [(FIELD, 1000, 10), (CORRIDOR, 1100, 0)])
def test_a_field_counts_its_cells(terrain, columns, wall):
    assert terrain.first_column == -30
    assert (terrain.num_columns, terrain.num_rows) == (columns, 400)
    assert terrain.wall_cells == wall


def test_a_corridor_has_room_for_every_draw():
    assert CORRIDOR.capacity == (24, 10, 960)
    # 11 m after the first piece, flat pieces of 2, 4 or 6 m, patches of 6 or 8 m. By hand: most
    # flat pieces are 4 m and a patch of 8 m that does not fit, then 2, 2, 2 and 1 m.
    small = replace(CORRIDOR, length=17.0, slopes=(3.0,), steps=(4.0,), rugged=(4.0,))
    assert small.capacity == (6, 1, 80)


def test_the_room_of_a_corridor_is_not_exceeded_by_the_longest_rows_of_pieces():
    flats, patches = (20, 40, 60), (80, 160, 240, 320)

    def lay(choices):
        left, num_flats, num_patches, columns = 1040, 1, 0, 0
        for flat, patch in choices:
            if left <= 0:
                break
            left -= min(flat, left)
            num_flats += 1
            if patch <= left and left > 0:
                left -= patch
                num_patches += 1
                columns += patch
        return num_flats, num_patches, columns

    # A pair for some time, another one once, and a third one for the rest.
    pairs = list(itertools.product(flats, patches))
    found = [
        lay([*[one] * count, middle, *[other] * 60])
        for one, middle, other in itertools.product(pairs, repeat=3)
        for count in range(12)
    ]
    assert tuple(max(numbers) for numbers in zip(*found, strict=True)) == CORRIDOR.capacity


def test_a_corridor_may_be_long_and_of_short_pieces():
    short = dict.fromkeys(("flats", "slopes", "steps", "rugged", "step_profile"), (0.1,))
    small = replace(CORRIDOR, length=500.0, first_flat=0.1, **short)
    # 4,998 cells after the first piece: flat pieces and patches of two cells in turn.
    assert small.capacity == (1251, 1249, 2498)


def test_walls_surround_a_field_without_gaps():
    model = mujoco.MjModel.from_xml_string(
        f"<mujoco><worldbody>{walls(-3.0, 97.0, 20.0)}</worldbody></mujoco>"
    )
    low, high = model.geom_pos - model.geom_size, model.geom_pos + model.geom_size
    assert (low[:, 2] == -1.0).all()
    assert (high[:, 2] == 3.0).all()

    def inside(x, y):
        return ((low[:, :2] <= (x, y)) & ((x, y) <= high[:, :2])).all(axis=1).any()

    for x in np.linspace(-4.0, 98.0, 103):
        assert inside(x, -20.5)
        assert inside(x, 20.5)
    for y in np.linspace(-21.0, 21.0, 43):
        assert inside(-3.5, y)
        assert inside(97.5, y)
    assert not inside(-2.99, 0.0)
    assert not inside(96.99, 19.99)
    assert not inside(-4.01, 0.0)


def test_the_parts_of_a_terrain_come_first_in_every_model():
    for task in (unimal_obstacles.TASK, unimal_vt.TASK):
        names = []
        for body in (chain(2), chain(5)):
            model = compile_model(body, task.scene).model
            names.append([model.geom(i).name for i in range(model.body_geomnum[0])])
            assert model.body_bvhadr[0] == 0
        assert names[0] == names[1]
    assert len(names[0]) == 24 + 10


def test_the_flat_pieces_under_obstacles_follow_each_other():
    model = compile_model(chain(2), unimal_obstacles.TASK.scene).model
    floors = [i for i in range(model.ngeom) if model.geom(i).name.startswith("floor/")]
    edges = [
        (model.geom_pos[i, 0] - model.geom_size[i, 0], model.geom_pos[i, 0] + model.geom_size[i, 0])
        for i in floors
    ]
    np.testing.assert_allclose(edges, [(-3, 3), (3, 43), (43, 83), (83, 97)])
    assert FIELD.num_fixed == len(floors) + 4


@pytest.mark.parametrize("walled", [False, True])
@pytest.mark.parametrize("terrain", [FIELD, CORRIDOR], ids=["obstacles", "corridor"])
def test_walls_stand_where_a_height_map_shows_them(terrain, walled):
    terrain = replace(terrain, walled=walled)
    scene = Scene(floor=terrain.floor, assets=terrain.assets, terrain=terrain)
    batch = BatchSimulator([compile_model(chain(2), scene)], 1, num_threads=1)
    batch.assign(np.zeros(1, np.int64), np.zeros(1, np.int64))
    batch.reset(np.zeros(1, np.int64), 0.0, np.zeros((1, 0, 17), np.float32))
    model, data = batch.model(0), batch.data(0)
    mujoco.mj_kinematics(model, data)
    for y, outward in ((terrain.half_width + 0.5, 1.0), (-terrain.half_width - 0.5, -1.0)):
        start, down = np.array([20.0, y, 50.0]), np.array([0.0, 0.0, -1.0])
        found = mujoco.mj_ray(model, data, start, down, None, 1, -1, np.zeros(1, np.int32))
        assert found == (47.0 if walled else -1.0), outward
    count = model.body_geomnum[0]
    names = [model.geom(geom).name for geom in range(count)]
    assert sum(name.startswith("wall/") for name in names) == (4 if walled else 0)
    # Contacts outside the tree of bounding boxes are not looked for: its root holds the walls.
    low, high = (
        model.bvh_aabb[0, :3] - model.bvh_aabb[0, 3:],
        model.bvh_aabb[0].reshape(2, 3).sum(0),
    )
    edge = terrain.half_width + terrain.wall_cells / 10
    np.testing.assert_allclose((low[1], high[1]), (-edge, edge), atol=1e-9)


@pytest.mark.parametrize("terrain", [FIELD, CORRIDOR], ids=["obstacles", "corridor"])
def test_a_turned_geom_beside_the_terrain_keeps_its_bounding_box(terrain):
    turned = "0.9238795325112867 0 -0.3826834323650898 0"  # 45 degrees about y
    ramp = f'<geom name="floor/ramp" type="box" pos="4 0 3.5" size="5 3 0.1" quat="{turned}"/>'
    scene = Scene(floor=f"{terrain.floor}\n{ramp}", assets=terrain.assets, terrain=terrain)
    batch = BatchSimulator([compile_model(chain(2), scene)], 1, num_threads=1)
    batch.assign(np.zeros(1, np.int64), np.zeros(1, np.int64))
    batch.reset(np.zeros(1, np.int64), 0.0, np.zeros((1, 0, 17), np.float32))
    model = batch.model(0)
    (leaf,) = np.flatnonzero(
        model.bvh_nodeid[: model.body_bvhnum[0]] == model.geom("floor/ramp").id
    )
    half = 5.1 / np.sqrt(2.0)
    np.testing.assert_allclose(model.bvh_aabb[leaf], [4.0, 0.0, 3.5, half, 3.0, half], atol=1e-6)
    # So does the root, which is what the engine looks at first.
    assert model.bvh_aabb[0, 2] + model.bvh_aabb[0, 5] >= 3.5 + half - 1e-6


def test_no_patch_is_higher_than_its_bounding_box():
    """Also where heights are no whole centimetres, to which boxes are rounded."""
    heights = dict.fromkeys(("slope_heights", "step_profile", "clip_heights"), (0.124,))
    terrain = replace(CORRIDOR, **heights)
    scene = Scene(floor=terrain.floor, assets=terrain.assets, terrain=terrain)
    batch = BatchSimulator([compile_model(chain(2), scene)], 1, num_threads=1)
    batch.assign(np.zeros(1, np.int64), np.zeros(1, np.int64))
    batch.reset(np.zeros(1, np.int64), 0.0, np.zeros((1, 0, 17), np.float32))
    model = batch.model(0)
    patches = np.flatnonzero(model.geom_contype[terrain.capacity[0] : model.body_geomnum[0]])
    assert len(patches) > 2
    np.testing.assert_array_equal(model.hfield_size[patches, 2], 1.13)
    for first, rows, columns in zip(
        model.hfield_adr[patches], model.hfield_nrow[patches], model.hfield_ncol[patches],
        strict=True,
    ):  # fmt: skip
        highest = model.hfield_data[first : first + rows * columns].max()
        assert 1.13 * highest == pytest.approx(1.124, abs=1e-4)


@pytest.mark.parametrize(
    ("terrain", "changes", "message"),
    [
        (FIELD, {"start": "west"}, "start of a terrain must be a finite number, got 'west'"),
        (FIELD, {"length": 0.0}, "length of a terrain must be .* above 0, got 0.0"),
        (FIELD, {"half_width": 20.05}, "half_width .* a multiple of 0.1 m, .* got 20.05"),
        (FIELD, {"walled": "no"}, "walled or not, True or False, got 'no'"),
        (FIELD, {"num_boxes": -1}, "num_boxes .* at least 0, got -1"),
        (FIELD, {"num_tries": 0}, "num_tries .* at least 1, got 0"),
        (FIELD, {"half_sizes": ()}, r"half_sizes .* tuple of at least one number, got \(\)"),
        (FIELD, {"half_sizes": (0.55,)}, "half_sizes .* multiple of 0.1 m, .* got 0.55"),
        (FIELD, {"flats": (3.0, 0.0)}, "flats of a terrain must be .* above 0, got 0.0"),
        (FIELD, {"clearance": -1.0}, "clearance .* at least 0, got -1.0"),
        (FIELD, {"clearance": 49.1}, "has no room for a box with half a side of 1.0 m"),
        (FIELD, {"half_width": 0.9}, "has no room for a box with half a side of 1.0 m"),
        (CORRIDOR, {"length": 7.0}, "has no room for any patch: .* take 16 m"),
        (CORRIDOR, {"steps": (2.1,)}, "half length 2.1 m are 42 cells, which 8 steps"),
        (CORRIDOR, {"first_flat": 0.0}, "first_flat .* above 0"),
        (CORRIDOR, {"flats": (0.0,)}, "flats of a terrain must be .* above 0"),
        (CORRIDOR, {"rugged": [4.0]}, r"rugged .* must be a tuple .* got \[4.0\]"),
        (CORRIDOR, {"slope_heights": (-1.0,)}, "slope_heights .* at least 0, got -1.0"),
        (CORRIDOR, {"clip_heights": (31.0,)}, "clip_heights .* at most 30 m, got 31.0"),
        (CORRIDOR, {"frequencies": (2.5,)}, "frequencies .* at least 1, got 2.5"),
        (CORRIDOR, {"strip_cells": (10,)}, r"strip_cells .* two numbers, got \(10,\)"),
        (CORRIDOR, {"strip_cells": (0, 3)}, "first of the strip_cells .* at least 1, got 0"),
        (CORRIDOR, {"strip_cells": (5, 3)}, "strip_cells .* the least and the greatest width"),
    ],
)
def test_a_terrain_of_other_numbers_is_refused(terrain, changes, message):
    """Compiled loops would divide by zero with them, or read and write beside their arrays."""
    with pytest.raises(ConfigError, match=message):
        replace(terrain, **changes)
