"""From limb representations to numbers per limb, with what the body sees of the ground."""

import itertools
from collections.abc import Sequence

import torch
from torch import nn

from gmc_bench.nn.grouped_linear import take_rows
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.tokens.spec import TokenSpec


class HeightMapEncoder(nn.Module):
    """MLP over the height map of one environment, ReLU after every layer.

    Args:
        num_heights: G, numbers of the height map.
        hidden: widths of the layers, with torch's default initialisation.

    Shapes:
        (B, G) -> (B, hidden[-1])

    Source:
        Gupta et al. 2022 (MetaMorph), arXiv:2203.11931; widths 64, 64 as in
        agrimgupta92/metamorph.
    """

    def __init__(self, num_heights: int, hidden: Sequence[int] = (64, 64)) -> None:
        super().__init__()
        self.width = hidden[-1]
        self.layers = nn.ModuleList(
            nn.Linear(a, b) for a, b in itertools.pairwise((num_heights, *hidden))
        )

    def forward(self, height_map: torch.Tensor) -> torch.Tensor:
        """Encode every environment's height map."""
        for layer in self.layers:
            height_map = nn.functional.relu(layer(height_map))
        return height_map


class LimbDecoder(nn.Module):
    """The same map for every limb: a linear layer, or an MLP with ReLU between its layers.

    Where tokens come with a height map, its encoding is appended to every limb's representation
    first: the one place where exteroception enters, for every controller alike.

    Args:
        spec: layout of the tokens.
        width: channels of a limb's representation.
        num_outputs: numbers per limb.
        hidden: widths of hidden layers, with torch's default initialisation.
        init: the last layer's weight starts in U(-init, init), its bias at zero, so that a new
            policy's actions start near zero and a new critic's values too.
        height_map_hidden: widths of the height map's encoder.

    Shapes:
        rows (P, width), laid out by `tokens.packing` -> (B, L, num_outputs), zero in padding

    Source:
        Gupta et al. 2022 (MetaMorph), arXiv:2203.11931.
    """

    def __init__(
        self,
        spec: TokenSpec,
        width: int,
        num_outputs: int,
        hidden: Sequence[int] = (),
        init: float = 0.01,
        height_map_hidden: Sequence[int] = (64, 64),
    ) -> None:
        super().__init__()
        self.height_map = (
            HeightMapEncoder(spec.num_heights, height_map_hidden) if spec.num_heights else None
        )
        widths = (width + (self.height_map.width if self.height_map else 0), *hidden)
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.output = nn.Linear(widths[-1], num_outputs)
        nn.init.uniform_(self.output.weight, -init, init)
        nn.init.zeros_(self.output.bias)

    def forward(self, rows: torch.Tensor, tokens: TokenBatch) -> torch.Tensor:
        """Decode every real limb."""
        rows = append_height_map(self.height_map, rows, tokens)
        for layer in self.hidden:
            rows = nn.functional.relu(layer(rows))
        return tokens.packing.unpack(self.output(rows))


def append_height_map(
    encoder: HeightMapEncoder | None, rows: torch.Tensor, tokens: TokenBatch
) -> torch.Tensor:
    """Return rows (P, width) with the encoding of their environment's height map appended."""
    if encoder is None:
        return rows
    encoded = take_rows(encoder(tokens.height_map), tokens.packing.bodies)
    return torch.cat((rows, encoded.to(rows.dtype)), dim=1)
