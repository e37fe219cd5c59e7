"""The MetaMorph network: attention among the limbs of a body, with a vector per token slot."""

import copy

import torch
from torch import nn

from gmc_baselines.metamorph.config import MetaMorphConfig
from gmc_bench.nn import (
    AttentionLayer,
    LimbDecoder,
    Tap,
    TokenBatch,
    TokenEmbedding,
    attention_mask,
)
from gmc_bench.nn.grouped_linear import take_rows
from gmc_bench.tokens.spec import TokenSpec


class MetaMorph(nn.Module):
    """Embedding, position table, pre-norm attention layers, decoder.

    x_i = dropout(sqrt(d) (W o_i + b) + P_i), with o_i the features of the limb in token slot i and
          d the width
    x <- x + A(N1 x);  x <- x + W2 relu(W1 N2 x) in every layer, see `AttentionLayer`
    y_i = decoder(x_i)

    There is no norm after the last layer and no dropout inside the layers.

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Shapes:
        TokenBatch -> (B, L, num_outputs), zero in padding.

    Source:
        Gupta et al. 2022 (MetaMorph), arXiv:2203.11931, section 3; agrimgupta92/metamorph.
        Deviations are listed in `gmc_baselines.metamorph.SPEC.deviations`.
    """

    def __init__(self, config: MetaMorphConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(spec, config.width, config.embedding_init)
        self.positions = (
            nn.Parameter(torch.randn(spec.max_limbs, config.width)) if config.positions else None
        )
        self.dropout = nn.Dropout(config.embedding_dropout)
        layer = AttentionLayer(config.width, config.num_heads, config.feedforward)
        # As in the reference, all layers start with the same weights.
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(config.num_layers))
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = LimbDecoder(spec, config.width, num_outputs, **config.decoder_settings)

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, num_outputs), zero in padding."""
        packing = tokens.packing
        mask = attention_mask(tokens.limb_padding_mask)  # (B, 1, L, L)
        rows = self.embedding.packed(tokens)  # (P, width)
        if self.positions is not None:
            rows = rows + take_rows(self.positions, packing.positions)
        rows = self.before_communication(self.dropout(rows))
        for layer in self.layers:
            rows = layer(rows, packing, mask)  # (P, width)
        rows = self.after_communication(rows)
        outputs: torch.Tensor = self.decoder(rows, tokens)
        return outputs


def build(config: MetaMorphConfig, spec: TokenSpec, num_outputs: int) -> MetaMorph:
    """Build one network (see `MethodSpec.builder`)."""
    return MetaMorph(config, spec, num_outputs)
