"""Random terrain is drawn as it is simulated."""

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.rendering.ground import HIDDEN, copy_terrain, ground_height, put_terrain
from gmc_bench.rendering.scene import drawing_model
from gmc_bench.tasks import TASKS

RANDOM = ("unimal-obstacles-v1", "unimal-vt-v1")


def core_of(task, seed=2):
    core = EnvironmentCore(TASKS.get(task), [biped()], 1, num_threads=1)
    core.simulator.seed(seed)
    core.reset(np.array([0]), np.array([0]))
    return core


def heights(model, places):
    """Return the height that a ray from above meets at places (K, 2), limbs left out."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    shown = np.array([1, 0, 0, 0, 0, 0], np.uint8)
    model.geom_group[model.geom_bodyid > 0] = 1
    down, geom = np.array([0.0, 0.0, -1.0]), np.zeros(1, np.int32)
    return np.array(
        [8.0 - mujoco.mj_ray(model, data, [x, y, 8.0], down, shown, 1, -1, geom) for x, y in places]
    )


@pytest.mark.parametrize("task", RANDOM)
def test_the_drawn_ground_is_the_simulated_one(task):
    core = core_of(task)
    copy = copy_terrain(core, 0)
    drawn = drawing_model(biped(), core.task.scene)
    put_terrain(drawn, copy)
    simulated = core.simulator.model(0)
    places = np.random.default_rng(0).uniform((-2.5, -19.0), (90.0, 19.0), (400, 2))
    expected = heights(simulated, places)
    assert len(np.unique(expected.round(3))) > 1
    np.testing.assert_allclose(heights(drawn, places), expected, rtol=0, atol=1e-12)
    # Another reset changes the simulated model, not the copy.
    core.reset(np.array([0]), np.array([0]))
    assert (heights(simulated, places) != expected).any()
    again = drawing_model(biped(), core.task.scene)
    put_terrain(again, copy)
    np.testing.assert_allclose(heights(again, places), expected, rtol=0, atol=1e-12)


def test_what_a_terrain_leaves_over_is_hidden():
    core = core_of("unimal-vt-v1")
    model = drawing_model(biped(), core.task.scene)
    put_terrain(model, copy_terrain(core, 0))
    static = model.geom_bodyid == 0
    parked = static & (model.geom_pos[:, 2] < -5.0)
    assert 0 < parked.sum() < static.sum()
    np.testing.assert_array_equal(model.geom_group == HIDDEN, parked)


def test_ground_that_is_the_same_along_y_has_fewer_triangles():
    core = core_of("unimal-vt-v1")
    model = drawing_model(biped(), core.task.scene)
    before = core.simulator.model(0).hfield_nrow.copy()
    put_terrain(model, copy_terrain(core, 0))
    assert set(before) == {400}
    assert 9 in set(model.hfield_nrow)
    assert set(model.hfield_nrow) <= {9, 400}


def test_ground_that_is_always_the_same_needs_no_copy():
    assert copy_terrain(core_of("unimal-ft-v1"), 0) == {}


def test_the_height_of_the_ground_under_the_torso():
    def at(core, *place):
        core.simulator.data(0).qpos[:2] = place
        return ground_height(core, 0)

    assert at(core_of("unimal-ft-v1"), 7.0, 3.0) == 1.0
    slope = at(core_of("unimal-incline-v1"), -10.0, 0.0)
    assert slope == pytest.approx(1.0 - 10.0 * np.tan(np.radians(10.0)))
    core = core_of("unimal-vt-v1")
    places = np.column_stack([np.arange(0.05, 60.0, 1.7), np.linspace(-8.0, 8.0, 36)])
    seen = heights(core.simulator.model(0), places)
    found = [at(core, *place) for place in places]
    np.testing.assert_allclose(found, seen, atol=0.1)  # cells of 0.1 m
    assert max(found) > 1.2
    assert at(core, -50.0, 0.0) == at(core, -2.95, 0.0)  # beside the field
    assert [at(core, 30.0, y) for y in (-50.0, 50.0)] == [
        at(core, 30.0, y) for y in (-19.95, 19.95)
    ]
    # A body that pushes against a box stands on the ground, not on the box.
    core = core_of("unimal-obstacles-v1", seed=3)
    line, column = np.argwhere(core.simulator.ground.cells[0] == 3000)[0]
    assert at(core, (column - 30) / 10 + 0.05, (line - 200) / 10 + 0.05) == 1.0
