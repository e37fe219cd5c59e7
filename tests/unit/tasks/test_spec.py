import math

import numpy as np

from gmc_bench.tasks import unimal_exploration, unimal_ft, unimal_incline, unimal_obstacles
from gmc_bench.tasks.spec import Slope


def test_a_slope_is_looked_up_in_cells_of_a_tenth_of_a_metre_in_whole_millimetres():
    slope = Slope(rise=0.5, half_length=10.0, half_width=2.0)
    places = np.array([[0.0, 0.0], [0.16, 1.0], [-0.01, -1.0], [9.99, 0.0]])
    found = slope.height(np.c_[places, np.zeros(4)], 1.0)
    np.testing.assert_allclose(found, [1.0, 1.05, 0.95, 5.95], atol=1e-12)
    third = Slope(rise=1 / 3, half_length=10.0, half_width=2.0)
    assert third.height(np.array([[0.15, 0.0, 0.0]]), 1.0).tolist() == [1.033]


def test_beyond_a_slope_there_is_nothing():
    slope = Slope(rise=0.5, half_length=10.0, half_width=2.0)
    places = np.array([[10.0, 0.0, 0.0], [-10.01, 0.0, 0.0], [0.0, 2.0, 0.0], [math.nan, 0.0, 0.0]])
    assert slope.height(places, 1.0).tolist() == [-10.0] * 4


def test_only_random_terrain_has_a_height_map():
    tasks = (unimal_ft, unimal_incline, unimal_exploration, unimal_obstacles)
    assert [module.TASK.num_heights for module in tasks] == [0, 0, 0, 1410]
