import mujoco
import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.robots import GO1
from gmc_bench.robots.friction import (
    FRICTION_PAIRS,
    FrictionPair,
    sliding_speeds,
)
from gmc_bench.robots.model import compile_robot
from tests.support.friction import FrictionStepper
from tests.support.stance import hold, settle

LEVELS = sorted(FRICTION_PAIRS)
MASS, GRAVITY, RADIUS = 5.0, 9.81, 0.023

# A loaded foot that slides but does not turn, with the contact settings of the robots.
BLOCK = f"""
<mujoco>
  <option timestep="0.005" integrator="implicitfast" cone="elliptic" impratio="10">
    <flag autoreset="disable"/>
  </option>
  <worldbody>
    <geom name="floor" type="plane" size="0 0 1" condim="1"/>
    <body pos="0 0 {RADIUS}">
      <joint type="slide" axis="1 0 0"/>
      <joint type="slide" axis="0 1 0"/>
      <joint type="slide" axis="0 0 1"/>
      <geom name="foot" type="sphere" size="{RADIUS}" mass="{MASS}" condim="3" priority="1"
            friction="1 0.02 0.01" solimp="0.9 0.95 0.023"/>
    </body>
  </worldbody>
</mujoco>
"""


class _Block:
    def __init__(self, pair, rule="two-state"):
        self.model = mujoco.MjModel.from_xml_string(BLOCK)
        self.data = mujoco.MjData(self.model)
        foot = self.model.geom("foot").id
        self.stepper = FrictionStepper(self.model, [foot], pair, rule)
        self.push(0.0, 0.2)

    def push(self, ratio, seconds, angle=0.7):
        """Push sideways with `ratio` times the weight; return the final speed, m/s."""
        force = ratio * MASS * GRAVITY
        self.data.qfrc_applied[:2] = force * np.cos(angle), force * np.sin(angle)
        for _ in range(round(seconds / self.model.opt.timestep)):
            self.stepper.step(self.data)
        return float(np.hypot(*self.data.qvel[:2]))


@pytest.mark.parametrize("level", LEVELS)
def test_a_foot_starts_to_slide_at_the_static_coefficient(level):
    pair = FRICTION_PAIRS[level]
    assert _Block(pair).push(0.95 * pair.static, 2.0) < 0.01
    assert _Block(pair).push(1.05 * pair.static, 2.0) > 0.5


@pytest.mark.parametrize("level", LEVELS)
def test_a_sliding_foot_feels_the_dynamic_coefficient(level):
    pair = FRICTION_PAIRS[level]
    block = _Block(pair)
    ratio, seconds = 1.1 * pair.static, 0.5
    before, rise = block.push(ratio, 1.0), block.data.qvel[2]
    after = block.push(ratio, seconds)
    # Both forces from the momentum they leave behind: the engine lifts a fast slider a little.
    friction = ratio * GRAVITY * seconds - (after - before)
    support = GRAVITY * seconds + block.data.qvel[2] - rise
    assert before > 0.5
    assert friction / support == pytest.approx(pair.dynamic, rel=0.05)


@pytest.mark.parametrize("level", LEVELS)
def test_a_foot_keeps_sliding_below_the_static_coefficient(level):
    pair = FRICTION_PAIRS[level]
    between = (pair.static + pair.dynamic) / 2
    block = _Block(pair)
    start = block.push(1.5 * pair.static, 0.5)
    assert block.push(between, 0.5) > start  # it would have stayed where it was
    assert _Block(pair).push(between, 0.5) < 0.01


@pytest.mark.parametrize("rule", ["dynamic", "static", "mean"])
def test_constant_rules_have_one_threshold(rule):
    pair = FRICTION_PAIRS["nominal"]
    limit = {"dynamic": 0.6, "static": 0.8, "mean": 0.7}[rule]
    assert _Block(pair, rule).push(0.95 * limit, 1.0) < 0.01
    assert _Block(pair, rule).push(1.05 * limit, 1.0) > 0.2


def test_curve_by_hand():
    pair = FrictionPair(0.8, 0.6)
    speeds = np.array([0.0, 0.1, 10.0])
    expected = [0.8, 0.6 + 0.2 / np.e, 0.6]
    np.testing.assert_allclose(pair.coefficient("two-state", speeds), expected)
    assert pair.coefficient("mean", speeds).tolist() == pytest.approx([0.7] * 3)
    for equal in (0.0, 0.5):
        assert FrictionPair(equal, equal).coefficient("two-state", 1.0) == equal


def _thrown_foot(velocity, spin):
    text = f"""<mujoco><worldbody><body pos="0 0 1"><freejoint/>
      <geom type="sphere" size="{RADIUS}"/></body></worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qvel[:] = (*velocity, *spin)
    mujoco.mj_forward(model, data)
    return float(sliding_speeds(model, data, [0])[0])


def test_speed_is_that_of_the_contact_point():
    # Rolling along +x is spinning about +y; along +y it is spinning about -x.
    assert _thrown_foot((0.3, 0.4, 5.0), (0, 0, 7.0)) == pytest.approx(0.5)
    assert _thrown_foot((1.0, 0.0, 0.0), (0, 1.0 / RADIUS, 0)) == pytest.approx(0.0, abs=1e-12)
    assert _thrown_foot((0.0, 1.0, 0.0), (-1.0 / RADIUS, 0, 0)) == pytest.approx(0.0, abs=1e-12)
    assert _thrown_foot((1.0, 0.0, 0.0), (0, -1.0 / RADIUS, 0)) == pytest.approx(2.0)


def test_stepper_writes_each_foot_of_a_robot():
    compiled = compile_robot(GO1)
    pair = FRICTION_PAIRS["nominal"]
    stepper = FrictionStepper(compiled.model, compiled.foot_geoms, pair)
    data = mujoco.MjData(compiled.model)
    data.qpos[:] = settle(compiled)
    data.qvel[compiled.joint_dofs[2]] = 5.0  # the front left calf alone
    written = stepper.step(data)
    np.testing.assert_array_equal(compiled.model.geom_friction[compiled.foot_geoms, 0], written)
    assert written[0] == pytest.approx(pair.dynamic)
    np.testing.assert_allclose(written[1:], pair.static)


def test_robot_stands_on_two_state_feet(robot):
    compiled = compile_robot(robot)
    stepper = FrictionStepper(compiled.model, compiled.foot_geoms, FRICTION_PAIRS["nominal"])
    data = mujoco.MjData(compiled.model)
    data.qpos[:] = settle(compiled)
    for _ in range(600):
        stepper.write(data)
        hold(compiled, data)
    assert data.qpos[2] > 0.8 * robot.pose.base_height
    np.testing.assert_allclose(compiled.model.geom_friction[compiled.foot_geoms, 0], 0.8, rtol=0.01)


@pytest.mark.parametrize(("static", "dynamic"), [(0.5, 0.6), (0.5, -0.1), (np.inf, 0.1)])
def test_impossible_pairs_are_refused(static, dynamic):
    with pytest.raises(ConfigError, match="friction pair"):
        FrictionPair(static, dynamic)


def test_unknown_rules_are_refused():
    with pytest.raises(ConfigError, match="did you mean 'static'"):
        FRICTION_PAIRS["low"].coefficient("statik", 0.0)
