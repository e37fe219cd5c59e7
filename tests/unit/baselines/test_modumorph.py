"""ModuMorph against a loop over limbs, and what its parts promise."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from gmc_baselines.modumorph import SPEC
from gmc_baselines.modumorph.model import LinearGenerator, build
from gmc_bench.conformance.tokens import random_tokens, select
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn import TokenBatch, fixed_weights
from gmc_bench.tokens import TokenSpec
from tests.support.largest_tensor import LargestTensor

SMALL = {"width": 4, "feedforward": 3, "num_layers": 2, "generator_context_width": 3}
HIDDEN = {"decoder_hidden": [5, 3], "height_map_hidden": [4, 2]}


def make(changes=None, lengths=(4, 1, 6), batch_size=5, num_heights=0, perturb=0.3):
    torch.manual_seed(0)
    spec = TokenSpec(6, num_heights=num_heights)
    config = SPEC.make_config("paper", {**SMALL, **(changes or {})})
    network = build(config, spec, 2).double()
    for parameter in network.parameters():
        parameter.data += perturb * torch.randn_like(parameter)
    tokens = random_tokens(np.random.default_rng(0), spec, lengths, batch_size)
    table = dataclasses.replace(tokens.table, context=tokens.table.context.double())
    heights = None if tokens.height_map is None else tokens.height_map.double()
    return network, TokenBatch(table, tokens.morphology_index, tokens.dynamic.double(), heights)


def encode(layers, x):
    for layer in layers:
        x = torch.relu(layer(x))
    return x


def reference(network, tokens, row):
    """Outputs (num_limbs, 2) of one environment: the maps of every limb are written out."""
    count = int(tokens.num_limbs[row])
    context = tokens.table.scaled_context[tokens.morphology_index[row], :count].double()
    described = [encode(network.maps.context.layers, limb) for limb in context]

    def mapped(layer, h, x):
        generator = network.maps.layers[layer]
        weight = generator.weight(h).reshape(len(x), -1)
        return x @ weight + generator.bias(h)

    features = tokens.features[row, :count]
    rows = [2.0 * mapped(0, h, o) for h, o in zip(described, features, strict=True)]  # sqrt(4)
    states = torch.stack(rows)
    looking = torch.stack([encode(network.attention.context.layers, limb) for limb in context])
    for layer in network.attention.layers:
        query = layer.norm_context(looking)
        value = layer.norm1(states)
        mixed, _ = torch.nn.functional.multi_head_attention_forward(
            *(x.unsqueeze(1) for x in (query, query, value)),
            4, 2, layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias, None, None, False,
            0.0, layer.self_attn.out_proj.weight, layer.self_attn.out_proj.bias,
        )  # fmt: skip
        states = states + mixed.squeeze(1)
        states = states + layer.linear2(torch.relu(layer.linear1(layer.norm2(states))))
    found = []
    for h, x in zip(described, states, strict=True):
        if network.height_map is not None:
            x = torch.cat((x, encode(network.height_map.layers, tokens.height_map[row])))
        for layer in range(1, len(network.maps.layers)):
            x = mapped(layer, h, x if layer == 1 else torch.relu(x))
        found.append(x)
    return torch.stack(found)


@pytest.mark.parametrize(("changes", "num_heights"), [({}, 0), (HIDDEN, 0), (HIDDEN, 7)])
@pytest.mark.parametrize(
    ("lengths", "batch_size"),
    [((4, 1, 6), 5), ((1,), 1), ((6,), 3), ((4, 1, 6), 30)],
    ids=["mixed", "one limb", "one body", "many samples per body"],
)
def test_forward_and_gradients_match_a_loop(changes, num_heights, lengths, batch_size):
    network, tokens = make(changes, lengths, batch_size, num_heights)
    found = network(tokens)
    assert not found[tokens.limb_padding_mask].any()
    expected = torch.zeros_like(found)
    for row, count in enumerate(tokens.num_limbs.tolist()):
        expected[row, :count] = reference(network, tokens, row)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    weights, parameters = torch.randn_like(found), list(network.parameters())
    pairs = zip(
        torch.autograd.grad((found * weights).sum(), parameters),
        torch.autograd.grad((expected * weights).sum(), parameters),
        strict=True,
    )
    for gradient, wanted in pairs:
        torch.testing.assert_close(gradient, wanted, rtol=1e-9, atol=1e-9)


def test_the_height_map_passes_layers_of_the_configured_widths():
    network, _ = make(HIDDEN, num_heights=7)
    shapes = [tuple(layer.weight.shape) for layer in network.height_map.layers]
    assert shapes == [(4, 7), (2, 4)]


@pytest.mark.parametrize("num_heights", [0, 7])
def test_results_kept_per_body_equal_those_made_per_batch(num_heights):
    network, tokens = make(HIDDEN, num_heights=num_heights)
    batches = [tokens, select(tokens, [3]), select(tokens, [4, 0])]
    expected = [network(batch) for batch in batches]
    with fixed_weights(network):
        for batch, outputs in zip(batches, expected, strict=True):
            torch.testing.assert_close(network(batch), outputs, rtol=0, atol=1e-12)


def test_nothing_is_kept_after_fixed_weights():
    network, tokens = make()
    with fixed_weights(network):
        before = network(tokens)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.1
        changed = network(tokens)
        assert not torch.allclose(changed, before)
    with fixed_weights(network):
        torch.testing.assert_close(network(tokens), changed, rtol=0, atol=1e-12)


def test_bodies_are_computed_once_in_fixed_weights(monkeypatch):
    network, tokens = make()
    calls = []
    for part in (network.maps, network.attention):
        monkeypatch.setattr(part, "compute", _counted(part.compute, calls))
    with fixed_weights(network):
        network(tokens)
        calls.clear()
        network(select(tokens, [0]))
        network(tokens)
    assert not calls


def _counted(compute, calls):
    def counted(*args):
        calls.append(args)
        return compute(*args)

    return counted


@pytest.mark.parametrize("changes", [{}, {"decoder_hidden": [64]}])
def test_training_makes_no_weight_per_sample(changes):
    """400 environments of 3 bodies: a map per limb would take 400 * 6 * 52 * 128 numbers."""
    torch.manual_seed(0)
    spec = TokenSpec(6)
    network = build(SPEC.make_config("paper", {"num_layers": 1, **changes}), spec, 2)
    tokens = random_tokens(np.random.default_rng(0), spec, (3, 5, 6), 400)
    with LargestTensor() as largest:
        network(tokens).sum().backward()
    feed_forward = tokens.packing.num_rows * 1024
    assert largest.numel <= feed_forward < 400 * 6 * 52 * 128 / 4


def test_all_limbs_share_one_map_at_the_start():
    """Bias-HyperInit: the weights do not depend on limb or body, and there is no bias."""
    network, tokens = make(HIDDEN, perturb=0.0)
    maps, _ = network.maps(tokens)
    for weight, bias in zip(maps[::2], maps[1::2], strict=True):
        assert torch.equal(weight, weight[:1, :1].expand_as(weight))
        assert not bias.any()


def test_initialisation():
    torch.manual_seed(0)
    network = build(SPEC.make_config("paper"), TokenSpec(12), 2)
    largest = {name: value.abs().max().item() for name, value in network.state_dict().items()}
    assert 0.099 < largest["maps.layers.0.weight.bias"] <= 0.1
    assert 0.0095 < largest["maps.layers.1.weight.bias"] <= 0.01
    for name in ("0.weight.weight", "0.bias.weight", "0.bias.bias", "1.weight.weight"):
        assert largest[f"maps.layers.{name}"] == 0
    for branch in ("maps", "attention"):
        assert 0.099 < largest[f"{branch}.context.layers.0.weight"] <= 0.1
        assert 0.088 < largest[f"{branch}.context.layers.1.weight"] <= 0.0884  # 1 / sqrt(128)
    assert largest["attention.layers.0.norm_context.weight"] == 1
    assert largest["attention.layers.0.self_attn.in_proj_bias"] == 0
    xavier = math.sqrt(6 / (4 * 128))  # query, key and value stacked count as one map
    assert 0.99 * xavier < largest["attention.layers.0.self_attn.in_proj_weight"] <= xavier


def test_all_layers_start_as_copies():
    network = build(SPEC.make_config("lite"), TokenSpec(12), 2)
    first, *others = (layer.state_dict() for layer in network.attention.layers)
    for other in others:
        assert all(torch.equal(value, other[name]) for name, value in first.items())


def test_generated_map_by_hand():
    """One limb with context (1, 2): weight 3 * 1 + 2 and so on, entry by entry."""
    generator = LinearGenerator(2, inputs=1, outputs=2, init=0.1)
    with torch.no_grad():
        generator.weight.weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 1.0]]))
        generator.weight.bias.copy_(torch.tensor([2.0, -1.0]))
        generator.bias.weight.copy_(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    weight, bias = generator(torch.tensor([[[1.0, 2.0]]]))
    assert weight.tolist() == [[[[5.0, 1.0]]]]
    assert bias.tolist() == [[[3.0, 0.0]]]


@pytest.mark.parametrize(
    ("preset", "num_heights", "hidden", "expected"),
    [
        ("paper", 0, [], 5_218_819),
        # The published counts of VT and Obstacles, less the unused 38,467 and 46,787.
        ("paper", 1410, [64], 8_608_262 - 38_467),
        ("paper", 1410, [64, 64], 9_689_862 - 46_787),
        ("lite", 0, [], 144_179),
    ],
)
def test_parameter_counts(preset, num_heights, hidden, expected):
    config = SPEC.make_config(preset, {"decoder_hidden": hidden})
    policy = ActorCritic(SPEC, config, TokenSpec(12, num_heights=num_heights))
    assert policy.num_parameters() == expected


def test_spec_states_the_counts_of_its_presets():
    assert SPEC.parameters == {"paper": 5_218_819, "lite": 144_179}


@pytest.mark.parametrize("batch_size", [4, 40])
def test_autocast(batch_size):
    network, tokens = make(HIDDEN, batch_size=batch_size, perturb=0.1)
    network = network.float()
    table = dataclasses.replace(tokens.table, context=tokens.table.context.float())
    tokens = TokenBatch(table, tokens.morphology_index, tokens.dynamic.float())
    expected = network(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        found = network(tokens)
    found.float().sum().backward()
    torch.testing.assert_close(found.float(), expected, rtol=0.1, atol=0.1)
