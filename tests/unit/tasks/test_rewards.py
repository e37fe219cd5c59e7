import numpy as np

from gmc_bench.tasks.rewards import forward_velocity, newly_visited_cells, speed_along_slope
from gmc_bench.tasks.spec import Transition


def _transition(**changes):
    values = {
        "torso_before": np.array([[0.0, 0.0, 1.0], [5.0, 1.0, 1.0], [1.0, 0.0, 1.0]]),
        "torso_after": np.array([[0.1, 7.0, 1.0], [4.98, 1.0, 9.0], [1.0, 0.0, 1.0]]),
        "standing_height": np.ones(3),
        "ground_height": 1.0,
        "control_dt": 0.02,
    }
    return Transition(**values | changes)


def test_forward_velocity_is_distance_along_x_over_time():
    np.testing.assert_allclose(forward_velocity(_transition()), [5.0, -1.0, 0.0], atol=1e-12)


def test_speed_along_a_slope_is_longer_than_its_part_along_x():
    # cos(60 degrees) = 1 / 2
    found = speed_along_slope(60.0)(_transition())
    np.testing.assert_allclose(found, [10.0, -2.0, 0.0], atol=1e-12)


def test_new_cells_are_the_transitions_own():
    new_cells = np.array([1.0, 0.0, 1.0])
    assert newly_visited_cells(_transition(new_cells=new_cells)).tolist() == [1.0, 0.0, 1.0]
    assert newly_visited_cells(_transition()).tolist() == [0.0, 0.0, 0.0]
