"""RecMorph `lite` as one writes it without gmc-bench's machinery: padded slots and `torch.nn.RNN`.

The same function as `recmorph`, for `benchmarks.plain_training`. Every slot is computed, padding
too; only the order of the limbs of each body is reversed for the backward direction.
"""

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn.functional import silu

from gmc_bench.tokens.spec import TokenSpec

NORM_EPS = 1e-6

Batch = dict[str, torch.Tensor]
"""Transitions by name. What networks see: `tokens` (B, L, F) float32, normalised; `limb_padding`
(B, L) and `action_padding` (B, L, J) bool. In a rollout (T, N) stands for B."""


class Sizes(NamedTuple):
    """Sizes of a network."""

    width: int
    hidden: int
    blocks: int


LITE = Sizes(width=64, hidden=64, blocks=2)
"""Those of RecMorph `lite`."""


class Block(nn.Module):
    """One RecMorph block over padded slots, (B, L, width) -> (B, L, width)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.input_norm = nn.RMSNorm(width, NORM_EPS)
        self.input_projection = nn.Linear(width, hidden, bias=False)
        self.gate_projection = nn.Linear(width, hidden, bias=False)
        self.ahead = nn.RNN(hidden, hidden, batch_first=True)
        self.behind = nn.RNN(hidden, hidden, batch_first=True)
        self.context_norm = nn.RMSNorm(2 * hidden, NORM_EPS)
        self.output_projection = nn.Linear(2 * hidden, width, bias=False)
        self.output_norm = nn.RMSNorm(width, NORM_EPS)

    def forward(self, x: torch.Tensor, reverse: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Mix along the limbs; indexing with `reverse` reverses every body's real limbs."""
        drive = silu(self.input_projection(self.input_norm(x)))
        gate = silu(self.gate_projection(x))
        ahead, behind = self.ahead(drive)[0], self.behind(drive[reverse])[0][reverse]
        context = self.context_norm(torch.cat((ahead * gate, behind * gate), dim=-1))
        mixed: torch.Tensor = self.output_norm(x + self.output_projection(context))
        return mixed


class Network(nn.Module):
    """RecMorph: (B, L, F) -> (B, L, outputs), arbitrary in padding."""

    def __init__(self, num_features: int, num_outputs: int, sizes: Sizes = LITE) -> None:
        super().__init__()
        self.embedding = nn.Linear(num_features, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes.width, sizes.hidden) for _ in range(sizes.blocks))
        self.decoder = nn.Linear(sizes.width, num_outputs)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.uniform_(self.decoder.weight, -0.01, 0.01)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Compute every slot."""
        length = (~batch["limb_padding"]).sum(dim=1, keepdim=True)
        slot = torch.arange(batch["limb_padding"].shape[1])
        source = torch.where(slot < length, length - 1 - slot, slot)
        reverse = (torch.arange(len(length)).unsqueeze(1), source)
        x = self.embedding(batch["tokens"]) * math.sqrt(self.embedding.out_features)
        for block in self.blocks:
            x = block(x, reverse)
        outputs: torch.Tensor = self.decoder(x)
        return outputs


class Agent(nn.Module):
    """Actor and critic."""

    def __init__(self, spec: TokenSpec, std: float, sizes: Sizes = LITE) -> None:
        super().__init__()
        self.actor = Network(spec.num_features, spec.actions_per_token, sizes)
        self.critic = Network(spec.num_features, 1, sizes)
        self.std = std

    def distribution(self, batch: Batch) -> Normal:
        """Return the distribution of every action, arbitrary where there is no actuator."""
        return Normal(self.actor(batch), self.std, validate_args=False)

    def value(self, batch: Batch) -> torch.Tensor:
        """Return (B,), the mean over real limbs of the critic's output."""
        real = ~batch["limb_padding"]
        values = self.critic(batch).squeeze(-1) * real
        mean: torch.Tensor = values.sum(dim=1) / real.sum(dim=1)
        return mean


def total(per_action: torch.Tensor, batch: Batch) -> torch.Tensor:
    """Return (B,), the sum over the actuators that exist."""
    return per_action.masked_fill(batch["action_padding"], 0.0).sum(dim=(1, 2))
