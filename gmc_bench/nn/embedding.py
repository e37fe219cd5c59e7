"""From token features to limb representations."""

import math

import torch
from torch import nn

from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.tokens.spec import TokenSpec


class TokenEmbedding(nn.Module):
    """One linear map for every limb: x_i = scale * (W o_i + b), with o_i the features of limb i.

    The parameters are those of `torch.nn.Linear(F, width)`, with features in the order of
    `TokenSpec.slices`.

    Args:
        spec: layout of the tokens.
        width: channels of a limb's representation.
        init: the weight starts in U(-init, init), the bias in U(+-1/sqrt(F)).
        scale: factor on the output; `None` takes sqrt(width).

    Shapes:
        TokenBatch -> (B, L, width); `packed` gives the (P, width) of real limbs

    Source:
        Gupta et al. 2022 (MetaMorph), arXiv:2203.11931.
    """

    def __init__(
        self, spec: TokenSpec, width: int, init: float = 0.1, scale: float | None = None
    ) -> None:
        super().__init__()
        self.scale = math.sqrt(width) if scale is None else scale
        self.weight = nn.Parameter(torch.empty(width, spec.num_features).uniform_(-init, init))
        bound = 1 / math.sqrt(spec.num_features)
        self.bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound))

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, width); padding holds the embedding of arbitrary numbers."""
        return self._embed(tokens.features)

    def packed(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (P, width), real limbs only, laid out by `tokens.packing`."""
        return self._embed(tokens.packed_features)

    def _embed(self, features: torch.Tensor) -> torch.Tensor:
        # The scale goes into the parameters, which are much smaller than the output.
        return nn.functional.linear(features, self.weight * self.scale, self.bias * self.scale)
