"""The bank of single-body MLPs against one MLP per body."""

import dataclasses

import numpy as np
import pytest
import torch

from gmc_baselines.mlp import LONG, SPEC
from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn import TokenBatch
from gmc_bench.tokens import TokenSpec

TOKENS = TokenSpec(4)


def make(spec=TOKENS, bodies=3, batch_size=6):
    torch.manual_seed(0)
    config = SPEC.make_config("paper", {"hidden": [5, 6], "height_map_hidden": [3, 2]})
    network = SPEC.build(config, spec, 2, bodies).double()
    tokens = random_tokens(np.random.default_rng(0), spec, (4, 2, 3), batch_size)
    table = dataclasses.replace(tokens.table, context=tokens.table.context.double())
    heights = None if tokens.height_map is None else tokens.height_map.double()
    return network, TokenBatch(table, tokens.morphology_index, tokens.dynamic.double(), heights)


def alone(network, body, features, heights=None):
    """The policy of one body, in numpy."""
    p = {name: value[body].detach().numpy() for name, value in network.named_parameters()}
    x = features.reshape(-1)
    for layer in range(2):
        x = np.maximum(x @ p[f"hidden.{layer}.weight"] + p[f"hidden.{layer}.bias"], 0)
    if heights is not None:
        for layer in range(2):
            weight, bias = p[f"height_map.{layer}.weight"], p[f"height_map.{layer}.bias"]
            heights = np.maximum(heights @ weight + bias, 0)
        x = np.concatenate((x, heights))
    return (x @ p["output.weight"] + p["output.bias"]).reshape(4, 2)


@pytest.mark.parametrize("spec", [TOKENS, TokenSpec(4, num_heights=7)])
@pytest.mark.parametrize("batch_size", [1, 6, 40])
def test_every_environment_gets_the_policy_of_its_body(spec, batch_size):
    network, tokens = make(spec, batch_size=batch_size)
    found = network(tokens).detach().numpy()
    for row, body in enumerate(tokens.morphology_index.tolist()):
        count = int(tokens.num_limbs[row])
        features = np.where(np.arange(4)[:, None] < count, tokens.features[row].numpy(), 0.0)
        heights = None if tokens.height_map is None else tokens.height_map[row].numpy()
        expected = alone(network, body, features, heights)
        np.testing.assert_allclose(found[row, :count], expected[:count], rtol=0, atol=1e-10)
        assert not found[row, count:].any()


@pytest.mark.parametrize("spec", [TOKENS, TokenSpec(4, num_heights=7)])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_rows_in_order_need_no_plan(spec, count):
    network, tokens = make(spec, batch_size=3 * count)
    index = torch.arange(3).repeat_interleave(count)
    assert network._plan(index) == "in_order"
    shuffled = torch.randperm(3 * count, generator=torch.Generator().manual_seed(1))
    if count > 1:
        assert network._plan(index[shuffled]) != "in_order"
    gradients = []
    for order in (torch.arange(3 * count), shuffled):
        heights = None if tokens.height_map is None else tokens.height_map[order]
        outputs = network(TokenBatch(tokens.table, index[order], tokens.dynamic[order], heights))
        network.zero_grad()
        outputs.square().sum().backward()
        gradients.append((outputs, [p.grad.clone() for p in network.parameters()]))
    torch.testing.assert_close(gradients[1][0], gradients[0][0][shuffled])
    torch.testing.assert_close(gradients[1][1], gradients[0][1])


def test_a_body_trains_its_own_weights_only():
    network, tokens = make()
    own = TokenBatch(tokens.table, torch.tensor([1, 1]), tokens.dynamic[:2])
    network(own).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad[1].any(), name
        assert not parameter.grad[[0, 2]].any(), name


@pytest.mark.parametrize("preset", sorted(SPEC.presets))
def test_parameter_counts_are_per_body(preset):
    bank = ActorCritic(SPEC, SPEC.make_config(preset), TokenSpec(12), num_bodies=3)
    assert bank.num_parameters() == 3 * SPEC.parameters[preset]


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [("embedding_init", 0.2, "leave it out"), ("decoder_hidden", [64], "set that one")],
)
def test_settings_that_nothing_would_use_are_refused(name, value, instead):
    with pytest.raises(ConfigError, match=f"'{name}' has no effect here: .*; {instead}"):
        SPEC.make_config("paper", {name: value})


def test_published_sizes():
    """624 -> 256 -> 256 -> 256 -> 24: 297,752; the critic ends in 12 values: 294,668."""
    policy = ActorCritic(SPEC, SPEC.make_config("paper"), TokenSpec(12))
    counts = [sum(p.numel() for p in part.parameters()) for part in (policy.actor, policy.critic)]
    assert counts == [297_752, 294_668]


def test_the_long_reference_differs_in_its_budget_only():
    assert LONG.env_steps_per_body == 10_000_000
    assert (LONG.presets, LONG.builder) == (SPEC.presets, SPEC.builder)
    *alike, budget = SPEC.deviations
    assert list(LONG.deviations[: len(alike)]) == alike
    assert "1,000,000 steps per body" in budget
    assert budget not in LONG.deviations


def test_initialisation():
    network = SPEC.build(SPEC.make_config("paper"), TokenSpec(12), 2, 2)
    bound = 1 / np.sqrt(624)
    assert 0.99 * bound < network.hidden[0].weight.abs().max() <= bound
    assert 0.95 * bound < network.hidden[0].bias.abs().max() <= bound  # as torch's
    assert 0.0099 < network.output.weight.abs().max() <= 0.01
    assert not network.output.bias.any()
    assert not torch.equal(network.hidden[1].weight[0], network.hidden[1].weight[1])
