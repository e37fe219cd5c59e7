"""Attention whose probabilities depend on the body alone: who looks at whom is fixed per body."""

import math

import torch
from torch import nn

from gmc_bench.nn.attention import (
    SelfAttention,
    attention_mask,
    feed_forward,
    merge_heads,
    split_heads,
)
from gmc_bench.nn.packing import Packing


class FixedAttentionLayer(nn.Module):
    """Pre-norm transformer layer with queries and keys from the body instead of its state.

    a = softmax(Q K^T / sqrt(width / H) + bias),  [Q K] = N_c(c) W_qk + b_qk
    x <- x + (a (N1(x) W_v + b_v)) W_o + b_o
    x <- x + W2 relu(W1 N2(x))

    with c what describes the limbs of the body. `probabilities` gives a, which is the same for
    every sample of a body: call it from a `gmc_bench.nn.PerBody` and hand `forward` the result.
    Parameters are named as in `torch.nn.TransformerEncoderLayer`, with query, key and value
    stacked in `self_attn.in_proj_weight`, and `norm_context` for N_c. There is no dropout.

    Args:
        width: channels of a limb's representation, and of its description c.
        num_heads: heads H; must divide `width`.
        feedforward: hidden width of the feed-forward network.

    Shapes:
        condition (U, L, width) -> probabilities (U, H, L, L)
        rows (P, width), probabilities (B, H, L, L) -> (P, width)

    Source:
        Xiong et al. 2023 (ModuMorph), "Universal Morphology Control via Contextual Modulation",
        arXiv:2302.11070; layer norm on c as in MasterXiong/ModuMorph.
    """

    def __init__(self, width: int, num_heads: int, feedforward: int) -> None:
        super().__init__()
        self.width = width
        self.num_heads = num_heads
        self.self_attn = SelfAttention(width, num_heads)
        self.linear1 = nn.Linear(width, feedforward)
        self.linear2 = nn.Linear(feedforward, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.norm_context = nn.LayerNorm(width)

    def probabilities(
        self,
        condition: torch.Tensor,
        limb_padding_mask: torch.Tensor,
        bias: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return how much every limb of U bodies takes from every other.

        Args:
            condition: (U, L, width), what describes the limbs; finite in padding.
            limb_padding_mask: (U, L) bool, True = padding, which nothing is taken from.
            bias: (U or 1, H or 1, L, L), added to the logits (query, key).

        Returns:
            (U, H, L, L); rows (the third dimension: queries) add up to 1, padding included.
        """
        size = 2 * self.width
        projected = nn.functional.linear(
            self.norm_context(condition),
            self.self_attn.in_proj_weight[:size],
            self.self_attn.in_proj_bias[:size],
        )
        query, key = split_heads(projected, 2, self.num_heads)
        logits = query @ key.transpose(-2, -1) / math.sqrt(self.width / self.num_heads)
        if bias is not None:
            logits = logits + bias
        return (logits + attention_mask(limb_padding_mask).to(logits.dtype)).softmax(dim=-1)

    def forward(
        self, rows: torch.Tensor, packing: Packing, probabilities: torch.Tensor
    ) -> torch.Tensor:
        """Mix the limbs of every body.

        Args:
            rows: (P, width), laid out by `packing`.
            packing: the layout.
            probabilities: (B, H, L, L), those of each environment's body.
        """
        rows = rows + self._mix(self.norm1(rows), packing, probabilities)
        return rows + feed_forward(self.norm2(rows), self.linear1, self.linear2)

    def _mix(
        self, rows: torch.Tensor, packing: Packing, probabilities: torch.Tensor
    ) -> torch.Tensor:
        first = 2 * self.width
        found = nn.functional.linear(
            rows, self.self_attn.in_proj_weight[first:], self.self_attn.in_proj_bias[first:]
        )
        (value,) = split_heads(packing.unpack(found), 1, self.num_heads)
        mixed = probabilities.to(value.dtype) @ value
        projected: torch.Tensor = self.self_attn.out_proj(packing.pack(merge_heads(mixed)))
        return projected
