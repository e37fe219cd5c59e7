import numpy as np

from gmc_bench.tasks.rewards import forward_velocity
from gmc_bench.tasks.spec import Transition


def test_forward_velocity_is_distance_along_x_over_time():
    transition = Transition(
        torso_before=np.array([[0.0, 0.0, 1.0], [5.0, 1.0, 1.0], [1.0, 0.0, 1.0]]),
        torso_after=np.array([[0.1, 7.0, 1.0], [4.98, 1.0, 9.0], [1.0, 0.0, 1.0]]),
        standing_height=np.ones(3),
        ground_height=1.0,
        control_dt=0.02,
    )
    np.testing.assert_allclose(forward_velocity(transition), [5.0, -1.0, 0.0], atol=1e-12)
