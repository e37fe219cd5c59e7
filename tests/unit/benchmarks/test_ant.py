"""Our Ant against gymnasium's, step by step, from the same start states and actions."""

import numpy as np
import pytest

from benchmarks import ant_kernels as kernels
from benchmarks.ant import AntBatch, gymnasium_ant

pytestmark = pytest.mark.slow

NUM_ENVS, NUM_STEPS = 4, 200
TOLERANCE = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(scope="module")
def references():
    envs = [gymnasium_ant() for _ in range(NUM_ENVS)]
    yield envs
    for env in envs:
        env.close()


def start_alike(env, data, num_steps=0):
    """Put a gymnasium environment into the state of one of our rows; return its observation."""
    env.reset()
    env.unwrapped.set_state(data.qpos.copy(), data.qvel.copy())
    env._elapsed_steps = num_steps  # of the time limit
    return env.unwrapped._get_obs()


def random_actions(num_steps, scale=1.0):
    return np.random.default_rng(0).uniform(-scale, scale, (num_steps, NUM_ENVS, 8))


def test_trajectories_are_gymnasiums_through_falls_and_resets(references):
    batch = AntBatch(NUM_ENVS, num_threads=1, seed=3)
    for data in batch.data:
        data.cfrc_ext[:] = 0.5  # as an earlier episode could leave them
    observation = batch.reset()
    expected = [start_alike(*pair) for pair in zip(references, batch.data, strict=True)]
    np.testing.assert_allclose(observation, expected, **TOLERANCE)
    num_ended, most_contact = 0, 0.0
    for action in random_actions(NUM_STEPS):
        observation, reward, terminated, truncated = batch.step(action)
        assert not truncated.any()
        steps = [env.step(action[row])[:3] for row, env in enumerate(references)]
        seen, earned, fell = map(np.array, zip(*steps, strict=True))
        np.testing.assert_array_equal(terminated, fell)
        np.testing.assert_allclose(reward, earned, rtol=0, atol=1e-10)
        ended = np.where(fell[:, None], batch.arrays.final_observation, observation)
        np.testing.assert_allclose(ended, seen, **TOLERANCE)
        most_contact = max(most_contact, abs(seen[:, 27:]).max())
        for row in np.flatnonzero(fell):
            num_ended += 1
            first = start_alike(references[row], batch.data[row])
            np.testing.assert_allclose(observation[row], first, **TOLERANCE)
    assert num_ended >= 1
    assert most_contact == 1.0  # the limit of contact forces was reached


def test_an_action_out_of_range_costs_what_it_costs_in_gymnasium(references):
    batch = AntBatch(NUM_ENVS, num_threads=1, seed=1)
    batch.reset()
    start_alike(references[0], batch.data[0])
    action = random_actions(1, scale=3.0)[0]
    _, reward, _, _ = batch.step(action)
    assert reward[0] == pytest.approx(references[0].unwrapped.step(action[0])[1], abs=1e-10)


def test_time_limit_is_gymnasiums(references):
    batch = AntBatch(NUM_ENVS, num_threads=1)
    batch.reset()
    start_alike(references[0], batch.data[0], num_steps=kernels.HORIZON - 2)
    batch.arrays.length[0] = kernels.HORIZON - 2
    still = np.zeros((NUM_ENVS, 8))
    for expected in (False, True):
        _, _, _, truncated = batch.step(still)
        assert truncated.tolist() == [expected, False, False, False]
        last, _, _, ended, _ = references[0].step(still[0])
        assert ended == expected
    np.testing.assert_allclose(batch.arrays.final_observation[0], last, **TOLERANCE)
    assert batch.arrays.length.tolist() == [0, 2, 2, 2]


def test_health_is_gymnasiums(references):
    batch, env = AntBatch(NUM_ENVS, num_threads=1), references[0].unwrapped
    batch.reset()
    data, healthy = batch.data[0], []
    for height in (0.19, 0.2, 0.21, 0.99, 1.0, 1.01, np.nan):
        data.qpos[2] = height
        start_alike(references[0], data)
        healthy.append(kernels._is_healthy(batch._addresses[0]))
        assert healthy[-1] == env.is_healthy
    assert healthy == [False, True, True, True, True, False, False]
    for values in (data.qpos, data.qvel):
        data.qpos[2], values[-1] = 0.5, np.inf
        start_alike(references[0], data)
        assert not kernels._is_healthy(batch._addresses[0])
        assert not env.is_healthy
        values[-1] = 0.0


def test_constants_are_the_models(references):
    env = references[0].unwrapped
    assert env.frame_skip == kernels.NUM_SUBSTEPS
    assert env.dt == pytest.approx(kernels.CONTROL_DT)
    assert env.observation_space.shape == (kernels.NUM_OBSERVED,)
    assert references[0].spec.max_episode_steps == kernels.HORIZON


def test_start_states_are_drawn_as_gymnasium_draws_them():
    batch = AntBatch(20, num_threads=1)
    positions, speeds = [], []
    for _ in range(100):
        batch.reset()
        positions += [data.qpos - batch.model.qpos0 for data in batch.data]
        speeds += [data.qvel.copy() for data in batch.data]
    position, speed = np.array(positions) / kernels.RESET_NOISE, np.array(speeds)
    speed = speed / kernels.RESET_NOISE
    assert abs(position).max() <= 1.0
    assert position.std() == pytest.approx(1 / np.sqrt(3.0), rel=0.02)
    assert speed.mean() == pytest.approx(0.0, abs=0.03)
    assert (speed**2).mean() == pytest.approx(1.0, rel=0.03)
    assert (speed**4).mean() == pytest.approx(3.0, rel=0.1)  # as of a normal distribution


def test_bare_steps_are_the_same_physics():
    batch, bare = AntBatch(NUM_ENVS, num_threads=1, seed=2), AntBatch(NUM_ENVS, num_threads=1)
    batch.reset()
    bare.copy_state(batch)
    for action in random_actions(3):
        batch.step(action)
        bare.bare_step(action)
    for one, other in zip(batch.data, bare.data, strict=True):
        np.testing.assert_array_equal(one.qpos, other.qpos)
