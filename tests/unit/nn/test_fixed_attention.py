"""The fixed attention layer against its equations, limb by limb."""

import math

import numpy as np
import pytest
import torch

from gmc_bench.nn.fixed_attention import FixedAttentionLayer
from gmc_bench.nn.packing import make_packing

WIDTH, HEADS, FEEDFORWARD, SLOTS = 6, 2, 5, 5
SIZE = WIDTH // HEADS


def make(lengths):
    """A layer with perturbed parameters, and one condition and state per body."""
    torch.manual_seed(0)
    layer = FixedAttentionLayer(WIDTH, HEADS, FEEDFORWARD).double()
    for parameter in layer.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    counts = torch.tensor(lengths)
    padding = torch.arange(SLOTS) >= counts[:, None]
    condition = torch.randn(len(lengths), SLOTS, WIDTH, dtype=torch.float64)
    return layer, make_packing(counts, SLOTS), padding, condition, torch.randn_like(condition)


def layer_norm(x, norm):
    centred = x - x.mean()
    scaled = centred / np.sqrt(np.mean(centred**2) + norm.eps)
    return norm.weight.detach().numpy() * scaled + norm.bias.detach().numpy()


def linear(x, weight, bias):
    return weight.detach().numpy() @ x + bias.detach().numpy()


def reference(layer, states, condition, bias):
    """States (num_limbs, width) after the layer, from its equations; bias (H, n, n)."""
    weight, offset = layer.self_attn.in_proj_weight, layer.self_attn.in_proj_bias
    look = [linear(layer_norm(c, layer.norm_context), weight, offset) for c in condition]
    give = [linear(layer_norm(x, layer.norm1), weight, offset) for x in states]
    found = []
    for i, x in enumerate(states):
        mixed = []
        for head in range(HEADS):
            own = slice(head * SIZE, (head + 1) * SIZE)
            query = look[i][:WIDTH][own]
            logits = [
                query @ other[WIDTH : 2 * WIDTH][own] / math.sqrt(SIZE) + bias[head, i, j]
                for j, other in enumerate(look)
            ]
            shares = np.exp(logits) / np.sum(np.exp(logits))
            mixed.append(sum(s * v[2 * WIDTH :][own] for s, v in zip(shares, give, strict=True)))
        out = layer.self_attn.out_proj
        y = x + linear(np.concatenate(mixed), out.weight, out.bias)
        hidden = linear(layer_norm(y, layer.norm2), layer.linear1.weight, layer.linear1.bias)
        fed = linear(np.maximum(hidden, 0), layer.linear2.weight, layer.linear2.bias)
        found.append(y + fed)
    return np.stack(found)


@pytest.mark.parametrize("lengths", [(1,), (5,), (3, 1, 5), (2, 2)])
@pytest.mark.parametrize("with_bias", [False, True])
def test_layer_matches_the_equations(lengths, with_bias):
    layer, packing, padding, condition, states = make(lengths)
    bias = torch.randn(len(lengths), HEADS, SLOTS, SLOTS).double() if with_bias else None
    probabilities = layer.probabilities(condition, padding, bias)
    found = packing.unpack(layer(packing.pack(states), packing, probabilities)).detach().numpy()
    biases = np.zeros((len(lengths), HEADS, SLOTS, SLOTS)) if bias is None else bias.numpy()
    for row, count in enumerate(lengths):
        expected = reference(
            layer, states[row, :count].numpy(), condition[row, :count].numpy(), biases[row]
        )
        np.testing.assert_allclose(found[row, :count], expected, rtol=0, atol=1e-12)


def test_probabilities_leave_padding_out():
    layer, _, padding, condition, _ = make((2, 5, 1))
    found = layer.probabilities(condition, padding)
    assert found.shape == (3, HEADS, SLOTS, SLOTS)
    assert not found[0, :, :, 2:].any()
    assert not found[2, :, :, 1:].any()
    torch.testing.assert_close(found.sum(dim=-1), torch.ones_like(found.sum(dim=-1)))


def test_probabilities_do_not_depend_on_the_condition_of_padding():
    layer, _, padding, condition, _ = make((2, 5, 1))
    filled = condition.masked_fill(padding.unsqueeze(-1), 1e6)
    one, other = layer.probabilities(condition, padding), layer.probabilities(filled, padding)
    real = ~padding.unsqueeze(1).expand(-1, HEADS, -1)
    torch.testing.assert_close(one[real], other[real], rtol=0, atol=1e-12)


def test_one_bias_for_all_bodies_and_heads():
    layer, _, padding, condition, _ = make((2, 5))
    shared = torch.randn(1, 1, SLOTS, SLOTS, dtype=torch.float64)
    expected = layer.probabilities(condition, padding, shared.expand(2, HEADS, -1, -1))
    assert torch.equal(layer.probabilities(condition, padding, shared), expected)


def test_gradients_of_short_bodies_in_many_slots_are_finite():
    layer, packing, padding, condition, states = make((1, 2))
    rows = packing.pack(states)
    layer(rows, packing, layer.probabilities(condition, padding)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_parameters_are_those_of_a_transformer_layer_and_one_norm():
    layer = FixedAttentionLayer(128, 2, 1024)
    torch_layer = torch.nn.TransformerEncoderLayer(128, 2, 1024)
    names = {name for name, _ in layer.named_parameters()}
    assert names - {name for name, _ in torch_layer.named_parameters()} == {
        "norm_context.weight",
        "norm_context.bias",
    }
    assert sum(parameter.numel() for parameter in layer.parameters()) == 329_856 + 256


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_same_numbers():
    layer, packing, padding, condition, states = make((3, 1, 5))
    expected = layer(packing.pack(states), packing, layer.probabilities(condition, padding))
    layer, moved = layer.cuda(), make_packing(torch.tensor((3, 1, 5)).cuda(), SLOTS)
    probabilities = layer.probabilities(condition.cuda(), padding.cuda())
    found = layer(moved.pack(states.cuda()), moved, probabilities)
    torch.testing.assert_close(found.cpu(), expected, rtol=0, atol=1e-12)
