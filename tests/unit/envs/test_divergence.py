"""A simulation that breaks ends alone, as an event of its own, and leaves no trace behind."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from gmc_bench.conformance.morphologies import lowest_point
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.envs.morphology_env import MorphologyEnv
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.tasks.metrics import position_x
from gmc_bench.tasks.spec import MetricTerm, TerminationTerm
from gmc_bench.tasks.terminations import fallen
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tasks.unimal_vt import TASK as RUGGED

BROKEN = 2


def _poison_position(env, action):
    env.core.simulator.data(BROKEN).qpos[:] = np.nan


def _poison_velocity(env, action):
    env.core.simulator.data(BROKEN).qvel[:] = 1e12


def _poison_action(env, action):
    action[BROKEN] = np.nan


@pytest.fixture(
    params=[_poison_position, _poison_velocity, _poison_action],
    ids=["nan position", "huge velocity", "nan action"],
)
def poison(request):
    return request.param


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path, monkeypatch):
    """Run in an empty folder, and find it empty afterwards: the engine writes no log file."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("error")
def test_only_the_broken_environment_ends(make_env, draw_actions, poison, capfd):
    poisoned, twin = make_env(), make_env()
    start = {"morphology_index": np.array([0, 1, 0, 2])}
    before, _ = poisoned.reset(seed=6, options=start)
    twin.reset(seed=6, options=start)
    others = np.array([0, 1, 3])
    returns = 0.0  # of the episode that will break
    for step, action in enumerate(draw_actions(poisoned, 60)):
        expected = twin.step(action.copy())
        if step == 9:
            poison(poisoned, action)
        found = poisoned.step(action)
        for name in ("dynamic", "morphology_index"):
            np.testing.assert_array_equal(found[0][name][others], expected[0][name][others])
        for part in (1, 2, 3):
            np.testing.assert_array_equal(found[part][others], expected[part][others])
        if step == 9:
            _assert_diverged(found, before, returns)
        before = found[0]
        returns += found[1][BROKEN]
        assert np.isfinite(found[0]["dynamic"]).all()
        assert np.isfinite(found[1]).all()
    assert capfd.readouterr() == ("", "")


def _assert_diverged(found, before, returns):
    _, reward, terminated, truncated, info = found
    np.testing.assert_array_equal(truncated, [False, False, True, False])
    assert not terminated[BROKEN]
    assert reward[BROKEN] == 0.0
    assert info["reward/forward_velocity"][BROKEN] == 0.0
    np.testing.assert_array_equal(info["_final_obs"], terminated | truncated)
    final = info["final_info"]
    assert final["ended"][BROKEN] == "diverged"
    assert final["episode_length"][BROKEN] == 10
    assert final["episode_return"][BROKEN] == returns
    assert final["morphology_index"][BROKEN] == 0
    # The last observation is the last valid one: what the policy acted on.
    last = info["final_obs"][BROKEN]["dynamic"]
    np.testing.assert_array_equal(last, before["dynamic"][BROKEN])


def test_a_broken_environment_starts_again_sound(make_env, draw_actions, poison):
    env = make_env(fixed=True)
    env.reset(seed=6)
    actions = draw_actions(env, 40)
    poison(env, actions[0])
    env.step(actions[0])
    assert not env.core.simulator.diverged.any()
    for action in actions[1:]:
        _, _, _, _, info = env.step(action)
        assert "diverged" not in info.get("final_info", {"ended": []})["ended"]


def test_metrics_of_a_broken_simulation_are_zero_as_its_reward_is(make_env, bodies):
    task = replace(TASK, metrics=(MetricTerm("x", "m", position_x),))
    env, alone = make_env(2, task), MorphologyEnv(task, bodies)
    env.reset(seed=6)
    alone.reset(seed=6)
    for core in (env.core, alone.core):
        core.simulator.data(0).qpos[:] = np.nan
    found = env.step(np.zeros(env.action_space.shape, np.float32))[4]["metric/x"]
    assert found[0] == 0.0
    assert found[1] == env.core.simulator.torso_position[1, 0] != 0.0
    ended = alone.step(np.zeros(alone.action_space.shape, np.float32))[4]
    assert (ended["ended"], ended["metric/x"]) == ("diverged", 0.0)


@pytest.mark.filterwarnings("error")
def test_a_core_keeps_reporting_a_broken_row_until_its_reset(bodies):
    core = EnvironmentCore(TASK, bodies, 2, num_threads=1)
    core.reset(np.array([0, 1]), np.array([1, 1]))
    action = np.zeros((2, core.spec.max_limbs, 2), np.float32)
    core.step(action)
    valid = core.dynamic[0].copy()
    core.simulator.data(0).qpos[:] = np.nan
    for _ in range(3):
        result = core.step(action)
        np.testing.assert_array_equal(result.diverged, [True, False])
        np.testing.assert_array_equal(result.truncated, [True, False])
        np.testing.assert_array_equal(result.events["diverged"], [True, False])
        assert not result.events["fell"][0]
        assert result.reward[0] == 0.0
        np.testing.assert_array_equal(core.dynamic[0], valid)
    core.reset(np.array([0]), np.array([1]))
    assert not core.step(action).diverged.any()


def test_a_broken_simulation_can_neither_fall_nor_reach_the_time_limit_as_well(bodies):
    terms = (TerminationTerm("low", fallen(9.0)),)
    core = EnvironmentCore(replace(TASK, terminations=terms, horizon=1), bodies, 2, num_threads=1)
    core.reset(np.array([0, 1]), np.array([1, 1]))
    core.simulator.data(0).warning[mujoco.mjtWarning.mjWARN_CONTACTFULL].number = 1
    result = core.step(np.zeros((2, core.spec.max_limbs, 2), np.float32))
    np.testing.assert_array_equal(result.events["diverged"], [True, False])
    np.testing.assert_array_equal(result.events["low"], [False, True])
    np.testing.assert_array_equal(result.events["time_limit"], [False, False])
    np.testing.assert_array_equal(result.terminated, [False, True])
    np.testing.assert_array_equal(result.truncated, [True, False])
    assert result.reward[0] == 0.0
    assert result.reward[1] != 0.0


@pytest.mark.filterwarnings("error")
def test_a_broken_row_shows_its_last_valid_height_map_until_its_reset(bodies):
    core = EnvironmentCore(RUGGED, bodies, 2, num_threads=1)
    core.reset(np.array([0, 1]), np.array([1, 1]))
    # On rough ground, far from where rows start; with a valid step there.
    core.simulator.data(0).qpos[:2] += 6.0
    action = np.zeros((2, core.spec.max_limbs, 2), np.float32)
    core.step(action)
    valid = core.height_map[0].copy()
    assert valid.std() > 0.0
    core.simulator.data(0).qpos[0] += 3.0
    core.simulator.data(0).warning[mujoco.mjtWarning.mjWARN_CONTACTFULL].number = 1
    for _ in range(2):
        assert core.step(action).diverged.tolist() == [True, False]
        np.testing.assert_array_equal(core.height_map[0], valid)
    core.reset(np.array([0]), np.array([1]))
    assert np.isfinite(core.height_map[0]).all()
    assert (core.height_map[0] != valid).any()


def test_terms_are_told_the_standing_height_of_the_body_that_a_row_hosts(bodies):
    seen = []

    def look(transition):
        seen.append(transition.standing_height)
        return np.zeros(len(index), np.bool_)

    index = np.array([2, 0, 1, 2])
    task = replace(TASK, terminations=(TerminationTerm("look", look),))
    core = EnvironmentCore(task, bodies, len(index), num_threads=1)
    core.reset(np.arange(4), index)
    core.step(np.zeros((4, core.spec.max_limbs, 2), np.float32))
    # A body begins that much above the ground, and its torso where its design says.
    lowest = np.array([lowest_point(body) for body in bodies])
    torso = np.array([body.limbs[0].position[2] for body in bodies])
    assert len(set((torso - lowest).tolist())) == len(bodies)
    np.testing.assert_allclose(seen[0], (torso - lowest)[index], atol=1e-9)


def test_infinite_actions_are_clamped_like_large_ones(make_env):
    env, twin = make_env(), make_env()
    env.reset(seed=1)
    twin.reset(seed=1)
    action = np.ones(env.action_space.shape, np.float32)
    action[:, :, 1] = -1.0
    for _ in range(5):
        found, expected = env.step(action * np.inf), twin.step(action)
        np.testing.assert_array_equal(found[0]["dynamic"], expected[0]["dynamic"])
        assert not found[3].any()


def test_of_several_reasons_to_end_the_first_term_is_named(bodies):
    def terms(rows):
        names = ("one", "other")
        return tuple(TerminationTerm(name, lambda _: np.ones(rows, np.bool_)) for name in names)

    task = replace(TASK, terminations=terms(2), horizon=1)
    env = MorphologyVectorEnv(task, bodies, 2, num_threads=1)
    env.reset(seed=0)
    info = env.step(np.zeros(env.action_space.shape, np.float32))[4]
    assert info["final_info"]["ended"].tolist() == ["one", "one"]
    single = MorphologyEnv(replace(task, terminations=terms(1)), bodies)
    single.reset(seed=0)
    info = single.step(np.zeros(single.action_space.shape, np.float32))[4]
    assert info["ended"] == "one"
