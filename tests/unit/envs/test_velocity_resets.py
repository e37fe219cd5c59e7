"""What differs from episode to episode, within its ranges: start, ground, robot, command, push."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.robots import GO1, ROBOTS
from gmc_bench.robots.friction import FRICTION_PAIRS
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.sim.kernels import next_uniform
from gmc_bench.sim.model import RoughGround
from gmc_bench.tasks import events
from gmc_bench.tasks.commands import VelocityCommand
from gmc_bench.tasks.quadruped_velocity import TASK, undisturbed
from gmc_bench.tasks.spec import EventTerm, MetricTerm, ObservationTerm

BODIES = list(ROBOTS.values())
PAIR = FRICTION_PAIRS["low"]
NOMINAL = FRICTION_PAIRS["nominal"]


def _changed(event, **changes):
    """Return the task with another event of a name."""
    return replace(
        TASK,
        events=tuple(replace(e, **changes) if e.name == event else e for e in TASK.events),
    )


def _rough(task, share=1.0):
    """Return a task on rough ground."""
    return replace(task, scene=replace(task.scene, rough=RoughGround(share=share)))


def _core(task=TASK, num_envs=8, bodies=BODIES, seed=0):
    core = EnvironmentCore(task, bodies, num_envs, num_threads=1)
    core.simulator.seed(seed)
    core.reset(np.arange(num_envs), np.arange(num_envs) % len(bodies))
    return core


@pytest.fixture(scope="module")
def many():
    """400 first episodes of Go1, in the training's conditions."""
    return _core(num_envs=400, bodies=[GO1])


def _evenly(values, low, high):
    """Check that numbers fill a range and do not leave it."""
    span = high - low
    assert low <= values.min() < low + 0.05 * span
    assert high - 0.05 * span < values.max() <= high
    assert abs(values.mean() - (low + high) / 2) < 0.1 * span


def _states(core):
    rows = range(core.num_envs)
    return tuple(
        np.stack([getattr(core.simulator.data(row), name).copy() for row in rows])
        for name in ("qpos", "qvel")
    )


def test_a_start_is_what_its_row_draws_in_the_order_of_the_events():
    """Each number once more from a copy of the row's random stream; friction draws one as well."""
    core, streams, starts = _core(), spawn_streams(0, 8), []
    qpos, qvel = _states(core)

    def drawn(stream, count):
        return np.array([next_uniform(stream) for _ in range(count)])

    for row, stream in enumerate(streams):
        robot, state = BODIES[row % 4], core.simulator.drive_state
        assert core.simulator.model_index[row] % 2 == (drawn(stream, 1)[0] < 0.25)
        _, strength, mass = drawn(stream, 3)
        assert state.strength[row] == pytest.approx(0.9 + 0.2 * strength, rel=1e-12)
        assert core.simulator.base_mass[row] == pytest.approx(0.85 + 0.3 * mass, rel=1e-12)
        place, heading, velocity, angles = (
            2.0 * drawn(stream, count) - 1.0 for count in (2, 1, 6, 12)
        )
        np.testing.assert_allclose(qpos[row, :2], place, rtol=1e-12)
        half = math.pi / 2 * heading[0]
        np.testing.assert_allclose(qpos[row, [3, 6]], [math.cos(half), math.sin(half)], atol=1e-12)
        np.testing.assert_allclose(qvel[row, :6], 0.2 * velocity, rtol=1e-12)
        bent = np.clip(robot.pose.angles + 0.1 * angles, *np.transpose(robot.soft_ranges))
        np.testing.assert_allclose(core.motion.joint_angle[row], bent, rtol=1e-12)
        seconds = 10.0 + 5.0 * drawn(stream, 1)[0]
        assert core.driven.kept()["due"][row] == [int(seconds / 0.02 + 1e-9)]
        starts.append((drawn(stream, 6), math.pi * heading[0]))
    uniform, headings = map(np.array, zip(*starts, strict=True))
    command = TASK.command.steer(*TASK.command.draw(uniform, headings), headings)
    np.testing.assert_allclose(core.command, command, atol=1e-12)


def test_starts_are_scattered(many):
    qpos, qvel = _states(many)
    heading = 2.0 * np.arctan2(qpos[:, 6], qpos[:, 3])
    _evenly(heading, -math.pi, math.pi)
    np.testing.assert_allclose(many.simulator.drive_state.base[:, 12], heading, atol=1e-9)
    np.testing.assert_array_equal(qpos[:, 4:6], 0.0)  # level
    np.testing.assert_array_equal(many.motion.tilt, 0.0)
    _evenly(qpos[:, 0], -1.0, 1.0)
    _evenly(qpos[:, 1], -1.0, 1.0)
    _evenly(qvel[:, :6], -0.2, 0.2)
    np.testing.assert_array_equal(qvel[:, 6:], 0.0)
    offsets = qpos[:, 7:] - GO1.pose.angles
    soft = np.array(GO1.soft_ranges)
    _evenly(offsets, -0.1, 0.1)
    assert (qpos[:, 7:] >= soft[:, 0] - 1e-12).all()
    assert (qpos[:, 7:] <= soft[:, 1] + 1e-12).all()
    assert abs(np.corrcoef(qpos[:, 0], heading)[0, 1]) < 0.2


def test_robots_and_friction_differ(many):
    simulator = many.simulator
    _evenly(simulator.drive_state.strength, 0.9, 1.1)
    _evenly(simulator.base_mass, 0.85, 1.15)
    own = GO1.base.inertial.mass
    for row in range(5):
        mass = simulator.model(row).body_mass[1]
        assert mass == pytest.approx(simulator.base_mass[row] * own)
    np.testing.assert_array_equal(simulator.drive_state.friction, [[0.8, 0.6]] * 400)


def test_one_of_several_frictions_is_drawn():
    pairs = tuple(FRICTION_PAIRS.values())
    core = _core(_changed("friction", function=events.one_of_pairs(pairs)), 400, [GO1])
    found = core.simulator.drive_state.friction
    for pair in pairs:
        share = (found == (pair.static, pair.dynamic)).all(axis=1).mean()
        assert share == pytest.approx(1 / len(pairs), abs=0.08)
    known = [(pair.static, pair.dynamic) for pair in pairs]
    assert all(tuple(pair) in known for pair in found.tolist())


def test_what_is_drawn_at_a_start_is_drawn_independently(many):
    qpos, qvel = _states(many)
    masses = [many.simulator.model(row).body_mass[1] for row in range(many.num_envs)]
    heading = 2.0 * np.arctan2(qpos[:, 6], qpos[:, 3])
    drawn = [
        masses,
        many.simulator.drive_state.strength,
        heading,
        *qpos[:, :2].T,
        *(qpos[:, 7:] - GO1.pose.angles).T,
        *qvel[:, :6].T,
    ]
    together = np.corrcoef(drawn) - np.eye(len(drawn))
    assert np.abs(together).max() < 0.25


def test_a_share_of_the_episodes_starts_on_rough_ground(many):
    simulator = many.simulator
    fields = np.array([simulator.model(row).nhfield for row in range(many.num_envs)])
    np.testing.assert_array_equal(fields, simulator.model_index % 2)
    assert fields.mean() == pytest.approx(many.task.scene.rough.share, abs=0.08)
    rough = simulator.model(int(np.flatnonzero(fields)[0]))
    height = 0.035 * (0.08 + 0.213)  # of hip and thigh, m
    assert rough.hfield_size[0, 2] == pytest.approx(height, rel=1e-3)
    assert rough.hfield_data.std() == pytest.approx(1 / math.sqrt(12), rel=0.05)
    base = simulator.drive_state.base[:, 2] - GO1.pose.base_height
    np.testing.assert_allclose(base[fields == 0], 0.01)
    np.testing.assert_allclose(base[fields == 1], 0.01 + height, rtol=1e-3)


@pytest.mark.parametrize(
    ("scatter", "deepest"),
    [(0.0, 0.0), (0.1, 0.04)],  # rad, m: bent by 0.1 rad per joint, a leg reaches lower
)
def test_no_foot_starts_inside_the_ground(scatter, deepest):
    task = _changed("start_pose", function=events.per_joint(scatter))
    core = _core(_rough(task), 40)
    for row in range(40):
        data = core.simulator.data(row)
        robot = core.simulator.models[core.simulator.model_index[row]].robot
        depth = [-c.dist for c in data.contact[: data.ncon] if set(c.geom) & set(robot.foot_geoms)]
        assert max(depth, default=0.0) <= deepest


def test_commands_are_drawn_anew(many):
    wanted, command = many.task.command, many.command
    standing = (command == 0.0).all(axis=1)
    assert standing.mean() == pytest.approx(wanted.standing, abs=0.04)
    forward, lateral = (command[:, axis] != 0.0 for axis in range(2))
    sideways, turning = lateral & ~forward, ~forward & ~lateral & ~standing
    straight, backward = (forward & ~lateral & (sign * command[:, 0] > 0.0) for sign in (1, -1))
    for kind in ("straight", "backward", "sideways", "turning"):
        share = locals()[kind][~standing].mean()
        assert share == pytest.approx(getattr(wanted, kind), abs=0.08), kind
    _evenly(command[straight, 0], *wanted.straight_forward)
    _evenly(command[backward, 0], *wanted.straight_backward)
    _evenly(command[sideways, 1], *wanted.lateral)
    _evenly(command[turning, 2], *wanted.yaw)
    others = forward & lateral
    for axis, limits in enumerate((wanted.forward, wanted.lateral)):
        _evenly(command[others, axis], *limits)
    held = command[:, 2] == 0.0  # the heading they hold is the present one
    assert held[straight | backward | sideways].all()
    assert held[others].mean() == pytest.approx(wanted.held, abs=0.08)
    _evenly(command[~held, 2], *wanted.yaw)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("seconds", "steps"),
    [(0.001, 1), (0.1, 5), (0.58, 29)],  # 0.58 / 0.02 is 28.999999999999996
)
def test_commands_are_drawn_after_whole_control_steps(seconds, steps):
    command = replace(TASK.command, resample_s=seconds, standing=0.0, turning=0.0)
    core, changed = _core(replace(TASK, command=command), 2, [GO1]), []
    for _ in range(2 * steps):
        before = core.command.copy()
        core.step(np.zeros((2, 12, 1)))
        changed.append((core.command[:, :2] != before[:, :2]).any(axis=1).tolist())
    expected = [step % steps == 0 for step in range(1, 2 * steps + 1)]
    assert changed == [[drawn] * 2 for drawn in expected]


def test_commands_that_hold_a_heading_turn_back_to_it():
    wanted = VelocityCommand.fixed(0.5, -0.2, held=True)
    core = _core(undisturbed(TASK, NOMINAL, wanted), 3)
    np.testing.assert_array_equal(core.command, [[0.5, -0.2, 0.0]] * 3)
    slot = core.spec.slice("command").start
    for row, turned in enumerate((0.3, -2.5, 3.0)):
        core.simulator.data(row).qpos[3:7] = [math.cos(turned / 2), 0, 0, math.sin(turned / 2)]
    core.step(np.zeros((3, 12, 1)))
    yaw = core.simulator.drive_state.base[:, 12]
    assert np.abs(yaw - [0.3, -2.5, 3.0]).max() < 0.05  # it stands
    expected = np.clip(-0.5 * yaw, -0.8, 0.8)
    np.testing.assert_allclose(core.command[:, 2], expected, atol=1e-12)
    dynamic = list(core.spec.dynamic_indices)
    seen = core.dynamic[:, :12, dynamic.index(slot + 2)]
    np.testing.assert_allclose(seen, np.repeat(expected[:, None], 12, axis=1), atol=1e-6)
    free = _core(undisturbed(TASK, NOMINAL, VelocityCommand.fixed(0.5)), 1)
    free.simulator.data(0).qpos[3:7] = [math.cos(0.5), 0, 0, math.sin(0.5)]
    free.step(np.zeros((1, 12, 1)))
    np.testing.assert_array_equal(free.command, [[0.5, 0.0, 0.0]])


def test_the_way_back_to_a_heading_is_the_short_one():
    wanted = VelocityCommand.fixed(0.5, held=True)
    core = _core(undisturbed(TASK, NOMINAL, wanted), 1)
    core.simulator.data(0).qpos[3:7] = [math.cos(1.5), 0, 0, math.sin(1.5)]  # 3 rad to the left
    core.step(np.zeros((1, 12, 1)))
    assert core.command[0, 2] == -0.8
    core.simulator.data(0).qpos[3:7] = [math.cos(1.7), 0, 0, math.sin(1.7)]  # 3.4 to the left
    core.step(np.zeros((1, 12, 1)))
    assert core.command[0, 2] == 0.8  # that is 2.88 to the right


def test_pushes_come_when_due_and_are_bounded():
    pushed, calm = (
        _core(_changed("push", function=events.within(push, push), every=(0.1, 0.2)), 8)
        for push in (0.5, 0.0)
    )
    first = np.full(8, -1)
    for step in range(1, 12):
        for core in (pushed, calm):
            core.step(np.zeros((8, 12, 1)))
        for row in np.flatnonzero(first < 0):
            change = pushed.simulator.data(row).qvel - calm.simulator.data(row).qvel
            if change.any():
                first[row] = step
                assert (np.abs(change[:2]) <= 0.5).all()
                assert (np.abs(change[:2]) > 0.0).all()
                np.testing.assert_array_equal(change[2:], 0.0)
    assert ((first >= 5) & (first <= 10)).all()
    assert len(set(first)) > 2


def test_pushes_come_again_and_again():
    core = _core(_changed("push", every=(0.1, 0.2)), 4)
    steps, push, pushed = [[] for _ in range(4)], core.simulator.push, []

    def noting(rows, change):
        pushed.extend(rows.tolist())
        push(rows, change)

    core.simulator.push = noting
    for step in range(1, 41):
        core.step(np.zeros((4, 12, 1)))
        for row in pushed:
            steps[row].append(step)
        pushed.clear()
    for times in steps:
        between = np.diff([0, *times])
        assert ((between >= 5) & (between <= 10)).all()
        assert len(set(between)) > 1


def test_measured_episodes_are_not_disturbed():
    task = undisturbed(TASK, PAIR, VelocityCommand.fixed(1.0))
    core = _core(task, 16)
    qpos, qvel = _states(core)
    np.testing.assert_array_equal(qpos[:, 3:7], [[1.0, 0.0, 0.0, 0.0]] * 16)
    np.testing.assert_array_equal(qvel, 0.0)
    assert len(np.unique(qpos[:, 7:])) == 16 * 12  # small scatter is left
    np.testing.assert_array_equal(core.simulator.drive_state.friction, [[0.3, 0.2]] * 16)
    np.testing.assert_array_equal(core.simulator.drive_state.strength, 1.0)
    np.testing.assert_array_equal(core.simulator.base_mass, 1.0)
    assert not any(core.simulator.model(row).nhfield for row in range(16))  # planes
    for _ in range(20):
        core.step(np.zeros((16, 12, 1)))
        np.testing.assert_array_equal(core.command, [[1.0, 0.0, 0.0]] * 16)


def test_robots_settle_and_stand():
    pair = FRICTION_PAIRS["high"]
    for rough in (0.0, 1.0):
        core = _core(_rough(undisturbed(TASK, pair, VelocityCommand.fixed(0.0)), rough), 8)
        lowest = np.full(8, np.inf)
        for _ in range(150):
            result = core.step(np.zeros((8, 12, 1)))
            assert not result.terminated.any()
            lowest = np.minimum(lowest, core.simulator.drive_state.base[:, 2])
        heights = np.array([robot.pose.base_height for robot in ROBOTS.values()])
        share = core.simulator.drive_state.base[:, 2] / heights[core.morphology_index]
        assert ((share > 0.8) & (share < 1.06)).all()
        assert (lowest / heights[core.morphology_index] > 0.7).all()
        assert (np.degrees(core.motion.tilt) < 4.0).all()
        assert (np.abs(core.simulator.drive_state.base[:, 3:9]) < 0.05).all()


def test_the_robot_of_a_row_can_change_and_others_stay():
    core = _core(num_envs=4)
    for _ in range(5):
        core.step(np.full((4, 12, 1), 0.1))
    kept = np.array([0, 3])
    before, length = core.dynamic.copy(), core.episode_length.copy()
    states = [core.simulator.data(row).qpos.tobytes() for row in kept]
    streams = core.simulator.streams.copy()
    core.reset(np.array([2, 1]), np.array([0, 3]))
    np.testing.assert_array_equal(core.morphology_index, [0, 3, 0, 3])
    np.testing.assert_array_equal(core.dynamic[kept], before[kept])
    np.testing.assert_array_equal(core.simulator.streams[kept], streams[kept])
    assert [core.simulator.data(row).qpos.tobytes() for row in kept] == states
    np.testing.assert_array_equal(core.episode_length, [length[0], 0, 0, length[3]])
    np.testing.assert_array_equal(core.action[[1, 2]], 0.0)
    assert (core.action[kept] > 0.0).all()
    masses = [core.simulator.model(row).body_mass.sum() for row in range(4)]
    assert masses[1] == pytest.approx(BODIES[3].mass, rel=0.1)
    assert masses[2] == pytest.approx(BODIES[0].mass, rel=0.1)
    core.step(np.zeros((4, 12, 1)))


def test_a_new_episode_forgets_how_long_feet_were_in_the_air():
    core = _core(num_envs=2)
    for row in range(2):
        core.simulator.data(row).qpos[2] = 50.0
    for _ in range(10):
        core.step(np.zeros((2, 12, 1)))
    core.reset(np.array([1]), np.array([1]))
    aloft = 10 * core.simulator.control_dt
    expected = np.repeat([[aloft], [0.0]], 4, axis=1)
    np.testing.assert_allclose(core.motion.air_time, expected, rtol=1e-12)


def test_a_new_episode_forgets_the_torques_of_the_last_one():
    def effort(moment):
        return moment.motion.effort[..., None]

    core = _core(replace(TASK, observations=(ObservationTerm("effort", effort),)), 4)
    core.step(np.full((4, 12, 1), 0.5, np.float32))
    assert (core.dynamic.max(axis=(1, 2)) > 0.0).all()
    core.reset(np.array([1, 3]), np.array([0, 1]))
    assert not core.dynamic[[1, 3]].any()
    assert not core.simulator.drive_state.torque[[1, 3]].any()
    assert core.simulator.drive_state.torque[[0, 2]].any(axis=1).all()


def test_rough_ground_reaches_as_far_as_an_episode_goes():
    """A robot that follows the fastest command for a whole episode stays on its ground."""
    core = _core(_rough(TASK), 4)
    reach = core.task.horizon * core.simulator.control_dt * max(core.task.command.forward) + 1.0
    for row in range(4):
        height, width = core.simulator.model(row).hfield_size[0, :2]
        assert min(height, width) > reach


def _same(*values):
    """Return an event that draws the same numbers for all."""
    return lambda draw: np.tile(values, (draw.num_rows, 1))


def test_what_several_events_add_to_a_start_adds_up():
    adding = (
        EventTerm("place", "position", _same(0.5, 0.25, 2.0)),
        EventTerm("ahead", "position", _same(0.25)),
        EventTerm("turned", "heading", lambda draw: np.full(draw.num_rows, 0.5)),
        EventTerm("more", "heading", lambda draw: np.full(draw.num_rows, 0.25)),
        EventTerm("fast", "base_velocity", _same(0.1, 0.2, 0.3, 0.4)),
        EventTerm("faster", "base_velocity", _same(0.3, -0.1)),
        EventTerm("bent", "joint_angle", lambda draw: np.full((draw.num_rows, 12), 0.02)),
        EventTerm("again", "joint_angle", lambda draw: np.full((draw.num_rows, 12), 0.03)),
    )
    task = undisturbed(TASK, NOMINAL, VelocityCommand.fixed(0.0))
    qpos, qvel = _states(_core(replace(task, events=adding), 2, [GO1]))
    place = (0.75, 0.25, 2.0 + GO1.pose.base_height + 0.01)
    np.testing.assert_allclose(qpos[:, :3], [place] * 2, rtol=1e-12)
    turn = (math.cos(0.375), 0.0, 0.0, math.sin(0.375))
    np.testing.assert_allclose(qpos[:, 3:7], [turn] * 2, atol=1e-12)
    np.testing.assert_allclose(qpos[:, 7:], [np.array(GO1.pose.angles) + 0.05] * 2, atol=1e-12)
    np.testing.assert_allclose(qvel[:, :6], [(0.4, 0.1, 0.3, 0.4, 0.0, 0.0)] * 2, atol=1e-12)


@pytest.mark.parametrize(("side", "change"), [(0, -9.0), (1, 9.0)])
def test_joints_start_at_their_soft_limits_where_an_event_bends_them_further(side, change):
    bent = EventTerm("bent", "joint_angle", lambda draw: np.full((draw.num_rows, 12), change))
    core = _core(replace(TASK, events=(bent,)), 4)
    expected = [np.array(robot.soft_ranges)[:, side] for robot in BODIES]
    np.testing.assert_allclose(core.motion.joint_angle, expected, rtol=1e-12)


def test_events_that_come_again_have_times_of_their_own():
    """Every 5 and every 3.5 control steps, cut to 3; strength is set, not scaled."""
    steps, step = {"tire": [], "ice": []}, 0

    def noting(name, value):
        def event(draw):
            steps[name] += [step] * draw.num_rows
            return np.tile(value, (draw.num_rows, 1)) if name == "ice" else np.full(2, value)

        return event

    timed = (
        EventTerm("tire", "strength", noting("tire", 0.5), every=(0.1, 0.1)),
        EventTerm("ice", "friction", noting("ice", (0.3, 0.2)), every=(0.07, 0.07)),
    )
    core = _core(replace(TASK, events=timed), 2)
    for step in range(1, 12):
        np.testing.assert_array_equal(
            core.simulator.drive_state.strength, [0.5 if step > 5 else 1.0] * 2
        )
        core.step(np.zeros((2, 12, 1)))
    assert steps == {"tire": [5, 5, 10, 10], "ice": [3, 3, 6, 6, 9, 9]}


@pytest.mark.parametrize(
    ("seconds", "expected"), [(0.58, [29, 58]), (1e18, []), (1e308, []), (0.0, [*range(1, 61)])]
)
def test_events_come_after_whole_control_steps_and_after_eternities_never(seconds, expected):
    steps = []

    def noting(draw):
        steps.append(step)
        return np.ones(draw.num_rows)

    tire = EventTerm("tire", "strength", noting, every=(seconds, seconds))
    core = _core(replace(TASK, events=(tire,)), 1)
    for step in range(1, 61):
        core.driven.disturb(np.array([step]))
    assert steps == expected


def test_terms_are_told_the_height_of_the_stance_on_either_ground():
    told = MetricTerm("stance", "m", lambda transition: transition.standing_height)
    core = _core(replace(_rough(TASK, 0.5), metrics=(told,)), 16)
    assert set(core.simulator.model_index % 2) == {0, 1}
    expected = [BODIES[body].pose.base_height for body in core.morphology_index]
    assert core.step(np.zeros((16, 12, 1))).metrics["stance"].tolist() == expected
