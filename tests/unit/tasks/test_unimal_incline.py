import math

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.sim.model import compile_model
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.unimal_ft import TASK as FLAT
from gmc_bench.tasks.unimal_incline import TASK

COSINE, SINE = math.cos(math.radians(10.0)), math.sin(math.radians(10.0))
HEIGHT = biped().limbs[0].position[2]


@pytest.fixture(scope="module")
def model():
    return compile_model(biped(), TASK.scene).model


def test_it_is_registered_under_its_id():
    assert TASKS.get("unimal-incline-v1") is TASK


def test_the_ground_rises_by_ten_degrees_along_x(model):
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    found = np.zeros(1, np.int32)
    for x in (-70.0, 0.0, 70.0):
        start, down = np.array([x, 1.0, 50.0]), np.array([0.0, 0.0, -1.0])
        height = 50.0 - mujoco.mj_ray(model, data, start, down, None, 1, -1, found)
        assert height == pytest.approx(x * SINE / COSINE + 1.0 / COSINE, abs=1e-9)
        assert model.geom(int(found[0])).name == "floor/0"


def test_a_body_starts_upright_to_the_slope_2_m_above_its_low_end(model):
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    start = (-73.0 * COSINE, 0.0, HEIGHT + 1.0 - 73.0 * SINE)
    np.testing.assert_allclose(data.xpos[1], start, atol=1e-12)
    up = data.xmat[1].reshape(3, 3)[:, 2]
    np.testing.assert_allclose(up, [-SINE, 0.0, COSINE], atol=1e-12)
    floor = data.geom("floor/0").xmat.reshape(3, 3)[:, 2]
    np.testing.assert_allclose(up, floor, atol=1e-12)
    above = np.dot(up, data.xpos[1]) - 1.0
    assert above == pytest.approx(0.985 * HEIGHT - 0.015, abs=1e-3)
    assert data.ncon == 0


def test_tokens_do_not_tell_where_a_body_starts():
    table, flat = (EnvironmentCore(task, [biped()], 1).table for task in (TASK, FLAT))
    np.testing.assert_array_equal(table.context, flat.context)
    assert table.context[0, 0, :3].tolist() == pytest.approx([0.0, 0.0, HEIGHT + 1.0])


def test_reward_metric_and_terminations_of_one_step():
    core = EnvironmentCore(TASK, [biped()], 4, num_threads=1)
    core.reset(np.arange(4), np.zeros(4, np.int64))
    data = [core.simulator.data(row) for row in range(4)]
    data[1].qpos[1] = 19.5
    # On the slope at x = -70 m, upside down: 0.1 m above it is below 0.2 of its height.
    data[2].qpos[:3] = -70.0, 0.0, -70.0 * SINE / COSINE + 1.0 + 0.1
    data[2].qpos[3:7] = 0.0, 1.0, 0.0, 0.0
    data[3].qpos[:3] = -70.0, 0.0, -70.0 * SINE / COSINE + 1.0 + 0.8
    for row in (1, 2, 3):
        mujoco.mj_forward(core.simulator.model(row), data[row])
        core.simulator.torso_position[row] = data[row].xpos[1]
    before = core.simulator.torso_position[:, 0].copy()
    result = core.step(np.zeros((4, core.spec.max_limbs, 2), np.float32))
    moved = core.simulator.torso_position[:, 0] - before
    np.testing.assert_allclose(result.reward, moved / 0.02 / COSINE)
    np.testing.assert_allclose(
        result.metrics["distance"], core.simulator.torso_position[:, 0] / COSINE + 73.0
    )
    assert result.events["left_track"].tolist() == [False, True, False, False]
    assert result.events["fell"].tolist() == [False, False, True, False]
    assert result.terminated.tolist() == [False, True, True, False]
