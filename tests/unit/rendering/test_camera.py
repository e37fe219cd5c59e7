"""The whole body stays in the picture."""

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped
from gmc_bench.rendering.camera import SMOOTHING, View, fit_distance, follow, outline
from gmc_bench.rendering.scene import drawing_model
from gmc_bench.tasks.unimal_ft import TASK


def test_a_level_camera_fits_a_sphere_by_hand():
    # Looking along +y at a sphere of radius 1: half the view is atan(0.5) up, so it touches the
    # upper edge at a distance of 1 / sin(atan(0.5)) = sqrt(5).
    view = View(azimuth=90.0, elevation=0.0, share_x=1.0, share_y=1.0)
    view_angle = 2 * np.degrees(np.arctan(0.5))
    origin = np.zeros((1, 3))
    fitted = fit_distance(origin[None], np.ones(1), origin, view, view_angle, 1.0)
    assert fitted == pytest.approx(np.sqrt(5))
    # In a picture half as wide as high, its width decides: half the view is atan(0.25).
    fitted = fit_distance(origin[None], np.ones(1), origin, view, view_angle, 0.5)
    assert fitted == pytest.approx(np.sqrt(17))
    # Two metres to the right and one towards the camera, a point needs 2 / 0.5 + 1.
    point = np.array([[[2.0, -1.0, 0.0]]])
    fitted = fit_distance(point, np.zeros(1), origin, view, view_angle, 1.0)
    assert fitted == pytest.approx(5.0)


def test_axes_are_those_of_the_engine():
    forward, right, up = View(azimuth=90.0, elevation=0.0).axes
    np.testing.assert_allclose([forward, right, up], [[0, 1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-12)
    assert View(elevation=-30.0).axes[0][2] == pytest.approx(-0.5)


def test_the_camera_follows_without_lag_and_without_shaking():
    dt = 0.02
    time = np.arange(400) * dt
    torso = np.stack([2 * time, 0.05 * np.sin(2 * np.pi * 2 * time), 0 * time], axis=1)
    points = follow(torso, 0.7, dt)
    inner = slice(round(3 * SMOOTHING / dt), -round(3 * SMOOTHING / dt))
    np.testing.assert_allclose(points[inner, 0], torso[inner, 0], atol=1e-9)
    assert np.abs(points[inner, 1]).max() < 0.001
    assert set(points[:, 2]) == {0.7}
    assert follow(torso[:1], 0.7, dt).shape == (1, 3)


def test_the_camera_climbs_with_the_ground_and_does_not_jump_at_a_step():
    dt = 0.02
    torso = np.zeros((400, 3))
    rising = 0.5 + 0.01 * np.arange(400)
    inner = slice(round(3 * SMOOTHING / dt), -round(3 * SMOOTHING / dt))
    np.testing.assert_allclose(follow(torso, rising, dt)[inner, 2], rising[inner], atol=1e-9)
    step = np.where(np.arange(400) < 200, 1.0, 1.2)
    heights = follow(torso, step, dt)[:, 2]
    assert heights[0] == pytest.approx(1.0)
    assert heights[-1] == pytest.approx(1.2)
    assert heights[199:201].mean() == pytest.approx(1.1)
    assert 0 < np.diff(heights).max() < 0.005


def test_the_outline_covers_the_ends_of_every_limb():
    model = drawing_model(biped(), TASK.scene)
    data = mujoco.MjData(model)
    centers, radii = outline(model, data.qpos[None])
    count = biped().num_limbs
    assert centers.shape == (1, 2 * count, 3)
    for index, limb in enumerate(biped().limbs):
        body = model.body(index + 1)
        mujoco.mj_kinematics(model, data)
        turn = data.xmat[body.id].reshape(3, 3)
        ends = {
            tuple(np.round(data.xpos[body.id] + turn @ np.array(end), 6))
            for end in (limb.geom.start, limb.geom.end)
        }
        if limb.geom.kind == "sphere":
            ends = {tuple(np.round(data.xpos[body.id] + turn @ np.array(limb.geom.start), 6))}
        found = {tuple(np.round(centers[0, place], 6)) for place in (index, index + count)}
        assert found == ends
        assert radii[index] == radii[index + count] == limb.geom.radius


def test_the_outline_holds_the_corners_of_other_shapes():
    model = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><body><freejoint/><geom type="box" size="0.3 0.4 1.2"/>'
        '<geom type="cylinder" size="0.3 0.4"/></body></worldbody></mujoco>'
    )
    _, radii = outline(model, model.qpos0[None])
    np.testing.assert_allclose(radii, [1.3, 0.5, 1.3, 0.5])
