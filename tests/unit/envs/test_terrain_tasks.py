"""The four tasks beside flat terrain: height maps, cells, states and threads."""

import mujoco
import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.envs.morphology_env import MorphologyEnv
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.sim.batch import available_threads
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.unimal_ft import TASK as FLAT
from gmc_bench.tokens.spec import TokenSpec

NAMES = ["unimal-incline-v1", "unimal-exploration-v1", "unimal-obstacles-v1", "unimal-vt-v1"]
NUM_HEIGHTS = 1410


@pytest.fixture(params=NAMES)
def task(request):
    return TASKS.get(request.param)


@pytest.fixture(params=NAMES[2:])
def mapped(request):
    """A task with a height map."""
    return TASKS.get(request.param)


def run(env, actions):
    """Step through all actions; return every number the environments gave."""
    numbers = []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        parts = [*observation.values(), reward, terminated, truncated]
        parts += [info[name] for name in sorted(info) if name.startswith("metric/")]
        if "final_obs" in info:
            parts += [x for one in info["final_obs"] if one for x in one.values()]
        numbers.append(b"".join(np.asarray(part).tobytes() for part in parts))
    return numbers


def test_the_number_of_threads_changes_no_bit(task, make_env, draw_actions):
    if available_threads() < 2:
        pytest.skip("needs two cores")
    runs = []
    for threads in (1, 2):
        env = make_env(10, task, num_threads=threads)
        first, _ = env.reset(seed=3)
        runs.append([first["dynamic"].tobytes(), *run(env, draw_actions(env, 120))])
    assert runs[0] == runs[1]


def test_rows_that_are_stepped_apart_are_those_of_a_whole_step(mapped, bodies):
    """Heights too; the others keep what they have seen."""
    whole, some = (EnvironmentCore(mapped, bodies, 4, num_threads=1) for _ in range(2))
    for core in (whole, some):
        core.simulator.seed(3)
        core.reset(np.arange(4), np.arange(4) % len(bodies))
    first, rows = some.height_map.copy(), np.array([2, 0])
    shape = (4, whole.spec.max_limbs, whole.spec.joints_per_limb)
    for actions in np.random.default_rng(0).uniform(-1.0, 1.0, (30, *shape)):
        expected, found = whole.step(actions), some.step(actions, rows)
    assert (whole.height_map != first)[rows].any()
    for one, other in ((whole.height_map, some.height_map), (whole.dynamic, some.dynamic)):
        np.testing.assert_array_equal(one[rows], other[rows])
    np.testing.assert_array_equal(expected.reward[rows], found.reward[rows])
    assert all(some.simulator.data(row).time == 0.0 for row in (1, 3))


def test_two_copies_with_one_seed_are_equal_and_another_seed_is_not(task, make_env, draw_actions):
    used, fresh = make_env(4, task), make_env(4, task)
    actions = draw_actions(used, 60)
    used.reset(seed=5)
    other = run(used, actions)
    for env in (used, fresh):
        env.reset(seed=1)
    assert run(used, actions) == run(fresh, actions) != other


def test_a_state_continues_to_the_same_bits(task, make_env, draw_actions):
    env = make_env(4, task)
    env.reset(seed=2)
    actions = draw_actions(env, 120)
    run(env, actions[:60])
    state = env.get_state()
    kept = run(env, actions[60:])
    twin = make_env(4, task)
    twin.reset(seed=7)
    run(twin, actions[:5])
    twin.set_state(state)
    assert run(twin, actions[60:]) == kept
    env.set_state(state)  # and back
    assert run(env, actions[60:]) == kept


@pytest.mark.parametrize("task", NAMES[1:], indirect=True)  # an incline adds nothing to a state
def test_a_state_of_another_task_is_refused(task, make_env):
    flat, env = make_env(4), make_env(4, task)
    flat.reset(seed=0)
    env.reset(seed=0)
    for one, other in ((flat, env), (env, flat)):
        with pytest.raises(ConfigError, match="belongs to another task"):
            one.core.set_state(other.core.get_state())


def test_observations_carry_height_maps_where_terrain_is_random(task, bodies, make_env):
    env = make_env(4, task)
    single = MorphologyEnv(task, bodies)
    for each in (env, single):
        observation, _ = each.reset(seed=0)
        assert each.observation_space.contains(observation)
        assert ("height_map" in observation) == bool(task.scene.terrain)
        observation = each.step(np.zeros(each.action_space.shape, np.float32))[0]
        assert each.observation_space.contains(observation)
        if task.scene.terrain:  # which the next but one step writes to
            assert not np.shares_memory(observation["height_map"], each.unwrapped.core.height_map)
    if task.scene.terrain:
        assert env.token_spec.num_heights == NUM_HEIGHTS
        assert env.observation_space["height_map"].shape == (4, NUM_HEIGHTS)
    else:
        assert env.token_spec.num_heights == 0
        assert env.core.height_map is None


def test_metrics_are_in_the_info_of_both_environments(task, bodies, make_env):
    (metric,) = task.metrics
    env, single = make_env(4, task), MorphologyEnv(task, bodies)
    env.reset(seed=0)
    single.reset(seed=0)
    action = np.zeros(single.action_space.shape, np.float32)
    batched = env.step(np.stack([action] * 4))[4][f"metric/{metric.name}"]
    assert batched.shape == (4,)
    assert np.isfinite(batched).all()
    assert isinstance(single.step(action)[4][f"metric/{metric.name}"], float)


def test_the_last_height_map_of_an_episode_is_that_before_the_reset(mapped, make_env):
    env = make_env(2, mapped)
    env.reset(seed=0)
    data = env.core.simulator.data(0)
    data.qpos[0], data.qpos[1] = 50.0, 19.5  # beside the track
    mujoco.mj_forward(env.core.simulator.model(0), data)
    action = np.zeros(env.action_space.shape, np.float32)
    observation, *_, info = env.step(action)
    assert info["_final_obs"].tolist() == [True, False]
    final = info["final_obs"][0]["height_map"]
    assert final.shape == (NUM_HEIGHTS,)
    assert (final != observation["height_map"][0]).any()
    assert (final < -5.0).any()  # to the left the field ends
    kept = final.copy()
    env.step(action)
    np.testing.assert_array_equal(final, kept)


def test_a_layout_without_the_tasks_height_map_is_refused(mapped, bodies):
    with pytest.raises(ConfigError, match="use a TokenSpec with num_heights=1410"):
        EnvironmentCore(mapped, bodies, 1, token_spec=TokenSpec(5))
    with pytest.raises(ConfigError, match="use a TokenSpec with num_heights=0"):
        EnvironmentCore(FLAT, bodies, 1, token_spec=TokenSpec(5, num_heights=NUM_HEIGHTS))


def test_bodies_that_come_and_go_leave_no_terrain_behind(mapped, bodies, draw_actions):
    def start(index):
        env = MorphologyVectorEnv(mapped, bodies, 3, num_threads=1)
        for one in index:
            env.core.reset(np.arange(3), np.full(3, one))
        env.core.simulator.seed(4)
        env.core.reset(np.arange(3), np.arange(3))
        return env, env.core.height_map.copy()

    (first, one), (second, other) = start([0]), start([1, 2, 0, 1])
    np.testing.assert_array_equal(one, other)
    actions = draw_actions(first, 20)
    assert run(first, actions) == run(second, actions)
