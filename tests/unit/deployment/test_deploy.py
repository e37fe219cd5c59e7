"""Trials are run on the grounds that a task has, and shown as they were run."""

import json
from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError, StorageError
from gmc_bench.deployment import deploy as module
from gmc_bench.deployment.deploy import DeployOptions, require_room
from gmc_bench.deployment.loop import Latency, TrialOutcome
from gmc_bench.experiments.events import Remark
from gmc_bench.robots import get_robot
from gmc_bench.tasks.motion import SensorNoise
from gmc_bench.tasks.quadruped_velocity import TASK


@pytest.fixture
def run(subject, tmp_path, monkeypatch):
    """Run trials that end at once: the first succeeds, all others fall."""
    used = []

    def trial(robot, policy, kind, task, **options):
        used.append((robot, options))
        ended = "fell" if len(used) > 1 else "success"
        now = Latency.of([])
        return TrialOutcome(
            outcome=ended, reason="", steps=1, mean_velocity=0.0, wanted_velocity=0.5,
            progress=0.0, turned=0.0, policy_ms=now, tick_ms=now, deadline_misses=0,
            states=np.stack([robot.data.qpos, robot.data.qpos]),
        )  # fmt: skip

    def run(task=TASK, **options):
        chosen = DeployOptions(trial="forward", trials=4, **options)
        attempts = module._run(
            chosen, subject.policy, task, chosen.bodies(), tmp_path, lambda _: None
        )
        return list(attempts), used

    monkeypatch.setattr(module, "run_trial", trial)
    return run


def test_floors_take_turns(run):
    attempts, used = run()
    assert [item.conditions.floor for item in attempts] == ["flat", "micro-rough"] * 2
    assert [robot.model.nhfield for robot, _ in used] == [0, 1, 0, 1]


def test_a_task_without_rough_ground_is_tried_on_the_plane_alone(run):
    attempts, used = run(replace(TASK, scene=replace(TASK.scene, rough=None)))
    assert {item.conditions.floor for item in attempts} == {"flat"}
    assert [robot.model.nhfield for robot, _ in used] == [0, 0, 0, 0]
    # Nothing else is drawn otherwise.
    usual, _ = run()
    for one, other in zip(attempts, usual, strict=True):
        assert replace(one.conditions, floor=other.conditions.floor) == other.conditions


def test_options_reach_the_trials(run):
    attempts, used = run(seed=7, seconds=3.0, realtime=False, hold_heading=False)
    for attempt, (robot, options) in zip(attempts, used, strict=True):
        assert attempt.seed == 7
        assert robot.conditions == attempt.conditions
        assert (options["seconds"], options["realtime"], options["hold_heading"]) == (
            3.0, False, False,
        )  # fmt: skip
    other, _ = run(seed=8)
    assert attempts[0].conditions != other[0].conditions


def test_sensors_are_as_noisy_as_the_task_says(run):
    _, used = run(replace(TASK, sensor_noise=SensorNoise(joint_angle=0.3)))
    for robot, _ in used:
        one, other = robot.read(), robot.read()
        assert 0.1 < np.abs(one.joint_angles - other.joint_angles).max() <= 0.6
        np.testing.assert_array_equal(one.joint_velocities, other.joint_velocities)


def test_bodies_of_other_files_are_those_that_are_simulated(run, monkeypatch):
    def heavier(source, ours):
        assert source == "menagerie"
        return [replace(robot, base=replace(robot.base, inertial=heavy)) for robot in ours]

    heavy = replace(get_robot("go2").base.inertial, mass=50.0)
    monkeypatch.setattr(module, "bodies_from", heavier)
    _, used = run(robot_source="menagerie")
    for robot, _ in used:
        factor = robot.conditions.base_mass
        assert robot.model.body("base").mass == pytest.approx(50.0 * factor)


def test_a_trial_lasts_at_least_twice_as_long_as_its_command_rises():
    assert DeployOptions(seconds=2.0).seconds == 2.0
    with pytest.raises(ConfigError, match="give at least 2 s"):
        DeployOptions(seconds=1.99)


@pytest.mark.parametrize(
    ("trial", "longest", "message"),
    [
        ("all", 37.0, "the robot of 'backward-right' gets there; give at most 37 s"),
        ("forward", 43.0, "the rough ground ends 24 m from the start.* give at most 43 s"),
    ],
)
def test_no_trial_is_so_long_that_its_robot_leaves_the_rough_ground(
    subject, tmp_path, monkeypatch, trial, longest, message
):
    require_room(DeployOptions(trial=trial, seconds=longest), TASK)
    longer = DeployOptions(trial=trial, seconds=longest + 1.0)
    monkeypatch.setattr(module, "open_policy", lambda path: (subject.policy, TASK))
    with pytest.raises(ConfigError, match=message):
        module.deploy(tmp_path / "walk.onnx", longer, tmp_path / "report")
    assert not (tmp_path / "report").exists()
    require_room(longer, replace(TASK, scene=replace(TASK.scene, rough=None)))
    require_room(replace(longer, trials=1), TASK)  # on the plane


def test_films_are_of_the_trials_that_were_asked_for(run, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(module, "write_video", lambda *given: written.append(given))
    run(video="first", robot="go1")
    paths, films, _ = zip(*written, strict=True)
    assert paths == tuple(tmp_path / "videos" / f"forward_go1_{n}.mp4" for n in (1, 2))
    assert [film.title for film in films] == [
        "go1, forward walking, trial 1 (simulated)", "go1, forward walking, trial 2 (simulated)",
    ]  # fmt: skip
    assert [(film.ending, film.control_dt) for film in films] == [("success", 0.02), ("fell", 0.02)]
    assert [film.model.nhfield for film in films] == [0, 1]
    assert films[0].states.shape == (2, 19)


@pytest.mark.parametrize("error", [KeyboardInterrupt, StorageError("the disk is full")])
@pytest.mark.usefixtures("run")
def test_trials_before_an_interruption_are_reported(subject, tmp_path, monkeypatch, error):
    def stop(*_):
        raise error

    monkeypatch.setattr(module, "open_policy", lambda path: (subject.policy, TASK))
    monkeypatch.setattr(module, "require_video", lambda: None)
    monkeypatch.setattr(module, "write_video", stop)
    options, told = DeployOptions(trial="forward", trials=4, video="failed"), []
    with pytest.raises(error if isinstance(error, type) else type(error)):
        module.deploy(tmp_path / "walk.onnx", options, tmp_path / "report", listener=told.append)
    assert told[-1] == Remark(f"report of the trials so far: {tmp_path / 'report'}")
    text = (tmp_path / "report" / "table.md").read_text()
    assert "Incomplete: stopped after 2 of 4 trials." in text  # the second fell, and was filmed
    content = json.loads((tmp_path / "report" / "deploy.json").read_text())
    assert [item["outcome"] for item in content["trials"]] == ["success", "fell"]
