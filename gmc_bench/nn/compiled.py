"""Attention in compiled code: the same function and gradient as torch's, in another order of sums.

It is used for training on a CPU only: evaluation keeps torch's operations and exact results.
"""

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from gmc_bench.core.types import Array
from gmc_bench.nn.packing import Packing


def runs_compiled(rows: torch.Tensor, module: nn.Module) -> bool:
    """Say whether a module's rows go through compiled code, which takes numpy arrays only."""
    weight = next(module.parameters())
    return (
        module.training
        and rows.device.type == "cpu"
        and rows.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def attend(
    rows: torch.Tensor, packing: Packing, mask: torch.Tensor, num_heads: int
) -> torch.Tensor:
    """Return scaled dot-product attention among the limbs of every body.

    Args:
        rows: (P, 3 W), queries, keys and values of all heads.
        packing: the layout.
        mask: (B or 1, H or 1, L, L), added to logits.
        num_heads: H.

    Returns:
        (P, W), the heads side by side.
    """
    found: torch.Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
        rows, mask, packing, num_heads
    )
    return found


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, mask: torch.Tensor, packing: Packing, num_heads: int
    ) -> torch.Tensor:
        from gmc_bench.nn import kernels  # loads the compiler

        out = rows.new_empty(rows.shape[0], rows.shape[1] // 3)
        kept = rows.new_empty(_num_weights(packing) * num_heads)
        ctx.save_for_backward(rows, mask, kept)
        ctx.packing, ctx.num_heads = packing, num_heads
        if len(rows):
            kernels.attend(
                as_array(rows), *places(packing), _order(packing), as_array(mask), num_heads,
                as_array(kept), as_array(out),
            )  # fmt: skip
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        from gmc_bench.nn import kernels

        rows, mask, kept = ctx.saved_tensors
        d_rows = rows.new_empty(rows.shape)
        asked = ctx.needs_input_grad[1]
        d_mask = mask.new_zeros(mask.shape if asked else (0, 0, 0, 0))
        if len(rows):
            kernels.attend_back(
                as_array(grad), as_array(rows), *places(ctx.packing), _order(ctx.packing),
                ctx.num_heads, as_array(kept), as_array(d_rows), as_array(d_mask),
            )  # fmt: skip
        return d_rows, d_mask if asked else None, None, None


def places(packing: Packing) -> tuple[Array, Array]:
    """Return the first row of every limb (longest body,), and how many there are, int64."""
    sizes: Array = packing.batch_sizes.numpy()
    return sizes.cumsum() - sizes, sizes


def as_array(values: torch.Tensor) -> np.ndarray:
    """Return a tensor's numbers as an array: the same memory, if they lie in order."""
    return values.detach().contiguous().numpy()


def _order(packing: Packing) -> np.ndarray:
    """Return (bodies,) int64: the body in the batch of every rank by length."""
    return as_array(packing.slots[packing.steps[0]] // packing.shape[1])


def _num_weights(packing: Packing) -> int:
    """Return how many weights of one head `kernels.attend` keeps."""
    from gmc_bench.nn.kernels import LANES

    sizes = packing.batch_sizes.numpy()
    firsts = np.arange(0, sizes[0] if len(sizes) else 0, LANES)
    steps = (sizes > firsts[:, None]).sum(axis=1)
    return int((steps**2 * np.minimum(sizes[:1] - firsts, LANES)).sum())
