import numpy as np

from gmc_bench.tasks.metrics import distance_along_slope, position_x, visited_cells
from gmc_bench.tasks.spec import Transition


def _transition(**changes):
    values = {
        "torso_before": np.zeros((2, 3)),
        "torso_after": np.array([[3.0, 7.0, 1.0], [-1.0, 0.0, 5.0]]),
        "standing_height": np.ones(2),
        "ground_height": 1.0,
        "control_dt": 0.02,
    }
    return Transition(**values | changes)


def test_position_is_the_torsos_x_and_a_copy_of_it():
    transition = _transition()
    found = position_x(transition)
    transition.torso_after[:] = 0.0
    assert found.tolist() == [3.0, -1.0]


def test_distance_along_a_slope_counts_from_the_start():
    found = distance_along_slope(60.0, 1.0)(_transition())
    np.testing.assert_allclose(found, [4.0, -4.0])  # cos(60 degrees) = 1 / 2


def test_visited_cells_is_one_number_per_row():
    assert visited_cells(_transition(num_cells=np.array([4.0, 9.0]))).tolist() == [4.0, 9.0]
    assert visited_cells(_transition()).tolist() == [0.0, 0.0]
