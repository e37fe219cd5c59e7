"""Velocity tracking gives the same bits on any number of threads, when continued, and beside a
simulation that breaks."""

from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.robots import ROBOTS
from gmc_bench.sim.batch import available_threads
from gmc_bench.tasks.quadruped_velocity import TASK
from tests.support.slow import slow_but

BODIES = list(ROBOTS.values())
BUSY = replace(
    TASK,
    horizon=60,
    command=replace(TASK.command, resample_s=0.4),
    events=tuple(replace(e, every=(0.2, 0.6)) if e.every else e for e in TASK.events),
)
"""Everything that is drawn is drawn often."""
HOLDING = replace(BUSY, command=replace(BUSY.command, standing=0.0, turning=0.0, held=1.0))
"""Every command holds its heading."""
BROKEN = 2
OTHERS = np.array([0, 1, 3])


def _env(task=BUSY, num_envs=4, num_threads=1):
    return MorphologyVectorEnv(task, BODIES, num_envs, num_threads=num_threads)


def _actions(env, steps, seed=0):
    shape = (steps, *env.action_space.shape)
    return np.random.default_rng(seed).normal(0.0, 0.5, shape).astype(np.float32)


def _trace(env, actions):
    """Return the bytes of everything that steps give, and how many episodes ended."""
    found, ended = [], 0
    for action in actions:
        seen, *rest, info = env.step(action)
        found += [seen["dynamic"].tobytes(), seen["morphology_index"].tobytes()]
        found += [part.tobytes() for part in rest]
        found += [info[name].tobytes() for name in sorted(info) if name.startswith("reward/")]
        ended += int((rest[1] | rest[2]).sum())
    return found, ended


@pytest.mark.parametrize("steps", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_the_number_of_threads_changes_no_bit(steps):
    if available_threads() < 2:
        pytest.skip("needs two cores")
    traces = []
    for threads in (1, 2):
        env = _env(num_threads=threads)
        env.reset(seed=8)
        found, ended = _trace(env, _actions(env, steps))
        traces.append(found)
        assert ended >= steps // 50
    assert traces[0] == traces[1]


def test_a_seed_gives_the_same_bits_again_and_another_seed_others():
    env = _env()
    traces = []
    for seed in (3, 3, 4):
        env.reset(seed=seed)
        traces.append(_trace(env, _actions(env, 60))[0])
    assert traces[0] == traces[1] != traces[2]


def test_a_row_is_the_same_alone_and_in_a_batch():
    """Also in the last bits of its rewards, which are sums of many terms."""
    found, envs = [], [_env(num_envs=num_envs) for num_envs in (1, 2)]
    actions = _actions(envs[1], 100)
    for env in envs:
        env.reset(seed=6)
        steps = [env.step(action[: env.num_envs]) for action in actions]
        rewards = [reward[0] for _, reward, *_ in steps]
        cut_off = [info["reward/cut_off"][0] for *_, info in steps]
        seen = [observation["dynamic"][0].tobytes() for observation, *_ in steps]
        assert np.count_nonzero(cut_off)
        found.append((np.array([rewards, cut_off]).tobytes(), seen))
    assert found[0] == found[1]


@pytest.mark.parametrize("rule", slow_but(["two-state", "mean"], "two-state"))
def test_a_state_continues_to_the_same_bits_in_a_fresh_environment(rule):
    task = replace(BUSY, horizon=30, scene=replace(BUSY.scene, friction_rule=rule))
    env = _env(task, 6)
    env.reset(seed=5)
    actions = _actions(env, 130)
    _trace(env, actions[:50])
    state = env.get_state()
    expected, ended = _trace(env, actions[50:])
    assert ended > 10  # models are dealt anew
    fresh = _env(task, 6)
    fresh.set_state(state)
    assert _trace(fresh, actions[50:])[0] == expected
    used = _env(task, 6)
    used.reset(seed=99)
    _trace(used, actions[:35])
    used.set_state(state)
    assert _trace(used, actions[50:])[0] == expected


def test_a_state_tells_how_bodies_move_before_their_next_step():
    env, fresh = _env(), _env()
    env.reset(seed=5)
    _trace(env, _actions(env, 10))
    fresh.set_state(env.get_state())
    moving, found = env.core.motion, fresh.core.motion
    assert moving.touching.any()
    for name in ("position", "base_linear_velocity", "gravity", "heading", "joint_angle",
                 "joint_velocity", "contacts", "air_time"):  # fmt: skip
        np.testing.assert_array_equal(getattr(found, name), getattr(moving, name), err_msg=name)


def test_a_state_is_a_copy():
    env = _env()
    env.reset(seed=1)
    actions = _actions(env, 40)
    _trace(env, actions[:10])
    state = env.get_state()
    expected = _trace(env, actions[10:])[0]
    env.set_state(state)
    assert _trace(env, actions[10:])[0] == expected
    env.set_state(state)
    assert _trace(env, actions[10:])[0] == expected


def test_a_state_with_a_friction_that_cannot_be_changes_nothing():
    env, other = (MorphologyVectorEnv(BUSY, BODIES[:1], 1, num_threads=1) for _ in range(2))
    env.reset(seed=1)
    other.reset(seed=2)
    before, state = env.get_state(), other.get_state()
    with pytest.raises(ConfigError, match=r"friction pair is 0\.6 static and 0\.8 dynamic"):
        env.set_state({**state, "friction": state["friction"][:, ::-1]})
    for name, value in env.get_state().items():
        np.testing.assert_array_equal(value, before[name])


def _poison_position(env, action):
    env.core.simulator.data(BROKEN).qpos[:] = np.nan


def _poison_velocity(env, action):
    env.core.simulator.data(BROKEN).qvel[:] = 1e12


def _poison_action(env, action):
    action[BROKEN] = np.nan


@pytest.mark.parametrize(
    "poison",
    [_poison_position, _poison_velocity, _poison_action],
    ids=["nan position", "huge velocity", "nan action"],
)
@pytest.mark.parametrize("task", [BUSY, HOLDING], ids=["busy", "holding"])
@pytest.mark.filterwarnings("error")
def test_only_the_broken_environment_ends(poison, task, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    poisoned, twin = _env(task), _env(task)
    start = {"morphology_index": np.array([0, 1, 2, 3])}
    poisoned.reset(seed=6, options=start)
    twin.reset(seed=6, options=start)
    for step, action in enumerate(_actions(poisoned, 60)):
        expected = twin.step(action.copy())
        if step == 9:
            poison(poisoned, action)
        found = poisoned.step(action)
        np.testing.assert_array_equal(
            found[0]["dynamic"][OTHERS], expected[0]["dynamic"][OTHERS], err_msg=str(step)
        )
        for part in (1, 2, 3):
            np.testing.assert_array_equal(found[part][OTHERS], expected[part][OTHERS])
        assert np.isfinite(found[0]["dynamic"]).all()
        assert np.isfinite(found[1]).all()
        if step == 9:
            assert found[1][BROKEN] == 0.0
            assert not found[2][BROKEN]
            assert found[3][BROKEN]
            assert found[4]["final_info"]["ended"][BROKEN] == "diverged"
            assert np.isfinite(found[4]["final_obs"][BROKEN]["dynamic"]).all()
            assert found[4]["final_info"]["episode_length"][BROKEN] == 10
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")
