import copy
import pickle
import re
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from gmc_bench.conformance.morphologies import chain
from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.morphology_env import MorphologyEnv
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.robots import GO1
from gmc_bench.tasks.quadruped_velocity import TASK as VELOCITY
from gmc_bench.tasks.spec import TerminationTerm
from gmc_bench.tasks.terminations import fallen
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec


@pytest.fixture
def env(bodies):
    return MorphologyEnv(TASK, bodies, token_spec=TokenSpec(6))


def test_gymnasium_s_checker_accepts_it(env):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Positions and velocities have no bounds.
        warnings.filterwarnings("ignore", message=".*Box observation space m(in|ax)imum value is")
        check_env(env, skip_render_check=True)


def test_the_observation_is_that_of_the_batched_environment(env, make_env, draw_actions):
    batched = make_env(1, fixed=True, token_spec=TokenSpec(6))
    observation, info = env.reset(seed=3, options={"morphology": "biped"})
    assert info == {"morphology": "biped"}
    expected, _ = batched.reset(seed=3, options={"morphology_index": 2})
    for action in draw_actions(batched, 20):
        assert env.observation_space.contains(observation)
        tokens = observation["tokens"]
        dynamic = [*range(13), 30, 31, 41, 42]
        np.testing.assert_array_equal(tokens[:, dynamic], expected["dynamic"][0])
        np.testing.assert_array_equal(np.delete(tokens, dynamic, axis=1), batched.table.context[2])
        np.testing.assert_array_equal(observation["limb_padding_mask"], [0, 0, 0, 0, 0, 1])
        # Thighs have x and y hinges, shins only y; the torso and the padding have none.
        np.testing.assert_array_equal(
            observation["action_padding_mask"],
            [[1, 1], [0, 0], [1, 0], [0, 0], [1, 0], [1, 1]],
        )
        np.testing.assert_array_equal(observation["parents"], [-1, 0, 1, 0, 3, -2])
        observation, reward, terminated, truncated, info = env.step(action[0])
        expected, rewards, fell, time_up, _ = batched.step(action)
        assert (reward, terminated, truncated) == (rewards[0], fell[0], time_up[0])
        assert info == {"reward/forward_velocity": reward}
        assert (type(reward), type(terminated), type(truncated)) == (float, bool, bool)


def test_a_fall_ends_the_episode_with_its_reason(bodies):
    task = replace(TASK, terminations=(TerminationTerm("fell", fallen(2.0)),))
    env = MorphologyEnv(task, bodies)
    env.reset(seed=1)
    _, _, terminated, truncated, info = env.step(np.zeros((5, 2), np.float32))
    assert (terminated, truncated, info["ended"]) == (True, False, "fell")


def test_a_step_after_the_end_of_an_episode_warns_until_the_reset(bodies):
    env = MorphologyEnv(replace(TASK, horizon=1), bodies)
    env.reset(seed=0)
    action = np.zeros(env.action_space.shape, np.float32)
    assert env.step(action)[3]
    with pytest.warns(UserWarning, match="after the episode ended"):
        env.step(action)
    env.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.step(action)


def test_the_time_limit_cuts_the_episode_off(bodies):
    env = MorphologyEnv(replace(TASK, terminations=(), horizon=3), bodies)
    env.reset(seed=1)
    action = np.zeros((5, 2), np.float32)
    ends = [env.step(action)[2:] for _ in range(3)]
    assert [end[:2] for end in ends] == [(False, False), (False, False), (False, True)]
    assert "ended" not in ends[1][2]
    assert ends[2][2]["ended"] == "time_limit"


def test_a_broken_simulation_cuts_the_episode_off(env):
    observation, _ = env.reset(seed=1)
    env.core.simulator.data(0).qpos[:] = np.nan
    found, reward, terminated, truncated, info = env.step(np.zeros((6, 2), np.float32))
    assert (reward, terminated, truncated, info["ended"]) == (0.0, False, True, "diverged")
    np.testing.assert_array_equal(found["tokens"], observation["tokens"])


def test_every_reset_draws_a_body_unless_one_is_named(env, bodies):
    names = [body.name for body in bodies]
    drawn = [env.reset(seed=1)[1]["morphology"]]
    drawn += [env.reset()[1]["morphology"] for _ in range(60)]
    assert min(drawn.count(name) for name in names) >= 8
    again = [env.reset(seed=1)[1]["morphology"]]
    again += [env.reset()[1]["morphology"] for _ in range(60)]
    assert drawn == again
    for index, name in enumerate(names):
        assert env.reset(options={"morphology": name})[1]["morphology"] == name
        assert env.reset(options={"morphology": index})[1]["morphology"] == name
        assert env.reset(options={"morphology": np.int64(index)})[1]["morphology"] == name


@pytest.mark.parametrize("kind", [MorphologyEnv, partial(MorphologyVectorEnv, num_envs=2)])
def test_environments_without_a_seed_differ_and_say_which_they_drew(kind):
    """As in gymnasium; afterwards a reset without a seed goes on."""
    started = []
    for _ in range(2):
        env = kind(TASK, (chain(3), chain(4)))
        first, second = _numbers(env.reset()[0]), _numbers(env.reset()[0])
        assert not np.array_equal(first, second)
        seed = env.np_random_seed
        assert np.array_equal(_numbers(env.reset(seed=seed)[0]), first)
        assert np.array_equal(_numbers(env.reset()[0]), second)
        assert env.np_random_seed == seed
        started.append(first)
    assert not np.array_equal(*started)


def _numbers(observation):
    return observation["tokens"] if "tokens" in observation else observation["dynamic"]


@pytest.mark.parametrize("chosen", ["nobody", 3, -1, 1.5, [1], True])
def test_an_unknown_body_is_refused(env, chosen):
    with pytest.raises(
        ConfigError, match=rf"no body {re.escape(repr(chosen))} in this env.* 3 bodies"
    ):
        env.reset(options={"morphology": chosen})


def test_what_a_reset_and_a_step_cannot_use_is_refused(env):
    for seed in ("a", -1, 1.5):
        with pytest.raises(ConfigError, match="a seed must be an integer that is not negative"):
            env.reset(seed=seed)
    with pytest.raises(ConfigError, match="has no 'morpology'; did you mean 'morphology'"):
        env.reset(options={"morpology": 1})
    env.reset(seed=np.int64(1))
    with pytest.raises(ConfigError, match=r"actions must be numbers of the shape \(6, 2\)"):
        env.step([[1.0], [1.0, 2.0]])
    with pytest.raises(ConfigError, match=r"must have the shape \(6, 2\), got \(2, 6\)"):
        env.step(np.zeros((2, 6), np.float32))
    first, _ = env.reset(seed=np.int64(4), options={})
    again, _ = env.reset(seed=4)
    np.testing.assert_array_equal(first["tokens"], again["tokens"])


@pytest.mark.parametrize(("clip", "bound"), [(None, 1.0), (0.5, 0.5), (4.0, 1.0)])
def test_the_action_space_of_limbs_ends_where_the_task_or_the_engine_cuts_off(clip, bound):
    env = MorphologyEnv(replace(TASK, action_clip=clip), (chain(3),))
    np.testing.assert_array_equal(env.action_space.high, np.full((3, 2), bound))
    np.testing.assert_array_equal(env.action_space.low, -env.action_space.high)


@pytest.mark.parametrize("clip", [None, 4.0])
def test_the_action_space_of_drives_ends_where_the_task_cuts_off(clip):
    env = MorphologyEnv(replace(VELOCITY, action_clip=clip), (GO1,))
    assert (env.action_space.high == (clip or np.inf)).all()
    assert (env.action_space.low == -env.action_space.high).all()


def test_a_step_before_the_first_reset_is_refused(env):
    with pytest.raises(ConfigError, match="call reset first"):
        env.step(np.zeros((6, 2), np.float32))


@pytest.mark.parametrize("kind", [MorphologyEnv, partial(MorphologyVectorEnv, num_envs=2)])
def test_what_an_environment_cannot_do_is_refused_with_what_to_do(kind):
    env = kind(TASK, (chain(3),))
    with pytest.raises(ConfigError, match=r"draw nothing; a policy is shown by .* watch, replay"):
        env.render()
    with pytest.raises(ConfigError, match="hosts no model yet; call reset first"):
        env.get_state()
    with pytest.raises(ConfigError, match="state must map names to arrays, got None; "):
        env.set_state(None)


@pytest.mark.parametrize("kind", [MorphologyEnv, partial(MorphologyVectorEnv, num_envs=2)])
@pytest.mark.parametrize("copied", [copy.deepcopy, pickle.dumps])
def test_an_environment_is_neither_copied_nor_pickled(kind, copied):
    """Tasks have functions that cannot be pickled, so the environment speaks before they do."""
    env = kind(TASK, (chain(3),))
    with pytest.raises(ConfigError, match="a simulation cannot be copied or pickled"):
        copied(env)


def test_a_state_is_handed_over_to_another_environment_which_goes_on_bit_for_bit(env, bodies):
    """The way that the refusal of a copy names; random streams are part of the state."""
    env.reset(seed=3, options={"morphology": "biped"})
    for _ in range(5):
        env.step(env.action_space.sample())
    other = MorphologyEnv(TASK, bodies, token_spec=TokenSpec(6))
    other.set_state(env.get_state())
    action = np.full((6, 2), 0.5, np.float32)
    for one, another in ((env.step(action), other.step(action)), (env.reset(), other.reset())):
        assert one[1:] == another[1:]
        for name, part in one[0].items():
            np.testing.assert_array_equal(part, another[0][name])


def test_the_state_of_a_broken_simulation_is_taken_over_as_it_is(env, bodies):
    env.reset(seed=3)
    env.core.simulator.data(0).qpos[:3] = np.nan
    assert env.step(np.zeros((6, 2), np.float32))[4]["ended"] == "diverged"
    env.core.simulator.data(0).qpos[:3] = np.nan  # the engine may have started it anew
    other = MorphologyEnv(TASK, bodies, token_spec=TokenSpec(6))
    other.set_state(env.get_state())
    for name, value in env.get_state().items():
        np.testing.assert_array_equal(other.get_state()[name], value)


def test_a_state_of_other_bodies_is_refused(env):
    env.reset(seed=1)
    other = MorphologyEnv(TASK, (chain(3),), token_spec=TokenSpec(6))
    other.reset(seed=1)
    for state in (MorphologyVectorEnv(TASK, (chain(3),), 1, token_spec=TokenSpec(6)), env):
        state.reset(seed=1)
        with pytest.raises(ConfigError, match="this state"):
            other.set_state(state.get_state())
