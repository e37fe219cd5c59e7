from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.tasks.spec import Transition
from gmc_bench.tasks.terminations import beside_track, fallen


def _transition(heights, standing):
    after = np.zeros((len(heights), 3))
    after[:, 2] = heights
    return Transition(
        torso_before=np.full_like(after, np.nan),
        torso_after=after,
        standing_height=np.asarray(standing, np.float64),
        ground_height=1.0,
        control_dt=0.02,
    )


@pytest.mark.parametrize(
    ("height", "standing", "fell"),
    [
        (1.5, 0.8, False),
        (1.401, 0.8, False),  # 0.401 m is above half of 0.8 m
        (1.4, 0.8, True),  # the limit itself counts
        (1.4004, 0.8, True),  # 0.4004 m is rounded to 0.400 m
        (1.4006, 0.8, False),  # and 0.4006 m to 0.401 m
        (0.2, 0.8, True),  # below the ground
        (1.1, 0.1, False),  # a torso that lies on the floor is 0.1 m high: it cannot fall
    ],
)
def test_fallen_compares_the_height_above_ground_with_half_the_standing_height(
    height, standing, fell
):
    assert fallen(0.5)(_transition([height], [standing])).tolist() == [fell]


def test_fallen_judges_every_body_by_its_own_height_and_the_given_ratio():
    transition = _transition([1.3, 1.3, 1.3], [0.4, 0.8, 1.2])
    assert fallen(0.5)(transition).tolist() == [False, True, True]
    assert fallen(0.3)(transition).tolist() == [False, False, True]
    assert fallen(0.9)(transition).tolist() == [True, True, True]


def test_fallen_judges_every_body_by_the_ground_under_it():
    transition = replace(
        _transition([1.3, 1.3, -9.5], [0.4, 0.4, 0.4]), ground_height=np.array([1.0, 1.2, -10.0])
    )
    assert fallen(0.5)(transition).tolist() == [False, True, False]


def test_beside_the_track_counts_from_its_edge_on_to_both_sides():
    transition = _transition([1.0] * 5, [1.0] * 5)
    transition.torso_after[:, 1] = [-19.01, -19.0, -18.99, 18.99, 19.0]
    assert beside_track(19.0)(transition).tolist() == [True, True, False, False, True]
