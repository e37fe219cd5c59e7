"""The Mamba-2 mixer against its recurrence, written limb by limb."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gmc_bench.nn import make_packing, packing, ssd
from gmc_bench.nn.ssd import BidirectionalMamba2, _kernel, chunked_scan, selective_scan
from tests.support.equations import as_numpy, assert_slopes, gradients_of

DOUBLE = torch.float64
CHUNK = 4
# Bodies of one limb, shorter than the convolution (4), a whole chunk, and of several chunks.
LENGTHS = [[1], [3], [4], [11], [1, 1], [2, 11, 8, 1, 5, 4], [9, 9, 3]]


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch):
    monkeypatch.setattr(packing, "CHUNK_LIMBS", CHUNK)


def make(lengths, width=4, **sizes):
    torch.manual_seed(0)
    cell = BidirectionalMamba2(width, **{"state": 3, "expand": 2, "head": 4, "conv": 4, **sizes})
    cell = cell.to(DOUBLE)
    for parameter in cell.parameters():
        parameter.data += 0.2 * torch.randn_like(parameter)
    return cell, make_packing(torch.tensor(lengths), max_limbs=max(lengths))


def silu(x):
    return x / (1 + np.exp(-x))


def numpy_mixer(p, name, body, head, state, conv):
    """One direction over one body (limbs, width), state by state."""
    inner = p[f"{name}.output.scale"].size
    heads = inner // head
    projected = body @ p[f"{name}.input.weight"].T
    gate, mixed, step = np.split(projected, [inner, inner + inner + 2 * state], axis=1)
    states, found = np.zeros((heads, state, head)), []
    for j in range(len(body)):
        window = p[f"{name}.conv_bias"].copy()
        for k in range(min(conv, j + 1)):
            window += p[f"{name}.conv_weight"][k] * mixed[j - k]
        x, b, c = np.split(silu(window), [inner, inner + state])
        d = np.log1p(np.exp(step[j] + p[f"{name}.step_bias"]))
        outputs = []
        for h in range(heads):
            mine = x[h * head : (h + 1) * head]
            decay = np.exp(-d[h] * np.exp(p[f"{name}.log_rate"][h]))
            states[h] = decay * states[h] + d[h] * np.outer(b, mine)
            outputs.append(c @ states[h] + p[f"{name}.skip"][h] * mine)
        y = np.concatenate(outputs) * silu(gate[j])
        y = p[f"{name}.output.scale"] * y / np.sqrt(np.mean(y**2) + 1e-5)
        found.append(p[f"{name}.output.weight"] @ y)
    return np.stack(found)


def numpy_cell(p, body, head=4, state=3, conv=4):
    ahead = numpy_mixer(p, "ahead", body, head, state, conv)
    behind = numpy_mixer(p, "behind", body[::-1], head, state, conv)[::-1]
    return np.concatenate((ahead, behind), axis=1)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_forward_matches_the_recurrence(lengths):
    cell, layout = make(lengths)
    inputs = torch.randn(*layout.shape, 4, dtype=DOUBLE)
    found = layout.unpack(cell(layout.pack(inputs), layout)).detach().numpy()
    for body, length in enumerate(lengths):
        expected = numpy_cell(as_numpy(cell), inputs[body, :length].numpy())
        np.testing.assert_allclose(found[body, :length], expected, rtol=0, atol=1e-12)


def test_other_sizes_match_too():
    cell, layout = make([6, 3], width=6, state=5, expand=3, head=6, conv=2)
    inputs = torch.randn(2, 6, 6, dtype=DOUBLE)
    found = layout.unpack(cell(layout.pack(inputs), layout))[0].detach().numpy()
    expected = numpy_cell(as_numpy(cell), inputs[0].numpy(), head=6, state=5, conv=2)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lengths", [[1], [2, 11, 1, 5]])
def test_gradients_match_finite_differences_of_the_recurrence(lengths):
    cell, layout = make(lengths)
    inputs = torch.randn(*layout.shape, 4, dtype=DOUBLE, requires_grad=True)
    weights = torch.randn(*layout.shape, 8, dtype=DOUBLE)
    (layout.unpack(cell(layout.pack(inputs), layout)) * weights).sum().backward()
    parameters, values = as_numpy(cell), inputs.detach().numpy().copy()

    def loss():
        return sum(
            np.sum(weights[body, :length].numpy() * numpy_cell(parameters, values[body, :length]))
            for body, length in enumerate(lengths)
        )

    found = gradients_of(cell) | {"inputs": inputs.grad}
    arrays = parameters | {"inputs": values}
    assert_slopes(found, arrays, loss, rel=None)


@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_the_length_of_a_chunk_does_not_matter(monkeypatch, chunk):
    cell, layout = make([11, 6, 1])
    rows = torch.randn(18, 4, dtype=DOUBLE)
    expected = cell(rows, layout)
    monkeypatch.setattr(packing, "CHUNK_LIMBS", chunk)
    other = make_packing(torch.tensor([11, 6, 1]), max_limbs=11)
    assert len(other.chunks) == -(-11 // chunk)
    assert torch.allclose(cell(rows, other), expected, rtol=0, atol=1e-13)


def test_directions_start_at_the_ends_of_each_body():
    """The first limb's forward and the last limb's backward result see that limb alone."""
    cell, layout = make([5, 2])
    rows = layout.pack(torch.randn(2, 5, 4, dtype=DOUBLE))
    base = layout.unpack(cell(rows, layout))
    inner = layout.unpack(rows)
    inner[0, 1:4] += 1.0
    moved = layout.unpack(cell(layout.pack(inner), layout))
    assert torch.equal(moved[0, 0, :4], base[0, 0, :4])
    assert torch.equal(moved[0, 4, 4:], base[0, 4, 4:])
    assert (moved[0, 0, 4:] != base[0, 0, 4:]).all()
    assert torch.equal(moved[1], base[1])


def test_strong_decay_over_a_long_chunk_is_finite():
    """A limb to come has a positive exponent that overflows unless it is masked first."""
    _, layout = make([CHUNK])
    values = torch.randn(CHUNK, 1, 2, requires_grad=True)
    step = torch.full((CHUNK, 1), 50.0, requires_grad=True)
    shared = torch.randn(CHUNK, 3)
    found = chunked_scan(values, step, torch.tensor([-16.0]), shared, shared, layout)
    found.sum().backward()
    assert found.isfinite().all()
    assert step.grad.isfinite().all()


def test_an_empty_batch():
    cell, _ = make([1])
    layout = make_packing(torch.zeros(0, dtype=torch.int64), max_limbs=3)
    assert cell(torch.zeros(0, 4, dtype=DOUBLE), layout).shape == (0, 8)


def test_initial_values_are_as_published():
    torch.manual_seed(0)
    mixer = BidirectionalMamba2(256).ahead
    steps = torch.nn.functional.softplus(mixer.step_bias)
    assert 1e-3 <= steps.min() < steps.max() <= 0.1 * (1 + 1e-4)
    assert 1 <= mixer.log_rate.exp().min() < mixer.log_rate.exp().max() <= 16
    mixers = [BidirectionalMamba2(256).ahead for _ in range(50)]
    # Log-uniform: half of 400 draws are below 0.01, of uniform ones every eleventh would be.
    steps = torch.cat([torch.nn.functional.softplus(item.step_bias) for item in mixers])
    assert 0.4 < (steps < 0.01).float().mean() < 0.6
    # Of 400 draws, all miss the outer 4 % of the decades at an end with 0.96^400 = 8e-8.
    assert steps.min() < 1e-3 * 100**0.04 < 0.1 / 100**0.04 < steps.max()
    rates = torch.cat([item.log_rate.exp() for item in mixers])
    # Uniform: of 400 draws, all miss an end with (14 / 15)^400 = 1e-12.
    assert 0.999 < rates.min() < 2
    assert 15 < rates.max() < 16.001
    assert (mixer.skip == 1).all()
    assert (mixer.output.scale == 1).all()
    assert 0.49 < mixer.conv_weight.abs().max() <= 0.5  # 1 / sqrt(4)


def test_parameter_count():
    # in 256 * (2 * 512 + 2 * 128 + 8), convolution 5 * 768, 3 * 8, norm 512, out 512 * 256
    cell = BidirectionalMamba2(256)
    assert sum(parameter.numel() for parameter in cell.parameters()) == 2 * 465_176


def test_bfloat16_autocast_is_close_with_float32_gradients():
    cell, layout = make([11, 6, 1], width=32, state=16, head=16)
    cell.float()
    rows = torch.randn(18, 32, requires_grad=True)
    expected = cell(rows, layout)
    wanted = torch.autograd.grad(expected.square().sum(), [rows, *cell.parameters()])
    with torch.autocast("cpu", torch.bfloat16):
        found = cell(rows, layout)
    assert found.dtype == torch.bfloat16
    assert torch.linalg.vector_norm(found - expected) < 0.02 * torch.linalg.vector_norm(expected)
    grads = torch.autograd.grad(found.float().square().sum(), [rows, *cell.parameters()])
    for grad, want in zip(grads, wanted, strict=True):
        assert grad.dtype == torch.float32
        error = torch.linalg.vector_norm(grad - want) / torch.linalg.vector_norm(want)
        assert error < 0.1


def test_a_kernel_gets_padded_bodies_in_the_order_of_mamba_ssm(monkeypatch):
    """A stand-in with the signature of `mamba_chunk_scan_combined`: x, dt, A, B, C, chunk_size."""

    def kernel(x, dt, rate, b, c, chunk_size):
        state, found = x.new_zeros(*x.shape[:1], x.shape[2], b.shape[3], x.shape[3]), []
        for j in range(x.shape[1]):
            added = torch.einsum("ihd,ign,ih->ihnd", x[:, j], b[:, j], dt[:, j])
            state = (dt[:, j] * rate).exp()[..., None, None] * state + added
            found.append(torch.einsum("ihnd,ign->ihd", state, c[:, j]))
        return torch.stack(found, dim=1)

    layout = make_packing(torch.tensor([2, 7, 1]), max_limbs=8)
    arguments = [torch.randn(10, 2, 4), torch.rand(10, 2), torch.tensor([-1.0, -2.0])]
    arguments += [torch.randn(10, 3), torch.randn(10, 3)]
    expected = selective_scan(*arguments, layout)
    monkeypatch.setattr(ssd, "_kernel", lambda device, dtype: kernel)
    assert torch.allclose(selective_scan(*arguments, layout), expected, rtol=0, atol=1e-5)


def test_the_kernel_serves_a_gpu_in_single_and_half_precision_only(monkeypatch):
    fused = SimpleNamespace(mamba_chunk_scan_combined=object())
    monkeypatch.setitem(sys.modules, "mamba_ssm.ops.triton.ssd_combined", fused)
    look = _kernel.__wrapped__  # what is found is kept
    for dtype in (torch.float32, torch.bfloat16):
        assert look("cuda", dtype) is fused.mamba_chunk_scan_combined
        assert look("cpu", dtype) is None
    assert look("cuda", torch.float64) is None


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_the_kernel_of_mamba_ssm_agrees(monkeypatch):
    if _kernel("cuda", torch.float32) is None:
        pytest.skip("the package mamba_ssm is not installed")
    monkeypatch.setattr(packing, "CHUNK_LIMBS", 64)
    torch.manual_seed(0)
    layout = make_packing(torch.tensor([100, 12, 1]), max_limbs=100)
    count, cuda = layout.num_rows, "cuda"
    layout = make_packing(torch.tensor([100, 12, 1], device=cuda), max_limbs=100)
    arguments = [
        torch.randn(count, 8, 64, device=cuda),
        torch.rand(count, 8, device=cuda) * 0.1,
        -torch.linspace(1, 16, 8, device=cuda),
        torch.randn(count, 128, device=cuda),
        torch.randn(count, 128, device=cuda),
    ]
    for argument in arguments:
        argument.requires_grad_()
    weights = torch.randn(count, 8, 64, device=cuda)
    results = []
    for scan in (chunked_scan, selective_scan):
        found = scan(*arguments, layout)
        results.append([found, *torch.autograd.grad((found * weights).sum(), arguments)])
    for plain, fused in zip(*results, strict=True):
        # The kernel multiplies in TF32, which has ten bits.
        error = torch.linalg.vector_norm(plain - fused) / torch.linalg.vector_norm(plain)
        assert error < 5e-3
