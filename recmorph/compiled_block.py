"""RecMorph's block in compiled code: the same function and gradient, in another order of sums.

It serves training on a CPU alone: what evaluates a policy keeps its bits.
"""

from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from gmc_bench.core.types import Array
from gmc_bench.nn.packing import Packing
from recmorph.config import RecMorphConfig

MAX_PRODUCT = 10**6
"""Multiplications of a product that the BLAS does without repacking; larger networks, whose
products are slower in small pieces, take torch's operations."""


def compilable(config: RecMorphConfig) -> bool:
    """Say whether the compiled code knows these settings."""
    from recmorph.kernels import TILE

    largest = TILE * 2 * config.hidden * max(config.hidden, config.width)
    parts = config.residual and config.rms_norm and config.modulation
    return parts and config.cell == "birnn" and largest <= MAX_PRODUCT


def runs_compiled(rows: torch.Tensor, block: nn.Module) -> bool:
    """Say whether rows can go through compiled code: it knows numpy's arrays, not graphs."""
    weight = next(block.parameters())
    return (
        rows.device.type == "cpu"
        and rows.dtype == weight.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


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
                _array(grad),
                *_places(ctx.packing),
                kernels.Weights(*map(_array, weights)),
                kernels.Kept(*map(_array, kept)),
                _array(d_rows),
                kernels.Weights(*map(_array, sums)),
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
    given = kernels.Weights(*map(_array, weights))
    width, hidden = rows.shape[1], len(given.ahead)
    kinds = (width, hidden, hidden, hidden, hidden, width, 3)
    kept = [rows.new_empty(num_kept, channels) for channels in kinds]
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    if len(rows):
        kernels.forward(
            _array(rows),
            *_places(packing),
            kernels.turned(given),
            given.bias.dtype.type(eps),
            kernels.Kept(*map(_array, kept)),
            _array(out),
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


def _places(packing: Packing) -> tuple[Array, Array]:
    """Return the first row of every limb, and how many there are."""
    sizes: Array = packing.batch_sizes.numpy()
    return sizes.cumsum() - sizes, sizes


def _rows_of_a_group(packing: Packing) -> int:
    from recmorph.kernels import BODIES

    return sum(min(step.stop - step.start, BODIES) for step in packing.steps)


def _array(values: torch.Tensor) -> np.ndarray:
    return values.detach().contiguous().numpy()
