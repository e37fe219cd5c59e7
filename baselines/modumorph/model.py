"""The ModuMorph network: the body generates embedding and decoder, and fixes the attention."""

import copy
import itertools
import math
from collections.abc import Iterable
from typing import cast

import torch
from torch import nn

from gmc_baselines.modumorph.config import ModuMorphConfig
from gmc_bench.nn import HeightMapEncoder, PerBody, Tap, TokenBatch, TokenTable
from gmc_bench.nn.decoder import append_height_map
from gmc_bench.nn.fixed_attention import FixedAttentionLayer
from gmc_bench.nn.grouped_linear import grouped_linear, plan_groups, take_rows
from gmc_bench.tokens.spec import TokenSpec


class ContextEncoder(nn.Module):
    """MLP over what is fixed about a limb, ReLU after every layer.

    Args:
        num_context: Fc, fixed numbers of a limb.
        width: channels of every layer.
        num_layers: linear layers.
        init: the first weight starts in U(-init, init); the rest as in torch.

    Shapes:
        (U, L, Fc) -> (U, L, width)

    Source:
        Xiong et al. 2023, arXiv:2302.11070; depths as in MasterXiong/ModuMorph.
    """

    def __init__(self, num_context: int, width: int, num_layers: int, init: float) -> None:
        super().__init__()
        widths = (num_context, *[width] * num_layers)
        layers = [nn.Linear(a, b) for a, b in itertools.pairwise(widths)]
        nn.init.uniform_(layers[0].weight, -init, init)
        self.layers = nn.ModuleList(layers)

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        """Encode every limb."""
        context = context.to(next(self.parameters()).dtype)
        for layer in self.layers:
            context = nn.functional.relu(layer(context))
        return context


class LinearGenerator(nn.Module):
    """Generate a linear map for every limb, with weight W_i and bias b_i.

    W_i = reshape(H_W h_i + B_W),  b_i = H_b h_i + B_b

    H_W and H_b start at zero, B_W in U(-init, init) and B_b at zero (Bias-HyperInit), so that at
    the start all limbs of all bodies share one map.

    Args:
        width: channels of the encoded context h_i.
        inputs: channels that the generated map takes.
        outputs: channels that it gives.
        init: bound of B_W.

    Shapes:
        (U, L, width) -> weight (U, L, inputs, outputs) and bias (U, L, outputs)

    Source:
        Xiong et al. 2023, arXiv:2302.11070; Beck et al. 2022, arXiv:2210.11348 (Bias-HyperInit).
    """

    def __init__(self, width: int, inputs: int, outputs: int, init: float) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.weight = nn.Linear(width, inputs * outputs)  # H_W, B_W
        self.bias = nn.Linear(width, outputs)  # H_b, B_b
        for parameter in self.parameters():
            nn.init.zeros_(parameter)
        nn.init.uniform_(self.weight.bias, -init, init)

    def forward(self, context: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Generate the maps of U bodies."""
        weight = self.weight(context).unflatten(-1, (self.inputs, self.outputs))
        return weight, self.bias(context)


class LimbMaps(PerBody):
    """The generated maps of every limb: the embedding first, then the decoder's layers.

    Args:
        config: settings.
        spec: layout of the tokens.
        decoder_widths: channels of the decoder, from its input to its output.

    Shapes:
        TokenBatch -> weight (U, L, in, out) and bias (U, L, out) of every map in turn, and (B,)
        int64; see `PerBody`.
    """

    def __init__(
        self, config: ModuMorphConfig, spec: TokenSpec, decoder_widths: tuple[int, ...]
    ) -> None:
        super().__init__()
        width = config.generator_context_width
        self.context = ContextEncoder(
            spec.num_context, width, config.generator_context_layers, config.context_init
        )
        embedding = LinearGenerator(width, spec.num_features, config.width, config.embedding_init)
        decoder = (
            LinearGenerator(width, inputs, outputs, config.decoder_init)
            for inputs, outputs in itertools.pairwise(decoder_widths)
        )
        self.layers = nn.ModuleList((embedding, *decoder))

    def compute(self, table: TokenTable, bodies: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return weights and biases of U bodies; those of padding are never used."""
        context = self.context(table.scaled_context[bodies])  # h, (U, L, width)
        return tuple(value for layer in self.layers for value in layer(context))


class FixedAttention(PerBody):
    """The attention layers, and the attention of each: it depends on the body alone.

    Args:
        config: settings.
        spec: layout of the tokens.

    Shapes:
        TokenBatch -> one tensor (U, H, L, L) per layer, and (B,) int64; see `PerBody`.
    """

    def __init__(self, config: ModuMorphConfig, spec: TokenSpec) -> None:
        super().__init__()
        self.context = ContextEncoder(
            spec.num_context, config.width, config.attention_context_layers, config.context_init
        )
        layer = FixedAttentionLayer(config.width, config.num_heads, config.feedforward)
        # As in the reference, all layers start with the same weights.
        self.layers = nn.ModuleList(copy.deepcopy(layer) for _ in range(config.num_layers))

    def compute(self, table: TokenTable, bodies: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the attention probabilities of U bodies, layer by layer."""
        context = self.context(table.scaled_context[bodies])  # a, (U, L, width)
        padding = table.limb_padding_mask[bodies]
        layers = cast(Iterable[FixedAttentionLayer], self.layers)
        return tuple(layer.probabilities(context, padding) for layer in layers)


class ModuMorph(nn.Module):
    """Generated embedding, pre-norm attention layers with fixed attention, generated decoder.

    x_i = sqrt(d) (o_i W_i + b_i), with o_i the features of limb i and d the width
    x <- x + A(a, N1 x);  x <- x + W2 relu(W1 N2 x), where only the values of A come from x
    y_i = x_i V_i + c_i, or several such maps with ReLU between them (`decoder_hidden`)

    The maps W_i, b_i, V_i, c_i are generated from the context of limb i, and a is another encoding
    of it (see `LimbMaps` and `FixedAttention`). Maps and attention depend on the body alone and are
    computed once per body (see `PerBody`). Rows are mapped without a weight matrix for each of
    them (see `gmc_bench.nn.grouped_linear`).

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.

    Shapes:
        TokenBatch -> (B, L, num_outputs), zero in padding.

    Source:
        Xiong et al. 2023 (ModuMorph), "Universal Morphology Control via Contextual Modulation",
        arXiv:2302.11070; MasterXiong/ModuMorph. Deviations are listed in
        `gmc_baselines.modumorph.SPEC.deviations`.
    """

    padded_rows = True

    def __init__(self, config: ModuMorphConfig, spec: TokenSpec, num_outputs: int) -> None:
        super().__init__()
        self.scale = math.sqrt(config.width)
        self.height_map = (
            HeightMapEncoder(spec.num_heights, config.height_map_hidden)
            if spec.num_heights
            else None
        )
        decoder_input = config.width + (self.height_map.width if self.height_map else 0)
        self.maps = LimbMaps(config, spec, (decoder_input, *config.decoder_hidden, num_outputs))
        self.attention = FixedAttention(config, spec)
        self.before_communication, self.after_communication = Tap(), Tap()

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, num_outputs), zero in padding."""
        packing = tokens.packing
        maps, index = self.maps(tokens)
        maps = [value.flatten(0, 1) for value in maps]  # (U, L, ...) -> (U * L, ...)
        # (P,): row -> its limb among the U * L
        groups = index[packing.bodies] * tokens.spec.max_limbs + packing.positions
        plan = plan_groups(groups, len(maps[0]))
        (embedding, *decoder) = zip(maps[::2], maps[1::2], strict=True)  # (weight, bias) each

        rows = self.scale * grouped_linear(tokens.packed_features, groups, *embedding, plan)
        rows = self._attend(self.before_communication(rows), tokens)  # (P, width)
        rows = append_height_map(self.height_map, self.after_communication(rows), tokens)
        rows = grouped_linear(rows, groups, *decoder[0], plan)
        for layer in decoder[1:]:
            rows = grouped_linear(nn.functional.relu(rows), groups, *layer, plan)
        return packing.unpack(rows)

    def _attend(self, rows: torch.Tensor, tokens: TokenBatch) -> torch.Tensor:
        """Run the attention layers over rows (P, width)."""
        probabilities, index = self.attention(tokens)  # one (U, H, L, L) per layer; (B,)
        for layer, of_bodies in zip(self.attention.layers, probabilities, strict=True):
            rows = layer(rows, tokens.packing, take_rows(of_bodies, index))
        return rows


def build(config: ModuMorphConfig, spec: TokenSpec, num_outputs: int) -> ModuMorph:
    """Build one network (see `MethodSpec.builder`)."""
    return ModuMorph(config, spec, num_outputs)
