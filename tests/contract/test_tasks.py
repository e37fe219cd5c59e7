"""What every registered task must fulfil."""

import re
from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.bodies.mjcf_writer import SCENERY
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import MorphologyError
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.robots import ROBOTS
from gmc_bench.tasks import TASKS
from gmc_bench.tokens.spec import TokenSpec

NUM_ENVS = 6
BODIES = {
    "limbs": [chain(4), star(3), biped()],
    "actuators": list(ROBOTS.values()),
}


@pytest.fixture(params=TASKS.names(), scope="module")
def task(request):
    return TASKS.get(request.param)


def _rollout(task, seed, num_steps=150):
    """Return dynamic (T, B, L, Fd), reward, done (T, B), terms (T, K, B) and padding (T, B, L).

    Episodes are cut short, so that resets are part of the rollout.
    """
    spec = TokenSpec(14, 1, parts="actuators") if task.parts == "actuators" else None
    env = MorphologyVectorEnv(
        replace(task, horizon=60), BODIES[task.parts], NUM_ENVS, token_spec=spec, num_threads=1
    )
    observation, _ = env.reset(seed=seed)
    random = np.random.default_rng(seed)
    steps = []
    for _ in range(num_steps):
        padding = env.table.limb_padding_mask[observation["morphology_index"]]
        action = random.normal(0.0, 0.9, env.action_space.shape).astype(np.float32)
        dynamic = observation["dynamic"]
        assert env.observation_space.contains(observation)
        observation, reward, terminated, truncated, info = env.step(action)
        terms = [info[f"reward/{name}"] for name in task.reward_weights]
        steps.append((dynamic, reward, terminated | truncated, terms, padding))
    return [np.array(part) for part in zip(*steps, strict=True)]


@pytest.fixture(scope="module")
def rollout(task):
    return _rollout(task, seed=0)


def test_its_id_is_versioned_and_the_name_it_is_registered_under(task):
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*-v\d+", task.id)
    assert TASKS.get(task.id) is task
    assert task.title
    assert task.description.endswith(".")
    assert task.source


def test_its_terms_have_names_of_their_own(task):
    names = [*task.reward_weights, *task.termination_names]
    assert task.reward_weights
    assert len(set(names)) == len(names)
    assert not {"time_limit", "diverged"} & set(names)


def test_no_limb_can_have_the_name_of_a_part_of_its_ground(task):
    if task.parts == "actuators":
        pytest.skip("bodies with drives are compiled on a ground of their own")
    names = re.findall(r'<geom name="([^"]*)"', task.scene.floor)
    assert len(names) == task.scene.floor.count("<geom")
    assert all(name.startswith(SCENERY) for name in names)
    body = biped()
    for name in names[:2] + names[-2:]:
        limbs = (*body.limbs[:-1], replace(body.limbs[-1], name=name))
        with pytest.raises(MorphologyError, match=f"limb named '{name}', as a part of the ground"):
            MorphologyVectorEnv(task, [replace(body, limbs=limbs)], 1)


def test_the_seed_decides_everything(task, rollout):
    for part, again in zip(rollout, _rollout(task, seed=0), strict=True):
        np.testing.assert_array_equal(part, again)
    other = _rollout(task, seed=1, num_steps=1)
    assert not np.array_equal(rollout[0][0], other[0][0])


def test_its_numbers_are_finite_and_padding_is_zero(rollout):
    dynamic, reward, ended, terms, padding = rollout
    assert ended.any()
    assert np.isfinite(dynamic).all()
    assert np.isfinite(reward).all()
    assert np.isfinite(terms).all()
    assert padding.any()
    assert (dynamic[padding] == 0).all()


def test_its_action_space_ends_where_actions_are_cut_off(task):
    """Beyond the bounds nothing changes; a little within them, something does."""
    seen = []
    for share in (0.9, 1.0, 1000.0):
        env = MorphologyVectorEnv(task, BODIES[task.parts][:2], 2, num_threads=1, fixed=True)
        env.reset(seed=0)
        action = share * env.action_space.high
        assert env.action_space.contains(action) == (share <= 1.0)
        for _ in range(3):
            observation = env.step(action)[0]
        seen.append(observation["dynamic"])
    np.testing.assert_array_equal(seen[1], seen[2])
    assert not np.array_equal(seen[0], seen[1])


def test_its_reward_is_the_sum_of_its_terms(rollout):
    _, reward, _, terms, _ = rollout
    np.testing.assert_allclose(terms.sum(axis=1), reward, rtol=1e-12)
    assert reward.std() > 0


def test_no_feature_is_constant(rollout):
    dynamic, _, _, _, padding = rollout
    real = dynamic[~padding]
    assert (real.std(axis=0) > 1e-4).all()
