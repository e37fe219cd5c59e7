"""Trials end as they should, and the clock is kept."""

import math
import time
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.deployment import loop
from gmc_bench.deployment.adapter import Adapter
from gmc_bench.deployment.interface import with_order
from gmc_bench.deployment.loop import Latency, Watch, _displacement, fall_of, run_trial
from gmc_bench.deployment.robot import SimulatedRobot
from gmc_bench.deployment.trials import TRIALS, Conditions, draw_conditions
from gmc_bench.robots import ROBOTS
from gmc_bench.sim.model import compile_grounds
from gmc_bench.tasks.quadruped_velocity import NOISE, TASK

FORWARD = TRIALS["forward"]


class Constant:
    """A policy that always does the same."""

    def __init__(self, manifest, action=0.0, delay=0.0):
        self.manifest, self.action, self.delay, self.resets = manifest, action, delay, 0

    def reset(self):
        self.resets += 1

    def __call__(self, tokens, robot):
        time.sleep(self.delay)
        return np.full(tokens.shape[1], self.action, np.float32)


class Clock:
    """Stands in for `time`; only sleep passes."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture(scope="module")
def grounds():
    return compile_grounds(ROBOTS["go2"], TASK.scene)


@pytest.fixture
def make_robot(subject, grounds):
    def make(conditions=None):
        conditions = conditions or Conditions()
        ground = grounds[conditions.floor == "micro-rough"]
        return SimulatedRobot(ground, subject.manifest.robot("go2"), conditions, NOISE)

    return make


def run(robot, policy, trial=FORWARD, seconds=0.4, realtime=False, **options):
    return run_trial(robot, policy, trial, TASK, seconds=seconds, realtime=realtime, **options)


def test_standing_still_succeeds_only_when_asked_to_stand(subject, make_robot):
    policy = Constant(subject.manifest)
    result = run(make_robot(), policy)
    assert (result.outcome, result.steps) == ("motion not completed", 20)
    assert result.states.shape == (21, 19)
    assert "along the command of 0.50 m/s" in result.reason
    stand, told = replace(FORWARD, command=(0.0, 0.0, 0.0)), []
    assert run(make_robot(), policy, stand, on_step=lambda: told.append(1)).succeeded
    assert len(told) == 20
    assert policy.resets == 4


def test_moving_along_the_command_succeeds(subject, make_robot):
    robot = make_robot()
    robot.data.qvel[0] = 2.0
    result = run(robot, Constant(subject.manifest), seconds=0.04)
    assert result.succeeded
    assert 1.0 < result.mean_velocity < 2.1


@pytest.mark.parametrize(
    ("share", "outcome"),
    [(0.1, "motion not completed"), (0.45, "motion not completed"), (0.55, "success")],
)
@pytest.mark.parametrize(("trial", "speed"), [("forward", 0.5), ("backward-right", 0.583)])
def test_half_of_the_commanded_velocity_completes_the_motion(
    subject, make_robot, monkeypatch, trial, speed, share, outcome
):
    robot, command = make_robot(), np.array(TRIALS[trial].command[:2])
    aside = np.array([-command[1], command[0]])  # what goes sideways counts for nothing
    monkeypatch.setattr(robot, "yaw_velocity", lambda: share * command + 10.0 * aside)
    result = run(robot, Constant(subject.manifest), TRIALS[trial])
    assert result.wanted_velocity == pytest.approx(speed, abs=1e-3)
    assert result.mean_velocity == pytest.approx(share * result.wanted_velocity)
    assert result.outcome == outcome


def test_the_mean_velocity_is_over_the_steps_that_were_taken(subject, make_robot, monkeypatch):
    class Failing(Constant):
        def __call__(self, tokens, robot):
            actions = super().__call__(tokens, robot)
            calls.append(1)
            return actions if len(calls) <= 25 else math.nan * actions  # twenty to warm up

    robot, calls = make_robot(), []
    monkeypatch.setattr(robot, "yaw_velocity", lambda: np.array([0.4, 0.0]))
    result = run(robot, Failing(subject.manifest))
    assert (result.outcome, result.steps) == ("emergency stop", 5)
    assert result.mean_velocity == pytest.approx(0.4)


@pytest.mark.parametrize("action", [math.nan, math.inf, -math.inf])
def test_actions_that_are_not_finite_stop(subject, make_robot, action):
    """An infinite one is not taken for the largest that there is."""
    result = run(make_robot(), Constant(subject.manifest, action))
    assert (result.outcome, result.reason) == ("emergency stop", "an action is not finite")
    assert result.steps == 0
    assert run(make_robot(), Constant(subject.manifest, 1e30), seconds=0.02).steps == 1


@pytest.mark.parametrize("name", ["base_linear_velocity", "joint_torques"])
@pytest.mark.parametrize("first", [0, 5])
def test_readings_that_are_not_finite_stop_before_the_policy_sees_them(
    subject, make_robot, monkeypatch, name, first
):
    """Policies cut off large features: an infinite one would be acted on."""
    robot, taken = make_robot(), []
    read = robot.read

    def failing():
        readings = read()
        taken.append(1)
        broken = getattr(readings, name).copy()
        broken[1] = math.inf
        return readings if len(taken) <= first else replace(readings, **{name: broken})

    monkeypatch.setattr(robot, "read", failing)
    result = run(robot, subject.policy)
    assert result.outcome == "emergency stop"
    assert result.reason == f"the reading {name} is not finite"
    assert result.steps == max(first - 1, 0)  # one reading to warm up


@pytest.mark.parametrize("factor", [9.81, 0.5, 0.0, 1.1])
def test_gravity_that_is_no_unit_vector_stops(subject, make_robot, factor):
    """Of an accelerometer, it would let any tilt pass."""
    good = make_robot().read()
    readings = replace(good, gravity=factor * good.gravity)
    wrong = f"the reading gravity must be a unit vector, got one of length {factor:g}"
    expected = "" if factor == 1.1 else wrong  # as much as noise makes of one
    assert Watch(Adapter(subject.manifest, "go2"), 0.02).broken(readings) == expected


def test_the_noise_of_training_leaves_gravity_a_unit_vector():
    assert math.sqrt(3.0) * NOISE.gravity < 0.5 * loop._UNIT


def test_tilt_stops_and_a_base_on_the_ground_falls(subject, make_robot):
    robot = make_robot()
    mujoco.mju_axisAngle2Quat(robot.data.qpos[3:7], np.array([1.0, 0, 0]), math.radians(50))
    result = run(robot, Constant(subject.manifest))
    assert result.outcome == "emergency stop"
    assert "tilts by more than 45 degrees" in result.reason
    robot = make_robot()
    robot.data.qpos[2] = 0.056  # half the height of its trunk
    robot.data.qpos[7:] = 4 * [0.0, 2.7, -2.7]  # feet drawn in
    result = run(robot, Constant(subject.manifest))
    assert (result.outcome, result.reason) == ("fell", "the base touches the ground")
    robot = make_robot()
    robot.data.warning[mujoco.mjtWarning.mjWARN_CONTACTFULL].number = 1
    result = run(robot, Constant(subject.manifest))
    assert (result.outcome, result.reason) == ("fell", "the simulation broke")


@pytest.mark.parametrize("axis", [0, 1], ids=["pitch", "roll"])
@pytest.mark.parametrize(("degrees", "stops"), [(44.0, False), (46.0, True), (134.0, True)])
def test_more_than_45_degrees_of_tilt_to_any_side_stop(subject, make_robot, axis, degrees, stops):
    watch, gravity = Watch(Adapter(subject.manifest, "go2"), 0.02), np.zeros(3)
    for side in (-1.0, 1.0):
        gravity[axis] = side * math.sin(math.radians(degrees))
        gravity[2] = -math.cos(math.radians(degrees))
        tilted = replace(make_robot().read(), gravity=gravity)
        expected = "the base tilts by more than 45 degrees" if stops else ""
        assert watch.check(tilted, np.zeros(12)) == expected


def test_the_watch_sees_joints_and_torques(subject, make_robot):
    adapter = Adapter(subject.manifest, "go2")
    watch, good = Watch(adapter, 0.02), make_robot().read()
    targets = np.zeros(12)
    assert watch.check(good, targets) == ""
    angles = good.joint_angles.copy()
    for angle in (-1.2, 1.2):  # the hard limits are -1.0472 and 1.0472
        angles[3] = angle
        beyond = replace(good, joint_angles=angles.copy())
        said = [watch.check(beyond, targets) for _ in range(6)]
        assert said == [""] * 5 + ["FL_hip_joint has been beyond its hard limit for 0.1 s"]
        assert watch.check(good, targets) == ""
    beyond = replace(good, joint_angles=angles)
    # Hits of a limit do not add up, and the engine's limits give way a little.
    assert watch.check(good, targets) == watch.check(beyond, targets) == ""
    angles[3] = 1.14
    pressed = replace(good, joint_angles=angles)
    assert {watch.check(pressed, targets) for _ in range(10)} == {""}
    torques = np.zeros(12)
    torques[2] = -0.99 * 45.43
    hard_working = replace(good, joint_torques=torques.copy())
    assert {watch.check(hard_working, targets) for _ in range(30)} == {""}
    torques[2] = -0.9995 * 45.43  # a drive rounds
    strained = replace(good, joint_torques=torques)
    said = [watch.check(strained, targets) for _ in range(26)]
    assert said[:25] == [""] * 25
    assert said[25] == "FR_calf_joint has been at its torque limit for 0.5 s"


def test_the_watch_knows_limits_in_the_order_of_the_robot(subject, grounds):
    """Hips come first here; the third shared slot is a calf's."""
    interface = with_order(subject.manifest.robot("go2"), ROBOTS["go2"], "isaaclab")
    manifest = replace(subject.manifest, robots={"go2": interface})
    good = SimulatedRobot(grounds[0], interface, Conditions(), NOISE).read()
    watch = Watch(Adapter(manifest, "go2"), 0.02)
    assert {watch.check(good, np.zeros(12)) for _ in range(10)} == {""}
    torques = np.zeros(12)
    torques[2] = 23.7
    strained = replace(good, joint_torques=torques)
    said = {watch.check(strained, np.zeros(12)) for _ in range(26)}
    assert said == {"", "RL_hip_joint has been at its torque limit for 0.5 s"}


def test_a_fall_is_that_of_training(make_robot, monkeypatch):
    robot = make_robot()
    robot.data.qpos[2] = 2.0
    for degrees, fell in ((69.0, ""), (71.0, "the base tilts by more than 70 degrees")):
        axis = np.array([0.0, 1.0, 0.0])
        mujoco.mju_axisAngle2Quat(robot.data.qpos[3:7], axis, math.radians(degrees))
        assert fall_of(robot) == fell
    robot = make_robot()
    for force, fell in ((1.0, ""), (1.1, "the base touches the ground")):  # N
        monkeypatch.setattr(robot, "base_contact", lambda force=force: force)
        assert fall_of(robot) == fell


def test_a_robot_that_walks_off_the_rough_ground_falls(subject, make_robot):
    robot = make_robot(Conditions(floor="micro-rough"))
    robot.data.qpos[0], robot.data.qvel[0] = 24.6, 0.5
    outcome = run(robot, Constant(subject.manifest), seconds=2.0)
    assert (outcome.outcome, outcome.reason) == ("fell", "the robot left the ground")


def test_a_trial_starts_above_the_highest_ground(make_robot, grounds):
    plane, rough = (make_robot(Conditions(floor=floor)) for floor in ("flat", "micro-rough"))
    feet, top = grounds[1].foot_geoms, rough.model.hfield_size[0, 2]
    assert top > 0.01
    assert rough.data.qpos[2] == pytest.approx(plane.data.qpos[2] + top)
    lowest = (rough.data.geom_xpos[feet, 2] - rough.model.geom_size[feet, 0]).min()
    assert top < lowest < top + 0.02


def test_a_trial_without_clock_is_repeatable(subject, make_robot):
    conditions = draw_conditions(TRIALS["wrapped-foot"], 3, 1)
    one = run(make_robot(conditions), subject.policy)
    two = run(make_robot(conditions), subject.policy)
    assert np.array_equal(one.states, two.states)
    other = run(make_robot(replace(conditions, latency=0.02)), subject.policy)
    assert not np.array_equal(one.states, other.states)


@pytest.mark.parametrize(("latency", "late"), [(0.01, 0.0), (0.005, 0.007), (0.0, 0.014)])
def test_targets_arrive_after_the_latency(make_robot, latency, late):
    """Of the conditions, and of the clock in whole physics steps of 5 ms."""
    robot = make_robot(replace(Conditions(), latency=latency))
    before = robot._target.copy()
    assert np.array_equal(before, ROBOTS["go2"].pose.angles)  # until then, it holds its stance
    robot.send(np.zeros(12), late)
    robot.advance(2)
    assert np.array_equal(robot._target, before)
    robot.advance(1)
    assert not robot._target.any()


def test_one_slippery_foot_has_its_own_friction(subject, make_robot, grounds):
    robot = make_robot(draw_conditions(TRIALS["wrapped-foot"], 1, 0))
    robot.advance(1)
    friction = robot.model.geom_friction[grounds[0].foot_geoms, 0]
    assert friction[0] <= 0.3
    assert (friction[1:] > 0.55).all()
    assert (grounds[0].model.geom_friction[grounds[0].foot_geoms, 0] == 0.6).all()  # not changed


@pytest.mark.parametrize(("speed", "coefficient"), [(0.0, 0.8), (2.0, 0.6)])
def test_feet_that_slide_have_the_dynamic_coefficient_at_once(
    make_robot, grounds, speed, coefficient
):
    robot = make_robot()
    robot.data.qvel[0] = speed
    robot.advance(1)
    assert (robot.model.geom_friction[grounds[0].foot_geoms, 0] == coefficient).all()


def test_what_was_drawn_reaches_the_simulation(make_robot, grounds):
    drawn = Conditions(foot_growth=0.003, foot_softness=2.0, strength=0.5, base_mass=1.1)
    plain, robot = make_robot(), make_robot(drawn)
    base, feet = grounds[0].base_body, grounds[0].foot_geoms
    for name in ("body_mass", "body_inertia"):
        ratio = getattr(robot.model, name) / np.maximum(getattr(plain.model, name), 1e-12)
        np.testing.assert_allclose(ratio[base], 1.1)
        np.testing.assert_allclose(np.delete(ratio, [0, base], axis=0), 1.0)
    np.testing.assert_allclose(
        robot.model.geom_size[feet, 0], plain.model.geom_size[feet, 0] + 3e-3
    )
    np.testing.assert_allclose(
        robot.model.geom_solref[feet, 0], 2.0 * plain.model.geom_solref[feet, 0]
    )
    assert robot.data.qpos[2] == pytest.approx(plain.data.qpos[2] + 3e-3)
    bias = (0.1, -0.05, 0.02)
    off = make_robot(replace(drawn, velocity_bias=bias)).read().base_linear_velocity
    np.testing.assert_allclose(off - robot.read().base_linear_velocity, bias)
    # Motors are weak before their limits, which stay.
    interface = robot.interface
    stance = interface.default_angles[interface.native]
    for offset, torque in ((0.1, 0.5 * 25.0 * 0.1), (100.0, np.inf)):
        robot = make_robot(drawn)
        robot.send(stance + offset)
        robot.advance(1)
        limits = interface.torque_limits[interface.native]
        np.testing.assert_allclose(robot.read().joint_torques, np.minimum(torque, limits))


def test_motion_is_in_the_frames_that_it_says(make_robot):
    robot, rng = make_robot(), np.random.default_rng(0)
    for _ in range(5):
        quaternion = np.array([1.0, *rng.uniform(-0.5, 0.5, 3)])
        robot.data.qpos[3:7] = quaternion / np.linalg.norm(quaternion)
        robot.data.qvel[:6] = world = rng.normal(size=6)  # the engine's turn is in the base frame
        back = robot.data.qpos[3:7] * [1.0, -1.0, -1.0, -1.0]
        velocity, gravity, ahead = np.zeros((3, 3))
        mujoco.mju_rotVecQuat(velocity, world[:3], back)
        mujoco.mju_rotVecQuat(gravity, np.array([0.0, 0.0, -1.0]), back)
        mujoco.mju_rotVecQuat(ahead, np.array([1.0, 0.0, 0.0]), robot.data.qpos[3:7])
        expected = np.concatenate((velocity, world[3:], gravity))
        np.testing.assert_allclose(robot.base_motion(), expected, atol=1e-12)
        yaw = math.atan2(ahead[1], ahead[0])
        along = math.cos(yaw) * world[0] + math.sin(yaw) * world[1]
        left = math.cos(yaw) * world[1] - math.sin(yaw) * world[0]
        np.testing.assert_allclose(robot.yaw_velocity(), [along, left], atol=1e-6)


@pytest.mark.parametrize("factor", [0.0, 0.5, 1.0])
def test_sensors_are_as_noisy_as_in_training_times_the_factor(make_robot, factor):
    true = make_robot().read()
    robot = make_robot(Conditions(observation_noise=factor))
    read = [robot.read() for _ in range(60)]
    for name, amplitude in {
        "base_linear_velocity": NOISE.base_linear_velocity,
        "base_angular_velocity": NOISE.base_angular_velocity,
        "gravity": NOISE.gravity,
        "joint_angles": NOISE.joint_angle,
        "joint_velocities": NOISE.joint_velocity,
    }.items():
        off = np.array([getattr(found, name) - getattr(true, name) for found in read])
        most = factor * amplitude  # uniform to both sides: 180 draws come near
        assert amplitude > 0.0
        assert -most - 1e-12 <= off.min() <= -0.9 * most, name
        assert 0.9 * most <= off.max() <= most + 1e-12, name


def test_a_robot_speaks_of_joints_in_its_own_order(subject, grounds):
    """Also in one that is not its own inverse."""
    interface = with_order(subject.manifest.robot("go2"), ROBOTS["go2"], "isaaclab")
    robot = SimulatedRobot(grounds[0], interface, Conditions(), NOISE)
    shared = [link.joint.name for link in ROBOTS["go2"].links]
    ours = np.array([shared.index(name) for name in interface.joint_names])
    assert not np.array_equal(ours, np.argsort(ours))
    offsets = 0.01 * np.arange(12)
    robot.data.qpos[grounds[0].joint_qpos] += offsets
    robot.data.qvel[grounds[0].joint_dofs] = -offsets
    readings = robot.read()
    stance = np.array(ROBOTS["go2"].pose.angles)
    np.testing.assert_allclose(readings.joint_angles, (stance + offsets)[ours])
    np.testing.assert_allclose(readings.joint_velocities, -offsets[ours])
    robot.send(stance[ours])
    robot.advance(1)
    torques = -25.0 * offsets + 0.5 * offsets
    np.testing.assert_allclose(robot.read().joint_torques, torques[ours], atol=1e-12)


def test_progress_is_along_the_heading_of_the_start():
    states = np.zeros((3, 19))
    for row, yaw in zip(states, np.radians([90.0, 170.0, 200.0]), strict=True):
        row[3], row[6] = math.cos(yaw / 2.0), math.sin(yaw / 2.0)
    states[:, :2] = [[1.0, 1.0], [2.0, 2.0], [1.5, 3.0]]
    assert _displacement(states) == pytest.approx((2.0, 110.0))


def test_latencies_are_summed_up_in_milliseconds():
    found = Latency.of([0.001 * value for value in range(1, 101)])
    assert found.median == pytest.approx(50.5)
    assert found.p95 == pytest.approx(95.05)  # 95 of 100 are below
    assert found.largest == pytest.approx(100.0)
    assert Latency.of([]) == Latency(median=0.0, p95=0.0, largest=0.0)


def test_real_time_is_kept_and_misses_are_counted(subject, make_robot, monkeypatch):
    start = time.perf_counter()
    result = run(make_robot(), Constant(subject.manifest), seconds=0.4, realtime=True)
    assert time.perf_counter() - start >= 0.38
    assert result.tick_ms.largest >= result.tick_ms.median > 0.0
    robot, lates = make_robot(), []
    send = robot.send
    monkeypatch.setattr(robot, "send", lambda to, late: lates.append(late) or send(to, late))
    late = run(robot, Constant(subject.manifest, delay=0.025), seconds=0.1, realtime=True)
    assert late.deadline_misses == late.steps == len(lates) == 5
    assert min(lates) >= 0.025  # of the clock, on top of the drawn latency
    assert late.policy_ms.median >= 25.0


def test_steps_start_at_the_rate_of_the_policy_whatever_their_work_takes(
    subject, make_robot, monkeypatch
):
    robot, clock, calls = make_robot(), Clock(), []
    advance = robot.advance

    class Working(Constant):
        def __call__(self, tokens, robot):
            calls.append(clock.now)
            clock.sleep(0.005)
            return super().__call__(tokens, robot)

    def advance_slowly(substeps):
        clock.sleep(0.008)
        advance(substeps)

    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(robot, "advance", advance_slowly)
    result = run(robot, Working(subject.manifest), seconds=0.4, realtime=True)
    starts = np.array(calls[20:])  # twenty to warm up
    np.testing.assert_allclose(starts - starts[0], 0.02 * np.arange(20), atol=1e-9)
    for found, expected in ((result.policy_ms, 5.0), (result.tick_ms, 13.0)):
        assert list(vars(found).values()) == pytest.approx([expected] * 3)
    assert result.deadline_misses == 0


def test_a_robot_does_not_catch_up_after_a_step_that_took_too_long(subject, make_robot):
    class Slow(Constant):
        def __call__(self, tokens, robot):
            calls.append(time.perf_counter())
            self.delay = 0.1 if len(calls) == 23 else 0.0  # the third after twenty to warm up
            return super().__call__(tokens, robot)

    calls = []
    result = run(make_robot(), Slow(subject.manifest), seconds=0.26, realtime=True)
    assert len(calls) == 20 + result.steps == 33
    # Nine periods lie between the ten steps that follow.
    assert calls[32] - calls[22] >= 0.1 + 9 * 0.02 - 0.005


def test_the_command_rises_within_a_second_and_stays(subject, make_robot):
    told = []

    class Told(Constant):
        def __call__(self, tokens, robot):
            told.append(float(tokens[0, 0, subject.manifest.layout.slots["command"]][0]))
            return super().__call__(tokens, robot)

    result = run(make_robot(), Told(subject.manifest), seconds=1.4)
    assert result.steps == 70
    rising = [0.01 * step for step in range(1, 51)]  # m/s
    assert told[20:] == pytest.approx([*rising, *[0.5] * 20])  # twenty to warm up


@pytest.mark.parametrize("name", sorted(ROBOTS))
@pytest.mark.parametrize("number", [0, 1])  # on a plane, and on micro-rough ground
def test_no_standing_robot_is_stopped(subject, name, number):
    conditions = draw_conditions(TRIALS["wrapped-foot"], 2, number)
    ground = compile_grounds(ROBOTS[name], TASK.scene)[number]
    robot = SimulatedRobot(ground, subject.manifest.robot(name), conditions, NOISE)
    stand = replace(FORWARD, command=(0.0, 0.0, 0.0))
    result = run(robot, Constant(subject.manifest), stand, seconds=3.0)
    assert (result.outcome, result.reason) == ("success", "")


@pytest.mark.parametrize("name", sorted(ROBOTS))
def test_joints_that_are_pressed_against_their_limits_do_not_count_as_beyond(subject, name):
    ground = compile_grounds(ROBOTS[name], TASK.scene)[0]
    robot = SimulatedRobot(ground, subject.manifest.robot(name), Conditions(), NOISE)
    robot.model.opt.gravity[:] = 0.0  # legs are thrown about in the air
    robot.data.qpos[2] = 2.0
    watch = Watch(Adapter(subject.manifest, name), 0.02)
    rng = np.random.default_rng(1)
    for step in range(150):
        if step % 10 == 0:
            actions = rng.choice([-TASK.action_clip, TASK.action_clip], 12).astype(np.float32)
            targets = Adapter(subject.manifest, name).targets(actions)
        robot.send(targets)
        robot.advance(4)
        assert "hard limit" not in watch.check(robot.read(), targets)


@pytest.mark.parametrize("name", sorted(ROBOTS))
def test_covered_feet_touch_the_ground_where_their_covers_do(subject, name):
    ground = compile_grounds(ROBOTS[name], TASK.scene)[0]
    growth = 0.003
    conditions = Conditions(foot_growth=growth)
    robot = SimulatedRobot(ground, subject.manifest.robot(name), conditions, NOISE)
    feet, data = ground.foot_geoms, robot.data

    def touching(gap):
        """Return how many feet touch when the lowest one's cover is this high, m."""
        lowest = (data.geom_xpos[feet, 2] - robot.model.geom_size[feet, 0]).min()
        data.qpos[2] += gap - lowest
        mujoco.mj_forward(robot.model, data)
        return len({int(geom) for contact in data.contact for geom in contact.geom} & {*feet})

    bare = ground.model.geom_size[feet, 0]
    np.testing.assert_allclose(robot.model.geom_size[feet, 0], bare + growth)
    box = robot.model.geom_aabb[feet, 3:]  # half sizes: outside of it nothing is looked for
    np.testing.assert_allclose(box, np.repeat(bare[:, None] + growth, 3, axis=1))
    assert touching(0.0005) == 0
    assert touching(-0.0005) > 0  # by the cover alone: the bare foot is 2.5 mm above


def test_a_robot_that_turns_is_turned_back(subject, grounds):
    seen = []

    class Turning(Constant):
        """Its yaw rate is what it is told, and a push to the left."""

        def __call__(self, tokens, robot):
            seen.append(float(tokens[0, 0, subject.manifest.layout.slots["command"]][2]))
            return super().__call__(tokens, robot)

    def turned(task=TASK, **options):
        seen.clear()
        robot = SimulatedRobot(grounds[0], subject.manifest.robot("go2"), Conditions(), NOISE)
        robot.data.qvel[5] = 3.0
        policy = Turning(subject.manifest)
        return run_trial(robot, policy, FORWARD, task, seconds=0.4, realtime=False, **options)

    result = turned()
    assert result.turned > 5.0
    # 0.5 rad/s for each rad that it believes to have turned.
    assert seen[-1] == pytest.approx(-0.5 * math.radians(result.turned), rel=0.2)
    turned(replace(TASK, command=replace(TASK.command, heading_limit=0.01)))
    assert seen[-1] == pytest.approx(-0.01)  # at most as fast as in training
    turned(hold_heading=False)
    assert set(seen) == {0.0}
    turning = replace(FORWARD, command=(0.5, 0.0, 0.4))
    seen.clear()
    interface = subject.manifest.robot("go2")
    robot = SimulatedRobot(grounds[0], interface, Conditions(), NOISE)
    robot.data.qvel[5] = 3.0
    run(robot, Turning(subject.manifest), turning, seconds=0.1)
    # A robot that is told to turn is not held; what it is told rises within a second.
    assert seen[-5:] == pytest.approx([0.4 * 0.02 * step for step in range(1, 6)])
