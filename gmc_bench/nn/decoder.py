"""From limb representations to numbers per limb."""

import itertools
from collections.abc import Sequence

import torch
from torch import nn


class LimbDecoder(nn.Module):
    """The same map for every limb: a linear layer, or an MLP with ReLU between its layers.

    Args:
        width: channels of a limb's representation.
        num_outputs: numbers per limb.
        hidden: widths of hidden layers, with torch's default initialisation.
        init: the last layer's weight starts in U(-init, init), its bias at zero, so that a new
            policy's actions start near zero and a new critic's values too.

    Shapes:
        (..., width) -> (..., num_outputs)

    Source:
        Gupta et al. 2022 (MetaMorph), arXiv:2203.11931.
    """

    def __init__(
        self, width: int, num_outputs: int, hidden: Sequence[int] = (), init: float = 0.01
    ) -> None:
        super().__init__()
        widths = (width, *hidden)
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.output = nn.Linear(widths[-1], num_outputs)
        nn.init.uniform_(self.output.weight, -init, init)
        nn.init.zeros_(self.output.bias)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Decode every row."""
        for layer in self.hidden:
            rows = nn.functional.relu(layer(rows))
        decoded: torch.Tensor = self.output(rows)
        return decoded
