from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from gmc_bench.bodies import MorphologySet
from gmc_bench.core.errors import ConfigError, TokenOverflowError
from gmc_bench.envs.core import as_actions
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.sim.kernels import next_uniform
from gmc_bench.tasks.spec import RewardTerm, TerminationTerm
from gmc_bench.tasks.terminations import fallen
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec

CONTROL_DT = 0.02


def _always(transition):
    return np.ones(len(transition.torso_after), np.bool_)


def _sideways(transition):
    return transition.torso_after[:, 1] - transition.torso_before[:, 1]


NEVER_ENDS = replace(TASK, terminations=())
ENDS_AT_ONCE = replace(TASK, terminations=(TerminationTerm("always", _always),))


def _zeros(env):
    return np.zeros(env.action_space.shape, np.float32)


def test_spaces_describe_one_and_all_environments(make_env):
    env = make_env(4)
    assert env.num_envs == 4
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    # 5 limbs, 13 numbers of motion and 2 for each of 2 joint slots; 3 bodies.
    assert env.single_observation_space["dynamic"].shape == (5, 17)
    assert env.single_observation_space["morphology_index"].n == 3
    assert env.single_action_space.shape == (5, 2)
    assert env.observation_space["dynamic"].shape == (4, 5, 17)
    assert env.action_space.shape == (4, 5, 2)
    assert (env.action_space.low == -1).all()
    assert (env.action_space.high == 1).all()


def test_observations_are_in_their_space_and_start_in_the_start_pose(make_env, bodies):
    env = make_env()
    env.action_space.seed(0)
    observation, info = env.reset(seed=1, options={"morphology_index": [0, 1, 2, 0]})
    assert env.observation_space.contains(observation)
    assert info == {}
    np.testing.assert_array_equal(observation["morphology_index"], [0, 1, 2, 0])
    for row, index in enumerate([0, 1, 2, 0]):
        body, dynamic = bodies[index], observation["dynamic"][row]
        # The torso's height: the floor is 1 m above the origin, the noise at most 5 mm.
        assert dynamic[0, 2] == pytest.approx(body.limbs[0].position[2] + 1.0, abs=0.005)
        assert (dynamic[body.num_limbs :] == 0).all()
        assert (dynamic[: body.num_limbs, 2] > 1.0).all()
    for _ in range(30):
        observation, *_ = env.step(env.action_space.sample())
        assert env.observation_space.contains(observation)
        assert observation["dynamic"].dtype == np.float32


def test_start_noise_stays_within_its_half_width(make_env):
    env = make_env(64)
    observation, _ = env.reset(seed=1, options={"morphology_index": 1})
    y = observation["dynamic"][:, 0, 1]  # the torso starts at y = 0
    assert np.abs(y).max() <= 0.005
    assert y.std() == pytest.approx(0.01 / np.sqrt(12), rel=0.25)
    yaw_rate = observation["dynamic"][:, 0, 8]
    assert np.abs(yaw_rate).max() <= 0.0051
    assert np.abs(yaw_rate).max() > 0.004


def test_numbers_handed_out_are_not_changed_later(make_env, draw_actions):
    env = make_env()
    kept = [env.reset(seed=1)[0]]
    actions = draw_actions(env, 80)
    copies, finals = [], []
    for action in actions:
        copies.append({name: value.copy() for name, value in kept[-1].items()})
        observation, reward, terminated, _, info = env.step(action)
        kept.append(observation)
        finals.append((reward, reward.copy(), terminated, terminated.copy(), info))
    for before, copy in zip(kept, copies, strict=False):
        for name, value in copy.items():
            np.testing.assert_array_equal(before[name], value)
    for first, second in pairwise(kept):
        assert not np.shares_memory(first["dynamic"], second["dynamic"])
        assert not np.shares_memory(first["morphology_index"], second["morphology_index"])
    for reward, reward_copy, terminated, terminated_copy, info in finals:
        np.testing.assert_array_equal(reward, reward_copy)
        np.testing.assert_array_equal(terminated, terminated_copy)
        if "_final_obs" in info:
            np.testing.assert_array_equal(info["_final_obs"], terminated)


def test_actions_are_not_changed(make_env):
    env = make_env()
    env.reset(seed=1)
    action = np.full(env.action_space.shape, 7.0, np.float32)
    env.step(action)
    assert (action == 7.0).all()


def test_only_actions_of_actuators_count(make_env):
    env, twin = make_env(fixed=True), make_env(fixed=True)
    env.reset(seed=1)
    twin.reset(seed=1)
    action = np.full(env.action_space.shape, 0.3, np.float32)
    index = np.arange(4) % 3
    junk = np.where(env.table.action_padding_mask[index], 99.0, action)
    assert (junk == 99.0).sum() > 10
    np.testing.assert_array_equal(env.step(action)[0]["dynamic"], twin.step(junk)[0]["dynamic"])


def test_an_ended_episode_is_reset_within_the_step(make_env, draw_actions):
    env = make_env(8)
    observation, _ = env.reset(seed=1)
    index = observation["morphology_index"]
    total, length, seen = np.zeros(8), np.zeros(8, np.int64), 0
    for action in draw_actions(env, 150):
        observation, reward, terminated, truncated, info = env.step(action)
        total += reward
        length += 1
        done = terminated | truncated
        if not done.any():
            assert set(info) == {"reward/forward_velocity"}
        else:
            final = info["final_info"]
            np.testing.assert_array_equal(info["_final_obs"], done)
            np.testing.assert_array_equal(info["_final_info"], done)
            np.testing.assert_allclose(final["episode_return"][done], total[done], rtol=1e-12)
            np.testing.assert_array_equal(final["episode_length"][done], length[done])
            np.testing.assert_array_equal(final["morphology_index"][done], index[done])
            assert set(final["ended"][done]) == {"fell"}
            assert set(final["ended"][~done]) <= {""}
        for row in np.flatnonzero(done):
            last = info["final_obs"][row]
            assert env.single_observation_space.contains(last)
            assert last["morphology_index"] == index[row]
            # It fell: at the end the torso was low, now it is back at its start, at x = 0.
            new = env.table.context[observation["morphology_index"][row], 0, 2]
            height = observation["dynamic"][row, 0, 2]
            assert height == pytest.approx(new, abs=0.005)
            assert env.core.simulator.torso_position[row, 0] == pytest.approx(0, abs=0.005)
            assert last["dynamic"][0, 2] < height
        for row in np.flatnonzero(~done):
            if done.any():
                assert info["final_obs"][row] is None
        total[done], length[done] = 0.0, 0
        index = observation["morphology_index"]
        seen += int(done.sum())
    assert seen > 10


def test_fixed_environments_keep_their_bodies(make_env, draw_actions):
    env = make_env(7, fixed=True)
    expected = [0, 1, 2, 0, 1, 2, 0]  # dealt in turn
    observation, _ = env.reset(seed=1)
    np.testing.assert_array_equal(observation["morphology_index"], expected)
    ended = 0
    for action in draw_actions(env, 100):
        observation, _, terminated, _, _ = env.step(action)
        np.testing.assert_array_equal(observation["morphology_index"], expected)
        ended += int(terminated.sum())
    assert ended > 7
    env.reset(options={"morphology_index": [2, 2, 2, 1, 1, 1, 0]})
    for action in draw_actions(env, 60):
        observation, *_ = env.step(action)
        np.testing.assert_array_equal(observation["morphology_index"], [2, 2, 2, 1, 1, 1, 0])


def test_bodies_are_drawn_with_the_given_probabilities(make_env):
    env = make_env(200, ENDS_AT_ONCE)

    def frequencies(num_steps):
        counts = np.zeros(3)
        for _ in range(num_steps):
            observation, *_ = env.step(_zeros(env))
            counts += np.bincount(observation["morphology_index"], minlength=3)
        return counts / counts.sum()

    env.reset(seed=1)
    # Three standard deviations of a share of 2,000 draws are at most 0.034.
    np.testing.assert_allclose(frequencies(10), [1 / 3, 1 / 3, 1 / 3], atol=0.034)
    env.set_sampling(np.array([0.1, 0.6, 0.3]))
    np.testing.assert_allclose(frequencies(10), [0.1, 0.6, 0.3], atol=0.034)
    env.set_sampling(np.array([0.0, 1.0, 0.0]))
    np.testing.assert_array_equal(frequencies(2), [0, 1, 0])
    env.reset()
    np.testing.assert_array_equal(frequencies(1), [0, 1, 0])


def test_bodies_are_those_that_each_row_draws(make_env):
    """The first number of each stream, found by a search of the cumulative probabilities."""
    env, probabilities = make_env(8), [0.2, 0.3, 0.5]
    env.set_sampling(probabilities)
    found = env.reset(seed=5)[0]["morphology_index"]
    drawn = [next_uniform(stream) for stream in spawn_streams(5, 8)]
    np.testing.assert_array_equal(found, np.searchsorted(np.cumsum(probabilities), drawn, "right"))
    assert set(found) == {0, 1, 2}


def test_later_changes_of_the_given_probabilities_do_not_count(make_env):
    env = make_env(50, ENDS_AT_ONCE)
    probabilities = np.array([1.0, 0.0, 0.0])
    env.set_sampling(probabilities)
    probabilities[:] = [0.0, 0.0, 1.0]
    observation, _ = env.reset(seed=1)
    assert set(observation["morphology_index"]) == {0}
    np.testing.assert_array_equal(env.get_state()["sampling"], [1.0, 0.0, 0.0])


def test_an_episode_without_end_is_truncated_at_the_horizon(bodies, draw_actions):
    env = MorphologyVectorEnv(NEVER_ENDS, bodies[:1], 1, num_threads=1)
    assert NEVER_ENDS.horizon == 1000
    env.reset(seed=1)
    for step, action in enumerate(draw_actions(env, 1001), start=1):
        _, _, terminated, truncated, info = env.step(action)
        assert not terminated[0]
        assert truncated[0] == (step == 1000), step
        if step == 1000:
            assert info["final_info"]["ended"][0] == "time_limit"
            assert info["final_info"]["episode_length"][0] == 1000
    assert env.core.episode_length[0] == 1


def test_a_fall_is_a_termination_and_comes_before_the_time_limit(make_env):
    task = replace(TASK, horizon=1, terminations=(TerminationTerm("fell", fallen(2.0)),))
    env = make_env(task=task)
    env.reset(seed=1)
    _, _, terminated, truncated, info = env.step(_zeros(env))
    assert terminated.all()
    assert not truncated.any()
    assert set(info["final_info"]["ended"]) == {"fell"}


def test_a_task_may_have_several_terms_or_none(make_env):
    terms = (
        RewardTerm("one", 2.0, lambda transition: np.ones(len(transition.torso_after))),
        RewardTerm("sideways", -3.0, _sideways),
    )
    env = make_env(task=replace(TASK, rewards=terms))
    env.reset(seed=1)
    _, reward, _, _, info = env.step(_zeros(env))
    np.testing.assert_array_equal(info["reward/one"], [2.0] * 4)
    np.testing.assert_allclose(reward, info["reward/one"] + info["reward/sideways"], rtol=1e-15)
    assert (info["reward/sideways"] != 0).all()

    env = make_env(task=replace(TASK, rewards=(), terminations=()))
    env.reset(seed=1)
    _, reward, terminated, truncated, info = env.step(_zeros(env))
    np.testing.assert_array_equal(reward, np.zeros(4))
    np.testing.assert_array_equal(terminated, [False] * 4)
    np.testing.assert_array_equal(truncated, [False] * 4)
    assert info == {}


def test_the_return_is_the_distance_over_the_control_step(make_env, draw_actions):
    env = make_env(3, NEVER_ENDS, fixed=True)
    env.reset(seed=2)
    start = env.core.simulator.torso_position[:, 0].copy()
    total = np.zeros(3)
    for action in draw_actions(env, 300):
        _, reward, _, _, info = env.step(action)
        np.testing.assert_array_equal(reward, info["reward/forward_velocity"])
        total += reward
    moved = env.core.simulator.torso_position[:, 0] - start
    assert np.abs(moved).max() > 0.1
    np.testing.assert_allclose(total * CONTROL_DT, moved, rtol=1e-9)
    np.testing.assert_allclose(env.episode_return, total, rtol=1e-12)


def test_the_layout_is_the_smallest_that_fits_or_the_given_one(make_env):
    assert make_env().token_spec == TokenSpec(5, 2)
    env = make_env(token_spec=TokenSpec(9, 3))
    assert env.single_action_space.shape == (9, 3)
    observation, _ = env.reset(seed=1)
    assert observation["dynamic"].shape == (4, 9, 19)


def test_a_larger_layout_changes_nothing_but_the_padding(make_env, draw_actions):
    small, large = make_env(fixed=True), make_env(fixed=True, token_spec=TokenSpec(8, 3))
    small.reset(seed=1)
    large.reset(seed=1)
    padded = np.zeros(large.action_space.shape, np.float32)
    for action in draw_actions(small, 40):
        padded[:, :5, :2] = action
        expected, found = small.step(action), large.step(padded)
        np.testing.assert_array_equal(found[0]["dynamic"][:, :5, :17], expected[0]["dynamic"])
        assert (found[0]["dynamic"][:, 5:] == 0).all()
        assert (found[0]["dynamic"][:, :, 17:] == 0).all()
        np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("fixed", ["no", None, 0])
def test_what_says_neither_that_bodies_are_fixed_nor_that_they_are_not_is_refused(make_env, fixed):
    with pytest.raises(ConfigError, match=f"'fixed' must be .*, got {fixed!r}"):
        make_env(fixed=fixed)


def test_errors_say_what_was_got_and_what_was_expected(make_env):
    env = make_env()
    with pytest.raises(ConfigError, match="stepped before it was reset; call reset first"):
        env.step(_zeros(env))
    with pytest.raises(ConfigError, match="hosts no model yet"):
        env.get_state()
    with pytest.raises(ConfigError, match="one integer seed"):
        env.reset(seed=[1, 2, 3, 4])
    with pytest.raises(ConfigError, match=r"each of 3 bodies, got the shape \(2,\)"):
        env.set_sampling(np.array([0.5, 0.5]))
    with pytest.raises(ConfigError, match=r"must not be negative, got -0\.5"):
        env.set_sampling(np.array([0.5, 1.0, -0.5]))
    with pytest.raises(ConfigError, match=r"must sum to 1, got 1\.5"):
        env.set_sampling(np.array([0.5, 0.5, 0.5]))
    with pytest.raises(ConfigError, match="must sum to 1, got nan"):
        env.set_sampling(np.array([0.5, np.nan, 0.5]))
    env.reset(seed=1)
    with pytest.raises(ConfigError, match=r"shape \(4, 5, 2\), got \(4, 2, 5\)"):
        env.step(np.zeros((4, 2, 5), np.float32))
    with pytest.raises(ConfigError, match=r"actions must be numbers of the shape \(4, 5, 2\)"):
        env.step([[1.0], [1.0, 2.0]])
    with pytest.raises(ConfigError, match="sampling probabilities must be numbers"):
        env.set_sampling(["a", "b", "c"])
    with pytest.raises(ConfigError, match="has no 'morphology'; did you mean 'morphology_index'"):
        env.reset(options={"morphology": 1})
    with pytest.raises(ConfigError, match="options of a reset map names to values, got 'a'"):
        env.reset(options="a")


@pytest.mark.parametrize(
    "index", [3, -1, [0, 1, 2], [0, 1, 2, 3], 1.0, [[0, 1, 2, 0]], [[1], [1, 2]]]
)
def test_an_index_that_names_no_body_is_refused(make_env, index):
    with pytest.raises(ConfigError, match=r"one integer in 0\.\.2, or one for each of 4 env"):
        make_env().reset(options={"morphology_index": index})


@pytest.mark.parametrize("wrong", [None, "0.5", 0.5 + 0.5j], ids=["None", "text", "complex"])
def test_what_could_be_cast_to_numbers_but_is_none_is_refused(make_env, wrong):
    env = make_env()
    env.reset(seed=1)
    with pytest.raises(ConfigError, match=r"actions must be numbers .* \(4, 5, 2\), got the type"):
        env.step([[[wrong] * 2] * 5] * 4)
    with pytest.raises(ConfigError, match="sampling probabilities must be numbers, got the type"):
        env.set_sampling([wrong, 0.5, 0.0])


def test_actions_that_fit_are_not_copied():
    """Environments step on them many times a second."""
    for given in (np.zeros((4, 5, 2), np.float32), torch.zeros(4, 5, 2)):
        assert np.shares_memory(as_actions(given, (4, 5, 2)), np.asarray(given))
    assert as_actions(np.ones((1, 1), np.bool_), (1, 1)).tolist() == [[1.0]]


def test_sampling_takes_any_numbers(make_env):
    env = make_env()
    env.set_sampling([0, 1, 0])
    observation, _ = env.reset(seed=1)
    assert observation["morphology_index"].tolist() == [1, 1, 1, 1]
    assert env.get_state()["sampling"].dtype == np.float64


def test_bodies_that_are_no_sequence_are_refused(bodies):
    whole = MorphologySet(id="a", splits={"train": tuple(bodies), "test": tuple(bodies)}, source="")
    for given, kind in ((whole, "MorphologySet"), (bodies[0], "Morphology"), ("ft", "str")):
        with pytest.raises(ConfigError, match=f"a sequence of bodies, got a {kind}; of a set"):
            MorphologyVectorEnv(TASK, given, 2)


def test_what_cannot_be_built_is_refused(make_env, bodies):
    with pytest.raises(ConfigError, match="at least one body, got none"):
        MorphologyVectorEnv(TASK, [], 2)
    with pytest.raises(ConfigError, match="one environment, got 3 and 0"):
        make_env(0)
    with pytest.raises(ConfigError, match=r"use e\.g\. policy\.spec"):
        make_env(token_spec=(5, 2))
    with pytest.raises(TokenOverflowError, match=r"'biped' has 5 limbs .* has 4 slots"):
        make_env(token_spec=TokenSpec(4))
