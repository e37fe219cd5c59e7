"""The SMR network: a memory per limb, then attention among limbs."""

import copy
import math

import torch
from torch import nn

from gmc_baselines.smr.config import SMRConfig
from gmc_baselines.smr.memory import LimbMemory
from gmc_bench.nn import (
    AttentionLayer,
    History,
    LimbDecoder,
    Tap,
    TokenBatch,
    TokenEmbedding,
    attention_mask,
)
from gmc_bench.tokens.spec import TokenSpec


class SMR(nn.Module):
    """Embedding, recurrent unit over time per limb, pre-norm attention layers, decoder.

    after_embedding:  e_i = sqrt(d) (W o_i + b);  h_i <- unit([e_i ; a_i], h_i);  x_i = h_i
    before_embedding: h_i <- unit([o_i ; a_i], h_i);  x_i = sqrt(d) (W h_i + b)
    x <- x + A(N1 x);  x <- x + W2 relu(W1 N2 x) in every layer, see `AttentionLayer`
    y_i = decoder(x_i)

    with o_i the features of limb i, a_i its previous actions and d the width.

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Shapes:
        TokenBatch of T steps of N environments, History -> (T * N, L, num_outputs), zero in
        padding, and the new state (N, L, state_width).

    Source:
        Engwegen, Brinks and Boehmer 2025, arXiv:2506.08630. Deviations are listed in
        `gmc_baselines.smr.SPEC.deviations`.
    """

    def __init__(self, config: SMRConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        width = config.width
        self.remembers_features = config.memory_place == "before_embedding"
        self.sequence_length = config.sequence_length
        self.scale = math.sqrt(width)
        self.embedding: nn.Linear | TokenEmbedding
        if self.remembers_features:
            self.embedding = nn.Linear(width, width)
            nn.init.uniform_(self.embedding.weight, -config.embedding_init, config.embedding_init)
        else:
            self.embedding = TokenEmbedding(spec, width, config.embedding_init)
        inputs = spec.num_features if self.remembers_features else width
        self.memory = LimbMemory(inputs, spec.actions_per_token, width, config.cell)
        layer = AttentionLayer(width, config.num_heads, config.feedforward)
        # As in MetaMorph*, all layers start with the same weights.
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(config.num_layers))
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = LimbDecoder(spec, config.width, num_outputs, **config.decoder_settings)

    @property
    def state_width(self) -> int:
        """Width of the recurrent state of a limb."""
        return self.memory.state_width

    def forward(self, tokens: TokenBatch, history: History) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (B, L, num_outputs), zero in padding, and the state (N, L, state_width)."""
        if isinstance(self.embedding, TokenEmbedding):
            rows, state = self.memory(self.embedding.packed(tokens), tokens, history)
        else:
            rows, state = self.memory(tokens.packed_features, tokens, history)
            rows = self.scale * self.embedding(rows)
        rows = self.before_communication(rows)  # (P, width)
        mask = attention_mask(tokens.limb_padding_mask)  # (B, 1, L, L)
        for layer in self.layers:
            rows = layer(rows, tokens.packing, mask)  # (P, width)
        return self.decoder(self.after_communication(rows), tokens), state


def build(config: SMRConfig, spec: TokenSpec, num_outputs: int) -> SMR:
    """Build one network (see `MethodSpec.builder`)."""
    return SMR(config, spec, num_outputs)
