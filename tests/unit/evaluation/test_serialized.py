"""Scoring in other token orders: bodies are the same, only what the policy sees is rearranged."""

import numpy as np
import pytest

from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.evaluation.dropout import draw_silent_limbs
from gmc_bench.evaluation.evaluate import Scoring
from gmc_bench.policies.policy import Policy
from gmc_bench.tokens.serialization import make_serialization, make_sibling_test


def score(trained, mode="deterministic", *, order="dfs", **options):
    scoring = Scoring(
        task=trained.task, bodies=trained.bodies, episodes=2, mode=mode, seed=5, num_threads=1,
        **options,
    )  # fmt: skip
    return scoring.run(Policy(trained.model, trained.normalizer, order=order))


def returns(found):
    return np.array([[episode.episode_return for episode in items] for items in found])


@pytest.mark.parametrize("order", ["bfs", "random"])
def test_a_policy_that_treats_tokens_alike_scores_the_same_in_every_order(trained, order):
    np.testing.assert_allclose(returns(score(trained, order=order)), returns(score(trained)), 1e-5)


def test_the_order_of_the_engine_is_the_default(trained):
    assert score(trained, order="dfs") == score(trained)


def test_every_sequence_is_scored_like_a_body(trained):
    """Start states belong to episodes, so the canonical sequences do not start alike."""
    core = EnvironmentCore(trained.task, trained.bodies, 1, token_spec=trained.model.spec)
    test, _, totals = make_sibling_test(core.table)
    found = score(trained, serialization=test)
    assert totals == (1, 24, 2)
    assert len(found) == len(test) == 1 + 24 + 2
    assert all(len(items) == 2 for items in found)


def test_unseen_limbs_are_the_same_in_every_order(trained):
    silent = draw_silent_limbs(trained.bodies, 3)
    found = score(trained, order="random", silent_limbs=silent)
    np.testing.assert_allclose(returns(found), returns(score(trained, silent_limbs=silent)), 1e-5)
    assert (returns(found) != returns(score(trained, order="random"))).any()


@pytest.mark.parametrize("mode", ["deterministic", "stochastic"])
def test_what_the_policy_sees_is_in_the_order_asked_for(trained, mode):
    seen = []
    handle = trained.model.actor.register_forward_pre_hook(
        lambda _, arguments: seen.append(
            (arguments[0].morphology_index.numpy().copy(), arguments[0].parents.numpy().copy())
        )
    )
    core = EnvironmentCore(trained.task, trained.bodies, 1, token_spec=trained.model.spec)
    order = make_serialization("random", core.table)
    score(trained, mode, order="random")
    handle.remove()
    parents = order.parents(core.table.parents)
    for index, shown in seen:
        np.testing.assert_array_equal(shown, parents[index])
