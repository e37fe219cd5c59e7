import math

import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.nn import AttentionLayer, SelfAttention, attention_mask, make_packing
from gmc_bench.nn.attention import attend

SLOTS, WIDTH, HEADS = 5, 8, 2
LENGTHS = torch.tensor([5, 1, 3])
PADDING = torch.arange(SLOTS) >= LENGTHS.unsqueeze(1)
PACKING = make_packing(LENGTHS, SLOTS)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def _perturbed(layer):
    for parameter in layer.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return layer.double()


def _limbs():
    return torch.randn(3, SLOTS, WIDTH, dtype=torch.float64)


@pytest.mark.parametrize("pre_norm", [True, False])
def test_layer_is_torchs_encoder_layer(pre_norm):
    expected = _perturbed(
        nn.TransformerEncoderLayer(
            WIDTH, HEADS, 16, dropout=0.0, batch_first=True, norm_first=pre_norm
        )
    )
    layer = AttentionLayer(WIDTH, HEADS, 16, pre_norm=pre_norm).double()
    layer.load_state_dict(expected.state_dict())
    limbs = _limbs()
    found = layer(PACKING.pack(limbs), PACKING, attention_mask(PADDING))
    wanted = PACKING.pack(expected(limbs, src_key_padding_mask=PADDING))
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12)


def test_attention_is_torchs_with_a_bias_per_body_and_head():
    expected = _perturbed(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
    attention = SelfAttention(WIDTH, HEADS).double()
    attention.load_state_dict(expected.state_dict())
    limbs = _limbs()
    bias = torch.randn(3, HEADS, SLOTS, SLOTS, dtype=torch.float64)
    mask = attention_mask(PADDING) + bias
    found = attention(PACKING.pack(limbs), PACKING, mask)
    # torch stacks the heads of a body behind each other in one batch of matrices.
    wanted, _ = expected(limbs, limbs, limbs, attn_mask=mask.flatten(0, 1))
    assert torch.allclose(found, PACKING.pack(wanted), rtol=0, atol=1e-12)


def test_attention_by_hand():
    """One head and identity maps: softmax(x x^T / sqrt(D)) x over the two real limbs."""
    attention = SelfAttention(2, 1).double()
    attention.in_proj_weight.data = torch.eye(2).repeat(3, 1).double()
    attention.out_proj.weight.data = torch.eye(2).double()
    packing = make_packing(torch.tensor([2]), 3)
    rows = torch.tensor([[1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    mask = attention_mask(torch.tensor([[False, False, True]]))
    first = 1 / (1 + math.exp(-1 / math.sqrt(2)))  # logits 1 and 0, both over sqrt(2)
    second = 1 / (1 + math.exp(-4 / math.sqrt(2)))  # logits 0 and 4
    expected = [[first, 2 * (1 - first)], [1 - second, 2 * second]]
    np.testing.assert_allclose(attention(rows, packing, mask).detach(), expected, atol=1e-14)


def test_initialisation_is_torchs():
    attention = SelfAttention(64, 2)
    bound = math.sqrt(6 / (64 + 3 * 64))  # xavier uniform over the stacked matrix
    assert 0.98 * bound < attention.in_proj_weight.abs().max() <= bound
    assert 0.98 / 8 < attention.out_proj.weight.abs().max() <= 1 / 8
    assert not attention.in_proj_bias.any()
    assert not attention.out_proj.bias.any()


def test_mask_leaves_out_padding_as_a_key():
    mask = attention_mask(torch.tensor([[False, False, True]]))
    assert mask.tolist() == [[[[0.0, 0.0, -math.inf]] * 3]]


def test_mask_of_allowed_pairs():
    """Padding, as a query, still attends to all real limbs."""
    allowed = torch.tensor([[[True, True, True], [False, True, False], [False, False, False]]])
    mask = attention_mask(torch.tensor([[False, False, True]]), allowed)
    blocked = [[False, False, True], [True, False, True], [False, False, True]]
    assert torch.equal(mask.isinf(), torch.tensor([[blocked]]))


@pytest.mark.parametrize("only_self", [False, True])
@pytest.mark.parametrize("pre_norm", [True, False])
def test_gradients_are_numbers_when_a_body_uses_few_slots(pre_norm, only_self):
    layer = AttentionLayer(WIDTH, HEADS, 16, pre_norm=pre_norm)
    rows = torch.randn(PACKING.num_rows, WIDTH, requires_grad=True)
    allowed = torch.eye(SLOTS, dtype=torch.bool).expand(3, -1, -1) if only_self else None
    layer(rows, PACKING, attention_mask(PADDING, allowed)).square().sum().backward()
    for tensor in (rows, *layer.parameters()):
        assert tensor.grad.isfinite().all()


def test_limbs_that_may_not_attend_to_each_other_are_independent():
    layer = AttentionLayer(WIDTH, HEADS, 16)
    rows = torch.randn(PACKING.num_rows, WIDTH, requires_grad=True)
    allowed = torch.eye(SLOTS, dtype=torch.bool).expand(3, -1, -1)
    layer(rows, PACKING, attention_mask(PADDING, allowed))[0].sum().backward()
    assert rows.grad[0].any()
    assert not rows.grad[1:].any()


def test_bfloat16_on_a_cpu_is_attended_to_in_float32():
    parts = torch.randn(3, 2, HEADS, SLOTS, 4).bfloat16()
    mask = attention_mask(PADDING[:2])
    expected = nn.functional.scaled_dot_product_attention(*parts.float(), attn_mask=mask)
    with torch.autocast("cpu", torch.bfloat16):
        found = attend(*parts, mask)
    assert torch.equal(found, expected.bfloat16())


def test_layer_runs_in_half_precision():
    layer = AttentionLayer(WIDTH, HEADS, 16)
    rows, mask = torch.randn(PACKING.num_rows, WIDTH), attention_mask(PADDING)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(rows, PACKING, mask)
    assert torch.allclose(found.float(), layer(rows, PACKING, mask), rtol=0, atol=0.1)
