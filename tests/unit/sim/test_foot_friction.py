"""Friction of feet in a batch: when they slide, and what then holds them."""

import itertools

import mujoco
import numpy as np
import pytest

from gmc_bench.robots import GO1, ROBOTS
from gmc_bench.robots.friction import FRICTION_PAIRS, FrictionPair
from gmc_bench.robots.model import CompiledRobot, compile_robot
from tests.support.driven import make_simulator, place, stance_of

LEVELS = sorted(FRICTION_PAIRS)
GRAVITY, RADIUS = 9.81, 0.023


@pytest.fixture(scope="module")
def compiled():
    return {name: compile_robot(robot) for name, robot in ROBOTS.items()}


@pytest.mark.parametrize("rule", ["dynamic", "static", "mean"])
def test_constant_rules_hold_one_coefficient_per_row(compiled, rule):
    simulator = make_simulator([compiled["go1"]], 3, rule=rule, num_threads=1)
    pairs = np.array([(p.static, p.dynamic) for p in FRICTION_PAIRS.values()])
    simulator.set_friction(np.arange(3), pairs)
    place(simulator, index=[0, 0, 0])
    simulator.step(stance_of(simulator) + 0.5)
    expected = {"static": pairs[:, 0], "dynamic": pairs[:, 1], "mean": pairs.mean(axis=1)}[rule]
    feet = compiled["go1"].foot_geoms
    for row in range(3):
        written = simulator.model(row).geom_friction[feet, 0]
        np.testing.assert_allclose(written, expected[row])
    simulator.set_friction(np.array([1]), np.array([[0.5, 0.5]]))
    np.testing.assert_array_equal(simulator.model(1).geom_friction[feet, 0], 0.5)
    np.testing.assert_allclose(simulator.model(2).geom_friction[feet, 0], expected[2])


def _sled():
    """Return a slab on four feet with the contacts of the robots, its mass at ground level.

    A force through its centre of mass does not tip it, so that all feet slide at once. Twelve
    light joints on top stand for those of a robot.
    """
    feet = "".join(
        f'<geom name="foot{k}" type="sphere" pos="{x} {y} 0" size="{RADIUS}" condim="3" '
        f'priority="1" friction="1 0.02 0.01" solimp="0.9 0.95 0.023"/>'
        for k, (x, y) in enumerate(itertools.product((0.4, -0.4), (0.3, -0.3)))
    )
    joints = "".join(
        f'<body pos="0 {0.02 * k} 0.3"><joint name="j{k}" axis="1 0 0" armature="0.1"/>'
        f'<inertial pos="0 0 0" mass="0.001" diaginertia="1e-6 1e-6 1e-6"/></body>'
        for k in range(12)
    )
    reads = 'geom2="floor" data="found force" reduce="netforce" num="1"'
    sensors = "".join(f'<contact geom1="foot{k}" {reads}/>' for k in range(4))
    motors = "".join(f'<motor joint="j{k}"/>' for k in range(12))
    model = mujoco.MjModel.from_xml_string(f"""<mujoco>
      <option timestep="0.005" integrator="implicitfast" cone="elliptic" impratio="10">
        <flag autoreset="disable"/></option>
      <worldbody><geom name="floor" type="plane" size="0 0 1" condim="1"/>
        <body name="base" pos="0 0 {RADIUS}"><freejoint/>
          <inertial pos="0 0 {-RADIUS}" mass="5" diaginertia="0.5 0.5 0.5"/>
          {feet}{joints}</body></worldbody>
      <actuator>{motors}</actuator>
      <sensor>{sensors}<contact body1="base" {reads}/></sensor></mujoco>""")
    return CompiledRobot(
        robot=GO1,
        model=model,
        joint_qpos=np.arange(7, 19),
        joint_dofs=np.arange(6, 18),
        actuators=np.arange(12),
        foot_geoms=np.array([model.geom(f"foot{k}").id for k in range(4)]),
        base_body=model.body("base").id,
    )


class _Drag:
    def __init__(self, pair, rule="two-state"):
        self.sled = _sled()
        self.simulator = make_simulator([self.sled], 1, rule=rule, num_threads=1)
        qpos = np.zeros((1, 19))
        qpos[0, 2], qpos[0, 3], qpos[0, 6] = RADIUS, np.cos(0.4), np.sin(0.4)
        place(self.simulator, qpos)
        self.simulator.set_friction(np.array([0]), np.array([[pair.static, pair.dynamic]]))
        self.pull(0.0, 0.3)

    def pull(self, ratio, seconds, angle=0.7):
        """Pull sideways with `ratio` times the weight; return the final speed, m/s."""
        data = self.simulator.data(0)
        force = ratio * self.sled.model.body_mass.sum() * GRAVITY
        data.xfrc_applied[1, :2] = force * np.cos(angle), force * np.sin(angle)
        for _ in range(round(seconds / self.simulator.control_dt)):
            self.simulator.step(np.zeros((1, 12)))
        return float(np.hypot(*data.qvel[:2]))


@pytest.mark.parametrize("level", LEVELS)
def test_feet_start_to_slide_at_the_static_coefficient(level):
    pair = FRICTION_PAIRS[level]
    assert _Drag(pair).pull(0.95 * pair.static, 2.0) < 0.01
    assert _Drag(pair).pull(1.05 * pair.static, 2.0) > 0.5


@pytest.mark.parametrize("level", LEVELS)
def test_sliding_feet_feel_the_dynamic_coefficient(level):
    pair = FRICTION_PAIRS[level]
    drag = _Drag(pair)
    ratio, seconds = 1.1 * pair.static, 0.5
    before, rise = drag.pull(ratio, 1.0), drag.simulator.data(0).qvel[2]
    after = drag.pull(ratio, seconds)
    # Both forces from the momentum they leave behind: the engine lifts a fast slider a little.
    friction = ratio * GRAVITY * seconds - (after - before)
    support = GRAVITY * seconds + drag.simulator.data(0).qvel[2] - rise
    assert before > 0.5
    assert friction / support == pytest.approx(pair.dynamic, rel=0.05)


@pytest.mark.parametrize("level", LEVELS)
def test_sliding_feet_keep_sliding_below_the_static_coefficient(level):
    pair = FRICTION_PAIRS[level]
    between = (pair.static + pair.dynamic) / 2
    drag = _Drag(pair)
    start = drag.pull(1.5 * pair.static, 0.5)
    assert drag.pull(between, 0.5) > start
    assert _Drag(pair).pull(between, 0.5) < 0.01  # at rest it stays


@pytest.mark.parametrize("rule", ["dynamic", "static", "mean"])
def test_constant_rules_have_one_threshold(rule):
    limit = {"dynamic": 0.6, "static": 0.8, "mean": 0.7}[rule]
    assert _Drag(FRICTION_PAIRS["nominal"], rule).pull(0.95 * limit, 1.0) < 0.01
    assert _Drag(FRICTION_PAIRS["nominal"], rule).pull(1.05 * limit, 1.0) > 0.2


@pytest.mark.parametrize("name", sorted(ROBOTS))
def test_a_pushed_robot_slides_on_low_friction_and_stops_on_more(compiled, name):
    simulator = make_simulator([compiled[name]], 3, num_threads=1)
    pairs = [FRICTION_PAIRS[level] for level in ("low", "nominal", "high")]
    simulator.set_friction(np.arange(3), np.array([(p.static, p.dynamic) for p in pairs]))
    place(simulator, index=[0, 0, 0])
    stance = stance_of(simulator)
    for _ in range(25):
        simulator.step(stance)
    feet, slides = compiled[name].foot_geoms, np.zeros(3)
    simulator.push(np.arange(3), np.tile([0.0, 1.0], (3, 1)))
    places = [simulator.data(row).geom_xpos[feet].copy() for row in range(3)]
    for _ in range(25):
        simulator.step(stance)
        for row in range(3):
            new = simulator.data(row).geom_xpos[feet].copy()
            touching = simulator.drive_state.contacts[row, :4] > 0.0
            moved = np.linalg.norm((new - places[row])[:, :2], axis=1)
            slides[row] += (moved * touching).sum()
            places[row] = new
    assert slides[0] > 3 * slides[1:].max()


def test_pairs_of_equal_coefficients_are_plain_friction(compiled):
    pair = FrictionPair(0.7, 0.7)
    found = []
    for rule in ("two-state", "mean"):
        simulator = make_simulator([compiled["go2"]], 1, rule=rule, num_threads=1)
        simulator.set_friction(np.array([0]), np.array([[pair.static, pair.dynamic]]))
        place(simulator)
        for _ in range(30):
            simulator.step(stance_of(simulator) + 0.2)
        found.append(simulator.data(0).qpos.tobytes())
    assert found[0] == found[1]
