import math

import pytest
import torch

from gmc_bench.nn import NormLinear, RMSNorm


def test_rms_norm_by_hand():
    norm = RMSNorm(2, eps=0.5).double()
    norm.weight.data = torch.tensor([1.0, 2.0], dtype=torch.float64)
    found = norm(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    rms = math.sqrt((9 + 16) / 2 + 0.5)
    assert found.tolist() == [pytest.approx([3 / rms, 8 / rms], rel=1e-14)]


def test_norm_linear_is_a_norm_and_then_a_linear_map():
    torch.manual_seed(0)
    layer = NormLinear(5, 3, eps=1e-3).double()
    layer.scale.data.normal_()
    rows = torch.randn(7, 5, dtype=torch.float64)
    normed = torch.nn.functional.rms_norm(rows, (5,), layer.scale, 1e-3)
    assert torch.allclose(layer(rows), normed @ layer.weight.T, rtol=0, atol=1e-14)


@pytest.mark.parametrize("layer", [RMSNorm(5), NormLinear(5, 3)])
def test_gradients_match_finite_differences(layer):
    torch.manual_seed(0)
    layer = layer.double()
    parameters = list(layer.parameters())
    for parameter in parameters:
        parameter.data.normal_()
    rows = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, *_: layer(x), (rows, *parameters))


@pytest.mark.parametrize("layer", [RMSNorm(5), NormLinear(5, 3)])
def test_a_zero_row_stays_zero_with_a_finite_gradient(layer):
    rows = torch.zeros(2, 5, requires_grad=True)
    found = layer(rows)
    found.sum().backward()
    assert not found.any()
    assert rows.grad.isfinite().all()


def test_norm_linear_starts_as_torch_linear():
    bound = 1 / math.sqrt(64)
    weight = NormLinear(64, 256).weight.detach()
    assert weight.abs().max() <= bound
    assert float(weight.std()) == pytest.approx(bound / math.sqrt(3), rel=0.02)


@pytest.mark.parametrize("layer", [RMSNorm, lambda width: NormLinear(width, 16)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_bfloat16_autocast_is_close_with_float32_gradients(layer, dtype):
    torch.manual_seed(0)
    layer = layer(64)
    start = torch.randn(10, 64).to(dtype)
    start[3] *= 1e-3  # the mean square must not lose this row
    weights, results = torch.randn(10, 64), []
    for enabled in (False, True):
        rows = (start if enabled else start.float()).clone().requires_grad_()
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            found = layer(rows)
        (found.float() * weights[:, : found.shape[1]]).sum().backward()
        assert rows.grad.dtype == rows.dtype
        grads = [parameter.grad for parameter in layer.parameters()]
        assert all(grad.dtype == torch.float32 for grad in grads)
        results.append([found, rows.grad, *grads])
    for exact, rough in zip(*results, strict=True):
        assert torch.linalg.vector_norm(rough - exact) < 0.02 * torch.linalg.vector_norm(exact)


def test_under_autocast_a_norm_gives_float32_and_a_product_bfloat16():
    rows = torch.randn(4, 8).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        assert RMSNorm(8)(rows).dtype == torch.float32
        assert NormLinear(8, 3)(rows).dtype == torch.bfloat16
    assert RMSNorm(8).bfloat16()(rows).dtype == torch.bfloat16
    assert NormLinear(8, 3).bfloat16()(rows).dtype == torch.bfloat16
