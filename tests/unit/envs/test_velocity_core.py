"""Actions, observations, rewards and ends of velocity tracking, each computed a second time."""

import math
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import chain
from gmc_bench.core.errors import ConfigError, TokenOverflowError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.robots import ROBOTS
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.sim.kernels import next_uniform
from gmc_bench.tasks.commands import VelocityCommand
from gmc_bench.tasks.quadruped_velocity import NOISE, SIGMA, TASK, undisturbed
from gmc_bench.tokens.spec import TokenSpec
from tests.support.actuation import to_native

NAMES = tuple(ROBOTS)
BODIES = list(ROBOTS.values())
CALM = undisturbed(TASK, FRICTION_PAIRS["nominal"], VelocityCommand.fixed(0.5, 0.1, 0.3))
DT = 0.02
UNITREE = ("FL", "FR", "RL", "RR"), ("hip_joint", "thigh_joint", "calf_joint")
ANYMAL = ("LF", "RF", "LH", "RH"), ("HAA", "HFE", "KFE")
"""Legs and segments in the shared order, by each maker's names."""


def _core(task=TASK, num_envs=8, seed=0, slots=64):
    core = EnvironmentCore(
        task, BODIES, num_envs, token_spec=TokenSpec(slots, 1, parts="actuators"), num_threads=1
    )
    core.simulator.seed(seed)
    core.reset(np.arange(num_envs), np.arange(num_envs) % len(BODIES))
    return core


def _actions(core, random, size=0.5):
    return random.normal(0.0, size, (core.num_envs, core.spec.max_limbs, 1)).astype(np.float32)


def _rotation(core, row):
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, core.simulator.data(row).qpos[3:7])
    return matrix.reshape(3, 3)


def _joints(core, row):
    """Return angles and velocities (12, 2), read by name."""
    data = core.simulator.data(row)
    names = _robot(core, row).joint_names
    return np.array([(data.joint(name).qpos[0], data.joint(name).qvel[0]) for name in names])


def _robot(core, row):
    return BODIES[core.morphology_index[row]]


@pytest.mark.parametrize("row", range(4), ids=NAMES)
def test_every_token_moves_its_own_joint(row):
    """Hovering robots take the angles that twelve distinct actions ask for."""
    core = _core(CALM, 4)
    data, robot = core.simulator.data(row), BODIES[row]
    core.simulator.model(row).opt.gravity[:] = 0.0
    data.qpos[2] = 5.0
    actions = np.full((4, 64, 1), 9.0, np.float32)  # those of padding go nowhere
    actions[:, :12] = 0.0
    offsets = np.random.default_rng(row).permutation(np.linspace(-0.6, 0.6, 12))
    actions[row, :12, 0] = offsets
    for _ in range(100):
        core.step(actions)
    expected = np.array(robot.pose.angles) + 0.25 * offsets
    legs, segments = ANYMAL if robot.name.startswith("anymal") else UNITREE
    for token in range(12):
        leg, segment = legs[token // 3], segments[token % 3]
        angle = data.joint(f"{leg}_{segment}").qpos[0]
        # Neighbouring offsets differ by 0.027 rad; dry friction takes up to 0.008.
        assert angle == pytest.approx(expected[token], abs=0.01)
    for order, names in robot.native_orders.items():
        native = [data.joint(name).qpos[0] for name in names]
        np.testing.assert_allclose(native, to_native(robot, order, expected), atol=0.01)


def test_actions_are_cut_off():
    first, second = _core(CALM, 4), _core(CALM, 4)
    actions = np.zeros((4, 64, 1), np.float32)
    actions[:, 3] = 1e6
    first.step(actions)
    actions[:, 3] = CALM.action_clip
    second.step(actions)
    np.testing.assert_array_equal(first.dynamic, second.dynamic)
    assert first.action.max() == CALM.action_clip
    first.driven._task = replace(CALM, action_clip=None)
    actions[:, 3] = 1e6
    first.step(actions)
    assert first.action.max() == 1e6


def _plain_observation(core, row, action):
    """Return the dynamic features (12, Fd) without noise."""
    data, robot = core.simulator.data(row), _robot(core, row)
    turn, joints = _rotation(core, row), _joints(core, row)
    soft = np.array(robot.soft_ranges)
    shared = np.concatenate(
        [
            turn.T @ data.qvel[:3],
            0.25 * data.qvel[3:6],
            turn.T @ [0.0, 0.0, -1.0],
            core.command[row],
        ]
    )
    own = np.stack(
        [
            joints[:, 0] - robot.pose.angles,
            0.05 * joints[:, 1],
            action,
            (joints[:, 0] - soft[:, 0]) / (soft[:, 1] - soft[:, 0]),
            (soft[:, 1] - joints[:, 0]) / (soft[:, 1] - soft[:, 0]),
        ],
        axis=1,
    )
    return np.concatenate([np.tile(shared, (12, 1)), own], axis=1)


def test_observations_without_noise():
    core, random = _core(CALM), np.random.default_rng(0)
    actions = np.zeros((8, 64, 1))
    for _ in range(25):
        for row in range(8):
            found = core.dynamic[row]
            expected = _plain_observation(core, row, actions[row, :12, 0])
            np.testing.assert_allclose(found[:12], expected, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(found[12:], 0.0)
        actions = _actions(core, random)
        core.step(actions)


def test_noise_is_even_and_as_wide_as_it_says():
    core, random = _core(replace(CALM, sensor_noise=NOISE), 16), np.random.default_rng(0)
    errors = []
    for _ in range(150):
        actions = _actions(core, random, 0.1)
        core.step(actions)
        expected = [_plain_observation(core, row, actions[row, :12, 0]) for row in range(16)]
        errors.append(core.dynamic[:, :12] - np.stack(expected))
    error = np.concatenate(errors)
    assert error.shape == (2400, 12, 17)
    assert np.ptp(error[:, :, :9], axis=1).max() < 1e-5  # one draw per robot, not per token
    widths = [0.1] * 3 + [0.2 * 0.25] * 3 + [0.05] * 3 + [0.0] * 3 + [0.01, 1.5 * 0.05, 0.0]
    for feature, width in enumerate(widths):
        part = error[:, :, feature]
        assert np.abs(part).max() <= width + 1e-5
        assert part.std() == pytest.approx(width / math.sqrt(3), rel=0.05, abs=1e-6)
        assert abs(part.mean()) < 0.05 * width + 1e-6
    # Both limits see the angle's noise.
    soft = np.array([_robot(core, row).soft_ranges for row in range(16)])
    span = np.tile(np.ptp(soft, axis=2), (150, 1))
    np.testing.assert_allclose(error[:, :, 15] * span, error[:, :, 12], atol=1e-5)
    np.testing.assert_allclose(error[:, :, 16], -error[:, :, 15], atol=1e-5)
    joints = error[:, :, 12].reshape(2400, 12)
    assert np.abs(np.corrcoef(joints.T) - np.eye(12)).max() < 0.1


def test_noise_is_what_each_row_draws():
    """Of the base's velocities and gravity, then of the joints, from copies of the streams."""
    core = _core(replace(CALM, sensor_noise=NOISE), 4)
    streams, actions = core.simulator.streams.copy(), np.zeros((4, 64, 1), np.float32)
    core.step(actions)
    widths = np.repeat([0.1, 0.2 * 0.25, 0.05], 3)
    for row, stream in enumerate(streams):
        drawn = np.array([2.0 * next_uniform(stream) - 1.0 for _ in range(9 + 2 * 12)])
        error = core.dynamic[row, :12] - _plain_observation(core, row, actions[row, :12, 0])
        np.testing.assert_allclose(error[:, :9], np.tile(widths * drawn[:9], (12, 1)), atol=1e-5)
        np.testing.assert_allclose(error[:, 12], 0.01 * drawn[9:21], atol=1e-5)
        np.testing.assert_allclose(error[:, 13], 1.5 * 0.05 * drawn[21:], atol=1e-5)


class _PlainReward:
    """The reward of one row from the engine's state, with its own memory."""

    def __init__(self, core, row):
        self.core, self.row = core, row
        self.air, self.action = np.zeros(4), np.zeros(12)
        self.before()

    def before(self):
        self.velocity = _joints(self.core, self.row)[:, 1]
        self.command = self.core.command[self.row].copy()

    def after(self, action):
        core, row = self.core, self.row
        simulator, data, robot = core.simulator, core.simulator.data(row), _robot(core, row)
        weights, turn, joints = core.task.reward_weights, _rotation(core, row), _joints(core, row)
        heading = math.atan2(turn[1, 0], turn[0, 0])
        cos, sin = math.cos(heading), math.sin(heading)
        level = np.array([[cos, sin], [-sin, cos]]) @ data.qvel[:2]
        np.testing.assert_allclose(core.motion.level_velocity[row], level, atol=1e-8)
        error = ((level - self.command[:2]) ** 2).sum()
        turn_error = (data.qvel[5] - self.command[2]) ** 2
        gravity = turn.T @ [0.0, 0.0, -1.0]
        assert core.motion.tilt[row] == pytest.approx(math.acos(turn[2, 2]), abs=1e-6)
        self.metrics = {
            "velocity_error": math.sqrt(error),
            "tilt": math.degrees(math.acos(turn[2, 2])),
        }
        limits = np.array([link.joint.torque_limit for link in robot.links])
        beyond = 0.0
        for angle, (lower, upper) in zip(joints[:, 0], robot.soft_ranges, strict=True):
            beyond += max(lower - angle, 0.0) + max(angle - upper, 0.0)
        touchdown = 0.0
        for foot in range(4):
            if simulator.drive_state.contacts[row, foot] > 1.0:
                touchdown += self.air[foot] - 0.5 if self.air[foot] > 0.0 else 0.0
                self.air[foot] = 0.0
            else:
                self.air[foot] += DT
        if math.hypot(*self.command[:2]) <= 0.1:
            touchdown = 0.0
        asked = math.hypot(*self.command[:2])
        progress = 0.0
        if asked > 0.1:
            along = float(level @ self.command[:2]) / asked
            progress = along - 2.0 * max(along - asked, 0.0)
        asked, turning = self.command[2], 0.0
        if abs(asked) > 0.1:
            along = math.copysign(1.0, asked) * data.qvel[5]
            turning = along - 2.0 * max(along - abs(asked), 0.0)
        low = max(1.0 - data.qpos[2] / core.motion.joints.base_height[row], 0.0)
        rate = ((action - self.action) ** 2).sum()
        self.action = action
        return {
            "track_linear": weights["track_linear"] * math.exp(-error / SIGMA),
            "track_yaw": weights["track_yaw"] * math.exp(-turn_error / SIGMA),
            "progress": weights["progress"] * progress,
            "turning": weights["turning"] * turning,
            "vertical": weights["vertical"] * (turn.T @ data.qvel[:3])[2] ** 2,
            "roll_pitch": weights["roll_pitch"] * (data.qvel[3] ** 2 + data.qvel[4] ** 2),
            "tilt": weights["tilt"] * (gravity[0] ** 2 + gravity[1] ** 2),
            "height": weights["height"] * low**2,
            "torque": weights["torque"] * (simulator.drive_state.effort[row] / limits**2).sum(),
            "acceleration": weights["acceleration"]
            * (((joints[:, 1] - self.velocity) / DT) ** 2).sum(),
            "action_rate": weights["action_rate"] * rate,
            "air_time": weights["air_time"] * touchdown,
            "joint_limits": weights["joint_limits"] * beyond,
        }


@pytest.mark.parametrize("only_positive", [True, False])
def test_every_reward_term(only_positive):
    # A push changes velocities after the reward.
    still = tuple(event for event in TASK.events if event.name != "push")
    command = replace(TASK.command, resample_s=0.3, standing=0.3)
    task = replace(
        TASK, only_positive=only_positive, failure_cost=0.0, events=still, command=command
    )
    core, random = _core(task, seed=3), np.random.default_rng(1)
    plain = [_PlainReward(core, row) for row in range(8)]
    seen = dict.fromkeys([*task.reward_weights, "cut_off"], 0.0)
    for step in range(60):
        for reward in plain:
            reward.before()
        actions = _actions(core, random, 0.3 if step < 30 else 2.0)
        result = core.step(actions)
        for row, reward in enumerate(plain):
            terms = reward.after(np.clip(actions[row, :12, 0], -4.0, 4.0).astype(np.float64))
            if only_positive:
                terms["cut_off"] = max(-sum(terms.values()), 0.0)
            for name, value in reward.metrics.items():
                assert result.metrics[name][row] == pytest.approx(value, abs=1e-4), name
            assert set(result.reward_terms) == set(terms)
            for name, value in terms.items():
                found = result.reward_terms[name][row]
                assert found == pytest.approx(DT * value, rel=1e-6, abs=1e-9), name
                seen[name] += abs(value)
            total = DT * sum(terms.values())
            assert result.reward[row] == pytest.approx(total, rel=1e-6, abs=1e-9)
    assert all(size > 0.0 for name, size in seen.items() if name != "cut_off" or only_positive)
    assert (result.reward >= -1e-12).all() or not only_positive


def test_a_robot_that_stands_earns_what_can_be_computed_by_hand():
    """At rest, wanted velocities of 1 m/s and 0.5 rad/s: exp(-1 / 0.25) and exp(-0.25 / 0.25)."""
    core = _core(undisturbed(TASK, FRICTION_PAIRS["high"], VelocityCommand.fixed(1.0, 0.0, 0.5)), 4)
    for _ in range(200):
        result = core.step(np.zeros((4, 64, 1), np.float32))
    weights, terms = core.task.reward_weights, result.reward_terms
    expected = DT * weights["track_linear"] * math.exp(-4.0)
    np.testing.assert_allclose(terms["track_linear"], expected, rtol=0.05)
    np.testing.assert_allclose(
        terms["track_yaw"], DT * weights["track_yaw"] * math.exp(-1.0), rtol=0.05
    )
    for name in ("vertical", "roll_pitch", "acceleration", "action_rate", "joint_limits"):
        np.testing.assert_allclose(terms[name], 0.0, atol=1e-4)
    np.testing.assert_array_equal(terms["air_time"], 0.0)


def _turned(core, degrees, height):
    """Turn every base about its x axis."""
    qpos = np.stack([core.simulator.data(row).qpos.copy() for row in range(core.num_envs)])
    half = math.radians(degrees) / 2
    qpos[:, 2], qpos[:, 3:7] = height, (math.cos(half), math.sin(half), 0.0, 0.0)
    rows = np.arange(core.num_envs)
    core.simulator.place(rows, qpos, np.zeros((len(rows), 18)), base_mass=np.ones(len(rows)))


@pytest.mark.parametrize(("degrees", "fell"), [(69.0, False), (71.0, True), (180.0, True)])
def test_a_tilt_beyond_the_limit_is_a_fall(degrees, fell):
    core = _core(CALM, 4)
    _turned(core, degrees, 3.0)  # in the air, where nothing touches
    result = core.step(np.zeros((4, 64, 1), np.float32))
    np.testing.assert_array_equal(result.terminated, fell)
    np.testing.assert_array_equal(result.events["fell"], fell)
    np.testing.assert_array_equal(result.truncated, False)


def test_a_base_on_the_ground_is_a_fall():
    core = _core(CALM, 4)
    core.simulator.drive_state.strength[:] = 0.0  # limp robots sink to the ground
    fell = np.zeros(4, bool)
    for _ in range(100):
        result = core.step(np.zeros((4, 64, 1), np.float32))
        touches = core.simulator.drive_state.contacts[:, 4] > 1.0
        assert (core.motion.tilt < math.radians(60.0)).all()
        np.testing.assert_array_equal(result.terminated, touches)
        fell |= touches
    assert fell.all()


@pytest.mark.parametrize("only_positive", [True, False])
def test_a_fall_costs_once_after_the_reward_is_cut_off(only_positive):
    calm = replace(CALM, only_positive=only_positive)
    costly, free = (
        _core(replace(calm, failure_cost=3.0), 4),
        _core(replace(calm, failure_cost=0), 4),
    )
    for core in (costly, free):
        core.simulator.drive_state.strength[:2] = 0.0  # two are limp and sink to the ground
    fallen = np.zeros(4, int)
    for _ in range(100):
        found, expected = (core.step(np.zeros((4, 64, 1), np.float32)) for core in (costly, free))
        assert "failure" not in expected.reward_terms
        cost = -3.0 * expected.terminated  # not a rate
        np.testing.assert_array_equal(found.reward_terms["failure"], cost)
        np.testing.assert_allclose(found.reward, expected.reward + cost, atol=1e-12)
        fallen += expected.terminated
    assert (fallen[:2] > 0).all()
    assert (fallen[2:] == 0).all()
    # A simulation that breaks is no fall, even where the base lies on the ground.
    costly.simulator.data(0).warning[mujoco.mjtWarning.mjWARN_CONTACTFULL].number = 1
    result = costly.step(np.zeros((4, 64, 1), np.float32))
    assert (result.diverged[0], result.terminated[0]) == (True, False)
    assert result.reward_terms["failure"][0] == result.reward[0] == 0.0
    assert result.reward_terms["failure"][1] == -3.0


def test_standing_lasts_until_the_time_limit():
    core = _core(replace(CALM, horizon=100), 4)
    for step in range(100):
        result = core.step(np.zeros((4, 64, 1), np.float32))
        np.testing.assert_array_equal(result.terminated, False)
        np.testing.assert_array_equal(result.truncated, step == 99)
    np.testing.assert_array_equal(result.events["time_limit"], True)


def test_impossible_environments_are_refused():
    with pytest.raises(ConfigError, match="quadrupeds-v1"):
        EnvironmentCore(TASK, [chain(3)], 1)
    with pytest.raises(ConfigError, match="at least one body"):
        EnvironmentCore(TASK, [], 1)
    with pytest.raises(TokenOverflowError, match="actuator"):
        EnvironmentCore(TASK, BODIES, 1, token_spec=TokenSpec(64))
    core = EnvironmentCore(TASK, BODIES, 1, num_threads=1)
    with pytest.raises(ConfigError, match="call reset first"):
        core.step(np.zeros((1, 12, 1)))
    with pytest.raises(ConfigError, match=r"shape \(1, 12, 1\), got \(1, 13, 1\)"):
        core.step(np.zeros((1, 13, 1)))
