"""The adapter makes the tokens that policies were trained on, from readings in native order."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.deployment.adapter import Adapter, Readings
from gmc_bench.deployment.heading import heading_rate
from gmc_bench.deployment.interface import with_order
from gmc_bench.deployment.loop import Watch
from gmc_bench.deployment.robot import SimulatedRobot
from gmc_bench.deployment.trials import Conditions
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.robots import ROBOTS
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.sim.model import compile_grounds
from gmc_bench.tasks.commands import VelocityCommand
from gmc_bench.tasks.motion import SensorNoise
from gmc_bench.tasks.quadruped_velocity import NOISE, TASK
from gmc_bench.tasks.quadruped_velocity import undisturbed as undisturbed_task
from gmc_bench.tokens.spec import TokenSpec

COMMAND = (0.5, -0.2, 0.1)
PAGE = Path(__file__).parents[3] / "docs" / "deployment.md"


@pytest.mark.parametrize("name", sorted(ROBOTS))
def test_tokens_and_motion_are_those_of_the_environment(subject, name):
    body = ROBOTS[name]
    command = VelocityCommand.fixed(*COMMAND)
    task = undisturbed_task(TASK, FRICTION_PAIRS["nominal"], command)
    spec = TokenSpec(14, 1, parts="actuators")
    core = EnvironmentCore(task, [body], 1, token_spec=spec, num_threads=1)
    core.reset(np.zeros(1, np.int64), np.zeros(1, np.int64))
    conditions = Conditions()
    interface = subject.manifest.robot(name)
    ground = compile_grounds(body, task.scene)[0]
    robot = SimulatedRobot(ground, interface, conditions, SensorNoise())
    adapter, rng = Adapter(subject.manifest, name), np.random.default_rng(1)
    for _ in range(10):
        # Contacts amplify rounding, so each step starts from the same state.
        mujoco.mj_copyData(robot.data, robot.model, core.simulator.data(0))
        found = adapter.tokens(robot.read(), np.array(COMMAND))
        assert found.shape == (1, 14, 32)
        wanted = np.zeros_like(found)
        wanted[..., spec.dynamic_indices] = core.dynamic
        wanted[..., spec.context_indices] = core.table.context
        assert np.abs(found - wanted).max() < 1e-6
        assert not found[:, 12:].any()
        actions = np.zeros((1, 14, 1), np.float32)
        actions[0, :12, 0] = rng.normal(0.0, 1.0, 12)
        core.step(actions)
        robot.send(adapter.targets(actions[0, :, 0]))
        robot.advance(task.scene.num_substeps)
        assert np.allclose(robot.data.qpos, core.simulator.data(0).qpos, atol=1e-6)
        assert np.allclose(robot.yaw_velocity(), core.motion.level_velocity[0], atol=1e-4)
        assert robot.tilt() == pytest.approx(core.motion.tilt[0], abs=1e-6)


def test_targets_are_offsets_from_the_stance_in_the_native_order(subject):
    adapter = Adapter(subject.manifest, "go2")
    actions = np.zeros(14, np.float32)
    actions[3], actions[0], actions[12] = 2.0, -100.0, 7.0  # FR hip, FL hip, padding
    targets = adapter.targets(actions)
    assert targets[0] == pytest.approx(-0.1 + 0.25 * 2.0)  # the maker's order starts with FR
    assert targets[3] == pytest.approx(0.1 - 0.25 * TASK.action_clip)
    assert (adapter.action[3], adapter.action[0]) == (2.0, -TASK.action_clip)
    adapter.reset()
    assert not adapter.action.any()


@pytest.mark.parametrize(
    ("name", "order"),
    [(name, order) for name in sorted(ROBOTS) for order in sorted(ROBOTS[name].native_orders)],
)
def test_every_native_order_is_led_to_the_shared_one_and_back(subject, name, order):
    """Readings and targets joint by joint, by name; some orders are not their own inverse."""
    interface = with_order(subject.manifest.robot(name), ROBOTS[name], order)
    manifest = replace(subject.manifest, robots={name: interface})
    adapter = Adapter(manifest, name)
    shared = [link.joint.name for link in ROBOTS[name].links]
    angle = {joint: 0.01 * place for place, joint in enumerate(shared)}
    speed = {joint: 2.0 - place for place, joint in enumerate(shared)}
    readings = Readings(
        base_linear_velocity=np.zeros(3),
        base_angular_velocity=np.zeros(3),
        gravity=np.array([0.0, 0.0, -1.0]),
        joint_angles=np.array([angle[joint] for joint in interface.joint_names]),
        joint_velocities=np.array([speed[joint] for joint in interface.joint_names]),
        joint_torques=np.zeros(12),
    )
    tokens = adapter.tokens(readings, np.zeros(3))
    slots, stance = adapter.layout.slots, ROBOTS[name].pose.angles
    for place, joint in enumerate(shared):
        offset = tokens[0, place, slots["joint_offset"]]
        assert offset == pytest.approx(angle[joint] - stance[place], abs=1e-6)
        velocity = tokens[0, place, slots["joint_velocity"]]
        assert velocity == pytest.approx(0.05 * speed[joint], abs=1e-6)
    actions = np.linspace(-1.0, 1.0, 14).astype(np.float32)
    targets = dict(zip(interface.joint_names, adapter.targets(actions), strict=True))
    for place, joint in enumerate(shared):
        assert targets[joint] == pytest.approx(stance[place] + 0.25 * actions[place], abs=1e-6)


def readings_of(kind=np.array, **changed):
    """Return readings of Go2 as it stands and trots, in arrays, tuples or lists."""
    rng = np.random.default_rng(0)
    values = {
        "base_linear_velocity": rng.normal(size=3),
        "base_angular_velocity": rng.normal(size=3),
        "gravity": np.array([0.1, -0.1, -0.99]),
        "joint_angles": rng.normal(size=12),
        "joint_velocities": rng.normal(size=12),
        "joint_torques": rng.normal(size=12),
    }
    return Readings(**{name: kind(value) for name, value in values.items()} | changed)


@pytest.mark.parametrize("kind", [tuple, list])
def test_readings_commands_and_actions_may_be_tuples_and_lists(subject, kind):
    """Through the whole of a control step."""
    one, other = (Adapter(subject.manifest, "go2") for _ in range(2))
    expected = one.tokens(readings_of(), np.array(COMMAND))
    given = readings_of(kind)
    assert np.array_equal(other.tokens(given, kind(COMMAND)), expected)
    actions = np.linspace(-1.0, 1.0, 14).astype(np.float32)
    targets = one.targets(actions)
    assert np.array_equal(other.targets(kind(actions.tolist())), targets)
    assert np.array_equal(other.targets(kind(actions.tolist()[:12])), targets)
    watch = Watch(other, 0.02)
    assert watch.broken(given) == ""
    assert watch.check(given, targets) == Watch(one, 0.02).check(readings_of(), targets)
    assert heading_rate(given) == heading_rate(readings_of())
    whole = readings_of(gravity=(0, 0, -1))
    assert np.array_equal(
        other.tokens(whole, (0, 0, 0))[0, 0, other.layout.slots["gravity"]], [0, 0, -1]
    )


WRONG = [
    ("base_linear_velocity", np.array(0.5), r"\(3,\), got the shape \(\); give one for each axis"),
    ("base_angular_velocity", 0.5, r"\(3,\), got the shape \(\); give one for each axis of"),
    ("gravity", np.zeros((1, 3)), r"\(3,\), got the shape \(1, 3\); give one"),
    ("gravity", "down", r"\(3,\), got 'down'; give one for each axis of the base's frame"),
    ("joint_angles", np.zeros(20), r"\(12,\), got the shape \(20,\); give one for each joint, in"),
    ("joint_angles", np.zeros(11), r"\(12,\), got the shape \(11,\); give one for each joint, in"),
    (
        "joint_angles",
        None,
        r"\(12,\), got None; give one for each joint, in the order of the robot",
    ),
    ("joint_velocities", [None] * 12, r"\(12,\), got \[None, None, .*; give one"),
    ("joint_velocities", [[0.0], [1.0, 2.0]], r"\(12,\), got \[\[0.0\], \[1.0, 2.0\]\]; give"),
    ("joint_velocities", np.zeros(12, np.bool_), r"\(12,\), got array\(\[False"),
]


@pytest.mark.parametrize(("name", "wrong", "reason"), WRONG)
def test_readings_of_another_shape_are_refused_and_stop_a_robot(subject, name, wrong, reason):
    adapter, readings = Adapter(subject.manifest, "go2"), readings_of(**{name: wrong})
    reason = f"^the reading {name} must be numbers of the shape {reason}"
    with pytest.raises(ConfigError, match=reason):
        adapter.tokens(readings, COMMAND)
    assert re.match(reason, Watch(adapter, 0.02).broken(readings))


def test_torques_are_watched_and_not_seen(subject):
    adapter, readings = Adapter(subject.manifest, "go2"), readings_of(joint_torques=None)
    adapter.tokens(readings, COMMAND)
    said = Watch(adapter, 0.02).broken(readings)
    assert said.startswith("the reading joint_torques must be numbers of the shape (12,), got None")


@pytest.mark.parametrize(
    ("wrong", "got"),
    [(np.array(0.5), r"the shape \(\)"), ((0.5, 0.0), r"the shape \(2,\)"), ("fast", "'fast'")],
)
def test_commands_of_another_shape_are_refused(subject, wrong, got):
    reason = (
        rf"^the command must be .* \(3,\), got {got}; give forward and lateral velocity, m/s, a"
    )
    with pytest.raises(ConfigError, match=reason):
        Adapter(subject.manifest, "go2").tokens(readings_of(), wrong)


@pytest.mark.parametrize(
    ("wrong", "got"),
    [
        (np.zeros(5), r"the shape \(5,\)"),
        (np.zeros(20), r"the shape \(20,\)"),
        (np.zeros((1, 14)), r"the shape \(1, 14\)"),
        (None, "None"),
    ],
)
def test_actions_of_another_shape_are_refused_and_not_remembered(subject, wrong, got):
    adapter = Adapter(subject.manifest, "go2")
    with pytest.raises(
        ConfigError, match=rf"^actions must be .* \(14,\), got {got}; give what the"
    ):
        adapter.targets(wrong)
    assert not adapter.action.any()


def test_noise_and_bias_reach_the_tokens(subject):
    interface = subject.manifest.robot("go2")
    ground = compile_grounds(ROBOTS["go2"], TASK.scene)[0]
    layout, bias = subject.manifest.layout, (0.1, -0.05, 0.02)

    def limbs(**conditions):
        """Return the tokens of the twelve joints, before their scales."""
        robot = SimulatedRobot(ground, interface, Conditions(**conditions), NOISE)
        tokens = Adapter(subject.manifest, "go2").tokens(robot.read(), np.array(COMMAND))
        return {name: tokens[0, :12, at] / layout.scale(name) for name, at in layout.slots.items()}

    calm, biased = limbs(), limbs(velocity_bias=bias)
    noisy = limbs(observation_noise=1.0, sensor_seed=3)
    apart = biased["base_linear_velocity"] - calm["base_linear_velocity"]
    np.testing.assert_allclose(apart, np.tile(bias, (12, 1)), atol=1e-6)
    for name, width in (
        ("base_linear_velocity", NOISE.base_linear_velocity),
        ("base_angular_velocity", NOISE.base_angular_velocity),
        ("gravity", NOISE.gravity),
        ("joint_offset", NOISE.joint_angle),
        ("joint_velocity", NOISE.joint_velocity),
    ):
        np.testing.assert_array_equal(biased[name] != calm[name], name == "base_linear_velocity")
        off = np.abs(noisy[name] - calm[name])
        assert 0.0 < off.min() <= off.max() <= width


def test_noise_goes_either_way_and_is_another_at_every_reading(subject):
    ground, interface = compile_grounds(ROBOTS["go2"], TASK.scene)[0], subject.manifest.robot("go2")

    def angles(seed, factor=1.0):
        conditions = Conditions(observation_noise=factor, sensor_seed=seed)
        robot = SimulatedRobot(ground, interface, conditions, NOISE)
        return np.stack([robot.read().joint_angles for _ in range(50)])

    off = (angles(3) - angles(3, factor=0.0)) / NOISE.joint_angle
    assert off.min() < -0.9
    assert off.max() > 0.9
    assert abs(off.mean()) < 0.1  # of 600, with a standard error of 0.02
    assert np.ptp(off, axis=0).min() > 1.0
    assert np.array_equal(angles(3), angles(3))
    assert not np.isclose(angles(3), angles(4)).any(axis=1).all()


@pytest.mark.slow
def test_the_page_drives_a_robot(onnx_file, tmp_path, monkeypatch):
    """In another order of joints than the file's, from one start like from the other."""
    shutil.copy(onnx_file, tmp_path / "policy.onnx")
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    page = {}
    exec(compile(code, PAGE.name, "exec"), page)
    ground = compile_grounds(ROBOTS["go2"], TASK.scene)[0]
    ends = []
    for _ in range(2):
        robot = SimulatedRobot(ground, page["interface"], Conditions(), NOISE)
        watch = page["start"]()
        for _ in range(5):
            targets, reason = page["control"](watch, robot.read(), np.array(COMMAND))
            assert reason == ""
            robot.send(targets)
            robot.advance(4)
        ends.append(robot.data.qpos.copy())
    readings = robot.read()
    readings.joint_angles[3] = np.nan  # a broken sensor stops the robot, not the program
    stopped = page["control"](watch, readings, np.array(COMMAND))
    assert stopped == (None, "the reading joint_angles is not finite")
    assert np.array_equal(*ends)
    assert np.abs(ends[0] - ground.standing_qpos()).max() > 1e-3
    # The file's own order leads to the same motion.
    policy = page["policy"]
    adapter = Adapter(policy.manifest, "go2")
    robot = SimulatedRobot(ground, adapter.interface, Conditions(), NOISE)
    for _ in range(5):
        tokens = adapter.tokens(robot.read(), np.array(COMMAND))
        robot.send(adapter.targets(policy(tokens, "go2")))
        robot.advance(4)
    assert np.array_equal(robot.data.qpos, ends[0])
