"""RecMorph's block in compiled code: the same function and gradient, in another order of sums.

It is used for training on a CPU only: evaluation keeps torch's operations and exact results.
"""

from functools import cache
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from gmc_bench.nn.compiled import as_array, places
from gmc_bench.nn.packing import Packing
from recmorph.config import RecMorphConfig

MAX_PRODUCT = 10**6
"""Multiplications of a product that the BLAS does without repacking; larger networks, whose
products are slower in small pieces, take torch's operations."""


def compilable(config: RecMorphConfig) -> bool:
    """Say whether the compiled code supports these settings."""
    from recmorph.kernels import TILE

    largest = TILE * 2 * config.hidden * max(config.hidden, config.width)
    parts = config.residual and config.rms_norm and config.modulation
    return parts and config.cell == "birnn" and largest <= MAX_PRODUCT


def compiled_block(
    rows: torch.Tensor, packing: Packing, eps: float, *weights: torch.Tensor
) -> torch.Tensor:
    """Run a block.

    Args:
        rows: (P, W), laid out by `packing`.
        packing: the layout.
        eps: of the norms.
        weights: in the order of `kernels.Weights`.

    Returns:
        (P, W), as `recmorph.model.RecurrentBlock` does.
    """
    if not torch.is_grad_enabled():
        return _run(rows, packing, eps, weights, _rows_of_a_group(packing))[0]
    found: torch.Tensor = _CompiledBlock.apply(  # type: ignore[no-untyped-call]
        rows, packing, eps, *weights
    )
    return found


class _CompiledBlock(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, packing: Packing, eps: float, *weights: torch.Tensor
    ) -> torch.Tensor:
        out, kept = _run(rows, packing, eps, weights, len(rows))
        ctx.save_for_backward(*weights, *kept)
        ctx.packing = packing
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        kernels = _kernels()
        count = len(kernels.Weights._fields)
        weights, kept = ctx.saved_tensors[:count], ctx.saved_tensors[count:]
        sums = [torch.zeros_like(w, memory_format=torch.contiguous_format) for w in weights]
        d_rows = torch.empty_like(grad, memory_format=torch.contiguous_format)
        if len(grad):
            kernels.backward(
                as_array(grad),
                *places(ctx.packing),
                kernels.Weights(*map(as_array, weights)),
                kernels.Kept(*map(as_array, kept)),
                as_array(d_rows),
                kernels.Weights(*map(as_array, sums)),
            )
        return d_rows, None, None, *sums


def _run(
    rows: torch.Tensor,
    packing: Packing,
    eps: float,
    weights: tuple[torch.Tensor, ...],
    num_kept: int,
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Return the output, and `num_kept` rows of what the backward pass needs."""
    kernels = _kernels()
    given = kernels.Weights(*map(as_array, weights))
    width, hidden = rows.shape[1], len(given.ahead)
    kinds = (width, hidden, hidden, hidden, hidden, width, 3)
    kept = [rows.new_empty(num_kept, channels) for channels in kinds]
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    if len(rows):
        kernels.forward(
            as_array(rows),
            *places(packing),
            kernels.turned(given),
            given.bias.dtype.type(eps),
            kernels.Kept(*map(as_array, kept)),
            as_array(out),
        )
    return out, kept


@cache
def _kernels() -> Any:
    """Return the compiled code, once the BLAS that it calls has one thread.

    Its products are small and, where actor and critic have a thread each, run side by side; other
    threads would only wait, and could change bits. (Torch's products have a BLAS of their own.)
    """
    import scipy.linalg.cython_blas  # noqa: F401 - what compiled code calls, loaded here
    from threadpoolctl import ThreadpoolController

    from recmorph import kernels

    ThreadpoolController().limit(limits=1, user_api="blas")
    return kernels


def _rows_of_a_group(packing: Packing) -> int:
    from recmorph.kernels import BODIES

    return sum(min(step.stop - step.start, BODIES) for step in packing.steps)
