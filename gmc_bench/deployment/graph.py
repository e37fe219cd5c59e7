"""A policy as one function of raw tokens: normalisation, network and masks together."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn

from gmc_bench.core.types import DoubleArray
from gmc_bench.deployment.plain import plain_copy
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.tokens import TokenBatch
from gmc_bench.policies.bound import token_table
from gmc_bench.policies.normalization import CLIP, CONSTANT_RANGE, EPSILON
from gmc_bench.policies.policy import Policy
from gmc_bench.tokens.table import MorphologyTable

_OF_FEATURES = ("table", "morphology_index", "dynamic", "height_map", "features", "packed_features")
"""What of a token batch depends on more than the shape of the body."""


class PolicyGraph(nn.Module):
    """Deterministic actions of one quadruped from its raw tokens.

    Networks are given the features as in training, and all that depends on the shape of the body
    (masks, graph, packing) from a table, because quadrupeds share it. Methods with separate weights
    per body compute the actions of all bodies; `robot` selects.

    Args:
        policy: the trained policy.
        table: the M robots it was trained on.

    Shapes:
        tokens (1, L, F) float32, mask (1, L) bool, True = padding, robot (1,) int64, state
        (1, L, S) float32 -> actions (1, L), zero in padding, and the next state
    """

    def __init__(self, policy: Policy, table: MorphologyTable) -> None:
        super().__init__()
        model, normalizer = policy.model, policy.normalizer
        copied = plain_copy(model)
        assert isinstance(copied, ActorCritic)
        self.model = copied.cpu()
        self.fixed = token_table(table, normalizer)
        self.per_body = model.per_body
        moments = normalizer.dynamic
        self._dynamic = _standard(moments.mean, moments.variance)
        self._context = _standard(normalizer.context_mean, normalizer.context_variance)
        self._low, self._high = normalizer.context_low, normalizer.context_high
        self._dynamic_places = torch.from_numpy(table.spec.dynamic_indices)
        self._context_places = torch.from_numpy(table.spec.context_indices)
        self._shapes: dict[int, TokenBatch] = {}
        self.around: Callable[[], AbstractContextManager[Any]] = nullcontext
        """Entered around the networks, whose inputs hold nothing but features that can change."""

    @property
    def state_width(self) -> int:
        """S; 0 for a policy without a memory."""
        return self.model.state_width

    @property
    def bodies(self) -> range:
        """Robots that have weights of their own; just one number where all share them."""
        return range(len(self.fixed)) if self.per_body else range(1)

    def forward(
        self,
        tokens: torch.Tensor,
        mask: torch.Tensor,
        robot: torch.Tensor,
        state: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return actions and next state."""
        padding = mask.unsqueeze(-1)
        tokens = tokens.masked_fill(padding, 0.0)
        with self.around():
            found = [self.model.act(self._batch(tokens, body), state, None) for body in self.bodies]
        actions = torch.cat([item[0] for item in found])  # (bodies, L, 1)
        if self.per_body:
            actions = actions.index_select(0, robot)
        return actions.masked_fill(padding, 0.0).squeeze(-1), found[0][1]

    def _batch(self, tokens: torch.Tensor, body: int) -> TokenBatch:
        """Return what the network of a body is shown."""
        padding = self.fixed.limb_padding_mask[:1].unsqueeze(-1)
        raw = tokens[..., self._context_places]
        table = replace(
            self.fixed,
            context=self._everywhere(_apply(self._context, raw, body, padding, self.per_body)),
            scaled_context=self._everywhere(self._scaled(raw, body, padding)),
        )
        dynamic = tokens[..., self._dynamic_places]
        dynamic = _apply(self._dynamic, dynamic, body, padding, self.per_body)
        batch = TokenBatch(table, torch.tensor([body]), dynamic)
        # What depends on shapes alone was computed outside the graph; see `prepare`.
        if body in self._shapes:
            seen = self._shapes[body]
            batch.__dict__.update({k: v for k, v in vars(seen).items() if k not in _OF_FEATURES})
            batch.__dict__["morphology_index"] = seen.morphology_index
            if "graph" in vars(seen.table):
                table.__dict__["graph"] = seen.table.graph
        else:
            self._shapes[body] = batch
        return batch

    def prepare(self) -> None:
        """Run once, and keep what depends on the shapes of bodies alone."""
        length, features = self.fixed.context.shape[1], self.fixed.spec.num_features
        with torch.no_grad():
            self(
                torch.zeros(1, length, features),
                self.fixed.limb_padding_mask[:1],
                torch.zeros(1, dtype=torch.int64),
                self.model.initial_state(1),
            )

    def _everywhere(self, context: torch.Tensor) -> torch.Tensor:
        # Networks look their body up by its row.
        return context.expand(len(self.fixed), -1, -1)

    def _scaled(self, raw: torch.Tensor, body: int, padding: torch.Tensor) -> torch.Tensor:
        """Return what `TokenNormalizer.scale_context` does, (1, L, Fc)."""
        low, high = (part[body] if self.per_body else part for part in (self._low, self._high))
        span = high - low
        varies = torch.from_numpy(span > CONSTANT_RANGE * np.maximum(np.abs(high), 1.0))
        span = torch.from_numpy(span).where(varies, torch.ones((), dtype=torch.float64))
        scaled = 2.0 * (raw.double() - torch.from_numpy(low)) / span - 1.0
        scaled = torch.clamp(scaled, -3.0, 3.0) * varies
        return scaled.float().masked_fill(padding, 0.0)


def _standard(mean: DoubleArray, variance: DoubleArray) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what is subtracted and multiplied, float32 as in training."""
    scale = (1.0 / np.sqrt(variance + EPSILON)).astype(np.float32)
    return torch.from_numpy(mean.astype(np.float32)), torch.from_numpy(scale)


def _apply(
    statistics: tuple[torch.Tensor, torch.Tensor],
    values: torch.Tensor,
    body: int,
    padding: torch.Tensor,
    separate: bool,
) -> torch.Tensor:
    mean, scale = (part[body] if separate else part for part in statistics)
    return torch.clamp((values - mean) * scale, -CLIP, CLIP).masked_fill(padding, 0.0)
