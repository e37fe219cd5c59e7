"""The rules of separate bodies."""

from dataclasses import replace

import pytest

from gmc_baselines.mlp import LONG
from gmc_baselines.mlp import SPEC as MLP
from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods import METHODS
from gmc_bench.suites.method_rules import (
    planned_steps,
    protocol_digest,
    training_rules,
    with_method_budget,
    with_method_training,
)
from gmc_bench.suites.protocol import PPOConfig, Protocol
from gmc_bench.suites.unimal import SUITE


@pytest.mark.parametrize(
    ("name", "bodies", "envs", "length", "batch_size", "iterations"),
    [
        ("lite", 100, 2, 128, 32, 78),  # 20,000 steps; 8 minibatches as of 4,096 by 512
        ("lite", 10, 25, 16, 50, 500),  # 200,000 steps; 25 x 16 = 400
        ("paper", 100, 1, 2560, 160, 390),  # 1,000,000 steps; 16 minibatches
        ("paper", 4, 8, 2560, 1280, 1220),  # what one policy of all has, cut into four
        ("smoke", 100, 1, 81, 40, 1),  # 81 steps are all there are
        ("smoke", 3, 5, 64, 160, 8),
    ],
)
def test_the_share_of_a_body(name, bodies, envs, length, batch_size, iterations):
    protocol = SUITE.protocols[name]
    found = training_rules(protocol, bodies, per_body=True)
    assert (found.num_envs, found.rollout_length) == (bodies * envs, length)
    assert (found.ppo.batch_size, found.num_iterations) == (batch_size, iterations)
    assert found.num_iterations * found.steps_per_iteration <= protocol.env_steps
    assert found.ppo.repeat == protocol.ppo.repeat
    assert found.evaluation == protocol.evaluation


@pytest.mark.parametrize(
    ("method", "incline"),
    [("metamorph-star", 0.03), ("swat", 0.03), ("modumorph", 0.05), ("recmorph", 0.05)],
)
def test_kl_thresholds_are_those_of_the_paper(method, incline):
    """Its table of early stopping: 0.05 on flat terrain, 0.03 elsewhere, and incline by method."""
    tasks = dict.fromkeys(("vt", "obstacles", "exploration"), 0.03) | {"ft": 0.05}
    for name, threshold in {**tasks, "incline": incline}.items():
        task = f"unimal-{name}-v1"
        rules = SUITE.protocol("paper", task)
        found = with_method_training(rules, METHODS.get(method), task, SUITE)
        assert found.ppo.target_kl == threshold


@pytest.mark.parametrize("bodies", [1, 3, 100])
@pytest.mark.parametrize("method", [MLP, LONG])
@pytest.mark.parametrize("name", SUITE.specialists)
def test_specialists_have_rules_of_their_own_in_the_table_of_their_protocol(name, method, bodies):
    shared, rules = SUITE.protocols[name], SUITE.specialists[name]
    protocol = with_method_budget(shared, method, SUITE, bodies)
    found = training_rules(protocol, bodies, per_body=True)
    steps = method.env_steps_per_body or rules.env_steps
    assert found.num_iterations == steps // (rules.num_envs * rules.rollout_length)
    assert (found.num_envs, found.rollout_length) == (bodies * rules.num_envs, rules.rollout_length)
    assert (found.ppo.batch_size, found.ppo.repeat) == (rules.batch_size, rules.repeat)
    assert found.ppo.lr == rules.lr
    assert found.seeds == (rules.seeds or shared.seeds)
    assert found.evaluation.episodes == (rules.episodes or shared.evaluation.episodes)
    assert protocol_digest(protocol, method, SUITE, "unimal-ft-v1") == config_digest(shared)
    for change in ({"env_steps": protocol.env_steps + 1}, {"rollout_length": 8}):
        other = protocol_digest(replace(protocol, **change), method, SUITE, "unimal-ft-v1")
        assert other != config_digest(shared)


def test_a_shared_policy_has_the_protocol_as_it_is():
    protocol = SUITE.protocols["lite"]
    assert with_method_budget(protocol, METHODS.get("recmorph"), SUITE, 100) == protocol


def test_a_body_alone_keeps_a_protocol_with_long_rollouts():
    protocol = SUITE.protocols["paper"]
    assert training_rules(protocol, 1, per_body=True) == protocol


def test_too_few_steps_are_refused():
    protocol = Protocol(
        name="unit", preset="lite", env_steps=128, num_envs=4, rollout_length=16, ppo=PPOConfig()
    )
    assert training_rules(protocol, 64, per_body=True).rollout_length == 2
    many = replace(protocol, ppo=PPOConfig(batch_size=1))  # one advantage has no spread
    assert training_rules(many, 64, per_body=True).ppo.batch_size == 2
    with pytest.raises(ConfigError, match=r"'env_steps' is 128, less than two .* at least 130"):
        training_rules(protocol, 65, per_body=True)


def test_planned_steps_are_whole_iterations():
    protocol = SUITE.protocols["lite"]
    assert planned_steps(protocol, 100, per_body=True) == 78 * 256 * 100
    assert planned_steps(protocol, 100, per_body=False) == 488 * 4096
