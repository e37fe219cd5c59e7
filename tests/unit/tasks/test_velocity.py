"""The description of velocity tracking: what it holds, refuses, and how it is measured."""

from dataclasses import fields, replace

import pytest

from gmc_bench.core.config import definition_digest
from gmc_bench.core.errors import ConfigError
from gmc_bench.robots.friction import FRICTION_PAIRS, FrictionPair
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.quadruped_velocity import TASK
from gmc_bench.tasks.velocity import Commands, Disturbances, Rewards, VelocityTask

LOW = FRICTION_PAIRS["low"]


def test_the_task_is_registered_and_in_its_suite():
    assert TASKS.get("quadruped-velocity-v1") is TASK
    assert SUITES.load("quadruped-friction-v1").tasks == (TASK.id,)
    assert TASK.parts == "actuators"
    assert TASK.termination_names == ("fell",)


def test_control_is_at_50_hz_and_an_episode_lasts_20_s():
    assert TASK.num_substeps * 0.005 == pytest.approx(0.02)
    assert TASK.horizon * 0.02 == pytest.approx(20.0)
    assert TASK.friction_rule == "two-state"


def test_training_meets_nominal_friction_only():
    assert TASK.disturbances.friction == (FRICTION_PAIRS["nominal"],)
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
        "vertical": -2.0,
        "roll_pitch": -0.05,
        "tilt": -2.5,
        "torque": -0.02,
        "acceleration": -2.5e-7,
        "action_rate": -0.01,
        "air_time": 0.25,
        "joint_limits": -1.0,
        "cut_off": 1.0,
    }
    assert TASK.rewards.sigma == 0.25


def test_every_weight_is_a_reward_term():
    weights = TASK.reward_weights
    terms = {part.name for part in fields(Rewards)} - {"sigma", "only_positive"}
    assert set(weights) == terms | {"cut_off"}
    signed = replace(TASK, rewards=replace(TASK.rewards, only_positive=False))
    assert set(signed.reward_weights) == terms
    rewarded = {name for name in terms if weights[name] > 0.0}
    assert rewarded == {"track_linear", "track_yaw", "progress", "air_time"}
    heavier = replace(TASK, rewards=replace(TASK.rewards, tilt=-7.0))
    assert heavier.reward_weights == {**weights, "tilt": -7.0}


def test_fixed_commands_have_no_spread():
    commands = Commands.fixed(1.0, 0.2, -0.3)
    assert (commands.forward, commands.lateral, commands.yaw) == (
        (1.0, 1.0),
        (0.2, 0.2),
        (-0.3, -0.3),
    )
    assert commands.standing == 0.0
    assert commands.resample_s > TASK.horizon * 0.02


def test_measuring_changes_disturbances_and_nothing_else():
    commands = Commands.fixed(1.0)
    measured = TASK.undisturbed(LOW, commands, rough_share=1.0)
    assert measured.commands == commands
    assert measured.rough_share == 1.0
    assert TASK.undisturbed(LOW, commands).rough_share == 0.0
    calm = measured.disturbances
    assert calm.friction == (LOW,)
    assert (calm.base_mass, calm.strength) == ((1.0, 1.0), (1.0, 1.0))
    assert (calm.push, calm.velocity_noise, calm.observation) == (0.0, 0.0, 0.0)
    assert 0.0 < calm.joint_noise < TASK.disturbances.joint_noise
    changed = {"commands", "disturbances", "rough_share"}
    for part in fields(VelocityTask):
        same = getattr(measured, part.name) == getattr(TASK, part.name)
        assert same or part.name in changed


def test_ranges_are_in_order():
    for limits in (
        TASK.commands.forward,
        TASK.commands.lateral,
        TASK.commands.yaw,
        TASK.disturbances.base_mass,
        TASK.disturbances.strength,
        TASK.disturbances.push_s,
    ):
        assert limits[0] < limits[1]


@pytest.mark.parametrize(
    "changes",
    [
        {"rough_share": 0.1},
        {"friction_rule": "mean"},
        {"rewards": replace(TASK.rewards, sigma=0.3)},
        {"disturbances": replace(TASK.disturbances, friction=(FrictionPair(0.5, 0.4),))},
    ],
)
def test_the_content_hash_sees_every_part(changes):
    assert definition_digest(replace(TASK, **changes)) != definition_digest(TASK)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_impossible_shares_are_refused(share):
    with pytest.raises(ConfigError, match=r"must be in \[0, 1\]"):
        replace(TASK, rough_share=share)


def test_a_task_without_friction_is_refused():
    with pytest.raises(ConfigError, match="some friction be given"):
        replace(TASK, disturbances=replace(Disturbances(), friction=()))
