"""Many linear maps at once, each with rows of its own, without a weight per row.

Generated weights (one map per limb of every body) and banks of networks (one per body) need
y_p = x_p W[g_p] + b[g_p] for rows p of groups g. Gathering W[g] takes a matrix per row: for the
generated embedding of ModuMorph, with 52 x 128 numbers per limb and some 46,000 limbs in a
minibatch of 5,120 samples, 1.2 GB, and as much again for its gradient. The 1,200 slots of 100
bodies need 32 MB. So rows of one group are put side by side in blocks, and one batched product
maps all blocks:

    group  0 0 0 0 0 | 1 1 | 2 2 2          rows, in any order
    block [0 0 0][0 0 .][1 1 .][2 2 2]      three rows each, padded with zeros

Blocks hold at most twice the mean number of rows of the groups that have any, and larger groups
take several. So there are at most 3/2 as many blocks as groups, and at most 4 (P + G) places for P
rows of G groups, whatever the sizes are.
"""

from dataclasses import dataclass

import torch
from torch import nn

_FEW = 2
"""With at most so many rows per group, a weight per row is cheaper than making a plan."""
_COPIED = 3 * 2**17
"""Numbers of weights copied at a time: 1.5 MiB in float32 stay in the cache of a core. 57 MiB, as
for 256 environments and a decoder of 96 x 64, take six times as long, since the C library maps them
anew each time."""


@dataclass(frozen=True)
class GroupPlan:
    """Where the rows of every group stand among blocks; serves all maps with the same groups."""

    places: torch.Tensor
    """(P,) int64, row -> place `block * capacity + rank`; every place occurs at most once."""
    block_groups: torch.Tensor | None
    """(K,) int64, block -> its group; `None`: block k belongs to group k."""
    num_blocks: int
    """K."""
    capacity: int
    """Rows per block."""


def plan_groups(groups: torch.Tensor, num_groups: int) -> GroupPlan | None:
    """Plan the blocks of a batch of rows.

    The sizes of groups decide the shapes of tensors, so on a GPU this waits for the device.

    Args:
        groups: (P,) int64, row -> group, in any order.
        num_groups: G; groups may be empty.

    Returns:
        The plan, or `None` where rows are so few that a weight for each of them is cheaper.
    """
    if len(groups) <= _FEW * num_groups:
        return None
    sizes = torch.bincount(groups, minlength=num_groups)
    used, largest = torch.stack(((sizes > 0).sum(), sizes.max())).tolist()
    capacity = min(largest, _FEW * -(-len(groups) // used))
    # With every group in a block of its own the weights are used where they lie, without a copy;
    # that is worth the blocks of empty groups as long as these are the fewer.
    in_place = largest == capacity and 2 * used >= num_groups
    blocks = torch.ones_like(sizes) if in_place else -(-sizes // capacity)
    first_place = (blocks.cumsum(0) - blocks) * capacity
    order = groups.argsort(stable=True)
    ordered = groups[order]
    first_row = sizes.cumsum(0) - sizes  # of a group, among rows in order
    rank = torch.arange(len(groups), device=groups.device) - first_row[ordered]
    places = torch.empty_like(groups).index_copy_(0, order, first_place[ordered] + rank)
    if in_place:
        return GroupPlan(places, None, num_groups, capacity)
    block_groups = torch.arange(num_groups, device=groups.device).repeat_interleave(blocks)
    return GroupPlan(places, block_groups, len(block_groups), capacity)


def grouped_linear(
    rows: torch.Tensor,
    groups: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    plan: GroupPlan | None = None,
) -> torch.Tensor:
    """Map every row by the linear map of its group: y_p = x_p W[g_p] + b[g_p].

    The result and its gradients are the same in every run.

    Args:
        rows: (P, in).
        groups: (P,) int64, row -> group.
        weight: (G, in, out).
        bias: (G, out).
        plan: result of `plan_groups(groups, G)`, for callers with several maps of the same groups;
            default made here.

    Returns:
        (P, out), in the order of `rows`.
    """
    num_groups, inputs, outputs = weight.shape
    plan = plan or plan_groups(groups, num_groups)
    if plan is None:
        return _with_own_weights(rows, groups, weight, bias)
    blocks = rows.new_zeros(plan.num_blocks * plan.capacity, inputs)
    blocks = blocks.index_copy(0, plan.places, rows).view(-1, plan.capacity, inputs)
    if plan.block_groups is not None:
        weight, bias = take_rows(weight, plan.block_groups), take_rows(bias, plan.block_groups)
    mapped = torch.baddbmm(bias.unsqueeze(1), blocks, weight)  # (K, capacity, out)
    return mapped.reshape(-1, outputs).index_select(0, plan.places)


def _with_own_weights(
    rows: torch.Tensor, groups: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    """Map every row by a copy of its weights; without gradients, few copies at a time."""
    size = max(len(rows), 1)
    if rows.device.type == "cpu" and not torch.is_grad_enabled():
        size = min(size, _COPIED // (weight.shape[1] * weight.shape[2]) + 1)

    def of_part(start: int) -> torch.Tensor:
        part, own = rows[start : start + size].unsqueeze(1), groups[start : start + size]
        mapped = torch.baddbmm(take_rows(bias, own).unsqueeze(1), part, take_rows(weight, own))
        return mapped.squeeze(1)

    if size >= len(rows):
        return of_part(0)
    return torch.cat([of_part(start) for start in range(0, len(rows), size)])


def take_rows(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return `values[index]`, with a gradient that is the same in every run.

    Rows taken more than once have their gradients added up. Plain indexing does so in an order left
    to chance on a CPU with several threads, `index_select` on a GPU; torch's embedding does not.

    Args:
        values: (U, ...), at least two dimensions.
        index: (B,) int64.

    Returns:
        (B, ...).
    """
    taken = nn.functional.embedding(index, values.flatten(1))
    return taken.view(len(index), *values.shape[1:])
