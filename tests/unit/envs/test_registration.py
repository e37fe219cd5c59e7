import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest

import gmc_bench
import gmc_bench.envs  # importing it registers the tasks
from gmc_bench.bodies import sets
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.errors import ConfigError, UnknownNameError
from gmc_bench.envs import registration
from gmc_bench.envs.morphology_env import MorphologyEnv
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.tasks import TASKS
from gmc_bench.tasks.unimal_ft import TASK

MINI = "gmc-unimal-mini-v1"


def _names(split):
    return tuple(body.name for body in load_morphologies(MINI).split(split))


def test_every_task_is_registered_under_its_id():
    assert {f"gmc_bench/{name}" for name in TASKS.names()} <= set(gymnasium.registry)


def test_a_task_that_gymnasium_cannot_name_does_not_take_others_with_it(monkeypatch, caplog):
    monkeypatch.delitem(gymnasium.registry, f"gmc_bench/{TASK.id}")
    monkeypatch.setattr(TASKS, "names", lambda: ["no name", TASK.id])
    registration.register()
    assert "the task 'no name' cannot be registered with gymnasium" in caplog.text
    assert f"gmc_bench/{TASK.id}" in gymnasium.registry


def test_gymnasium_makes_the_single_environment():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("gmc_bench/unimal-ft-v1", morphologies=MINI, split="test")
    assert isinstance(env, MorphologyEnv)  # not wrapped: it refuses by itself what it cannot use
    assert env.unwrapped.core.task is TASK
    assert env.unwrapped.core.table.names == _names("test")
    assert env.spec.id == "gmc_bench/unimal-ft-v1"
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    env.action_space.seed(1)
    assert np.isfinite(env.step(env.action_space.sample())[1])


def test_gymnasium_makes_the_batched_environment():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make_vec(
            "gmc_bench/unimal-ft-v1", num_envs=3, morphologies=MINI, split="test", num_threads=1
        )
    assert isinstance(env, MorphologyVectorEnv)
    assert env.num_envs == 3
    assert env.table.names == _names("test")
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    assert np.isfinite(env.step(np.zeros(env.action_space.shape, np.float32))[1]).all()


@pytest.mark.parametrize("task", TASKS.names())
def test_every_id_is_made_without_naming_bodies(monkeypatch, task):
    monkeypatch.setattr(sets, "resolve_default", lambda: (MINI, "it is quick to grow"))
    expected = load_morphologies("quadrupeds-v1" if "quadruped" in task else MINI)
    names = tuple(body.name for body in expected.split("train"))
    single = gymnasium.make(f"gmc_bench/{task}").unwrapped
    batch = gymnasium.make_vec(f"gmc_bench/{task}", num_envs=2, num_threads=1)
    assert single.core.task is batch.core.task is TASKS.get(task)
    assert single.core.table.names == batch.table.names == names
    assert isinstance(gmc_bench.make_env(task), MorphologyEnv)


def test_bodies_of_another_kind_are_refused_with_those_to_name():
    named = r"--morphologies quadrupeds-v1 \(in Python, bodies='quadrupeds-v1'\)"
    with pytest.raises(ConfigError, match=named):
        gmc_bench.make_env("quadruped-velocity", MINI)


def test_a_set_that_was_made_is_taken_as_it_is():
    found = load_morphologies(MINI)
    single = gmc_bench.make_env("unimal-ft", found, split="test")
    assert single.core.table.names == _names("test")
    batch = gymnasium.make_vec("gmc_bench/unimal-ft-v1", num_envs=2, morphologies=found)
    assert batch.table.names == _names("train")


def test_an_unknown_body_set_is_refused():
    with pytest.raises(UnknownNameError, match="unknown morphology set 'none'"):
        gymnasium.make("gmc_bench/unimal-ft-v1", morphologies="none")


@pytest.mark.parametrize(
    ("make", "task", "wrong", "known"),
    [
        (gymnasium.make, f"gmc_bench/{TASK.id}", "bodies", "morphologies, split, token_spec"),
        (gymnasium.make, f"gmc_bench/{TASK.id}", "num_envs", "morphologies, split, token_spec"),
        (
            gymnasium.make_vec,
            f"gmc_bench/{TASK.id}",
            "bodies",
            "fixed, morphologies, num_envs, num_threads, split, token_spec",
        ),
        (gmc_bench.make_env, TASK.id, "body", "bodies, num_envs, split, token_spec"),
        (
            partial(gmc_bench.make_env, num_envs=2),
            TASK.id,
            "body",
            "bodies, fixed, num_envs, num_threads, split, token_spec",
        ),
    ],
)
def test_an_unknown_option_is_refused_with_those_that_there_are(make, task, wrong, known):
    with pytest.raises(ConfigError, match=f"has no option '{wrong}'; known: {known}$"):
        make(task, **{wrong: 3})


@pytest.mark.parametrize("make", [registration.make_single, registration.make_vector])
def test_a_render_mode_of_none_is_no_option(make):
    assert make("unimal-ft-v1", morphologies=MINI, render_mode=None).render_mode is None


@pytest.mark.filterwarnings("ignore")  # gymnasium's own word on it
@pytest.mark.parametrize("make", [gymnasium.make, gymnasium.make_vec])
def test_a_render_mode_is_refused_with_where_to_look(make):
    with pytest.raises(ConfigError, match=r"got 'human'; .* watch"):
        make("gmc_bench/unimal-ft-v1", morphologies=MINI, render_mode="human")
