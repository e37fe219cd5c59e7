"""Tasks that nobody wrote down: any terms together, with any weights, on bodies of any kind."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.tasks.metrics import distance_along_slope, position_x, visited_cells
from gmc_bench.tasks.rewards import forward_velocity, newly_visited_cells, speed_along_slope
from gmc_bench.tasks.spec import CUT_OFF, MetricTerm, RewardTerm, TerminationTerm, VisitGrid
from gmc_bench.tasks.terminations import beside_track, fallen
from gmc_bench.tasks.unimal_ft import TASK
from tests.property.random_bodies import random_body

STEPS = 40
ENVS = 3
GRID = VisitGrid(low=(-5.0, -5.0), shape=(100, 100), cell_size=0.1)
REWARDS = {
    "forward": forward_velocity,
    "up": speed_along_slope(20.0),
    "cells": newly_visited_cells,
    "high": lambda transition: transition.torso_after[:, 2] - transition.ground_height,
    "still": lambda transition: -np.abs(transition.action).sum(axis=1),
}
ENDS = {"fell": fallen, "left": beside_track}
METRICS = {"x": position_x, "along": distance_along_slope(10.0, 0.5), "visited": visited_cells}

weights = st.floats(-10.0, 10.0).filter(bool)
tasks = st.fixed_dictionaries(
    {
        "rewards": st.dictionaries(st.sampled_from(sorted(REWARDS)), weights, min_size=1),
        "ends": st.dictionaries(st.sampled_from(sorted(ENDS)), st.floats(0.05, 1.0)),
        "metrics": st.lists(st.sampled_from(sorted(METRICS)), unique=True),
        "options": st.fixed_dictionaries(
            {
                "horizon": st.integers(2, 30),
                "only_positive": st.booleans(),
                "reward_rates": st.booleans(),
                "reset_noise": st.sampled_from((0.0, 0.005, 0.2)),
            }
        ),
    }
)
bodies = st.lists(
    st.tuples(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(0, 1)),
    min_size=1,
    max_size=3,
)


def make_task(parts):
    return replace(
        TASK, id="random-v1", grid=GRID, **parts["options"],
        rewards=tuple(
            RewardTerm(name, weight, REWARDS[name]) for name, weight in parts["rewards"].items()
        ),
        terminations=tuple(
            TerminationTerm(name, ENDS[name](limit)) for name, limit in parts["ends"].items()
        ),
        metrics=tuple(MetricTerm(name, "m", METRICS[name]) for name in parts["metrics"]),
    )  # fmt: skip


def run(task, built, num_envs, actions):
    """Return (T, num_envs) numbers by name, and the observations (T, num_envs, L, F)."""
    env = MorphologyVectorEnv(task, built, num_envs, num_threads=1)
    env.reset(seed=5)
    steps, seen = [], []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action[:num_envs])
        row = {"reward": reward, "terminated": terminated, "truncated": truncated}
        row |= {name: info[name].copy() for name in info if name.startswith(("reward/", "metric/"))}
        ended = np.full(num_envs, "", dtype=object)
        if "final_info" in info:
            ended = info["final_info"]["ended"].astype(object)
        steps.append({**row, "ended": ended})
        seen.append(observation["dynamic"].copy())
    return {name: np.array([row[name] for row in steps]) for name in steps[0]}, np.array(seen)


def check(parts, drawn):
    task, built = make_task(parts), [random_body(*one) for one in drawn]
    slots = MorphologyVectorEnv(task, built, 1, num_threads=1).single_action_space.shape
    actions = np.random.default_rng(1).uniform(-1.2, 1.2, (STEPS, ENVS, *slots)).astype(np.float32)
    found, seen = run(task, built, ENVS, actions)
    finite = ~found["ended"].astype(bool) | (found["ended"] != "diverged")
    terms = [found[f"reward/{name}"] for name in task.reward_weights]
    np.testing.assert_allclose(sum(terms), found["reward"], rtol=1e-9, atol=1e-9)
    assert np.isfinite(found["reward"]).all()
    assert np.isfinite(seen).all()
    if task.only_positive:
        assert (found["reward"] >= -1e-9).all()
        assert (found[f"reward/{CUT_OFF}"] >= 0.0).all()
    assert (np.isin(found["ended"], [*parts["ends"]]) == found["terminated"]).all()
    assert (np.isin(found["ended"], ["time_limit", "diverged"]) == found["truncated"]).all()
    assert found["truncated"].any() or found["terminated"].sum() >= STEPS // 30

    # The order of terms, other terms beside them, and metrics move neither bodies nor values.
    first = task.rewards[0]
    alone = replace(task, rewards=(first,), only_positive=False, metrics=())
    other, other_seen = run(alone, built, ENVS, actions)
    np.testing.assert_array_equal(other_seen, seen)
    name = f"reward/{first.name}"
    np.testing.assert_array_equal(other[name][finite], found[name][finite])
    np.testing.assert_array_equal(other["ended"], found["ended"])

    # Nor do environments beside it.
    single, single_seen = run(task, built, 1, actions)
    np.testing.assert_array_equal(single_seen, seen[:, :1])
    for name in found:
        np.testing.assert_array_equal(single[name], found[name][:, :1], err_msg=name)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(tasks, bodies)
def test_terms_add_up_and_do_not_mix(parts, drawn):
    check(parts, drawn)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=500, deadline=None)
@given(tasks, bodies)
def test_terms_of_many_tasks_add_up_and_do_not_mix(parts, drawn):
    check(parts, drawn)
