from dataclasses import replace

import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.errors import ConfigError
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.generation.released import build_released
from gmc_bench.sim.batch import available_threads
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.unimal_ft import TASK as UNIMAL_FT
from tests.support.slow import slow_but


def _run(env, actions):
    """Step through all actions; return every number the environments gave, and their reasons."""
    numbers, ended = [], []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        parts = {**observation, "": reward, "terminated": terminated, "truncated": truncated}
        parts |= {name: info[name] for name in info if name.startswith(("reward/", "metric/"))}
        numbers.append({name: value.tobytes() for name, value in parts.items()})
        if "final_info" in info:
            final = {name: value.tolist() for name, value in info["final_info"].items()}
            last = [
                one and {name: np.asarray(value).tobytes() for name, value in one.items()}
                for one in info["final_obs"]
            ]
            ended.append((len(numbers), final, last))
    return numbers, ended


LIMBS = [name for name, task in TASKS.items() if task.parts == "limbs"]


@pytest.fixture(scope="module")
def generated():
    """Five of the generated bodies, of 5 to 12 limbs."""
    return build_released("gmc-unimal-mini-v1").split("train")[::4]


@pytest.mark.parametrize("name", slow_but(LIMBS, "unimal-ft-v1", "unimal-vt-v1"))
def test_steps_of_a_task_are_the_same_bytes_in_each_environment(name, generated, draw_actions):
    """Height maps, rewards, metrics and what ended episodes included; bodies change at resets.

    Such bodies seldom fall, so that episodes are cut short.
    """
    task = replace(TASKS.get(name), horizon=60)
    runs = []
    for threads in (1, 2, 2) if available_threads() > 1 else (1, 1):
        env = MorphologyVectorEnv(task, generated, 4, num_threads=threads)
        first, _ = env.reset(seed=11)
        first = {part: value.tobytes() for part, value in first.items()}
        runs.append((first, _run(env, draw_actions(env, 360))))
    assert all(run == runs[0] for run in runs[1:])
    numbers, ended = runs[0][1]
    num_episodes = sum(reason != "" for _, final, _ in ended for reason in final["ended"])
    assert num_episodes >= 20
    assert {f"metric/{term.name}" for term in task.metrics} <= numbers[0].keys()
    assert ("height_map" in numbers[0]) == bool(task.num_heights)


def test_the_number_of_threads_changes_no_bit(make_env, draw_actions):
    if available_threads() < 2:
        pytest.skip("needs two cores")
    runs = []
    for threads in (1, 2):
        env = make_env(10, num_threads=threads)
        observation, _ = env.reset(seed=3)
        runs.append((observation["dynamic"].tobytes(), _run(env, draw_actions(env, 300))))
    assert runs[0] == runs[1]
    assert len(runs[0][1][1]) > 20  # episodes ended and new bodies were drawn


def test_the_seed_decides_everything(make_env, draw_actions):
    env = make_env()
    actions = draw_actions(env, 100)
    runs = []
    for seed in (1, 1, 2):
        first, _ = env.reset(seed=seed)
        runs.append((first["dynamic"].tobytes(), _run(env, actions)))
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0]


def test_an_environment_that_was_used_before_equals_a_fresh_one(make_env, draw_actions):
    used, fresh = make_env(), make_env()
    actions = draw_actions(used, 150)
    used.reset(seed=8)
    _run(used, actions)
    used.reset(seed=1)
    fresh.reset(seed=1)
    assert _run(used, actions) == _run(fresh, actions)


def test_a_reset_without_seed_continues_given_streams(make_env):
    seeded, given, restored = make_env(), make_env(), make_env()
    seeded.reset(seed=1)
    given.set_streams(seeded.core.simulator.streams)
    restored.set_state(seeded.get_state())
    expected = seeded.reset()[0]["dynamic"]
    for env in (given, restored):
        np.testing.assert_array_equal(env.reset()[0]["dynamic"], expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: own[0], r"have the shape \(4,\), expected \(4, 4\); give what spawn_streams"),
        (lambda own: [own[0], own[1, :3]], "must be an array"),
        (lambda own: own.astype(str), "have the type <U.*, expected uint64"),
        (lambda own: own.astype(float), "have the type float64, expected uint64"),
        (lambda own: -np.ones((4, 4), np.int64), "have the type int64, expected uint64"),
        (lambda own: own * np.array([[1], [0], [1], [1]], np.uint64), "environment 1 is all zeros"),
    ],
    ids=["one", "ragged", "text", "floats", "negative", "zeros"],
)
def test_what_is_no_stream_for_each_environment_is_refused(make_env, change, message):
    """One stream does not stand for those of all, and zeros would be drawn for ever."""
    env = make_env()
    before = env.core.simulator.streams.copy()
    with pytest.raises(ConfigError, match=message):
        env.set_streams(change(before))
    np.testing.assert_array_equal(env.core.simulator.streams, before)


def test_a_reset_without_seed_continues_the_streams(make_env):
    env = make_env()
    first, _ = env.reset(seed=1)
    second, _ = env.reset()
    assert not np.array_equal(first["dynamic"], second["dynamic"])
    env.reset(seed=1)
    again, _ = env.reset()
    np.testing.assert_array_equal(second["dynamic"], again["dynamic"])


@pytest.mark.parametrize("fixed", [False, True])
def test_more_environments_leave_the_first_ones_alone(make_env, draw_actions, fixed):
    few, many = make_env(3, fixed=fixed), make_env(8, fixed=fixed)
    np.testing.assert_array_equal(
        few.reset(seed=4)[0]["dynamic"], many.reset(seed=4)[0]["dynamic"][:3]
    )
    resets = 0
    for action in draw_actions(many, 300):
        small, large = few.step(action[:3]), many.step(action)
        for name in small[0]:
            np.testing.assert_array_equal(small[0][name], large[0][name][:3])
        for part in (1, 2, 3):
            np.testing.assert_array_equal(small[part], large[part][:3])
        resets += int(small[2].sum())
    assert resets > 3


@pytest.mark.parametrize("fixed", [False, True])
def test_a_fresh_environment_continues_from_a_state(make_env, draw_actions, fixed):
    env = make_env(6, fixed=fixed)
    actions = draw_actions(env, 400)
    env.reset(seed=2)
    env.set_sampling(np.array([0.2, 0.2, 0.6]))
    _run(env, actions[:137])
    state = env.get_state()
    expected = _run(env, actions[137:])
    assert len(expected[1]) > 5

    fresh = make_env(6, fixed=fixed)
    fresh.set_state(state)
    assert _run(fresh, actions[137:]) == expected


def test_a_used_environment_continues_from_a_state(make_env, draw_actions):
    env = make_env()
    actions = draw_actions(env, 200)
    env.reset(seed=2)
    _run(env, actions[:90])
    state = env.get_state()
    expected = _run(env, actions[90:])
    env.reset(seed=77)
    _run(env, actions[:31])
    env.set_state(state)
    assert _run(env, actions[90:]) == expected
    env.set_state(state)  # stepping has not changed the state that was taken
    assert _run(env, actions[90:]) == expected


@pytest.mark.parametrize(
    ("bodies", "num_envs", "message"),
    [
        ([chain(2), star(3), biped()], 2, r"'model_index' of the shape \(2,\), expected \(3,\)"),
        ([chain(2), star(3), biped()], 4, r"of the shape \(4,\), expected \(3,\); use one of as"),
        ([chain(5), chain(4), chain(3)], 3, r"'physics' of the shape"),
        ([chain(2), star(3), biped(), chain(5)], 3, "models that are not among these 3; use one"),
    ],
)
def test_a_state_that_does_not_fit_changes_nothing(bodies, num_envs, message):
    """A core's states hold no name of a body; shapes tell them apart."""
    made = [
        EnvironmentCore(
            UNIMAL_FT, chosen, count, token_spec=UNIMAL_FT.token_spec(6, 2), num_threads=1
        )
        for chosen, count in (([chain(2), star(3), biped()], 3), (bodies, num_envs))
    ]
    for core in made:
        rows = np.arange(core.num_envs)
        core.reset(rows, len(core.table) - 1 - rows % len(core.table))
    core, other = made
    before = core.get_state()
    for target, matching in ((core, "this state"), (core.simulator, message)):
        with pytest.raises(ConfigError, match=matching):
            target.set_state(other.get_state())
    for name, value in core.get_state().items():
        np.testing.assert_array_equal(value, before[name])


def test_a_state_of_other_environments_is_refused(make_env):
    env, other = make_env(3), make_env(4)
    for one in (env, other):
        one.reset(seed=1)
    before = env.get_state()
    state = other.get_state()
    for wrong in (state, {**state, "episode_return": np.zeros(3)}, env.core.get_state()):
        with pytest.raises(ConfigError, match=r"^this state holds .*; use one of as many"):
            env.set_state(wrong)
    uneven = make_env(3)
    uneven.reset(seed=2)
    with pytest.raises(ConfigError, match="must sum to 1"):
        env.set_state({**uneven.get_state(), "sampling": before["sampling"] / 2})
    for name, value in env.get_state().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("episode_return", lambda own: np.array(["a"] * 3), "'episode_return' of the type <U1"),
        ("episode_return", lambda own: [0.0, [1.0], 2.0], "'episode_return', which is no array"),
        ("dynamic", lambda own: own.astype(object), "'dynamic' of the type object, expected float"),
        ("episode_length", lambda own: own + 0.5, "'episode_length' of the type float64"),
        ("model_index", lambda own: own.astype(float), "'model_index' of the type float64"),
        ("streams", lambda own: own.astype(float), "'streams' of the type float64, expected uint"),
        ("streams", np.zeros_like, "stream of environment 0 is all zeros"),
        ("physics", lambda own: own.astype(str), "'physics' of the type <U"),
        ("physics", lambda own: own.astype(np.float32), "'physics' of the type float32"),
        ("physics", lambda own: own * np.nan, "number 0 of 'physics' in this state is nan"),
    ],
)
def test_a_state_with_an_array_of_another_kind_changes_nothing(make_env, name, change, message):
    env, other = make_env(3), make_env(3)
    env.reset(seed=1)
    other.reset(seed=2)
    before, state = env.get_state(), other.get_state()
    with pytest.raises(ConfigError, match=message):
        env.set_state({**state, name: change(state[name])})
    for part, value in env.get_state().items():
        np.testing.assert_array_equal(value, before[part])


def test_parts_of_a_state_continue_its_rows(make_env, draw_actions):
    """Rows host bodies of unlike sizes, so that those of other rows would not fit."""
    env = make_env(6)
    actions = draw_actions(env, 60)
    env.reset(seed=2)
    _run(env, actions[:30])
    state, states = env.get_state(), []
    steps = [env.step(action) for action in actions[30:]]
    assert len(set(state["model_index"][:3].tolist())) > 1
    for rows in (slice(0, 2), slice(2, 6)):
        part = make_env(rows.stop - rows.start)
        part.set_state(part.part_of_state(state, rows))
        states.append(part.get_state())
        for action, (observation, *numbers, _) in zip(actions[30:], steps, strict=True):
            found, *others, _ = part.step(action[rows])
            for name, value in observation.items():
                np.testing.assert_array_equal(found[name], value[rows])
            for one, other in zip(others, numbers, strict=True):
                np.testing.assert_array_equal(one, other[rows])
    joined = MorphologyVectorEnv.join_states(states)
    assert joined.keys() == state.keys()
    for name, value in state.items():
        np.testing.assert_array_equal(joined[name], value, err_msg=name)
