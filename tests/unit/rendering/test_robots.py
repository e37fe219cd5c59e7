"""Quadrupeds are drawn on the ground they were simulated on."""

import mujoco
import numpy as np
import pytest

from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.robots import drawing_robot, film_of_robot
from gmc_bench.rendering.video import VideoSettings, draw_frames, write_video
from gmc_bench.robots import GO2
from gmc_bench.robots.mjcf import FLOOR, HeightField
from gmc_bench.robots.model import compile_robot
from gmc_bench.sim.model import compile_grounds
from gmc_bench.tasks.quadruped_velocity import TASK

SETTINGS = VideoSettings(width=64, height=64, fps=25)


@pytest.fixture(scope="module")
def grounds():
    return compile_grounds(GO2, TASK.scene)


@pytest.mark.parametrize("rough", [0, 1])
def test_states_mean_the_same(grounds, rough):
    compiled = grounds[rough]
    model = drawing_robot(compiled)
    assert model.nq == compiled.model.nq
    assert np.array_equal(model.hfield_data, compiled.model.hfield_data)
    assert np.allclose(model.hfield_size, compiled.model.hfield_size)
    places = []
    for one in (model, compiled.model):
        data = mujoco.MjData(one)
        data.qpos[:] = compiled.standing_qpos(0.4)
        mujoco.mj_kinematics(one, data)
        places.append(data.geom_xpos[: compiled.model.ngeom].copy())
    assert np.allclose(*places)


def test_ground_below_zero_is_drawn_where_it_is():
    field = HeightField(heights=np.array([[-0.4, -0.2], [-0.3, -0.1]]), half_extents=(2.0, 1.0))
    compiled = compile_robot(GO2, terrain=field)
    model = drawing_robot(compiled)
    assert model.geom(FLOOR).pos[2] == compiled.model.geom(FLOOR).pos[2] == pytest.approx(-0.4)
    np.testing.assert_allclose(model.hfield_size, compiled.model.hfield_size)


def test_the_speed_is_that_of_the_last_half_second(grounds):
    states = np.repeat(grounds[0].standing_qpos()[None], 61, axis=0)
    states[:, 0] = 0.03 * np.minimum(np.arange(61), 30)  # 2.5 m/s for 0.6 s
    states[:, 1] = 0.04 * np.minimum(np.arange(61), 30)
    film = film_of_robot(grounds[0], states, 0.02, "go2")
    assert film.numbers(0) == ("0.00 m/s", "0.00 s")
    assert film.numbers(5) == ("2.50 m/s", "0.10 s")
    assert film.numbers(40) == ("1.50 m/s", "0.80 s")  # 15 of 25 steps
    assert film.numbers(60) == ("0.00 m/s", "1.20 s")


@pytest.mark.slow
@pytest.mark.usefixtures("drawing")
def test_a_robot_that_moves_is_filmed_and_its_end_is_held(grounds, tmp_path):
    states = np.repeat(grounds[0].standing_qpos()[None], 5, axis=0)
    states[:, 0] = np.linspace(0.0, 0.1, 5)
    film = film_of_robot(grounds[0], states, 0.02, "go2", ending="success")
    with Canvas(64, 64) as canvas:
        frames = list(draw_frames(film, SETTINGS, canvas))
    assert len(frames) == 3 + 25  # 0.08 s at 25 a second, and the end for a second more
    assert np.array_equal(frames[-1], frames[-2])
    assert frames[0].shape == (64, 64, 3)
    assert not np.array_equal(frames[0], frames[2])
    pytest.importorskip("imageio_ffmpeg")
    path = tmp_path / "a.mp4"
    assert write_video(path, film, SETTINGS) == len(frames)
    assert path.read_bytes()[4:8] == b"ftyp"
