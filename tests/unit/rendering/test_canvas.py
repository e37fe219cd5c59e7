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
