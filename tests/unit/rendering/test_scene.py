"""The model that is drawn takes the states of the one that is simulated."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.rendering.camera import View
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.scene import (
    FIELD_OF_VIEW,
    TORSO_COLOR,
    drawing_model,
    limb_colors,
    lower,
    rest_state,
)
from gmc_bench.rendering.stills import STUDIO
from gmc_bench.sim.model import compile_model
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.unimal_ft import TASK

BODIES = (chain(4), star(4), biped())


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.name)
def test_a_simulated_state_has_the_same_meaning_in_both_models(body):
    simulated, drawn = compile_model(body, TASK.scene).model, drawing_model(body, TASK.scene)
    state = np.random.default_rng(0).normal(size=simulated.nq)
    places = []
    for model in (simulated, drawn):
        data = mujoco.MjData(model)
        data.qpos[:] = state
        mujoco.mj_kinematics(model, data)
        places.append((data.geom_xpos.copy(), data.geom_xmat.copy(), model.geom_size.copy()))
    for first, second in zip(*places, strict=True):
        np.testing.assert_array_equal(first, second)


def test_every_limb_has_a_colour_of_its_own():
    colors = limb_colors(star(4))
    assert colors[0] == TORSO_COLOR
    assert len(set(colors)) == len(colors) == star(4).num_limbs
    limbs = [replace(limb, more_geoms=(limb.geom,)) for limb in star(4).limbs]
    model = drawing_model(replace(star(4), limbs=tuple(limbs)), TASK.scene)
    for index, color in enumerate(colors):
        shown = 255 * model.geom_rgba[model.geom_bodyid == index + 1, :3]
        np.testing.assert_allclose(shown, [color, color], atol=1e-3)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.name)
def test_a_body_at_rest_touches_the_floor(body):
    model = drawing_model(body, STUDIO)
    data = rest_state(model)
    mujoco.mj_kinematics(model, data)
    floor = model.geom("floor/0").id
    distances = [
        mujoco.mj_geomDistance(model, data, floor, geom, 10.0, None)
        for geom in range(model.ngeom)
        if geom != floor
    ]
    assert min(distances) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    "shape",
    [
        'type="box" size=".3 .05 .1"',
        'type="ellipsoid" size=".3 .05 .1"',
        'type="cylinder" size=".05 .3"',
        'type="capsule" size=".05 .3"',
        'type="sphere" size=".2"',
    ],
)
def test_every_shape_is_lowered_until_it_touches(shape):
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 3" quat="1 .4 .7 .2">'
        f"<freejoint/><geom {shape}/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_resetData(model, data)
    lower(model, data, np.zeros(3), np.array([0.0, 0.0, 1.0]))
    mujoco.mj_kinematics(model, data)
    assert mujoco.mj_geomDistance(model, data, 0, 1, 10.0, None) == pytest.approx(0.0, abs=1e-5)


def test_a_body_is_lowered_onto_a_slope():
    scene = TASKS.get("unimal-incline-v1").scene
    model = drawing_model(biped(), scene)
    data = mujoco.MjData(model)
    data.qpos[:3] = -5.0, 0.0, 3.0
    angle = np.radians(10.0)
    upward = np.array([-np.sin(angle), 0.0, np.cos(angle)])
    lower(model, data, upward, upward)  # the surface of a box 1 m thick above the origin
    mujoco.mj_kinematics(model, data)
    distances = [
        mujoco.mj_geomDistance(model, data, 0, geom, 10.0, None) for geom in range(1, model.ngeom)
    ]
    assert min(distances) == pytest.approx(0.0, abs=1e-6)
    assert data.qpos[0] < -4.0


@pytest.mark.parametrize("name", ["unimal-ft-v1", "unimal-exploration-v1"])
@pytest.mark.parametrize("square", [0.5, 1.0])
@pytest.mark.usefixtures("drawing")
def test_squares_have_the_size_that_is_promised(name, square):
    model = drawing_model(biped(), TASKS.get(name).scene, square=square)
    model.light_castshadow[:] = 0
    data = mujoco.MjData(model)
    data.qpos[:2] = 70.0  # out of the picture
    above = View(azimuth=90.0, elevation=-90.0)
    distance = 2.0 / np.tan(np.radians(FIELD_OF_VIEW / 2))  # 4 m are 200 pixels
    with Canvas(200, 200) as canvas:
        canvas.show(model)
        picture = canvas.draw(data, np.array([30.0, 0.3 * square, 1.0]), distance, above)
    edges = np.flatnonzero(np.abs(np.diff(picture.astype(int).sum(axis=2)[100])) > 40)
    assert np.diff(edges) == pytest.approx(50 * square, abs=1)
    assert len(edges) >= 3
