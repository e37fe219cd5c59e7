"""The limb graph of every body of a table, as tensors."""

from dataclasses import dataclass
from functools import cached_property

import torch

TORSO, INNER, LEAF, NO_LIMB = 0, 1, 2, -1
"""Kinds of limb in `LimbGraph.limb_type`."""


@dataclass(frozen=True)
class LimbGraph:
    """Who is joined to whom, computed once per table of bodies and kept.

    Args:
        parents: (M, L) int64, slot of each limb's parent; -1 torso, -2 padding.
        limb_padding_mask: (M, L) bool, True = padding.
    """

    parents: torch.Tensor
    limb_padding_mask: torch.Tensor

    @cached_property
    def adjacency(self) -> torch.Tensor:
        """(M, L, L) bool, True between a limb and its parent, both ways; no self loops."""
        bodies, limbs = (self.parents >= 0).nonzero(as_tuple=True)
        parents = self.parents[bodies, limbs]
        count, slots = self.parents.shape
        found = torch.zeros(count, slots, slots, dtype=torch.bool, device=self.parents.device)
        found[bodies, limbs, parents] = True
        found[bodies, parents, limbs] = True
        return found

    @cached_property
    def degree(self) -> torch.Tensor:
        """(M, L) int64, neighbours of each limb; 0 in padding."""
        return self.adjacency.sum(dim=2)

    @cached_property
    def distance(self) -> torch.Tensor:
        """(M, L, L) int64, joints on the shortest path between two limbs.

        0 on the diagonal; L (more than any path has) where there is no path, as from and to
        padding.

        Source:
            Floyd 1962, Algorithm 97: Shortest path.
        """
        slots = self.parents.shape[1]
        found = torch.full(self.adjacency.shape, slots, device=self.parents.device)
        found[self.adjacency] = 1
        found.diagonal(dim1=1, dim2=2).zero_()
        for via in range(slots):
            torch.minimum(found, found[:, :, via, None] + found[:, None, via, :], out=found)
        return found

    @cached_property
    def limb_type(self) -> torch.Tensor:
        """(M, L) int64: 0 torso, 1 limb with children, 2 limb without, -1 padding."""
        has_children = torch.zeros_like(self.limb_padding_mask)
        bodies, limbs = (self.parents >= 0).nonzero(as_tuple=True)
        has_children[bodies, self.parents[bodies, limbs]] = True
        found = torch.where(has_children, INNER, LEAF)
        found[self.parents == -1] = TORSO
        return found.masked_fill(self.limb_padding_mask, NO_LIMB)
