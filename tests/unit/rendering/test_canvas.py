"""Bodies are seen whole and in their colours."""

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, star
from gmc_bench.rendering.camera import View, fit_distance, outline
from gmc_bench.rendering.canvas import Canvas
from gmc_bench.rendering.scene import FIELD_OF_VIEW, drawing_model, rest_state
from gmc_bench.rendering.stills import STUDIO, draw_still

pytestmark = pytest.mark.usefixtures("drawing")


def saturated(picture):
    """Return (height, width) bool: pixels of a coloured limb; floor and sky are pale."""
    wide = picture.astype(int)
    return wide.max(axis=2) - wide.min(axis=2) > 90


def test_the_body_is_in_the_share_of_the_picture_it_was_fitted_to():
    view = View(share_x=0.5, share_y=0.5)
    model = drawing_model(star(4), STUDIO)
    data = rest_state(model)
    centers, radii = outline(model, data.qpos[None])
    point = centers[0].mean(axis=0)
    distance = fit_distance(centers, radii, point[None], view, FIELD_OF_VIEW, 2.0)
    with Canvas(240, 120) as canvas:
        canvas.show(model)
        rows, columns = np.nonzero(saturated(canvas.draw(data, point, distance, view)))
    assert rows.min() >= 30 - 1
    assert rows.max() <= 90 + 1
    assert columns.min() >= 60 - 1
    assert columns.max() <= 180 + 1
    # One of the two shares is used up.
    assert min(rows.min() - 30, 90 - rows.max(), columns.min() - 60, 180 - columns.max()) <= 3


def test_what_is_higher_is_drawn_higher_and_x_points_to_the_right():
    model = drawing_model(star(4), STUDIO)
    data, view = rest_state(model), View(azimuth=90.0)

    def middle(*offset):
        """Return the mean row and column of a body that stands so far from what is looked at."""
        point = data.qpos[:3] - np.array(offset)
        rows, columns = np.nonzero(saturated(canvas.draw(data, point, 8.0, view)))
        return np.array([rows.mean(), columns.mean()])

    with Canvas(96, 96) as canvas:
        canvas.show(model)
        usual, above, ahead = middle(0, 0, 0), middle(0, 0, 0.8), middle(0.8, 0, 0)
    # 8 m away, half the picture is 8 tan(17.5 degrees) = 2.5 m, so that 0.8 m are 15 pixels.
    np.testing.assert_allclose(above - usual, [-15.0, 0.0], atol=2.0)
    np.testing.assert_allclose(ahead - usual, [0.0, 15.0], atol=2.0)


def test_pictures_do_not_depend_on_what_was_drawn_before():
    with Canvas(96, 96) as canvas:
        first = draw_still(biped(), canvas)
        other = draw_still(star(4), canvas)
        again = draw_still(biped(), canvas)
    assert (first == again).all()
    assert (first != other).any()
    assert first.shape == (96, 96, 3)


def test_it_is_neither_dark_nor_burnt_out():
    with Canvas(96, 96) as canvas:
        picture = draw_still(biped(), canvas)
    assert 120 < picture.mean() < 220
    assert (picture.max(axis=2) == 255).mean() < 0.1
