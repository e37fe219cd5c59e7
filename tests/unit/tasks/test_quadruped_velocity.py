"""The description of velocity tracking: what it holds, refuses, and how it is measured."""

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

from gmc_bench.core.config import definition_digest, to_dict
from gmc_bench.core.errors import ConfigError
from gmc_bench.robots.friction import FRICTION_PAIRS, FrictionPair
from gmc_bench.sim.model import RoughGround
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS, events
from gmc_bench.tasks import velocity_rewards as rewards
from gmc_bench.tasks.commands import VelocityCommand, velocity_command
from gmc_bench.tasks.motion import SensorNoise
from gmc_bench.tasks.quadruped_velocity import SIGMA, TASK, undisturbed
from gmc_bench.tasks.spec import Draw, RewardTerm, Slope, Task, VisitGrid
from gmc_bench.tasks.terminations import tumbled
from gmc_bench.tasks.unimal_ft import TASK as UNIMAL_FT

LOW = FRICTION_PAIRS["low"]


def test_the_task_is_registered_and_in_its_suite():
    assert TASKS.get("quadruped-velocity-v3") is TASK
    assert SUITES.load("quadruped-friction-v3").tasks == (TASK.id,)
    assert TASK.parts == "actuators"
    assert TASK.termination_names == ("fell",)


def test_control_is_at_50_hz_and_an_episode_lasts_20_s():
    assert TASK.scene.num_substeps * 0.005 == pytest.approx(0.02)
    assert TASK.horizon * 0.02 == pytest.approx(20.0)
    assert TASK.scene.friction_rule == "two-state"


def test_training_meets_nominal_friction_only():
    (friction,) = (event for event in TASK.events if event.target == "friction")
    drawn = friction.function(Draw(lambda count: np.zeros((2, count)), 2, 12))
    np.testing.assert_array_equal(drawn, [[0.8, 0.6]] * 2)
    assert [(p.static, p.dynamic) for p in FRICTION_PAIRS.values()] == [
        (0.3, 0.2),
        (0.8, 0.6),
        (1.2, 1.0),
    ]


def test_the_weights_of_the_rewards_are_these():
    assert TASK.reward_weights == {
        "track_linear": 1.5,
        "track_yaw": 0.75,
        "progress": 2.5,
        "turning": 0.75,
        "vertical": -2.0,
        "roll_pitch": -0.05,
        "tilt": -2.5,
        "height": -10.0,
        "torque": -0.02,
        "acceleration": -2.5e-7,
        "action_rate": -0.01,
        "air_time": 0.25,
        "joint_limits": -1.0,
        "cut_off": 1.0,
        "failure": -2.0,
    }
    assert SIGMA == 0.25


def test_what_is_drawn_has_these_ranges():
    drawn = {
        event.name: [
            event.function(Draw(lambda count, at=end: np.full((1, count), at), 1, 12))
            for end in (-1.0, 1.0)
        ]
        for event in TASK.events
        if event.target != "friction"
    }
    expected = {
        "motor_strength": ((1,), 0.9, 1.1),
        "base_mass": ((1,), 0.85, 1.15),
        "start_place": ((1, 2), -1.0, 1.0),  # m
        "start_heading": ((1,), -np.pi, np.pi),
        "start_velocity": ((1, 6), -0.2, 0.2),  # m/s and rad/s
        "start_pose": ((1, 12), -0.1, 0.1),  # rad
        "push": ((1, 2), -0.3, 0.3),  # m/s
    }
    assert drawn.keys() == expected.keys()
    for name, (shape, low, high) in expected.items():
        for found, end in zip(drawn[name], (low, high), strict=True):
            np.testing.assert_allclose(found, np.full(shape, end), err_msg=name)
    timed = {event.name: event.every for event in TASK.events if event.every}
    assert timed == {"push": (10.0, 15.0)}  # s
    assert TASK.scene.rough == RoughGround(share=0.25, height=0.035)  # of the length of a leg
    assert to_dict(TASK.sensor_noise) == {
        "base_linear_velocity": 0.1,
        "base_angular_velocity": 0.2,
        "gravity": 0.05,
        "joint_angle": 0.01,
        "joint_velocity": 1.5,
    }


@pytest.mark.parametrize(("asked", "paid"), [(0.09, (0.0, 0.0, 0.0)), (0.11, (0.05, 1.0, 0.07))])
def test_who_is_hardly_asked_to_move_is_not_paid_for_it(asked, paid):
    """All four feet come down after 0.75 s."""
    motion = SimpleNamespace(
        level_velocity=np.array([[0.05, 0.0]]),
        base_angular_velocity=np.array([[0.0, 0.0, 0.07]]),
        touching=np.ones((1, 4), bool),
        air_time=np.full((1, 4), 0.75),
    )
    step = SimpleNamespace(command=np.array([[asked, 0.0, asked]]), motion=motion)
    terms = (rewards.progress, rewards.long_steps, rewards.turning)
    assert [term(step)[0] for term in terms] == pytest.approx(paid)


def test_the_cut_off_is_a_term_of_its_own():
    signed = replace(TASK, only_positive=False, failure_cost=0.0)
    assert {**signed.reward_weights, "cut_off": 1.0, "failure": -2.0} == TASK.reward_weights
    rewarded = {name for name, weight in signed.reward_weights.items() if weight > 0.0}
    assert rewarded == {"track_linear", "track_yaw", "progress", "turning", "air_time"}


def test_two_terms_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two terms named 'tilt'"):
        replace(TASK, rewards=(*TASK.rewards, RewardTerm("tilt", -7.0, rewards.tilted_base)))


def test_fixed_commands_have_no_spread():
    command = VelocityCommand.fixed(1.0, 0.2, -0.3)
    assert (command.forward, command.lateral, command.yaw) == (
        (1.0, 1.0),
        (0.2, 0.2),
        (-0.3, -0.3),
    )
    assert command.standing == 0.0
    assert command.resample_s > TASK.horizon * 0.02


def test_only_tasks_with_velocity_commands_have_one():
    assert velocity_command(TASK) == VelocityCommand()
    with pytest.raises(ConfigError, match="commands no velocities"):
        velocity_command(UNIMAL_FT)


def test_measuring_changes_what_disturbs_and_nothing_else():
    command = VelocityCommand.fixed(1.0)
    measured = undisturbed(TASK, LOW, command)
    assert measured.command == command
    assert measured.scene.rough is None
    assert measured.sensor_noise == SensorNoise()
    assert [event.name for event in measured.events] == ["friction", "start_place", "start_pose"]
    assert all(event.every is None for event in measured.events)
    changed = {"command", "events", "scene", "sensor_noise"}
    for part in fields(Task):
        same = getattr(measured, part.name) == getattr(TASK, part.name)
        assert same != (part.name in changed), part.name
    assert replace(measured.scene, rough=TASK.scene.rough) == TASK.scene


OTHER_VALUES = {
    "id": ["other-v1"],
    "title": ["Other"],
    "description": ["Other."],
    "scene": [
        replace(TASK.scene, rough=RoughGround(share=0.1)),
        replace(TASK.scene, friction_rule="mean"),
    ],
    "rewards": [
        (replace(TASK.rewards[0], function=rewards.tracked_velocity(0.3)), *TASK.rewards[1:])
    ],
    "terminations": [(replace(TASK.terminations[0], function=tumbled(60.0, 1.0)),)],
    "ground_height": [0.1],
    "horizon": [999],
    "source": [""],
    "metrics": [()],
    "floor_clearance": [0.3],
    "reset_noise": [0.0],
    "slope": [Slope(rise=0.1, half_length=1.0, half_width=1.0)],
    "grid": [VisitGrid(low=(0.0, 0.0), shape=(2, 2), cell_size=1.0)],
    "parts": ["limbs"],
    "observations": [(replace(TASK.observations[0], scale=0.5), *TASK.observations[1:])],
    "sensor_noise": [SensorNoise()],
    "command": [VelocityCommand(held=0.4)],
    "events": [
        (
            replace(TASK.events[0], function=events.one_of_pairs((FrictionPair(0.5, 0.4),))),
            *TASK.events[1:],
        )
    ],
    "reward_rates": [False],
    "only_positive": [False],
    "failure_cost": [0.0],
    "action_clip": [None],
}


@pytest.mark.parametrize("name", [part.name for part in fields(Task)])
def test_the_content_hash_sees_every_part(name):
    for value in OTHER_VALUES[name]:
        assert definition_digest(replace(TASK, **{name: value})) != definition_digest(TASK)


@pytest.mark.parametrize(("share", "height"), [(1.5, 0.1), (-0.1, 0.1), (0.5, 0.0)])
def test_impossible_rough_ground_is_refused(share, height):
    with pytest.raises(ConfigError, match="rough ground needs"):
        RoughGround(share=share, height=height)


def test_rough_ground_of_no_finite_numbers_is_refused():
    with pytest.raises(ConfigError, match="the height of rough ground must be a finite number"):
        RoughGround(height=float("inf"))
    with pytest.raises(ConfigError, match="the share of rough ground must be a finite number"):
        RoughGround(share="a quarter")
