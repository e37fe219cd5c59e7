"""The MetaMorph* network: attention among the limbs of a body, blind to their order."""

import copy

import torch
from torch import nn

from gmc_baselines.metamorph_star.config import MetaMorphStarConfig
from gmc_bench.nn import (
    AttentionLayer,
    LimbDecoder,
    Tap,
    TokenBatch,
    TokenEmbedding,
    attention_mask,
)
from gmc_bench.tokens.spec import TokenSpec


class MetaMorphStar(nn.Module):
    """Embedding, pre-norm attention layers, decoder.

    x_i = sqrt(d) (W o_i + b), with o_i the features of limb i and d the width
    x <- x + A(N1 x);  x <- x + W2 relu(W1 N2 x) in every layer, see `AttentionLayer`
    y_i = decoder(x_i)

    There is no norm after the last layer.

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Shapes:
        TokenBatch -> (B, L, num_outputs), zero in padding.

    Source:
        Xiong et al. 2023 (ModuMorph), arXiv:2302.11070, section 5; MasterXiong/ModuMorph.
        Deviations are listed in `gmc_baselines.metamorph_star.SPEC.deviations`.
    """

    padded_rows = True

    def __init__(self, config: MetaMorphStarConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(spec, config.width, config.embedding_init)
        layer = AttentionLayer(config.width, config.num_heads, config.feedforward)
        # As in the reference, all layers start with the same weights.
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(config.num_layers))
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = LimbDecoder(spec, config.width, num_outputs, **config.decoder_settings)

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, num_outputs), zero in padding."""
        mask = attention_mask(tokens.limb_padding_mask)  # (B, 1, L, L)
        rows = self.before_communication(self.embedding.packed(tokens))  # (P, width)
        for layer in self.layers:
            rows = layer(rows, tokens.packing, mask)  # (P, width)
        rows = self.after_communication(rows)
        outputs: torch.Tensor = self.decoder(rows, tokens)
        return outputs


def build(config: MetaMorphStarConfig, spec: TokenSpec, num_outputs: int) -> MetaMorphStar:
    """Build one network (see `MethodSpec.builder`)."""
    return MetaMorphStar(config, spec, num_outputs)
