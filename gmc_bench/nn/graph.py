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

        A limb with a limbs from itself up to the torso and one with b, of which c are the same, are
        a + b - 2 c joints apart.
        """
        count, slots = self.parents.shape
        nowhere = self.parents.new_full((count, 1), slots)  # beyond the torso there is slot L
        above = torch.cat((self.parents.where(self.parents >= 0, slots), nowhere), dim=1)
        limb = torch.arange(slots, device=above.device).expand(count, -1)
        # float64, which autocast leaves alone: these are counts.
        upwards = torch.zeros(
            count, slots, slots + 1, dtype=torch.float64, device=self.parents.device
        )
        for _ in range(slots):
            upwards.scatter_(2, limb.unsqueeze(2), 1.0)
            limb = above.gather(1, limb)
        upwards = upwards[..., :slots]
        common = (upwards @ upwards.transpose(1, 2)).long()
        own = common.diagonal(dim1=1, dim2=2)
        found = own.unsqueeze(2) + own.unsqueeze(1) - 2 * common
        return found.masked_fill(common == 0, slots)

    @cached_property
    def limb_type(self) -> torch.Tensor:
        """(M, L) int64: 0 torso, 1 limb with children, 2 limb without, -1 padding."""
        has_children = torch.zeros_like(self.limb_padding_mask)
        bodies, limbs = (self.parents >= 0).nonzero(as_tuple=True)
        has_children[bodies, self.parents[bodies, limbs]] = True
        found = torch.where(has_children, INNER, LEAF)
        found[self.parents == -1] = TORSO
        return found.masked_fill(self.limb_padding_mask, NO_LIMB)
