"""Random bodies as token batches, for tests of controllers; no simulator is involved."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.tokens.loops import Edge
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import NO_LOOP, PARENT_OF_PADDING


def random_parents(rng: np.random.Generator, num_limbs: int) -> list[int]:
    """Draw a tree in depth-first preorder.

    Args:
        rng: source of randomness.
        num_limbs: limbs, the torso included.

    Returns:
        The parent of every limb, -1 for the torso.
    """
    parents, path = [-1], [0]  # path: torso to the latest limb; only these may get a child next
    for limb in range(1, num_limbs):
        keep = int(rng.integers(1, len(path) + 1))
        path = [*path[:keep], limb]
        parents.append(path[-2])
    return parents


def random_table(rng: np.random.Generator, spec: TokenSpec, num_limbs: Sequence[int]) -> TokenTable:
    """Draw bodies: a random tree each, standard normal context, random actuators.

    Args:
        rng: source of randomness.
        spec: layout of the tokens.
        num_limbs: real limbs of every body.

    Returns:
        A table with one row per body. The torso has no actuator, every other limb at least the
        one in slot 0. Context is standard normal, scaled context uniform in [-1, 1]; both are zero
        in padding.
    """
    shape = (len(num_limbs), spec.max_limbs)
    limbs = np.asarray(num_limbs)
    padding = np.arange(spec.max_limbs) >= limbs[:, None]
    parents = np.full(shape, PARENT_OF_PADDING)
    for row, count in enumerate(num_limbs):
        parents[row, :count] = random_parents(rng, count)
    no_actuator = rng.random((*shape, spec.joints_per_limb)) < 0.5
    no_actuator[..., 0] = False
    no_actuator |= padding[..., None]
    no_actuator[:, 0] = True
    context = rng.standard_normal((*shape, spec.num_context)) * ~padding[..., None]
    scaled = rng.uniform(-1.0, 1.0, context.shape) * ~padding[..., None]
    return TokenTable(
        spec=spec,
        context=torch.from_numpy(context).float(),
        scaled_context=torch.from_numpy(scaled).float(),
        limb_padding_mask=torch.from_numpy(padding),
        action_padding_mask=torch.from_numpy(no_actuator),
        parents=torch.from_numpy(parents),
        num_limbs=torch.from_numpy(limbs),
    )


def random_tokens(
    rng: np.random.Generator, spec: TokenSpec, num_limbs: Sequence[int], batch_size: int
) -> TokenBatch:
    """Draw bodies and a batch of their states.

    Args:
        rng: source of randomness.
        spec: layout of the tokens.
        num_limbs: real limbs of every body of the table.
        batch_size: B; the first environments show every body once, the others a random one.

    Returns:
        Standard normal time-varying features, in padding too, and a standard normal height map
        where the layout has one.
    """
    bodies = len(num_limbs)
    index = np.concatenate((rng.permutation(bodies), rng.integers(0, bodies, size=batch_size)))
    dynamic = rng.standard_normal((batch_size, spec.max_limbs, spec.num_dynamic))
    table = random_table(rng, spec, num_limbs)
    heights = rng.standard_normal((batch_size, spec.num_heights))
    return TokenBatch(
        table,
        torch.from_numpy(index[:batch_size]),
        torch.from_numpy(dynamic).float(),
        torch.from_numpy(heights).float() if spec.num_heights else None,
    )


def select(tokens: TokenBatch, environments: Sequence[int]) -> TokenBatch:
    """Return a batch of some environments of another, in the given order."""
    rows = list(environments)
    return TokenBatch(
        tokens.table,
        tokens.morphology_index[rows],
        tokens.dynamic[rows],
        None if tokens.height_map is None else tokens.height_map[rows],
    )


def widen(tokens: TokenBatch, max_limbs: int) -> TokenBatch:
    """Return the same bodies and states with more token slots, all added ones padding.

    Args:
        tokens: the batch.
        max_limbs: new number of slots, at least the old one.
    """
    old = tokens.table
    extra = max_limbs - old.spec.max_limbs

    def pad(values: torch.Tensor, fill: float | bool) -> torch.Tensor:
        added = values.new_full((values.shape[0], extra, *values.shape[2:]), fill)
        return torch.cat((values, added), dim=1)

    table = replace(
        old,
        spec=replace(old.spec, max_limbs=max_limbs),
        context=pad(old.context, 0.0),
        scaled_context=pad(old.scaled_context, 0.0),
        limb_padding_mask=pad(old.limb_padding_mask, True),
        action_padding_mask=pad(old.action_padding_mask, True),
        parents=pad(old.parents, PARENT_OF_PADDING),
    )
    return TokenBatch(table, tokens.morphology_index, pad(tokens.dynamic, 0.0), tokens.height_map)


def reorder(tokens: TokenBatch, order: torch.Tensor) -> TokenBatch:
    """Return the same bodies and states with the limbs of every environment in an order of its own.

    Args:
        tokens: the batch; the result has one table row per environment.
        order: (B, L) int64, new slot -> old slot of every environment; padding stays in place.
    """
    own_rows = TokenBatch(
        take_bodies(tokens.table, tokens.morphology_index),
        torch.arange(len(tokens)),
        tokens.dynamic,
        tokens.height_map,
    )
    return reorder_bodies(own_rows, order)


def reorder_bodies(tokens: TokenBatch, order: torch.Tensor) -> TokenBatch:
    """Return the same bodies, in the same table rows, and states with limbs in another order.

    Args:
        tokens: the batch.
        order: (M, L) int64, new slot -> old slot of every body; padding stays in place.
    """
    old = tokens.table
    bodies = torch.arange(len(old)).unsqueeze(1)
    parents = old.parents[bodies, order]
    new_slot = order.argsort(dim=1)
    table = replace(
        old,
        context=old.context[bodies, order],
        scaled_context=old.scaled_context[bodies, order],
        limb_padding_mask=old.limb_padding_mask[bodies, order],
        action_padding_mask=old.action_padding_mask[bodies, order],
        parents=_moved(parents, new_slot),
        loops=None if old.loops is None else _moved(old.loops, new_slot),
    )
    rows = torch.arange(len(tokens)).unsqueeze(1)
    dynamic = tokens.dynamic[rows, order[tokens.morphology_index]]
    return TokenBatch(table, tokens.morphology_index, dynamic, tokens.height_map)


def _moved(slots: torch.Tensor, new_slot: torch.Tensor) -> torch.Tensor:
    """Return slots (M, ...) int64 as (M, L) int64 renames them; negative marks stay."""
    flat = slots.flatten(1)
    return torch.where(flat >= 0, new_slot.gather(1, flat.clamp(min=0)), flat).view(slots.shape)


def take_bodies(table: TokenTable, bodies: torch.Tensor) -> TokenTable:
    """Return the rows `bodies` (U,) int64 of a table as a table; a row may occur more than once."""
    taken: dict[str, Any] = {name: value[bodies] for name, value in table.tensors().items()}
    return replace(table, **taken)


def join_bodies(first: TokenTable, second: TokenTable) -> TokenTable:
    """Return the rows of two tables without closed loops and of one layout as a table."""
    rows = second.tensors()
    joined: dict[str, Any] = {
        name: torch.cat((value, rows[name])) for name, value in first.tensors().items()
    }
    return replace(first, **joined)


def random_loops(rng: np.random.Generator, parents: Sequence[int], count: int) -> list[Edge]:
    """Draw pairs of limbs that no joint joins.

    Args:
        rng: source of randomness.
        parents: of every limb of a body, -1 for the torso.
        count: how many; fewer if there are not as many pairs.

    Returns:
        Different pairs, smaller index first.
    """
    joints = {(min(pair), max(pair)) for pair in enumerate(parents)}
    pairs = [pair for pair in itertools.combinations(range(len(parents)), 2) if pair not in joints]
    return [pairs[k] for k in rng.permutation(len(pairs))[:count].tolist()]


def close_loops(table: TokenTable, loops: Mapping[int, Sequence[Edge]]) -> TokenTable:
    """Return a table whose bodies have closed loops.

    Args:
        table: the bodies.
        loops: pairs of limbs by row; the rows that are not in it have none.
    """
    most = max(map(len, loops.values()))
    found = torch.full((len(table), most, 2), NO_LOOP, device=table.parents.device)
    for row, pairs in loops.items():
        found[row, : len(pairs)] = torch.tensor(pairs, dtype=torch.int64).view(-1, 2)
    return replace(table, loops=found)


def any_order(rng: np.random.Generator, bodies: TokenBatch | TokenTable) -> torch.Tensor:
    """Draw an order of all real limbs for every row: (B, L) or (M, L) int64, for `reorder*`."""
    order = torch.arange(bodies.spec.max_limbs).repeat(len(bodies), 1)
    for row, count in enumerate(bodies.num_limbs.tolist()):
        order[row, :count] = torch.from_numpy(rng.permutation(count))
    return order


def sibling_order(bodies: TokenBatch | TokenTable) -> torch.Tensor:
    """Return another depth-first order for every row, siblings reversed: (B, L) or (M, L) int64."""
    order = torch.arange(bodies.spec.max_limbs).repeat(len(bodies), 1)
    for row, (parents, count) in enumerate(
        zip(bodies.parents.tolist(), bodies.num_limbs.tolist(), strict=True)
    ):
        stack, visited = [0], []
        while stack:
            limb = stack.pop()  # the last child comes first
            visited.append(limb)
            stack += [child for child in range(count) if parents[child] == limb]
        order[row, :count] = torch.tensor(visited)
    return order
