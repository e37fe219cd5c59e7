"""Random terrain in the models of a batch, beside models that are compiled with it."""

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError
from gmc_bench.sim.batch import FEW_ROWS, BatchSimulator, available_threads
from gmc_bench.sim.kernels import next_uniform
from gmc_bench.sim.model import compile_models
from gmc_bench.sim.terrain import box
from gmc_bench.sim.terrain_kernels import _overlaps
from gmc_bench.tasks import unimal_obstacles, unimal_vt
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table

BODIES = [chain(4), star(3), biped()]
ALL = np.arange(3)
NUM_HEIGHTS = 1410


@pytest.fixture(scope="module", params=[unimal_obstacles, unimal_vt], ids=["obstacles", "vt"])
def task(request):
    return request.param.TASK


@pytest.fixture(scope="module")
def models(task):
    return compile_models(BODIES, task.scene)


@pytest.fixture
def make_batch(models):
    """Build a batch that hosts the bodies in turn, and readings for it."""
    layout = build_table(models, TokenSpec(5)).layout

    def make(num_envs=3, num_threads=1, seed=0):
        batch = BatchSimulator(models, num_envs, layout, num_threads)
        batch.assign(np.arange(num_envs), np.arange(num_envs) % 3)
        batch.seed(seed)
        return batch, np.zeros((num_envs, 5, 17), np.float32)

    return make


def compiled_anew(model, body, scene):
    """Write what stands in a row's model as MJCF and compile it; without parked geoms."""
    floor, assets, heights = [], [], []
    for geom in range(model.body_geomnum[0]):
        name, place = model.geom(geom).name, tuple(model.geom_pos[geom].tolist())
        if model.geom_contype[geom] == 0:
            continue
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_BOX:
            floor.append(box(name, place, tuple(model.geom_size[geom].tolist())))
            continue
        field = model.geom_dataid[geom]
        rows, columns = model.hfield_nrow[field], model.hfield_ncol[field]
        size = " ".join(map(repr, model.hfield_size[field].tolist()))
        floor.append(f'<geom type="hfield" hfield="{name}" pos="{place[0]!r} 0 0"/>')
        assets.append(f'<hfield name="{name}" nrow="{rows}" ncol="{columns}" size="{size}"/>')
        first = model.hfield_adr[field]
        heights.append(model.hfield_data[first : first + rows * columns])
    text = emit_mjcf(body, floor="\n".join(floor), spawn=scene.spawn, assets="\n".join(assets))
    fresh = mujoco.MjModel.from_xml_string(text)
    if heights:
        fresh.hfield_data[:] = np.concatenate(heights)
    return fresh


def throw_onto_terrain(batch, row, random):
    """Put a body above a box or a patch, falling forward."""
    model, data = batch.model(row), batch.data(row)
    terrain = [
        geom for geom in range(model.body_geomnum[0])
        if model.geom_contype[geom] and model.geom(geom).name.startswith(("box", "patch"))
    ]  # fmt: skip
    geom = terrain[random.integers(len(terrain))]
    data.qpos[:2] = model.geom_pos[geom, :2]
    data.qpos[2] += 0.2 if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_HFIELD else 4.2
    data.qvel[0], data.qvel[2] = 2.0, -2.0
    mujoco.mj_forward(model, data)


def test_a_draw_into_a_compiled_model_equals_a_model_compiled_with_it(task, make_batch):
    batch, readings = make_batch()
    for _ in range(3):  # the last of several draws: nothing is left of the earlier ones
        batch.reset(ALL, 0.005, readings)
    random = np.random.default_rng(0)
    twins = []
    for row in range(3):
        throw_onto_terrain(batch, row, random)
        fresh = compiled_anew(batch.model(row), BODIES[row], task.scene)
        data = mujoco.MjData(fresh)
        data.qpos[:], data.qvel[:] = batch.data(row).qpos, batch.data(row).qvel
        mujoco.mj_forward(fresh, data)
        twins.append((fresh, data))
    touched = np.zeros(3, np.int64)
    for _ in range(200):
        actions = random.normal(0.0, 0.9, (3, 10)).astype(np.float32)
        batch.step(actions, readings)
        for row, (fresh, data) in enumerate(twins):
            data.ctrl[:] = actions[row, batch.layout.actuator_slot[row, : fresh.nu]]
            mujoco.mj_step(fresh, data, 4)
            assert data.ncon == batch.data(row).ncon
            np.testing.assert_array_equal(data.qpos, batch.data(row).qpos)
            model = batch.model(row)
            geoms = batch.data(row).contact.geom.ravel()
            touched[row] += any(
                model.geom(int(geom)).name.startswith(("box", "patch")) for geom in geoms
            )
    assert (touched > 3).all()


def test_the_draw_fits_what_the_compiler_makes_of_it(task, make_batch):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    model = batch.model(0)
    fresh = compiled_anew(model, BODIES[0], task.scene)
    kept = [geom for geom in range(model.body_geomnum[0]) if model.geom_contype[geom]]
    assert len(kept) == fresh.body_geomnum[0]
    for name in ("geom_pos", "geom_size", "geom_rbound", "geom_aabb"):
        np.testing.assert_array_equal(getattr(model, name)[kept], getattr(fresh, name)[: len(kept)])
    boxes = [geom for geom in kept if model.geom(geom).name.startswith("box")]
    assert (np.diff(model.geom_pos[boxes, 0]) >= 0.0).all()  # neighbours stand beside each other
    # Every node of the tree of bounding boxes encloses its children, and nothing else.
    bounds, child = model.bvh_aabb, model.bvh_child
    for node in range(model.body_bvhnum[0]):
        below = child[node][child[node] >= 0]
        if len(below):
            low = (bounds[below, :3] - bounds[below, 3:]).min(axis=0)
            high = (bounds[below, :3] + bounds[below, 3:]).max(axis=0)
            np.testing.assert_allclose(bounds[node, :3], (low + high) / 2, atol=1e-9)
            np.testing.assert_allclose(bounds[node, 3:], (high - low) / 2, atol=1e-9)


def test_what_is_left_over_is_parked_out_of_reach(make_batch):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    for row in range(3):
        model = batch.model(row)
        parked = np.flatnonzero(model.geom_contype[: model.body_geomnum[0]] == 0)
        assert (model.geom_conaffinity[parked] == 0).all()
        assert (model.geom_pos[parked, 2] + model.geom_rbound[parked] < -5.0).all()
        # Under ground, where no ray from above meets them.
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        found = np.zeros(1, np.int32)
        for geom in parked:
            start = np.array([*model.geom_pos[geom, :2], 50.0])
            mujoco.mj_ray(model, data, start, np.array([0.0, 0.0, -1.0]), None, 1, -1, found)
            assert found[0] not in parked


def patch_of(model, geom):
    """Return the heights (rows, columns) of a geom's height field, m."""
    field = model.geom_dataid[geom]
    shape = model.hfield_nrow[field], model.hfield_ncol[field]
    first = model.hfield_adr[field]
    data = model.hfield_data[first : first + shape[0] * shape[1]].reshape(shape)
    return data * model.hfield_size[field, 2]


def test_cells_hold_the_heights_of_the_model(make_batch):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    model, cells = batch.model(0), batch.ground.cells[0]
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    random, found = np.random.default_rng(0), np.zeros(1, np.int32)
    compared = 0
    for _ in range(40):
        row, column = random.integers(cells.shape[0]), random.integers(cells.shape[1])
        x, y = (column - 30 + 0.5) / 10, (row - 200 + 0.5) / 10
        heights = []
        for dx in (-0.049, 0.0, 0.049):
            for dy in (-0.049, 0.0, 0.049):
                start = np.array([x + dx, y + dy, 50.0])
                down = np.array([0.0, 0.0, -1.0])
                heights.append(50.0 - mujoco.mj_ray(model, data, start, down, None, 1, -1, found))
        if max(heights) - min(heights) > 1e-6:
            continue
        compared += 1
        if heights[0] > 4.0:  # a box counts as 2 m high
            heights[0] = 3.0
        assert cells[row, column] / 1000 == pytest.approx(heights[0], abs=5e-4)
    assert compared > 20


def test_every_cell_is_what_the_pieces_of_the_model_make_of_it(make_batch):
    """Cell by cell, so that a piece that is a cell too long, too short or beside is seen."""
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    model, cells = batch.model(0), batch.ground.cells[0]
    x = (np.arange(cells.shape[1]) - 30 + 0.5) / 10
    y = (np.arange(cells.shape[0]) - 200 + 0.5) / 10
    expected, covered = np.full(cells.shape, 1000), np.zeros(cells.shape, np.int64)
    for geom in range(model.body_geomnum[0]):
        name, middle, half = model.geom(geom).name, model.geom_pos[geom], model.geom_size[geom]
        if model.geom_contype[geom] == 0 or name.startswith("wall"):
            continue
        columns = np.flatnonzero(np.abs(x - middle[0]) < half[0])
        rows = np.flatnonzero(np.abs(y - middle[1]) < half[1])
        place = np.ix_(rows, columns)
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_HFIELD:
            heights = patch_of(model, geom)
            assert heights.shape == (len(rows), len(columns))
            highest = 100.0 * model.hfield_size[model.geom_dataid[geom], 2]
            assert highest == pytest.approx(round(highest), abs=1e-9)  # a whole centimetre
            expected[place] = np.rint(1000 * heights)
            covered[place] += 1
        elif name.startswith("box"):
            expected[place] = 3000  # as 2 m high
        else:
            covered[place] += 1
    np.testing.assert_array_equal(cells, expected)
    assert (covered == 1).all()  # pieces of ground follow each other
    assert (cells != 1000).any()


def _plain_boxes(draw):
    """Return the cells (Y, X), mm, of a field with obstacles; lengths in cells of 0.1 m."""
    cells, places = np.full((400, 1000), 1000), []
    for _ in range(50):
        long, wide = (5 + draw(6) for _ in range(2))  # half of 1.0 to 2.0 m
        for _ in range(10):
            x = 60 + long + draw(1000 - 2 * (60 + long) + 1)
            y = wide + draw(400 - 2 * wide + 1)
            if all(abs(x - a) >= long + c or abs(y - b) >= wide + d for a, b, c, d in places):
                places.append((x, y, long, wide))
                cells[y - wide : y + wide, x - long : x + long] = 3000
                break
    return cells


def _plain_corridor(draw):
    """Return the cells (Y, X), mm, of a corridor; lengths in cells of 0.1 m."""
    cells, column, length = np.full((400, 1100), 1000), 60, 0
    while column < 1100:
        column += (20, 40, 60)[draw(3)]
        if column >= 1100:
            break
        kind = draw(3)
        length = ((80, 160), (240, 320), (80, 160))[kind][draw(2)]
        if column + length > 1100:
            continue
        patch, along = cells[:, column : column + length], np.linspace(0.0, 1.0, length)
        if kind == 0:
            patch[:] += np.rint((600 + 100 * draw(7)) * np.sin(np.pi * along)).astype(int)
        elif kind == 1:
            patch[:] += np.repeat([0, 200, 400, 600, 600, 400, 200, 0], length // 8)
        row = 0
        while kind == 2 and row < 400:
            width, frequency, clip = 10 + draw(10), (10, 15)[draw(2)], (200, 300)[draw(2)]
            wave = 2000.0 * (1.0 - np.abs(2.0 * (0.5 * frequency * along % 1.0) - 1.0))
            patch[row : row + width] += np.rint(np.minimum(wave, clip)).astype(int)
            row += width
        column += length
    return cells


def test_terrain_is_what_a_plain_program_makes_of_the_same_random_numbers(task, make_batch):
    batch, readings = make_batch()
    plain = {"unimal-obstacles-v1": _plain_boxes, "unimal-vt-v1": _plain_corridor}[task.id]
    for _ in range(8):  # so that some boxes touch
        batch.reset(ALL, 0.005, readings)
        for cells, stream in zip(batch.ground.cells, batch.ground.streams.copy(), strict=True):
            expected = plain(lambda count, stream=stream: int(next_uniform(stream) * count))
            np.testing.assert_allclose(cells, expected, atol=1)  # mm; rounded from other sums
            assert (cells != 1000).any()
        model = batch.model(0)
        for geom in np.flatnonzero(model.geom_contype[: model.body_geomnum[0]]):
            if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_HFIELD:
                highest = model.hfield_size[model.geom_dataid[geom], 2]  # also of the data's unit
                assert patch_of(model, geom).max() == pytest.approx(highest, abs=0.005)


def test_boxes_may_touch_but_not_overlap():
    places = np.array([[100, 50, 8, 5]])  # column and row of the middle, half sizes
    for column, row in ((86, 50), (114, 50), (100, 38), (100, 62)):
        assert not _overlaps(places, 1, row, column, 7, 6)
        nearer = row + np.sign(50 - row), column + np.sign(100 - column)
        assert _overlaps(places, 1, *nearer, 7, 6)
        assert not _overlaps(places, 0, *nearer, 7, 6)  # none has been placed


def test_each_row_has_a_model_of_its_own_and_another_terrain_at_each_reset(models, make_batch):
    batch, readings = make_batch(num_envs=6)
    rows = np.arange(6)
    batch.reset(rows, 0.005, readings)
    addresses = {batch.model(row)._address for row in rows}
    assert len(addresses) == 6
    assert not addresses & {compiled.model._address for compiled in models}
    first = batch.ground.cells.copy()
    assert len({cells.tobytes() for cells in first}) == 6
    batch.reset(rows[:1], 0.005, readings)
    assert (batch.ground.cells[0] != first[0]).any()
    np.testing.assert_array_equal(batch.ground.cells[1:], first[1:])


def test_terrain_follows_from_the_stream_and_not_from_body_or_thread(make_batch):
    if available_threads() < 2:
        pytest.skip("needs two cores")
    found = []
    for threads, bodies in ((1, [0, 1, 2]), (2, [2, 2, 0])):
        batch, readings = make_batch(num_threads=threads, seed=4)
        batch.assign(ALL, np.array(bodies))
        batch.reset(ALL, 0.005, readings)
        found.append((batch.ground.cells.tobytes(), batch.model(1).geom_pos[:10].tobytes()))
    assert found[0] == found[1]


def test_a_fresh_batch_continues_on_the_same_terrain(make_batch):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    batch.reset(ALL, 0.005, readings)
    random = np.random.default_rng(0)
    for row in range(3):
        throw_onto_terrain(batch, row, random)
    actions = random.normal(size=(40, 3, 10)).astype(np.float32)
    for action in actions[:20]:
        batch.step(action, readings)
    state = batch.get_state()
    twin, other = make_batch(seed=9)
    twin.assign(ALL, np.array([2, 1, 0]))
    twin.reset(ALL, 0.005, other)
    twin.set_state(state)
    np.testing.assert_array_equal(twin.ground.cells, batch.ground.cells)
    for action in actions[20:]:
        batch.step(action, readings)
        twin.step(action, other)
        np.testing.assert_array_equal(readings, other)
    assert twin.get_state()["terrain_streams"].tobytes() == state["terrain_streams"].tobytes()


def test_a_state_draws_its_terrain_into_models_that_have_come_since(make_batch):
    batch, readings = make_batch()
    batch._idle.capacity = 0  # so that no model is kept with what was drawn into it
    batch.reset(ALL, 0.005, readings)
    state = batch.get_state()
    places = [batch.model(row).geom_pos.tolist() for row in range(3)]
    batch.assign(ALL, np.array([1, 2, 0]))
    batch.set_state(state)
    assert [batch.model(row).geom_pos.tolist() for row in range(3)] == places


def test_a_state_without_terrain_is_refused(make_batch):
    batch, readings = make_batch()
    batch.reset(ALL, 0.005, readings)
    state = batch.get_state()
    del state["terrain_streams"]
    with pytest.raises(ConfigError, match="holds no terrain"):
        batch.set_state(state)


def test_few_idle_models_are_kept(models, make_batch):
    batch, readings = make_batch(num_envs=2)
    rows = np.arange(2)
    for index in (0, 1, 2, 0, 1, 2, 0):
        batch.assign(rows, np.full(2, index))
        batch.reset(rows, 0.005, readings)
        assert len(batch._idle) <= 2


@pytest.mark.parametrize(("num_envs", "threads"), [(3, 1), (FEW_ROWS + 1, 2)])
def test_height_maps_leave_broken_rows_alone(make_batch, num_envs, threads):
    if available_threads() < threads:
        pytest.skip("needs two cores")
    batch, readings = make_batch(num_envs, threads)
    rows = np.arange(num_envs)
    batch.reset(rows, 0.005, readings)
    maps = np.full((num_envs, NUM_HEIGHTS), 7.0, np.float32)
    heights = np.full(num_envs, 7.0)
    batch.diverged[1] = True
    batch.torso_position[1] = np.nan
    batch.read_ground(rows, maps, heights)
    assert (maps[1] == 7.0).all()
    assert heights.tolist() == np.where(rows == 1, 7.0, 1.0).tolist()
    assert (maps[rows != 1] != 7.0).all()
