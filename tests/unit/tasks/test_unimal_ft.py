import math

import mujoco
import numpy as np
import pytest

from gmc_bench.bodies.clearance import FALL_RATIO
from gmc_bench.conformance.morphologies import biped
from gmc_bench.sim.model import compile_model
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.spec import Transition
from gmc_bench.tasks.unimal_ft import TASK


@pytest.fixture(scope="module")
def model():
    return compile_model(biped(), TASK.scene).model


def test_it_is_registered_under_its_id():
    assert TASKS.get("unimal-ft-v1") is TASK
    assert TASKS.resolve("unimal-ft") == TASK.id == "unimal-ft-v1"


def test_times_are_those_of_the_published_task():
    compiled = compile_model(biped(), TASK.scene)
    assert compiled.sim_dt == 0.005
    assert compiled.control_dt == 0.02
    assert TASK.horizon * compiled.control_dt == 20.0
    assert TASK.reset_noise == 0.005


def test_the_floor_is_a_box_of_200_by_200_m_with_its_surface_at_1_m(model):
    floor = model.geom("floor/0")
    assert floor.type == mujoco.mjtGeom.mjGEOM_BOX
    np.testing.assert_array_equal(floor.size, [100.0, 100.0, 1.0])
    np.testing.assert_array_equal(floor.pos, [0.0, 0.0, 0.0])
    assert floor.pos[2] + floor.size[2] == TASK.ground_height == 1.0
    np.testing.assert_array_equal(floor.friction, [0.7, 0.1, 0.1])
    assert floor.condim == 3


def test_a_body_starts_above_the_floor_and_drops_onto_it(model):
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert data.xpos[1].tolist() == pytest.approx([0.0, 0.0, biped().limbs[0].position[2] + 1.0])
    assert data.ncon == 0
    # A free fall of 0.2 m takes sqrt(2 * 0.2 / 9.81) s, about 40 engine steps.
    fall = math.sqrt(2 * TASK.floor_clearance / 9.81) / 0.005
    steps = 0
    while not data.ncon and steps < 100:
        mujoco.mj_step(model, data)
        steps += 1
    assert steps == pytest.approx(fall, abs=3)
    floor = model.geom("floor/0").id
    assert all(floor in contact.geom for contact in data.contact)


def test_the_reward_is_the_speed_along_x_and_half_the_height_is_a_fall():
    (reward,), (fall,) = TASK.rewards, TASK.terminations
    assert (reward.name, reward.weight, fall.name) == ("forward_velocity", 1.0, "fell")
    transition = Transition(
        torso_before=np.array([[1.0, 0.0, 1.5], [1.0, 0.0, 1.5]]),
        torso_after=np.array([[1.1, 0.0, 1.301], [0.9, 0.0, 1.0 + FALL_RATIO * 0.6]]),
        standing_height=np.array([0.6, 0.6]),
        ground_height=TASK.ground_height,
        control_dt=0.02,
    )
    np.testing.assert_allclose(reward.function(transition), [5.0, -5.0])
    assert FALL_RATIO == 0.5
    assert fall.function(transition).tolist() == [False, True]
