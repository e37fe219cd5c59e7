import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, star
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.unimal_exploration import TASK
from gmc_bench.tasks.unimal_ft import TASK as FLAT


@pytest.fixture
def core():
    core = EnvironmentCore(TASK, [biped(), star(4)], 2, num_threads=1)
    core.reset(np.arange(2), np.arange(2))
    return core


def put(core, row, x, y):
    model, data = core.simulator.model(row), core.simulator.data(row)
    data.qpos[:2] = x, y
    mujoco.mj_forward(model, data)


def step(core):
    return core.step(np.zeros((2, core.spec.max_limbs, 2), np.float32))


def test_it_is_registered_under_its_id():
    assert TASKS.get("unimal-exploration-v1") is TASK


def test_bodies_start_in_the_middle_of_the_arena_and_tokens_do_not_tell(core):
    np.testing.assert_allclose(core.simulator.torso_position[:, :2], [[50.0, 0.0]] * 2, atol=0.005)
    flat = EnvironmentCore(FLAT, [biped(), star(4)], 2).table
    np.testing.assert_array_equal(core.table.context, flat.context)


def test_the_start_counts_and_then_only_new_cells(core):
    rewards, cells = [], []
    for x in (50.5, 51.5, 50.5, 51.5, 52.5):
        put(core, 0, x, 0.5)
        put(core, 1, 30.5, 0.5)
        result = step(core)
        rewards.append(result.reward.tolist())
        cells.append(result.metrics["cells"].tolist())
    assert rewards == [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]
    assert cells == [[1.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [3.0, 1.0]]


def test_a_new_episode_forgets_the_cells_of_its_row_only(core):
    step(core)
    core.reset(np.array([0]), np.array([1]))
    result = step(core)
    assert result.reward.tolist() == [1.0, 0.0]
    assert result.metrics["cells"].tolist() == [1.0, 1.0]


def test_a_state_tells_how_many_cells_were_entered(core):
    for x in (50.5, 51.5, 52.5):
        put(core, 0, x, 0.5)
        step(core)
    fresh = EnvironmentCore(TASK, [biped(), star(4)], 2, num_threads=1)
    fresh.reset(np.arange(2), np.arange(2))
    fresh.set_state(core.get_state())
    assert step(fresh).metrics["cells"].tolist() == [3.0, 1.0]


def test_walls_hold_a_body_back(core):
    put(core, 1, 99.0, 0.5)
    core.simulator.data(1).qvel[0] = 5.0
    for _ in range(30):
        step(core)
    assert core.simulator.torso_position[1, 0] < 100.0


def test_a_broken_simulation_earns_nothing(core):
    step(core)
    core.simulator.data(0).qpos[:] = np.nan
    result = step(core)
    assert result.diverged.tolist() == [True, False]
    assert result.reward[0] == 0.0
    assert np.isfinite(result.metrics["cells"]).all()
