import math
from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.tasks import unimal_exploration, unimal_ft, unimal_incline, unimal_obstacles
from gmc_bench.tasks.events import within
from gmc_bench.tasks.metrics import position_x
from gmc_bench.tasks.observations import joint_offset
from gmc_bench.tasks.rewards import forward_velocity
from gmc_bench.tasks.spec import (
    EventTerm,
    MetricTerm,
    ObservationTerm,
    RewardTerm,
    Slope,
    TerminationTerm,
)


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


def test_what_the_environment_reports_itself_is_no_name_for_a_term():
    never = TerminationTerm("time_limit", lambda transition: transition.torso_after[:, 0] > 1e9)
    reward = RewardTerm("failure", 1.0, forward_velocity)
    for changes in (
        {"terminations": (never,)},
        {"terminations": (replace(never, name="diverged"),)},
        {"rewards": (reward,), "failure_cost": 1.0},
        {"rewards": (replace(reward, name="cut_off"),), "only_positive": True},
    ):
        with pytest.raises(ConfigError, match="which the environment reports itself"):
            replace(unimal_ft.TASK, **changes)
    assert replace(unimal_ft.TASK, rewards=(reward,)).reward_weights == {"failure": 1.0}


def test_names_are_unique_among_terms_of_a_kind():
    task = unimal_ft.TASK
    push = EventTerm("push", "base_velocity", within(0.3), every=(1.0, 2.0))
    metric, seen = MetricTerm("x", "m", position_x), ObservationTerm("place", joint_offset)
    for changes in (
        {"terminations": 2 * task.terminations},
        {"metrics": (metric, replace(metric, unit="cm"))},
        {"observations": (seen, replace(seen, scale=2.0))},
        {"events": (push, push)},
    ):
        with pytest.raises(ConfigError, match="names must be unique"):
            replace(task, **changes)
