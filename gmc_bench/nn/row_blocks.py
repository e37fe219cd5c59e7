"""Matrix products over whole blocks of rows, for bfloat16 on a CPU.

There, oneDNN makes and keeps machine code for every shape of a product, a quarter of a millisecond
each. The number of real limbs, and so of rows, differs between minibatches; filled up to whole
blocks, a few shapes come again and again. Products in float32 have no such cost.
"""

import torch
from torch import nn

BLOCK = 128
"""Rows of a block."""


def pays() -> bool:
    """Say whether products run in bfloat16 on a CPU, outside compiled code."""
    return (
        torch.is_autocast_enabled("cpu")
        and torch.get_autocast_dtype("cpu") == torch.bfloat16
        and not torch.compiler.is_compiling()
    )


def missing(count: int) -> int:
    """Return how many rows a last block lacks."""
    return -count % BLOCK


def filled(rows: torch.Tensor) -> torch.Tensor:
    """Return rows (P, C) with rows of zeros up to whole blocks."""
    lacking = missing(rows.shape[0])
    return nn.functional.pad(rows, (0, 0, 0, lacking)) if lacking else rows


class LinearInBlocks(nn.Linear):
    """A linear map that works on whole blocks of rows where that pays.

    Results and gradients stay those of `torch.nn.Linear`: a row of a product depends on no other
    row, and rows of zeros add nothing to a weight's gradient.
    """

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Map (P, inputs) to (P, outputs), or any other shape as `torch.nn.Linear` does."""
        if rows.dim() != 2 or not pays():
            return super().forward(rows)
        return super().forward(filled(rows))[: rows.shape[0]]


def use_row_blocks(network: nn.Module) -> None:
    """Turn every `torch.nn.Linear` of a network into a `LinearInBlocks`, with its parameters."""
    for module in network.modules():
        if type(module) is nn.Linear:
            module.__class__ = LinearInBlocks
