"""A closed loop that comes open is an event; it ends nothing."""

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import chain, linkage
from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.envs.morphology_env import MorphologyEnv
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.sim.loops import OPEN
from gmc_bench.tasks.unimal_ft import TASK

BODIES = (linkage(2), chain(4), linkage(1))
ROWS = np.arange(3)


@pytest.fixture
def core():
    found = EnvironmentCore(TASK, BODIES, 3, num_threads=1)
    found.reset(ROWS, ROWS)
    return found


def still(core):
    return np.zeros((3, core.spec.max_limbs, core.spec.joints_per_limb), np.float32)


def tear(core, row, joint=7):
    """Turn one hinge alone, which opens its loop."""
    core.simulator.data(row).qpos[joint] += 0.6


def test_loops_that_come_open_are_counted_once_until_they_are_closed(core):
    counts, is_open = [], []
    for step in range(40):
        if step in (3, 20):
            tear(core, 0)
        result = core.step(still(core))
        counts.append(result.loops_opened.copy())
        is_open.append(core.simulator.loop_residual[0, :, 0] > OPEN)
        assert not result.terminated[0]
        assert set(result.events) == {"fell", "time_limit", "diverged"}
    counts, is_open = np.array(counts), np.array(is_open)
    assert counts.dtype == np.int64
    began = is_open & ~np.vstack([np.zeros((1, 2), bool), is_open[:-1]])
    np.testing.assert_array_equal(counts[:, 0], began.sum(axis=1))
    assert counts[3, 0] >= 1
    assert counts[20, 0] >= 1
    assert is_open[3:20, 0].sum() > 1  # open for some steps, counted once
    assert (counts[:, 1:] == 0).all()


def test_a_new_episode_begins_with_closed_loops(core):
    tear(core, 0)
    assert core.step(still(core)).loops_opened[0] >= 1
    core.reset(ROWS[:1], ROWS[:1])
    assert (core.simulator.loop_residual[0] == 0.0).all()
    tear(core, 0)
    assert core.step(still(core)).loops_opened[0] >= 1


def test_a_broken_simulation_says_nothing_of_loops(core):
    core.simulator.data(0).qpos[:] = np.nan
    # The other one is torn as well, and its numbers are finite.
    tear(core, 2)
    core.simulator.data(2).warning[mujoco.mjtWarning.mjWARN_CONTACTFULL].number = 1
    result = core.step(still(core))
    assert result.diverged.tolist() == [True, False, True]
    assert result.loops_opened.tolist() == [0, 0, 0]


def test_open_loops_are_part_of_the_state(core):
    tear(core, 0)
    core.step(still(core))
    state = core.get_state()
    twin = EnvironmentCore(TASK, BODIES, 3, num_threads=1)
    twin.reset(ROWS, ROWS[::-1].copy())
    twin.set_state(state)
    for _ in range(10):
        first, second = core.step(still(core)), twin.step(still(core))
        np.testing.assert_array_equal(first.loops_opened, second.loops_opened)
        np.testing.assert_array_equal(core.dynamic, twin.dynamic)
        np.testing.assert_array_equal(core.simulator.loop_residual, twin.simulator.loop_residual)


def test_states_of_bodies_with_and_without_loops_are_kept_apart(core):
    trees = EnvironmentCore(TASK, [chain(4)], 3, num_threads=1)
    trees.reset(ROWS, np.zeros(3, np.int64))
    assert "loops_open" not in trees.get_state()
    with pytest.raises(ConfigError, match="or to other bodies"):
        core.set_state(trees.get_state())


def test_environments_pass_the_events_on():
    env = MorphologyVectorEnv(TASK, BODIES, 3, num_threads=1, fixed=True)
    env.reset(seed=0)
    tear(env.core, 2)
    info = env.step(np.zeros(env.action_space.shape, np.float32))[4]
    assert info["loops_opened"].tolist() == [0, 0, 1]
    single = MorphologyEnv(TASK, (linkage(1),))
    single.reset(seed=0)
    tear(single.core, 0)
    info = single.step(np.zeros(single.action_space.shape, np.float32))[4]
    assert info["loops_opened"] == 1
    assert "ended" not in info


def test_a_single_environment_shows_which_limbs_its_body_joins():
    env = MorphologyEnv(TASK, (chain(4), linkage(1)))
    for body, loops in ((0, [[-1, -1]]), (1, [[2, 4]])):
        observation, _ = env.reset(seed=0, options={"morphology": body})
        assert observation["loops"].tolist() == loops
        assert env.observation_space.contains(observation)


def test_without_loops_nothing_is_reported():
    env = MorphologyVectorEnv(TASK, BODIES[1:2], 2, num_threads=1)
    env.reset(seed=0)
    assert "loops_opened" not in env.step(np.zeros(env.action_space.shape, np.float32))[4]
    assert env.core.step(np.zeros(env.action_space.shape, np.float32)).loops_opened is None
