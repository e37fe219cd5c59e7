"""Root-mean-square layer normalisation, alone and in front of a linear map.

On a CPU these layers are bound by passes over memory, so both have a hand-written gradient with
few passes; torch's own `rms_norm` is a chain of element-wise calls there. On a GPU it is one kernel
each way, and this gradient would be a chain of launches.

Under autocast, mean squares and their inverse roots are float32 numbers, and the product with a
matrix has autocast's type.
"""

import math
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

from gmc_bench.nn.row_blocks import filled, pays


class RMSNorm(nn.Module):
    """Scale every row to unit root mean square, then by a learned factor per channel.

    N(v) = w * v / sqrt(mean(v^2) + eps)

    Args:
        width: channels.
        eps: added to the mean square.

    Shapes:
        (P, width) -> (P, width)

    Source:
        Zhang & Sennrich 2019, arXiv:1910.07467.
    """

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Normalise every row; the result has the wider type of rows and weight."""
        if rows.device.type != "cpu":
            wider = rows.to(torch.promote_types(rows.dtype, self.weight.dtype))
            return nn.functional.rms_norm(wider, self.weight.shape, self.weight, self.eps)
        normed: torch.Tensor = _RMSNorm.apply(  # type: ignore[no-untyped-call]
            rows, self.weight, self.eps
        )
        return normed


class NormLinear(nn.Module):
    """A root-mean-square norm and a linear map without bias: x -> W N(x).

    The learned scale is multiplied into W and the row's root mean square is divided out of the
    result, so that the normalised rows are never stored:
    W N(x) = (W diag(w)) x / sqrt(mean(x^2) + eps).

    Args:
        inputs: channels of the rows.
        outputs: channels of the result; the weight starts as in `torch.nn.Linear`.
        eps: added to the mean square.

    Shapes:
        (P, inputs) -> (P, outputs)

    Source:
        Zhang & Sennrich 2019, arXiv:1910.07467.
    """

    def __init__(self, inputs: int, outputs: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.scale = nn.Parameter(torch.ones(inputs))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Normalise and map every row."""
        if rows.device.type != "cpu":
            normed = nn.functional.rms_norm(rows, self.scale.shape, eps=self.eps)
            return nn.functional.linear(normed, self.weight * self.scale)
        whole = filled(rows) if pays() else rows
        mapped: torch.Tensor = _NormLinear.apply(  # type: ignore[no-untyped-call]
            whole, self.weight * self.scale, self.eps
        )
        return mapped[: rows.shape[0]]


_WIDER = {torch.bfloat16: torch.float32, torch.float16: torch.float32}


def _inverse_rms(rows: torch.Tensor, eps: float) -> torch.Tensor:
    """Return (P, 1), 1 / sqrt(mean(x^2) + eps), in float32 or float64."""
    norm: torch.Tensor = torch.linalg.vector_norm(
        rows, dim=1, keepdim=True, dtype=_WIDER.get(rows.dtype)
    )
    return norm.square_().div_(rows.shape[1]).add_(eps).rsqrt_()


class _RMSNorm(torch.autograd.Function):
    """y = w x r with r = 1 / sqrt(mean(x^2) + eps).

    dx = r w dy - x r^3 (w dy . x) / D and dw = sum over rows of r x dy.
    """

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        inverse = _inverse_rms(rows, eps)
        ctx.save_for_backward(rows, weight, inverse)
        normed = (rows * inverse).mul_(weight)
        if normed.dtype == weight.dtype:
            return normed
        return normed.to(torch.promote_types(rows.dtype, weight.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight, inverse = ctx.saved_tensors
        product = grad * rows
        d_weight = torch.mv(product.t(), inverse.squeeze(1))
        along = torch.mv(product, weight).unsqueeze(1)
        d_rows = torch.mul(grad, weight, out=product).mul_(inverse)
        d_rows.addcmul_(rows, along * inverse.pow(3), value=-1 / rows.shape[1])
        return d_rows, d_weight, None


class _NormLinear(torch.autograd.Function):
    """y = r V x with r = 1 / sqrt(mean(x^2) + eps).

    dx = V^T (r dy) - x r^2 (dy . y) / D and dV = sum over rows of (r dy) x^T.
    """

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        inverse = _inverse_rms(rows, eps)
        mapped = torch.mm(rows, weight.t()).mul_(inverse)
        ctx.save_for_backward(rows, weight, inverse, mapped)
        return mapped

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, weight, inverse, mapped = ctx.saved_tensors
        dtype = mapped.dtype  # of the products: under autocast, rows and weight may be wider
        along = torch.linalg.vecdot(grad.to(inverse.dtype), mapped.to(inverse.dtype)).unsqueeze(1)
        scaled = (grad * inverse).to(dtype)
        d_rows = torch.mm(scaled, weight.to(dtype)).to(inverse.dtype)
        d_rows.addcmul_(rows, along * inverse.square(), value=-1 / rows.shape[1])
        return d_rows, torch.mm(scaled.t(), rows.to(dtype)), None
