"""Bodies with joint drives in a batch, against plain simulations of single robots."""

import copy

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import chain
from gmc_bench.core.errors import ConfigError
from gmc_bench.robots import ANYMAL_C, ROBOTS
from gmc_bench.robots.friction import FRICTION_PAIRS, FRICTION_RULES, sliding_speeds
from gmc_bench.robots.model import CompiledRobot, compile_robot
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.model import Scene, compile_models, drive_model
from gmc_bench.tasks.unimal_ft import TASK as UNIMAL_FT
from tests.support.actuation import drive_of
from tests.support.driven import make_simulator, place, stance_of
from tests.support.friction import FrictionStepper

NUM_SUBSTEPS = 4
GRAVITY = 9.81


@pytest.fixture(scope="module")
def compiled():
    return {name: compile_robot(robot) for name, robot in ROBOTS.items()}


def _rotation(quaternion):
    matrix = np.empty(9)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return matrix.reshape(3, 3)


def _plain_step(robot, data, stepper, drive, target, strength):
    """Return the torques of each physics step of one control step."""
    torques = []
    for _ in range(NUM_SUBSTEPS):
        stepper.write(data)
        angles, velocities = data.qpos[robot.joint_qpos], data.qvel[robot.joint_dofs]
        wanted = strength * (drive.kp * (target - angles) - drive.kd * velocities)
        torque = np.clip(wanted, -drive.torque_limit, drive.torque_limit)
        data.ctrl[robot.actuators] = torque
        mujoco.mj_step(stepper._model, data)
        torques.append(torque)
    return np.array(torques)


@pytest.mark.parametrize("name", sorted(ROBOTS))
@pytest.mark.parametrize("rule", FRICTION_RULES)
def test_every_step_is_that_of_a_plain_simulation(compiled, name, rule):
    """100 random control steps: the same motion, torques, readings and foot coefficients."""
    robot, pair, strength = compiled[name], FRICTION_PAIRS["nominal"], 0.95
    simulator = make_simulator([robot], 1, rule=rule, num_threads=1)
    place(simulator)
    simulator.set_friction(np.array([0]), np.array([[pair.static, pair.dynamic]]))
    simulator.drive_state.strength[:] = strength
    model = copy.copy(robot.model)
    data = mujoco.MjData(model)
    data.qpos[:] = robot.standing_qpos()
    stepper = FrictionStepper(model, robot.foot_geoms, pair, rule)
    stepper.write(data)
    mujoco.mj_forward(model, data)
    drive = drive_of(robot.robot)
    random = np.random.default_rng(5)
    coefficients = []
    for _ in range(100):
        target = drive.targets(random.normal(0.0, 0.8, 12))
        torques = _plain_step(robot, data, stepper, drive, target, strength)
        simulator.step(target[None])
        live, weights = simulator.data(0), simulator.model(0).geom_friction
        np.testing.assert_allclose(live.qpos, data.qpos, atol=1e-8)
        np.testing.assert_allclose(live.qvel, data.qvel, atol=1e-6)
        coefficients.append(model.geom_friction[robot.foot_geoms, 0])
        np.testing.assert_allclose(weights[robot.foot_geoms, 0], coefficients[-1], atol=1e-7)
        np.testing.assert_allclose(simulator.drive_state.torque[0], torques[-1], atol=1e-6)
        np.testing.assert_allclose(
            simulator.drive_state.effort[0], (torques**2).mean(axis=0), rtol=1e-6
        )
    spread = np.ptp(coefficients)
    assert spread > 0.19 if rule == "two-state" else spread == 0.0


@pytest.mark.parametrize("name", sorted(ROBOTS))
def test_readings_are_what_the_engine_holds(compiled, name):
    robot = compiled[name]
    simulator = make_simulator([robot], 1, num_threads=1)
    random = np.random.default_rng(2)
    qpos = robot.standing_qpos()[None].copy()
    qpos[0, 3:7] = random.normal(size=4)  # of any length, as the engine takes them
    qpos[0, 2] += 1.0
    place(simulator, qpos, random.normal(0.0, 0.5, (1, 18)))
    _check_readings(simulator, robot)  # after a reset
    felt = 0.0
    for _ in range(60):  # a tumbling fall
        simulator.step(stance_of(simulator) + random.normal(0.0, 0.2, (1, 12)))
        _check_readings(simulator, robot)
        felt += simulator.drive_state.contacts.sum()
    assert felt > 0.0


def _check_readings(simulator, robot):
    data, base = simulator.data(0), simulator.drive_state.base[0]
    turn = _rotation(data.qpos[3:7] / np.linalg.norm(data.qpos[3:7]))
    np.testing.assert_array_equal(base[:3], data.qpos[:3])
    np.testing.assert_allclose(base[3:6], turn.T @ data.qvel[:3], atol=1e-12)
    np.testing.assert_array_equal(base[6:9], data.qvel[3:6])
    np.testing.assert_allclose(base[9:12], turn.T @ [0, 0, -1], atol=1e-12)
    assert base[12] == pytest.approx(np.arctan2(turn[1, 0], turn[0, 0]), abs=1e-12)
    for token, joint in enumerate(robot.robot.joint_names):
        assert simulator.drive_state.joint_state[0, token, 0] == data.joint(joint).qpos[0]
        assert simulator.drive_state.joint_state[0, token, 1] == data.joint(joint).qvel[0]
    forces = data.sensordata.reshape(5, 4)[:, 1:]
    np.testing.assert_allclose(simulator.drive_state.contacts[0], np.linalg.norm(forces, axis=1))


def test_any_coordinate_that_is_not_finite_counts_even_without_a_warning(compiled):
    robot = compiled["go1"]
    simulator = make_simulator([robot], 2, num_threads=1)
    for number in range(19 + 18):
        state = np.concatenate([np.tile(robot.standing_qpos(), (2, 1)), np.zeros((2, 18))], axis=1)
        state[0, number] = np.nan
        place(simulator, state[:, :19], state[:, 19:])
        assert not any(warning.number for warning in simulator.data(0).warning)
        assert simulator.diverged.tolist() == [True, False], number


def test_feet_carry_the_weight_and_the_base_is_felt(compiled):
    robots = list(compiled.values())
    simulator = make_simulator(robots, len(robots), num_threads=1)
    place(simulator, base_mass=1.1)
    for _ in range(200):
        simulator.step(stance_of(simulator))
    for row, robot in enumerate(robots):
        weight = (robot.robot.mass + 0.1 * robot.robot.base.inertial.mass) * GRAVITY
        data = simulator.data(row)
        vertical = sum(
            _foot_force(simulator.model(row), data, geom)[2] for geom in robot.foot_geoms
        )
        assert vertical == pytest.approx(weight, rel=0.03)
        assert simulator.drive_state.contacts[row, :4].sum() == pytest.approx(weight, rel=0.15)
        assert (simulator.drive_state.contacts[row, :4] > 0.1 * weight).all()
        assert simulator.drive_state.contacts[row, 4] == 0.0
    qpos = np.stack([robot.standing_qpos(0.3) for robot in robots])
    qpos[:, 3:7] = 0.0, 1.0, 0.0, 0.0  # on its back
    place(simulator, qpos)
    for _ in range(50):
        simulator.step(stance_of(simulator))
    assert (simulator.drive_state.contacts[:, 4] > 1.0).all()


def _foot_force(model, data, geom):
    total, force = np.zeros(3), np.empty(6)
    for number in range(data.ncon):
        contact = data.contact[number]
        if geom in contact.geom:
            mujoco.mj_contactForce(model, data, number, force)
            total += contact.frame.reshape(3, 3).T @ force[:3]
    return total * np.sign(total[2])


@pytest.mark.parametrize("strength", [1.0, 1.5])
def test_torques_end_at_the_limits(compiled, strength):
    robots = list(compiled.values())
    simulator = make_simulator(robots, len(robots), num_threads=1)
    place(simulator)
    simulator.drive_state.strength[:] = strength
    limits = np.array([[link.joint.torque_limit for link in r.robot.links] for r in robots])
    far = np.where(np.arange(12) % 2, 9.0, -9.0)
    simulator.step(stance_of(simulator) + far)
    np.testing.assert_array_equal(np.abs(simulator.drive_state.torque), limits)
    np.testing.assert_allclose(simulator.drive_state.effort, limits**2)
    for row, robot in enumerate(robots):
        np.testing.assert_array_equal(
            simulator.data(row).actuator_force[robot.actuators], simulator.drive_state.torque[row]
        )


def test_robots_of_a_batch_move_as_each_does_alone(compiled):
    """Each with its own drives, feet, friction and strength."""
    robots, random = list(compiled.values()), np.random.default_rng(3)
    actions = random.normal(0.0, 0.4, (15, len(robots), 12))
    dynamic, strength = np.linspace([0.2, 0.9], [0.6, 1.1], len(robots)).T

    def run(rows):
        simulator = make_simulator([robots[row] for row in rows], len(rows), num_threads=1)
        pairs = np.stack([dynamic[rows] + 0.2, dynamic[rows]], axis=1)
        simulator.set_friction(np.arange(len(rows)), pairs)
        simulator.drive_state.strength[:] = strength[rows]
        place(simulator)
        for action in actions:
            simulator.step(stance_of(simulator) + action[rows])
        return [simulator.data(number).qpos.tobytes() for number in range(len(rows))]

    rows = np.arange(len(robots))
    assert run(rows) == [run(rows[row : row + 1])[0] for row in rows]


def test_rows_keep_their_own_masses_and_pools_restore_them(compiled):
    simulator = make_simulator([compiled["go1"], compiled["go2"]], 2, num_threads=1)
    place(simulator, base_mass=1.15, index=[0, 1])
    base = compiled["go1"].base_body
    own = compiled["go1"].model.body_mass[base]
    assert simulator.model(0).body_mass[base] == pytest.approx(1.15 * own)
    inertia = compiled["go1"].model.body_inertia[base]
    np.testing.assert_allclose(simulator.model(0).body_inertia[base], 1.15 * inertia)
    place(simulator, index=[1, 0])  # the models change rows
    assert simulator.model(1).body_mass[base] == own
    assert compiled["go1"].model.body_mass[base] == own


def test_a_heavier_base_moves_like_a_heavier_robot(compiled):
    """All but the softness of constraints is that of a model whose constants follow the mass."""
    robots = list(compiled.values())
    simulator = make_simulator(robots, len(robots), num_threads=1)
    place(simulator, base_mass=1.15)
    for row, robot in enumerate(robots):
        held = copy.copy(simulator.model(row))
        held.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        renewed = copy.copy(held)
        mujoco.mj_setConst(renewed, mujoco.MjData(renewed))
        assert renewed.body_subtreemass[1] > 1.04 * held.body_subtreemass[1]
        found = []
        for model in (held, renewed):
            rng = np.random.default_rng(row)
            data = mujoco.MjData(model)
            data.qpos[:] = robot.standing_qpos(3.0)
            data.qpos[0] = 20.0  # far from the origin, where a wrong centre is farthest off
            data.qvel[:] = rng.uniform(-2, 2, model.nv)
            data.ctrl[:] = rng.uniform(-9, 9, model.nu)
            mujoco.mj_forward(model, data)
            speeds = sliding_speeds(model, data, robot.foot_geoms.tolist())
            found.append((data.qacc.copy(), speeds, data.subtree_com[1].copy()))
        np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9)
        assert abs(found[0][2] - found[1][2]).max() > 0.5


def test_a_push_adds_to_how_a_robot_moves_already(compiled):
    simulator = make_simulator([compiled["go1"]], 2, num_threads=1)
    moving = np.linspace(-0.9, 0.8, 18)
    place(simulator, qvel=np.stack([moving, moving]))
    simulator.push(np.array([1]), np.array([[0.5, -0.25]]))
    np.testing.assert_array_equal(simulator.data(0).qvel, moving)
    np.testing.assert_allclose(simulator.data(1).qvel[:2], moving[:2] + np.array([0.5, -0.25]))
    np.testing.assert_array_equal(simulator.data(1).qvel[2:], moving[2:])


def test_a_place_does_not_depend_on_who_was_there_before(compiled):
    """Models are reused: what an earlier episode wrote into them must not reach the next one."""
    robots = [compiled["go1"], compiled[ANYMAL_C.name]]

    def run(simulator):
        simulator.set_friction(np.arange(2), np.array([[0.8, 0.6], [0.8, 0.6]]))
        place(simulator, index=[0, 0])
        for _ in range(20):
            simulator.step(stance_of(simulator) + 0.3)
        return simulator.get_state()["physics"].tobytes()

    used = make_simulator(robots, 2, num_threads=1)
    used.set_friction(np.arange(2), np.array([[0.3, 0.2], [1.2, 1.0]]))
    place(used, base_mass=1.1, index=[0, 1])
    for _ in range(20):
        used.step(stance_of(used) - 0.4)
    assert run(used) == run(make_simulator(robots, 2, num_threads=1))


def test_impossible_batches_are_refused(compiled):
    robot = compiled["go1"]
    with pytest.raises(ConfigError, match="at least one model"):
        make_simulator([], 1)
    slow = copy.copy(robot.model)
    slow.opt.timestep = 0.01
    other = CompiledRobot(**{**vars(robot), "robot": ANYMAL_C, "model": slow})
    with pytest.raises(ConfigError, match="same time steps"):
        make_simulator([robot, other], 1)
    kinds = [drive_model(robot, Scene(floor="")), *compile_models([chain(2)], UNIMAL_FT.scene)]
    with pytest.raises(ConfigError, match="and one kind of motors"):
        BatchSimulator(kinds, 1)
    with pytest.raises(ConfigError, match="num_threads"):
        make_simulator([robot], 1, num_threads=10_000)
    with pytest.raises(ConfigError, match="call reset first"):
        make_simulator([robot], 1, num_threads=1).step(np.zeros((1, 12)))
    with pytest.raises(ConfigError, match="hosts no model"):
        make_simulator([robot], 1).data(0)
    with pytest.raises(ConfigError, match="friction pair"):
        _place_with_bad_friction(robot)


def _place_with_bad_friction(robot):
    simulator = make_simulator([robot], 1, num_threads=1)
    place(simulator)
    simulator.set_friction(np.array([0]), np.array([[0.5, 0.6]]))
