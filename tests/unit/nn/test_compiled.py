"""Attention in compiled code against the same layers in torch's operations."""

import numpy as np
import pytest
import torch

from gmc_bench.nn import AttentionLayer, attention_mask, compiled, make_packing
from gmc_bench.nn.kernels import LANES
from tests.support.exactness import check_as_exact

MAX_LIMBS = 12
WIDTH, HEADS = 8, 2
LENGTHS = {
    "none": [],
    "one limb": [1],
    "one body": [5],
    "equal": [3] * 4,
    "several groups": [1 + 7 * k % MAX_LIMBS for k in range(2 * LANES + 3)],
    "one in the last group": [2] * LANES + [1],
    "a body without limbs": [0, 4, 0, 2],
}


def make(layer, lengths, dtype, pairs="allowed"):
    """A layer, its rows and layout, and what it takes of pairs of limbs."""
    torch.manual_seed(0)
    layer = layer.to(dtype)
    for parameter in layer.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    num_limbs = torch.tensor(lengths, dtype=torch.int64)
    packing = make_packing(num_limbs, MAX_LIMBS)
    rows = torch.randn(packing.num_rows, WIDTH, dtype=dtype)
    padding = torch.arange(MAX_LIMBS) >= num_limbs[:, None]
    allowed = torch.rand(len(lengths), MAX_LIMBS, MAX_LIMBS) < 0.5
    allowed |= torch.eye(MAX_LIMBS, dtype=torch.bool)
    mask = attention_mask(padding, allowed if pairs == "allowed" else None).to(dtype)
    if pairs == "biases":
        mask = mask + torch.randn(len(lengths), HEADS, MAX_LIMBS, MAX_LIMBS, dtype=dtype)
    return layer, rows, packing, mask


def results(layer, rows, packing, pairs):
    """The output, and the gradients of rows, pairs and every parameter."""
    layer.zero_grad()
    rows, pairs = rows.clone().requires_grad_(), pairs.clone().requires_grad_()
    out = layer(rows, packing, pairs)
    # An expanded gradient, as that of a sum, is not contiguous.
    (out * torch.linspace(-1, 2, WIDTH, dtype=rows.dtype)).sum().backward()
    parameters = {name: parameter.grad for name, parameter in layer.named_parameters()}
    found = {"out": out.detach(), "rows": rows.grad, "pairs": pairs.grad} | parameters
    return {name: value for name, value in found.items() if value is not None}


LAYERS = {
    "pre-norm": lambda: (AttentionLayer(WIDTH, HEADS, 20), "biases"),
    "post-norm": lambda: (AttentionLayer(WIDTH, HEADS, 20, pre_norm=False), "allowed"),
}


@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("kind", LAYERS)
def test_they_are_as_exact_as_torch(kind, name):
    layer, pairs = LAYERS[kind]()
    layer, *inputs = make(layer, LENGTHS[name], torch.float32, pairs)
    found, torchs = results(layer.train(), *inputs), results(layer.eval(), *inputs)
    rows, packing, taken = inputs
    exact = results(layer.double(), rows.double(), packing, taken.double())
    assert found.keys() >= exact.keys()
    check_as_exact(found, torchs, exact)


@pytest.mark.slow  # in double precision, the code is compiled for this test alone
@pytest.mark.parametrize("name", LENGTHS)
@pytest.mark.parametrize("kind", LAYERS)
def test_in_double_precision_they_equal_torch(kind, name, monkeypatch):
    layer, pairs = LAYERS[kind]()
    layer, *inputs = make(layer, LENGTHS[name], torch.float64, pairs)
    expected = results(layer.eval(), *inputs)
    monkeypatch.setattr(compiled, "runs_compiled", lambda *_: True)
    found = results(layer.train(), *inputs)
    for part, values in expected.items():
        torch.testing.assert_close(found[part], values, rtol=1e-10, atol=1e-12, msg=part)


@pytest.mark.parametrize("kind", LAYERS)
def test_without_gradients_the_bits_are_the_same(kind):
    layer, pairs = LAYERS[kind]()
    layer, *inputs = make(layer, LENGTHS["several groups"], torch.float32, pairs)
    with torch.no_grad():
        found = layer(*inputs)
    assert torch.equal(found, layer(*inputs))


def test_one_mask_serves_all_bodies_and_heads():
    """It cannot leave out what pads shorter bodies, which counts for nothing all the same."""
    lengths = [1 + k % 4 for k in range(20)]
    layer, rows, packing, padding = make(
        AttentionLayer(WIDTH, HEADS, 20), lengths, torch.float32, "all"
    )
    mask = torch.randn(1, 1, MAX_LIMBS, MAX_LIMBS)
    shared = results(layer, rows, packing, mask)
    own = results(layer, rows, packing, mask + padding.expand(-1, HEADS, -1, -1))
    assert torch.equal(shared["out"], own["out"])
    torch.testing.assert_close(shared["pairs"], own["pairs"].sum((0, 1), keepdim=True))


def test_the_longest_logits_and_blocked_pairs_have_the_weights_of_a_softmax():
    rows = torch.tensor([[100.0, 1.0, 1.0], [0.0, 0.99, 2.0], [-100.0, 0.0, 0.0]])
    packing = make_packing(torch.tensor([3]), MAX_LIMBS)
    mask = torch.zeros(1, 1, MAX_LIMBS, MAX_LIMBS)
    mask[0, 0, 1, :2] = -torch.inf
    found = compiled.attend(rows, packing, mask, 1)
    expected = torch.softmax(torch.tensor([[100.0, 99, 0], [0, 0, 0], [-100, -99, 0]]), -1)
    expected[1] = torch.tensor([0.0, 0.0, 1.0])
    torch.testing.assert_close(found, expected @ rows[:, 2:], rtol=1e-6, atol=1e-40)


def test_weights_are_as_exact_as_the_exponential_says_it_is():
    """Of the second of two limbs, whose logit is up to 86 lower and whose value alone counts."""
    lower = -86.0 * np.linspace(0.0, 1.0, 1_001) ** 2  # most near zero, where little is allowed
    packing = make_packing(torch.full(lower.shape, 2), MAX_LIMBS)
    values = torch.arange(MAX_LIMBS).eq(1).float().expand(len(lower), -1)
    rows = packing.pack(torch.stack([values * 0.0, values * 0.0, values], dim=-1))
    mask = torch.zeros(len(lower), 1, MAX_LIMBS, MAX_LIMBS)
    mask[..., 1] = torch.from_numpy(lower).float()[:, None, None]
    exact = np.exp(mask[:, 0, 0, 1].double().numpy())
    found = packing.unpack(compiled.attend(rows, packing, mask, 1))[:, 0, 0].numpy()
    error = np.abs(found * (1.0 + exact) / exact - 1.0)
    assert (error < (3.0 + np.abs(lower)) * 2.0**-23).all()  # 2^-23 for sum and quotient each


@pytest.mark.parametrize("kind", LAYERS)
def test_numbers_that_are_not_finite_stay_visible_and_in_their_body(kind):
    layer, pairs = LAYERS[kind]()
    layer, rows, packing, taken = make(layer, [1, 3, 2], torch.float32, pairs)
    rows[0, 0] = torch.nan
    out = layer(rows, packing, taken)
    first = packing.bodies == packing.bodies[0]
    assert out[0].isnan().all()
    assert out[~first].isfinite().all()


@pytest.mark.parametrize("case", ["evaluation", "double", "bfloat16"])
@pytest.mark.parametrize("kind", LAYERS)
def test_everything_else_takes_torchs_operations(kind, case, monkeypatch):
    monkeypatch.setattr(compiled, "attend", None)
    layer, pairs = LAYERS[kind]()
    dtype = torch.float64 if case == "double" else torch.float32
    layer, *inputs = make(layer, [2, 1], dtype, pairs)
    layer.train(case != "evaluation")
    with torch.autocast("cpu", torch.bfloat16, enabled=case == "bfloat16"):
        assert layer(*inputs).isfinite().all()
