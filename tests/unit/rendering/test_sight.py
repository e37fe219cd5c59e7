"""Nothing hides the body, and its trace is the one that is counted."""

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.rendering.camera import View
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.ground import HIDDEN, copy_terrain, put_terrain
from gmc_bench.rendering.scene import drawing_model
from gmc_bench.rendering.sight import Sight, Trace
from gmc_bench.sim.model import Scene
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.spec import VisitGrid

SCENE = Scene(
    floor=(
        '<geom name="floor/0" type="box" size="20 20 1" pos="0 0 0"/>'
        '<geom name="box/0" type="box" size="0.5 0.5 2" pos="0 -3 3"/>'
        '<geom name="box/1" type="box" size="0.5 0.5 2" pos="0 3 3" euler="0 0 0.7"/>'
    ),
    spawn=(0.0, 0.0, 1.0),
)
LEVEL = View(azimuth=90.0, elevation=0.0)  # looks along +y
POINT = np.array([0.0, 0.0, 1.5])


def opacity(model):
    return [float(model.geom(name).rgba[3]) for name in ("floor/0", "box/0", "box/1")]


def test_a_box_between_camera_and_body_is_seen_through():
    model = drawing_model(biped(), SCENE)
    sight = Sight(model)
    sight.look(POINT, 6.0, LEVEL, 1.0)
    assert opacity(model) == pytest.approx([1.0, 0.15, 1.0])
    sight.look(POINT, 2.0, LEVEL, 1.0)  # the camera stands before the box
    assert opacity(model) == pytest.approx([1.0, 1.0, 1.0])
    sight.look(POINT, 3.0, LEVEL, 1.0)  # and here in it
    assert opacity(model) == pytest.approx([1.0, 0.15, 1.0])
    sight.look(POINT, 6.0, View(azimuth=270.0, elevation=0.0), 1.0)
    assert opacity(model) == pytest.approx([1.0, 1.0, 0.15])
    # 0.5 m beside the line are kept clear, not more.
    sight.look(POINT + np.array([0.9, 0.0, 0.0]), 6.0, LEVEL, 1.0)
    assert opacity(model)[1] == pytest.approx(0.15)
    sight.look(POINT + np.array([1.1, 0.0, 0.0]), 6.0, LEVEL, 1.0)
    assert opacity(model)[1] == 1.0


@pytest.mark.usefixtures("drawing")
@pytest.mark.parametrize("x", [0.0, 40.0])
def test_ground_that_is_left_out_could_not_be_seen(x):
    task = TASKS.get("unimal-vt-v1")
    core = EnvironmentCore(task, [biped()], 1, num_threads=1)
    core.simulator.seed(2)
    core.reset(np.array([0]), np.array([0]))
    model = drawing_model(biped(), task.scene)
    put_terrain(model, copy_terrain(core, 0))
    used = model.geom_group != HIDDEN
    point, view = np.array([x, 0.0, 1.5]), View()
    data = core.simulator.data(0)
    with Canvas(80, 60) as canvas:
        canvas.show(model)
        whole = canvas.draw(data, point, 4.0, view)
        Sight(model).look(point, 4.0, view, canvas.aspect)
        assert (used & (model.geom_group == HIDDEN)).sum() > 0
        np.testing.assert_array_equal(canvas.draw(data, point, 4.0, view), whole)


def test_a_trace_grows_with_the_cells_that_are_entered():
    grid = VisitGrid(low=(0.0, -2.0), shape=(3, 4), cell_size=1.0)
    path = np.array([[0.5, 0.5], [0.9, 0.5], [1.1, 0.5], [0.5, 0.5], [1.5, -1.5], [9.0, 0.5]])
    trace = Trace(grid, np.column_stack([path, np.ones(6)]), 1.0)
    assert [len(trace.until(step).centers) for step in range(6)] == [1, 1, 2, 2, 3, 3]
    expected = {(0.5, 0.5, 1.0), (1.5, 0.5, 1.0), (1.5, -1.5, 1.0)}
    assert set(map(tuple, trace.until(5).centers)) == expected
    assert trace.until(0).half_side < 0.5
    late = Trace(grid, np.column_stack([path[::-1], np.ones(6)]), 1.0)  # begins beside the grid
    assert [len(late.until(step).centers) for step in range(6)] == [0, 1, 2, 3, 3, 3]


@pytest.mark.usefixtures("drawing")
def test_visited_cells_are_seen_in_the_picture():
    grid = VisitGrid(low=(-2.0, -2.0), shape=(4, 4), cell_size=1.0)
    path = np.array([[-1.5, 0.5, 1.3], [-0.5, 0.5, 1.3]])
    model = drawing_model(biped(), TASKS.get("unimal-ft-v1").scene)
    data = mujoco.MjData(model)
    data.qpos[:2] = 30.0  # out of the picture
    with Canvas(80, 60) as canvas:
        canvas.show(model)
        above = View(azimuth=90.0, elevation=-89.0)
        pictures = [
            canvas.draw(data, np.array([0.0, 0.0, 1.0]), 8.0, above, tiles).astype(int)
            for tiles in (None, *(Trace(grid, path, 1.0).until(step) for step in (0, 1)))
        ]
    yellow = [((item[..., 0] - item[..., 2]) > 60).sum() for item in pictures]
    assert yellow[0] == 0
    # 1 m is 60 pixels / (2 x 8 m x tan 17.5 degrees); a tile fills 0.94 of its cell.
    size = (0.94 * 60 / (16 * np.tan(np.radians(17.5)))) ** 2
    assert yellow[1] == pytest.approx(size, rel=0.2)
    assert yellow[2] == pytest.approx(2 * size, rel=0.2)
