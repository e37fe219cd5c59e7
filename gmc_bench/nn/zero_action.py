"""A network without parameters whose outputs are zero."""

from typing import Any

import torch
from torch import nn

from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.tokens.spec import TokenSpec


class ZeroAction(nn.Module):
    """Zero for every token.

    Shapes:
        TokenBatch -> (B, L, num_outputs)
    """

    def __init__(self, num_outputs: int) -> None:
        super().__init__()
        self.num_outputs = num_outputs

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return zeros (B, L, num_outputs)."""
        return tokens.dynamic.new_zeros(*tokens.dynamic.shape[:2], self.num_outputs)


def build(config: Any, spec: TokenSpec, num_outputs: int) -> ZeroAction:
    """Build one network (see `MethodSpec.builder`)."""
    return ZeroAction(num_outputs)
