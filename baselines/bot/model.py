"""The Body Transformer: every limb attends to itself and its neighbours in the limb graph."""

import copy

import torch
from torch import nn

from gmc_baselines.bot.config import BotConfig
from gmc_bench.nn import (
    AttentionLayer,
    LimbDecoder,
    PerBody,
    Tap,
    TokenBatch,
    TokenEmbedding,
    TokenTable,
    attention_mask,
)
from gmc_bench.nn.grouped_linear import take_rows
from gmc_bench.tokens.spec import TokenSpec


class BodyMasks(PerBody):
    """The attention masks of a body: its neighbours, and its whole body where layers alternate.

    neighbours: limb i attends to limb j if i = j or a joint or closed loop connects them;
    whole body: limb i attends to every real limb.

    Args:
        mixed: layers alternate between the two masks.

    Shapes:
        TokenBatch -> tensors (U, 1, L, L) float32 with 0 or -inf, and (B,) int64; see `PerBody`.

    Source:
        Sferrazza et al. 2024 (BoT), arXiv:2408.06316, the masks of BoT-Hard and BoT-Mix.
    """

    def __init__(self, mixed: bool) -> None:
        super().__init__()
        self.mixed = mixed

    def compute(self, table: TokenTable, bodies: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the masks of the rows `bodies` of a table, in the order layers take turns."""
        padding = table.limb_padding_mask[bodies]  # (U, L)
        adjacency = table.graph.adjacency[bodies]  # (U, L, L)
        own = torch.eye(padding.shape[1], dtype=torch.bool, device=padding.device)
        neighbours = attention_mask(padding, adjacency | own)  # (U, 1, L, L)
        return (neighbours, attention_mask(padding)) if self.mixed else (neighbours,)


class BodyTransformer(nn.Module):
    """Embedding, post-norm attention layers with masks of the limb graph, decoder.

    x_i = sqrt(d) (W o_i + b), with o_i the features of limb i and d the width; where `positions`
          is set, a learned vector of the limb's token slot is added
    x <- N1(x + A(x));  x <- N2(x + W2 relu(W1 x)), where limbs attend to neighbours only in layer
          0, 2, 4, ..., or in every layer if masking is hard
    y_i = decoder(x_i)

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Shapes:
        TokenBatch -> (B, L, num_outputs), zero in padding.

    Source:
        Sferrazza et al. 2024 (BoT), arXiv:2408.06316; carlosferrazza/BodyTransformer at 941551e.
        Deviations are listed in `gmc_baselines.bot.SPEC.deviations`.
    """

    padded_rows = True

    def __init__(self, config: BotConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        width = config.width
        self.embedding = TokenEmbedding(spec, width, config.embedding_init)
        self.positions = (
            nn.Parameter(torch.empty(spec.max_limbs, width).normal_(std=config.encoder_init))
            if config.positions
            else None
        )
        self.masks = BodyMasks(mixed=config.masking == "mixed")
        layer = AttentionLayer(width, config.num_heads, config.feedforward, pre_norm=False)
        # As in the reference, layers are copies: their in-projections start with the same weights.
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(config.num_layers))
        self.layers.apply(lambda module: _initialise(module, config.encoder_init))
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = LimbDecoder(spec, config.width, num_outputs, **config.decoder_settings)

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, num_outputs), zero in padding."""
        packing = tokens.packing
        rows = self.embedding.packed(tokens)  # (P, width)
        if self.positions is not None:
            rows = rows + take_rows(self.positions, packing.positions)
        rows = self.before_communication(rows)
        of_bodies, index = self.masks(tokens)  # one or two (U, 1, L, L); (B,)
        masks = [mask.index_select(0, index) for mask in of_bodies]  # (B, 1, L, L)
        for number, layer in enumerate(self.layers):
            rows = layer(rows, packing, masks[number % len(masks)])  # (P, width)
        rows = self.after_communication(rows)
        outputs: torch.Tensor = self.decoder(rows, tokens)
        return outputs


def build(config: BotConfig, spec: TokenSpec, num_outputs: int) -> BodyTransformer:
    """Build one network (see `MethodSpec.builder`)."""
    return BodyTransformer(config, spec, num_outputs)


def _initialise(module: nn.Module, std: float) -> None:
    """Draw a linear layer as the reference does, which does not reach the stacked in-projection."""
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=std)
        nn.init.zeros_(module.bias)
