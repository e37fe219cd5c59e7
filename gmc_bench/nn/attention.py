"""Attention among the limbs of each body; padding is never attended to."""

import math

import torch
from torch import nn

from gmc_bench.nn import compiled
from gmc_bench.nn.packing import Packing


class SelfAttention(nn.Module):
    """Multi-head self-attention among the limbs of each body.

    Parameters carry the names, shapes and initialisation of `torch.nn.MultiheadAttention`
    (query, key and value stacked), so that its state dict can be loaded. The attention itself is
    torch's `scaled_dot_product_attention`, in training on a CPU in float32 the same in compiled
    code (`gmc_bench.nn.compiled`). Linear maps run on real limbs only.

    Args:
        width: channels of a limb's representation.
        num_heads: heads H; must divide `width`.

    Shapes:
        rows (P, width), mask (B or 1, H or 1, L, L) -> (P, width)

    Source:
        Vaswani et al. 2017, arXiv:1706.03762.
    """

    def __init__(self, width: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        self.out_proj = nn.Linear(width, width)
        nn.init.xavier_uniform_(self.in_proj_weight)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, rows: torch.Tensor, packing: Packing, mask: torch.Tensor) -> torch.Tensor:
        """Mix the limbs of every body.

        Args:
            rows: (P, width), laid out by `packing`.
            packing: the layout.
            mask: see `attention_mask`.
        """
        found = nn.functional.linear(rows, self.in_proj_weight, self.in_proj_bias)
        if compiled.runs_compiled(found, self):
            mixed = compiled.attend(found, packing, mask, self.num_heads)
        else:
            query, key, value = split_heads(packing.unpack(found), 3, self.num_heads)
            mixed = packing.pack(merge_heads(attend(query, key, value, mask)))
        projected: torch.Tensor = self.out_proj(mixed)
        return projected


class AttentionLayer(nn.Module):
    """Self-attention and a feed-forward network, each with a residual and a layer norm.

    pre-norm:  x <- x + A(N1 x);  x <- x + W2 relu(W1 N2 x)
    post-norm: x <- N1(x + A(x)); x <- N2(x + W2 relu(W1 x))

    Parameters are named as in `torch.nn.TransformerEncoderLayer`. There is no dropout.

    Args:
        width: channels of a limb's representation.
        num_heads: attention heads.
        feedforward: hidden width of the feed-forward network.
        pre_norm: where the norms stand.

    Shapes:
        rows (P, width), mask (B or 1, H or 1, L, L) -> (P, width)

    Source:
        Vaswani et al. 2017, arXiv:1706.03762 (post-norm); Xiong et al. 2020, arXiv:2002.04745
        (pre-norm).
    """

    def __init__(
        self, width: int, num_heads: int, feedforward: int, *, pre_norm: bool = True
    ) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        self.self_attn = SelfAttention(width, num_heads)
        self.linear1 = nn.Linear(width, feedforward)
        self.linear2 = nn.Linear(feedforward, width)
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)

    def forward(self, rows: torch.Tensor, packing: Packing, mask: torch.Tensor) -> torch.Tensor:
        """Mix the limbs of every body (see `SelfAttention.forward`)."""
        if self.pre_norm:
            rows = rows + self.self_attn(self.norm1(rows), packing, mask)
            return rows + feed_forward(self.norm2(rows), self.linear1, self.linear2)
        rows = self.norm1(rows + self.self_attn(rows, packing, mask))
        normed: torch.Tensor = self.norm2(rows + feed_forward(rows, self.linear1, self.linear2))
        return normed


def feed_forward(rows: torch.Tensor, inner: nn.Linear, outer: nn.Linear) -> torch.Tensor:
    """Return W2 relu(W1 x + b1) + b2, (P, W) -> (P, W)."""
    fed: torch.Tensor = outer(nn.functional.relu(inner(rows), inplace=True))
    return fed


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> torch.Tensor:
    """Return torch's scaled dot-product attention, (B, H, L, D), in the precision of `value`.

    On a CPU, bfloat16 inputs are attended to in float32: bodies are short, so there is little to
    gain, and torch's bfloat16 kernel takes 20 times as long for some widths of a head (32).
    """
    attention = nn.functional.scaled_dot_product_attention
    if value.dtype != torch.bfloat16 or value.device.type != "cpu":
        return attention(query, key, value, attn_mask=mask.to(query.dtype))
    with torch.autocast("cpu", enabled=False):
        mixed = attention(query.float(), key.float(), value.float(), attn_mask=mask.float())
    return mixed.to(value.dtype)


def attention_mask(
    limb_padding_mask: torch.Tensor, allowed: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the additive attention mask that leaves padding out.

    Padding, as a query, attends to real limbs only: with nothing to attend to, its softmax, and
    through it gradients everywhere, would be NaN.

    Args:
        limb_padding_mask: (B, L) bool, True = padding.
        allowed: (B, L, L) bool, which pairs may attend (query, key); default all real limbs.
            Every real limb must be allowed at least one real key.

    Returns:
        (B, 1, L, L) float32, 0 or -inf.
    """
    blocked = limb_padding_mask.unsqueeze(1)  # (B, 1, L): keys
    if allowed is None:
        blocked = blocked.expand(-1, limb_padding_mask.shape[1], -1)
    else:
        blocked = blocked | (~allowed & ~limb_padding_mask.unsqueeze(2))
    mask = torch.zeros(blocked.shape, device=blocked.device).masked_fill_(blocked, -math.inf)
    return mask.unsqueeze(1)


def split_heads(values: torch.Tensor, parts: int, num_heads: int) -> tuple[torch.Tensor, ...]:
    """Split (B, L, parts * width) into `parts` tensors (B, H, L, width / H)."""
    batch, length, width = values.shape
    split = values.view(batch, length, parts, num_heads, width // (parts * num_heads))
    return split.permute(2, 0, 3, 1, 4).unbind()  # (parts, B, H, L, width / H)


def merge_heads(values: torch.Tensor) -> torch.Tensor:
    """Join (B, H, L, D) into (B, L, H * D)."""
    return values.transpose(1, 2).flatten(2)
