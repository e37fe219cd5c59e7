"""The SWAT network: attention among limbs that knows the tree they form."""

import copy

import torch
from torch import nn

from gmc_baselines.swat.config import SwatConfig
from gmc_baselines.swat.relations import NUM_RELATIONS, limb_relations, traversal_indices
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
from gmc_bench.nn.packing import uncompiled
from gmc_bench.tokens.spec import TokenSpec


class TreeEncoding(PerBody):
    """What the network adds because of a body's tree: to limbs, and to attention logits.

    e_i = [T1[pre_i] ; T2[in_i] ; T3[post_i]], one learned table per traversal
    b_ij^l = W^l r_ij + c^l, a number per head, with r the relations of two limbs

    Relations are those of the limb graph, closed loops included; traversals need a tree.

    The bias c^l is equal for all keys and so leaves attention as it is; the reference has it.

    Args:
        config: settings.
        spec: layout of the tokens.

    Shapes:
        TokenBatch -> e (U, L, width) and, once per layer, b (U, H, L, L) with -inf where the key is
        padding, and (B,) int64; see `PerBody`.

    Source:
        Hong et al. 2022 (SWAT), section 4; per layer as in MasterXiong/ModuMorph.
    """

    def __init__(self, config: SwatConfig, spec: TokenSpec) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.Embedding(spec.max_limbs, width) for width in config.traversal_widths
        )
        bias = nn.Linear(NUM_RELATIONS, config.num_heads)
        # As in the reference, all layers start with the same weights.
        self.relation_bias = nn.ModuleList(copy.deepcopy(bias) for _ in range(config.num_layers))

    def compute(self, table: TokenTable, bodies: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the embedding of traversals and one attention mask per layer (see `PerBody`)."""
        # Traversals (U, L, 3) and relations (U, L, L, 3).
        traversals, relations = (values[bodies] for values in uncompiled(table.once, trees_of))
        places = traversals.unbind(dim=-1)  # pre_i, in_i and post_i, (U, L) each
        embedded = torch.cat(
            [part(place) for part, place in zip(self.tables, places, strict=True)], dim=-1
        )
        mask = attention_mask(table.limb_padding_mask[bodies])  # (U, 1, L, L)
        relations = relations.to(embedded.dtype)
        # (U, L, L, H) -> (U, H, L, L)
        biases = [layer(relations).permute(0, 3, 1, 2) for layer in self.relation_bias]
        return (embedded, *(mask + bias for bias in biases))


def trees_of(table: TokenTable) -> tuple[torch.Tensor, torch.Tensor]:
    """Return traversals (M, L, 3) int64 and relations (M, L, L, 3) float32 of a table."""
    graph, device = table.graph, table.parents.device
    relations = limb_relations(
        graph.adjacency.numpy(force=True),
        graph.distance.numpy(force=True),
        table.num_limbs.numpy(force=True),
    )
    traversals = traversal_indices(table.parents.numpy(force=True))
    return torch.from_numpy(traversals).to(device), torch.from_numpy(relations).to(device)


class Swat(nn.Module):
    """Embedding, traversal embedding, pre-norm attention layers with relation bias, decoder.

    x_i = sqrt(d) (W o_i + b) + e_i, with o_i the features of limb i and d the width
    x <- x + A(N1 x, b^l);  x <- x + W2 relu(W1 N2 x) in layer l, see `AttentionLayer`
    y_i = decoder(x_i)

    with e and b^l from `TreeEncoding`; b^l is added to the logits of attention. There is no norm
    after the last layer and no dropout.

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Shapes:
        TokenBatch -> (B, L, num_outputs), zero in padding.

    Source:
        Hong et al. 2022 (SWAT), section 4, in the form of MasterXiong/ModuMorph. Deviations are
        listed in `gmc_baselines.swat.SPEC.deviations`.
    """

    padded_rows = True

    def __init__(self, config: SwatConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(spec, config.width, config.embedding_init)
        self.tree = TreeEncoding(config, spec)
        layer = AttentionLayer(config.width, config.num_heads, config.feedforward)
        # As in the reference, all layers start with the same weights.
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(config.num_layers))
        self.before_communication, self.after_communication = Tap(), Tap()
        self.decoder = LimbDecoder(spec, config.width, num_outputs, **config.decoder_settings)

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, num_outputs), zero in padding."""
        packing = tokens.packing
        # (U, L, width), and one (U, H, L, L) per layer; (B,)
        (traversals, *masks), index = self.tree(tokens)
        # (P,): row -> its limb among the U * L
        limbs = index[packing.bodies] * tokens.spec.max_limbs + packing.positions
        rows = self.embedding.packed(tokens) + take_rows(traversals.flatten(0, 1), limbs)
        rows = self.before_communication(rows)  # (P, width)
        for layer, mask in zip(self.layers, masks, strict=True):
            rows = layer(rows, packing, take_rows(mask, index))  # (P, width)
        rows = self.after_communication(rows)
        outputs: torch.Tensor = self.decoder(rows, tokens)
        return outputs


def build(config: SwatConfig, spec: TokenSpec, num_outputs: int) -> Swat:
    """Build one network (see `MethodSpec.builder`)."""
    return Swat(config, spec, num_outputs)
