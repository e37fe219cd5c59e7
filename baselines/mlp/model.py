"""A bank of MLPs, one per body, that see all limbs of their body at once."""

import itertools
import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from gmc_baselines.mlp.config import MLPConfig
from gmc_bench.nn import TokenBatch
from gmc_bench.nn.grouped_linear import GroupPlan, grouped_linear, plan_groups
from gmc_bench.tokens.spec import TokenSpec


class LinearBank(nn.Module):
    """As many linear layers as there are bodies, each with torch's default initialisation.

    Where every body has equally many rows, and in order, the weights are used where they lie.

    Args:
        num_bodies: M.
        inputs: channels of a row.
        outputs: channels of the result.
        init: the weight starts in U(-init, init) and the bias at zero; `None` takes
            U(+-1/sqrt(inputs)) for both.

    Shapes:
        rows (B, inputs), body (B,) int64 -> (B, outputs)
    """

    def __init__(
        self, num_bodies: int, inputs: int, outputs: int, init: float | None = None
    ) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs) if init is None else init
        weight = torch.empty(num_bodies, inputs, outputs).uniform_(-bound, bound)
        bias = torch.zeros(num_bodies, outputs)
        self.weight = nn.Parameter(weight)
        self.bias = nn.Parameter(bias.uniform_(-bound, bound) if init is None else bias)

    def forward(
        self, rows: torch.Tensor, body: torch.Tensor, plan: GroupPlan | Literal["in_order"] | None
    ) -> torch.Tensor:
        """Map every row by the layer of its body.

        Args:
            rows: (B, inputs).
            body: (B,) int64, row -> body.
            plan: `"in_order"` where rows are sorted by body and equally many of each, else the
                result of `plan_groups(body, M)`.
        """
        if plan == "in_order":
            blocks = rows.view(len(self.weight), -1, rows.shape[1])  # (M, B / M, inputs)
            return torch.baddbmm(self.bias.unsqueeze(1), blocks, self.weight).flatten(0, 1)
        return grouped_linear(rows, body, self.weight, self.bias, plan)


class MLPBank(nn.Module):
    """Hidden layers with ReLU over the features of a whole body, a policy for each body.

    x = [o_1 ; ... ; o_L], with o_i the features of limb i, and zeros in padding
    [y_1 ; ... ; y_L] = W_n relu(... relu(W_1 x + b_1) ...) + b_n, with weights of the body's own

    The height map, where there is one, is encoded by layers of the same kind and appended before
    the last layer.

    Args:
        config: settings.
        spec: layout of the tokens.
        num_outputs: numbers per token.
        num_bodies: M; row k of a token table is controlled by policy k.

    Shapes:
        TokenBatch -> (B, L, num_outputs), zero in padding.

    Source:
        MasterXiong/ModuMorph: 624 -> 256 -> 256 -> 256 -> 24, critic -> 12 values that are averaged
        over the body's limbs. Deviations are listed in `gmc_baselines.mlp.SPEC.deviations`.
    """

    def __init__(
        self, config: MLPConfig, spec: TokenSpec, num_outputs: int, num_bodies: int
    ) -> None:
        super().__init__()
        self.num_outputs = num_outputs
        inputs = spec.max_limbs * spec.num_features
        self.hidden = self._stack(num_bodies, (inputs, *config.hidden))
        self.height_map: nn.ModuleList | None = None
        width = config.hidden[-1] if config.hidden else inputs
        if spec.num_heights:
            self.height_map = self._stack(num_bodies, (spec.num_heights, *config.height_map_hidden))
            width += config.height_map_hidden[-1]
        self.output = LinearBank(
            num_bodies, width, spec.max_limbs * num_outputs, config.decoder_init
        )

    def forward(self, tokens: TokenBatch) -> torch.Tensor:
        """Return (B, L, num_outputs), zero in padding."""
        body, padding = tokens.morphology_index, tokens.limb_padding_mask.unsqueeze(-1)
        plan = self._plan(body)
        rows = tokens.features.masked_fill(padding, 0.0).flatten(1)  # (B, L, F) -> (B, L * F)
        for layer in self.hidden:
            rows = nn.functional.relu(layer(rows, body, plan))  # (B, hidden)
        if self.height_map is not None and tokens.height_map is not None:
            heights = tokens.height_map  # (B, G)
            for layer in self.height_map:
                heights = nn.functional.relu(layer(heights, body, plan))
            rows = torch.cat((rows, heights), dim=1)
        outputs: torch.Tensor = self.output(rows, body, plan)
        limbs = outputs.view(len(rows), -1, self.num_outputs)  # (B, L * O) -> (B, L, O)
        return limbs.masked_fill(padding, 0.0)

    @staticmethod
    def _stack(num_bodies: int, widths: Sequence[int]) -> nn.ModuleList:
        return nn.ModuleList(LinearBank(num_bodies, a, b) for a, b in itertools.pairwise(widths))

    def _plan(self, body: torch.Tensor) -> GroupPlan | Literal["in_order"] | None:
        """Plan how `LinearBank`s map the rows of bodies (B,)."""
        bodies = len(self.output.weight)
        order = torch.arange(bodies, device=body.device).repeat_interleave(len(body) // bodies)
        return "in_order" if torch.equal(body, order) else plan_groups(body, bodies)


def build(config: MLPConfig, spec: TokenSpec, num_outputs: int, num_bodies: int) -> MLPBank:
    """Build one network (see `MethodSpec.builder`)."""
    return MLPBank(config, spec, num_outputs, num_bodies)
