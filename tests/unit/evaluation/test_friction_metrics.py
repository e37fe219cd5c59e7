"""Friction metrics of motions made up by hand."""

from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.evaluation.friction_metrics import (
    Track,
    macro_average,
    make_result,
    single_life_metrics,
    tracking_metrics,
)
from gmc_bench.robots.go1 import GO1
from gmc_bench.robots.model import compile_robot
from gmc_bench.sim.model import drive_model
from gmc_bench.suites.measured import FrictionMeasurement
from gmc_bench.tasks.quadruped_velocity import TASK

COMMAND = (1.0, 0.0)


@pytest.fixture
def track():
    """Four steps of two environments; the second one falls in its second step."""
    velocity = np.zeros((4, 2, 2))
    velocity[:, 0] = [1.0, 0.0]
    velocity[:, 1] = [[1.0, 0.0], [0.0, 2.0], [0.5, 0.0], [0.5, 0.0]]
    advance = np.array([[0.02, 0.02], [0.02, -0.1], [0.02, 0.01], [0.02, 0.01]])
    fell, time_up = np.zeros((4, 2), bool), np.zeros((4, 2), bool)
    fell[1, 1] = True
    time_up[3, 0] = True
    tilt = np.radians([[0.0, 0.0], [0.0, 80.0], [10.0, 0.0], [0.0, 0.0]])
    return Track(
        velocity=velocity,
        advance=advance,
        walked=np.abs(advance) * 10,
        slipped=np.full((4, 2), 0.05),
        tilt=tilt,
        astray=np.array([[0.0, 0.3], [0.0, -0.4], [0.0, 0.0], [0.0, 0.0]]),
        fell=fell,
        time_up=time_up,
        diverged=np.zeros((4, 2), bool),
    )


def test_every_step_counts_and_falls_are_counted_per_finished_episode(track):
    found = tracking_metrics(track, COMMAND)
    # Errors of the second one: 0, (1, 2), 0.5, 0.5.
    assert found["velocity_rmse"] == pytest.approx((0.0 + np.sqrt((5.0 + 0.25 + 0.25) / 4)) / 2)
    assert found["forward_rmse"] == pytest.approx((0.0 + np.sqrt((1.0 + 0.25 + 0.25) / 4)) / 2)
    assert found["turn_rmse"] == pytest.approx(0.25 / 2)
    assert found["progress"] == pytest.approx((0.08 - 0.06) / 2)
    assert tracking_metrics(track, (0.0, 0.0))["progress"] is None  # there is nowhere to go
    assert found["tilt_rms"] == pytest.approx((np.sqrt(100 / 4) + np.sqrt(6400 / 4)) / 2)
    assert (found["episodes"], found["falls"], found["diverged"]) == (2, 1, 0)
    assert found["fall_rate"] == 50.0
    assert found["walked"] == pytest.approx((0.8 + 1.4) / 2)
    assert found["slip"] == pytest.approx(0.2 / 1.1)


def test_in_a_single_life_nothing_follows_a_fall(track):
    found = single_life_metrics(track, COMMAND)
    # Errors of the second one: 0, (1, 2), then those of standing, 1.
    assert found["velocity_rmse"] == pytest.approx((0.0 + np.sqrt((5.0 + 1.0 + 1.0) / 4)) / 2)
    assert found["forward_rmse"] == pytest.approx((0.0 + np.sqrt(3.0 / 4)) / 2)
    assert found["progress"] == pytest.approx((0.08 - 0.08) / 2)
    assert found["tilt_rms"] == pytest.approx((np.sqrt(100 / 4) + np.sqrt(6400 / 2)) / 2)
    assert found["fall_rate"] == 50.0


def test_a_time_out_is_no_fall_and_does_not_end_a_single_life(track):
    track = replace(track, time_up=track.fell, fell=np.zeros((4, 2), bool))
    assert tracking_metrics(track, COMMAND)["fall_rate"] == 0.0
    life = single_life_metrics(track, COMMAND)
    assert life["fall_rate"] == 0.0
    assert life["progress"] == pytest.approx((0.08 - 0.06) / 2)


def test_a_broken_simulation_is_a_fall_whose_step_is_left_out(track):
    broken = np.zeros((4, 2), bool)
    broken[1, 1] = True
    track = replace(track, fell=np.zeros((4, 2), bool), diverged=broken)
    found = tracking_metrics(track, COMMAND)
    assert (found["falls"], found["diverged"], found["fall_rate"]) == (1, 1, 50.0)
    assert found["progress"] == pytest.approx((0.08 + 0.04) / 2)
    assert found["velocity_rmse"] == pytest.approx(np.sqrt(0.5 / 3) / 2)
    assert found["turn_rmse"] == pytest.approx(np.sqrt(0.3**2 / 3) / 2)
    assert found["tilt_rms"] == pytest.approx(np.sqrt(100 / 4) / 2)
    assert found["walked"] == pytest.approx((0.8 + 0.4) / 2)
    assert found["slipped"] == pytest.approx((0.2 + 0.15) / 2)
    life = single_life_metrics(track, COMMAND)
    assert life["fall_rate"] == 50.0
    assert life["velocity_rmse"] == pytest.approx(np.sqrt(3.0 / 4) / 2)
    assert life["tilt_rms"] == pytest.approx(np.sqrt(100 / 4) / 2)


def test_standing_still_is_the_baseline_of_every_metric():
    track = Track.empty(50, 3)
    track.time_up[-1] = True
    found = tracking_metrics(track, COMMAND)
    assert {name: found[name] for name in ("velocity_rmse", "progress", "tilt_rms")} == {
        "velocity_rmse": 1.0, "progress": 0.0, "tilt_rms": 0.0,
    }  # fmt: skip
    assert (found["fall_rate"], found["episodes"]) == (0.0, 3)
    assert found["slip"] is None  # nobody walked


@pytest.mark.parametrize(("walked", "slip"), [(0.09, None), (0.11, 0.5 / 0.11)])
def test_slip_per_metre_needs_a_tenth_of_a_metre(walked, slip):
    track = Track.empty(2, 2)
    track.walked[:] = [[walked, walked], [0.0, 0.0]]
    track.slipped[:] = 0.25
    found = tracking_metrics(track, COMMAND)["slip"]
    assert found == (None if slip is None else pytest.approx(slip))


def test_without_a_finished_episode_there_is_no_fall_rate():
    assert tracking_metrics(Track.empty(5, 1), COMMAND)["fall_rate"] is None


def test_a_result_says_what_was_measured_where(track):
    compiled = drive_model(compile_robot(GO1), TASK.scene)
    measurement = FrictionMeasurement(num_envs=2, seconds=0.08, forward=1.0)
    found = make_result(track, measurement.conditions[0], compiled, measurement)
    assert (found["robot"], found["friction"], found["rule"]) == ("go1", "low", "two-state")
    assert (found["direction"], found["heading"]) == (None, "held")
    turns = make_result(track, measurement.conditions[-1], compiled, measurement)
    assert (turns["friction"], turns["direction"], turns["heading"]) == (
        "nominal", "turn-right", "free",
    )  # fmt: skip
    assert (found["static"], found["dynamic"], found["cone"]) == (0.3, 0.2, "elliptic")
    assert (found["impratio"], found["sim_dt"]) == (10.0, 0.005)
    assert (found["seconds"], found["num_envs"]) == (pytest.approx(0.08), 2)
    assert found["command"] == [1.0, 0.0, 0.0]
    assert found["restarts"] == tracking_metrics(track, COMMAND)
    assert found["single_life"] == single_life_metrics(track, COMMAND)


def test_a_macro_average_counts_every_robot_the_same_and_invents_nothing():
    results = [
        {"restarts": {"progress": 1.0, "slip": 0.5, "episodes": 100, "diverged": 2}},
        {"restarts": {"progress": 4.0, "slip": None, "episodes": 1, "diverged": 0}},
    ]
    assert macro_average(results, "restarts") == {"progress": 2.5, "slip": None}


def test_rows_of_a_track_can_be_taken_apart(track):
    alone = track.rows(np.array([True, False]))
    assert alone.velocity.shape == (4, 1, 2)
    assert tracking_metrics(alone, COMMAND)["falls"] == 0
