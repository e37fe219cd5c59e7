"""The plain reference itself, on ground built by hand from the description of the tasks."""

import math

import mujoco
import numpy as np
import pytest

from tests.reference_tasks.plain_task import (
    BACK_AND_FRONT,
    LEFT_TO_RIGHT,
    NUM_HEIGHTS,
    OBSTACLE,
    WALL,
    Ground,
    HeightArray,
    PlainTask,
)

BODY = """
<body name="torso/0" pos="0 0 1.4"><freejoint/>
  <geom type="sphere" size="0.1" density="1000"/>
  <body name="limb/1" pos="0.1 0 0">
    <joint name="limbx/1" axis="1 0 0" pos="-0.05 0 0" range="-30 30" limited="true"/>
    <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.05" density="900"/>
  </body>
</body>"""
MOTOR = '<actuator><motor name="limbx/1" joint="limbx/1" gear="200"/></actuator>'
FLOOR = '<geom type="box" size="100 100 1"/>'


def compiled(ground, asset=""):
    return mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="0.005"/><asset>{asset}</asset>'
        f"<worldbody>{ground}{BODY}</worldbody>{MOTOR}</mujoco>"
    )


def with_field(elevation, start):
    """Return flat ground up to `start`, a height field of half width 20, then flat ground."""
    rows, columns = elevation.shape
    half = columns / 20
    model = compiled(
        f'<geom type="box" pos="{(start - 3) / 2} 0 0" size="{(start + 3) / 2} 20 1"/>'
        f'<geom type="hfield" hfield="field" pos="{start + half} 0 0"/>'
        f'<geom type="box" pos="{start + 2 * half + 10} 0 0" size="10 20 1"/>',
        f'<hfield name="field" nrow="{rows}" ncol="{columns}" size="{half} 20 2 0.1"/>',
    )
    model.hfield_data[:] = ((1.0 + elevation) / 2.0).ravel()
    return model


def sampled(reach):
    """Return the offsets of one side, by the sampler of the public environments."""
    scale = [-math.log(1.0 - k / reach) for k in range(reach)]
    return {int(value / scale[-1] * reach) for value in scale}


def test_the_offsets_are_those_of_the_public_sampler():
    assert tuple(sorted({-k for k in sampled(10)} | sampled(40))) == BACK_AND_FRONT
    assert tuple(sorted({-k for k in sampled(40)} | sampled(40))) == LEFT_TO_RIGHT
    assert NUM_HEIGHTS == 1410


def test_cells_are_counted_as_in_the_public_environments():
    array = HeightArray(Ground(compiled(FLOOR)), (-3.0, 107.0), walls=False)
    assert (array.num_rows, array.num_columns) == (600, 1300)
    assert array.cell_of(0.05, 0.05) == (300, 130)
    assert array.cell_of(-0.05, -0.05) == (301, 129)
    walled = HeightArray(Ground(compiled(FLOOR)), (-3.0, 97.0), walls=True)
    assert (walled.num_rows, walled.num_columns) == (620, 1220)
    assert walled.cell_of(0.05, 0.05) == (310, 140)


def test_the_border_and_the_walls_have_heights_of_their_own():
    array = HeightArray(Ground(compiled(FLOOR)), (-3.0, 97.0), walls=True)
    assert array.look(310, 99)[0] == -10.0
    assert array.look(310, 100)[0] == WALL
    assert array.look(310, 110)[0] == 1.0
    assert array.look(109, 500)[0] == WALL
    assert array.look(99, 500)[0] == -10.0
    assert array.look(-5, 5000)[0] == -10.0


@pytest.mark.slow
def test_a_cell_of_a_height_field_is_its_vertex():
    random = np.random.default_rng(0)
    elevation = random.integers(0, 900, (400, 80)) / 1000.0
    array = HeightArray(Ground(with_field(elevation, start=5.0)), (-3.0, 107.0), walls=False)
    rows, columns = np.meshgrid(np.arange(100, 500), np.arange(180, 260), indexing="ij")
    heights = array.look(rows, columns)[0]
    # Row 0 of a height field is at the smallest y, row 0 of the array at the largest.
    np.testing.assert_allclose(heights, 1.0 + elevation[::-1], atol=1e-9)


@pytest.mark.slow
def test_a_box_covers_its_cells_and_no_others():
    box = '<geom type="box" pos="10 2 3.1" size="0.6 0.9 2"/>'
    array = HeightArray(Ground(compiled(FLOOR + box)), (-3.0, 97.0), walls=True)
    rows, columns = np.meshgrid(np.arange(110, 510), np.arange(110, 400), indexing="ij")
    heights, level, _ = array.look(rows, columns)
    under = np.argwhere(heights == OBSTACLE)
    assert len(under) == 12 * 18
    assert level.all()
    # x from 9.4 to 10.6 is 124 to 136 cells from the west end; y from 2.9 down to 1.1.
    assert (under.min(axis=0) == (171, 124)).all()
    assert (under.max(axis=0) == (188, 135)).all()


@pytest.mark.parametrize("degrees", [0, 90, 180, -90])
def test_the_map_turns_with_the_torso(degrees):
    """A box straight ahead of the torso appears ahead and in the middle, whatever its heading."""
    angle = math.radians(degrees)
    x, y = 20.05, 0.05
    ahead = (x + 2 * math.cos(angle), y + 2 * math.sin(angle))
    box = f'<geom type="box" pos="{ahead[0]} {ahead[1]} 3.1" size="0.55 0.55 2"/>'
    plain = PlainTask("unimal-obstacles-v1", compiled(FLOOR + box), torso_height=0.4)
    turn = (math.cos(angle / 2), 0.0, 0.0, math.sin(angle / 2))
    _, heights = plain.reset_from([x, y, 2.0, *turn, 0.0], np.zeros(7))
    found = heights.reshape(len(LEFT_TO_RIGHT), len(BACK_AND_FRONT))
    front, side = BACK_AND_FRONT.index(20), LEFT_TO_RIGHT.index(0)
    assert found[side, front] == OBSTACLE - 1.0
    assert found[side, BACK_AND_FRONT.index(-10)] == 0.0
    assert (found[LEFT_TO_RIGHT.index(-8)] == 0.0).all()
    assert (found[LEFT_TO_RIGHT.index(8)] == 0.0).all()


def test_the_left_of_the_torso_comes_first():
    box = '<geom type="box" pos="20 2 3.1" size="0.5 0.5 2"/>'
    plain = PlainTask("unimal-obstacles-v1", compiled(FLOOR + box), torso_height=0.4)
    _, heights = plain.reset_from([20.05, 0.05, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0], np.zeros(7))
    found = heights.reshape(len(LEFT_TO_RIGHT), len(BACK_AND_FRONT))
    assert (found.argmax(axis=0) < LEFT_TO_RIGHT.index(0)).all()
    assert found[LEFT_TO_RIGHT.index(-20), BACK_AND_FRONT.index(0)] == OBSTACLE - 1.0


def test_velocities_are_those_of_the_body_frames():
    """Against differences of positions over one engine step."""
    model = compiled(FLOOR)
    plain = PlainTask("unimal-ft-v1", model, torso_height=0.4)
    random = np.random.default_rng(0)
    plain.reset_from([0.0, 0.0, 5.0, 1.0, 0.0, 0.0, 0.0, 0.1], random.normal(size=7))
    tokens = plain.tokens()
    before = plain.data.xpos[1:].copy()
    model.opt.timestep = 1e-6
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = plain.data.qpos, plain.data.qvel
    mujoco.mj_step(model, data)
    mujoco.mj_kinematics(model, data)
    np.testing.assert_allclose(tokens[:, 3:6], (data.xpos[1:] - before) / 1e-6, atol=1e-3)


def test_new_cells_are_rewarded_once():
    model = compiled(FLOOR)
    plain = PlainTask("unimal-exploration-v1", model, torso_height=0.4)
    plain.reset_from([50.5, 0.5, 1.4, 1.0, 0.0, 0.0, 0.0, 0.0], np.zeros(7))
    found = []
    for x in (50.5, 50.6, 51.5, 50.5, -3.0):
        plain.data.xpos[1] = (x, 0.5, 1.4)
        found.append(plain._judge(0.0))
    assert found == [(1.0, 1.0), (0.0, 1.0), (1.0, 2.0), (0.0, 2.0), (0.0, 2.0)]
