"""What a controller sees: the tokens of a batch of bodies, as torch tensors."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch

from gmc_bench.nn.packing import Packing, make_packing
from gmc_bench.tokens.spec import TokenSpec


@dataclass(frozen=True)
class TokenTable:
    """Everything that is fixed by the bodies, once per morphology.

    Shapes:
        `context` (M, L, Fc) float32, normalised; `limb_padding_mask` (M, L) bool;
        `action_padding_mask` (M, L, J) bool; `parents` (M, L) int64, -1 torso, -2 padding;
        `num_limbs` (M,) int64.
    """

    spec: TokenSpec
    context: torch.Tensor
    limb_padding_mask: torch.Tensor
    action_padding_mask: torch.Tensor
    parents: torch.Tensor
    num_limbs: torch.Tensor

    def to(self, device: torch.device | str) -> "TokenTable":
        """Return the table on another device."""
        return replace(
            self,
            **{
                name: getattr(self, name).to(device)
                for name in (
                    "context",
                    "limb_padding_mask",
                    "action_padding_mask",
                    "parents",
                    "num_limbs",
                )
            },
        )


@dataclass(frozen=True)
class TokenBatch:
    """The tokens of B environments.

    Args:
        table: the bodies' fixed part.
        morphology_index: (B,) int64, row of each environment's body in `table`.
        dynamic: (B, L, Fd) float32, normalised time-varying features; padding is arbitrary.
    """

    table: TokenTable
    morphology_index: torch.Tensor
    dynamic: torch.Tensor

    @property
    def spec(self) -> TokenSpec:
        """Layout of the tokens."""
        return self.table.spec

    def __len__(self) -> int:
        return self.dynamic.shape[0]

    @cached_property
    def features(self) -> torch.Tensor:
        """(B, L, F) float32, all features in the documented order."""
        context = self.table.context[self.morphology_index]
        features = self.dynamic.new_empty(*self.dynamic.shape[:2], self.spec.num_features)
        features[..., torch.from_numpy(self.spec.dynamic_indices)] = self.dynamic
        features[..., torch.from_numpy(self.spec.context_indices)] = context
        return features

    @cached_property
    def packing(self) -> Packing:
        """Layout of the rows of real limbs; made once and shared by all networks of the batch."""
        return make_packing(self.num_limbs, self.spec.max_limbs)

    @cached_property
    def packed_features(self) -> torch.Tensor:
        """(P, F) float32, the features of the real limbs, laid out by `packing`."""
        packing, spec = self.packing, self.spec
        table_rows = self.morphology_index[packing.bodies] * spec.max_limbs + packing.positions
        context = self.table.context.flatten(0, 1).index_select(0, table_rows)
        found = torch.cat((packing.pack(self.dynamic), context), dim=1)
        order = np.argsort(np.concatenate((spec.dynamic_indices, spec.context_indices)))
        return found.index_select(1, torch.from_numpy(order).to(found.device))

    @cached_property
    def limb_padding_mask(self) -> torch.Tensor:
        """(B, L) bool, True = padding."""
        return self.table.limb_padding_mask[self.morphology_index]

    @cached_property
    def action_padding_mask(self) -> torch.Tensor:
        """(B, L, J) bool, True where the limb has no such actuator, and in padding."""
        return self.table.action_padding_mask[self.morphology_index]

    @cached_property
    def parents(self) -> torch.Tensor:
        """(B, L) int64, slot of each limb's parent; -1 torso, -2 padding."""
        return self.table.parents[self.morphology_index]

    @cached_property
    def num_limbs(self) -> torch.Tensor:
        """(B,) int64, real limbs."""
        return self.table.num_limbs[self.morphology_index]
