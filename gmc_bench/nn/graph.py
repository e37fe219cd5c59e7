"""The limb graph of every body of a table, as tensors."""

from dataclasses import dataclass
from functools import cached_property

import torch

from gmc_bench.nn.packing import uncompiled

TORSO, INNER, LEAF, NO_LIMB = 0, 1, 2, -1
"""Kinds of limb in `LimbGraph.limb_type`."""

_CHUNK_BYTES = 16 * 2**20
"""Of each temporary tensor; whole tables of many bodies would take gigabytes."""


@dataclass(frozen=True)
class LimbGraph:
    """Who is joined to whom, computed once per table of bodies and kept.

    The edges are the joints of the tree and the closed loops; which spanning tree the body is
    read along makes no difference.

    Args:
        parents: (M, L) int64, slot of each limb's parent; -1 torso, -2 padding.
        limb_padding_mask: (M, L) bool, True = padding.
        loops: (M, E, 2) int64, slots of limbs that are joined outside the tree; -1 where a body
            has fewer; `None` if no body has any.
    """

    parents: torch.Tensor
    limb_padding_mask: torch.Tensor
    loops: torch.Tensor | None = None

    @cached_property
    def adjacency(self) -> torch.Tensor:
        """(M, L, L) bool, True between limbs that are joined, both ways; no self loops."""
        bodies, limbs = (self.parents >= 0).nonzero(as_tuple=True)
        parents = self.parents[bodies, limbs]
        count, slots = self.parents.shape
        found = torch.zeros(count, slots, slots, dtype=torch.bool, device=self.parents.device)
        found[bodies, limbs, parents] = True
        found[bodies, parents, limbs] = True
        if self.loops is not None:
            bodies, places = (self.loops[..., 0] >= 0).nonzero(as_tuple=True)
            first, second = self.loops[bodies, places].unbind(dim=1)
            found[bodies, first, second] = True
            found[bodies, second, first] = True
        return found

    @cached_property
    def degree(self) -> torch.Tensor:
        """(M, L) int64, neighbours of each limb; 0 in padding."""
        return self.adjacency.sum(dim=2)

    @cached_property
    def distance(self) -> torch.Tensor:
        """(M, L, L) int16, joints on the shortest path between two limbs; cast it before indexing.

        0 on the diagonal; L (more than any path has) where there is no path, as from and to
        padding.
        """
        return uncompiled(self._distances)

    def _distances(self) -> torch.Tensor:
        count, slots = self.parents.shape
        found = torch.empty(count, slots, slots, dtype=torch.int16, device=self.parents.device)
        rows = max(1, _CHUNK_BYTES // (8 * slots * (slots + 1)))
        for start in range(0, count, rows):
            chunk = slice(start, start + rows)
            distance = _tree_distance(self.parents[chunk])
            if self.loops is not None:
                distance = _shorten(distance, self.loops[chunk])
            found[chunk] = distance
        return found

    @cached_property
    def limb_type(self) -> torch.Tensor:
        """(M, L) int64: 0 torso, 1 limb with several neighbours, 2 limb with one, -1 padding.

        Limbs of type 1 have children, or are tips that a closed loop joins to others.
        """
        is_inner = torch.zeros_like(self.limb_padding_mask)
        bodies, limbs = (self.parents >= 0).nonzero(as_tuple=True)
        is_inner[bodies, self.parents[bodies, limbs]] = True
        if self.loops is not None:
            bodies, places = (self.loops[..., 0] >= 0).nonzero(as_tuple=True)
            is_inner[bodies.unsqueeze(1), self.loops[bodies, places]] = True
        found = torch.where(is_inner, INNER, LEAF)
        found[self.parents == -1] = TORSO
        return found.masked_fill(self.limb_padding_mask, NO_LIMB)


def _tree_distance(parents: torch.Tensor) -> torch.Tensor:
    """Return the joints between the limbs of trees, (C, L, L) int64; see `LimbGraph.distance`.

    A limb with a limbs from itself up to the torso and one with b, of which c are the same, are
    a + b - 2 c joints apart.
    """
    count, slots = parents.shape
    nowhere = parents.new_full((count, 1), slots)  # beyond the torso there is slot L
    above = torch.cat((parents.where(parents >= 0, slots), nowhere), dim=1)
    limb = torch.arange(slots, device=above.device).expand(count, -1)
    # float64, which autocast leaves alone: these are counts.
    upwards = torch.zeros(count, slots, slots + 1, dtype=torch.float64, device=parents.device)
    while bool((limb < slots).any()):
        upwards.scatter_(2, limb.unsqueeze(2), 1.0)
        limb = above.gather(1, limb)
    upwards = upwards[..., :slots]
    common = (upwards @ upwards.transpose(1, 2)).long()
    own = common.diagonal(dim1=1, dim2=2)
    found = own.unsqueeze(2) + own.unsqueeze(1) - 2 * common
    return found.masked_fill(common == 0, slots)


def _shorten(distance: torch.Tensor, loops: torch.Tensor) -> torch.Tensor:
    """Return distances (C, L, L) with the edges `loops` (C, E, 2) added one after the other.

    A path takes a new edge at most once: d(i, j) becomes the least of d(i, j),
    d(i, a) + 1 + d(b, j) and d(i, b) + 1 + d(a, j).
    """
    rows = torch.arange(len(distance), device=distance.device)
    for edge in loops.unbind(dim=1):
        there = (edge[:, 0] >= 0).view(-1, 1, 1)
        first, second = edge.clamp(min=0).unbind(dim=1)
        to_first, to_second = distance[rows, first], distance[rows, second]
        over = to_first.unsqueeze(2) + 1 + to_second.unsqueeze(1)
        over = torch.minimum(over, over.transpose(1, 2))
        distance = torch.where(there, torch.minimum(distance, over), distance)
    return distance
