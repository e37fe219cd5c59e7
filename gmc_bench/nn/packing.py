"""Rows of real limbs only: padding costs nothing and cannot leak."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import NamedTuple, ParamSpec, TypeVar

import torch

from gmc_bench.core.errors import TokenOverflowError

CHUNK_LIMBS = 64
"""Limbs per `Chunk`; nearly all bodies fit into one."""

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True)
class Packing:
    """Where every real limb of a batch stands among packed rows.

    Bodies are ordered by length, longest first (ties in batch order), and rows are laid out step
    by step: first limb 0 of every body, then limb 1 of every body that has one, and so on. The
    bodies of step t + 1 are therefore the first ones of step t, so a recurrence over limbs works
    on contiguous slices, and every other layer works on the rows as one (P, ...) tensor.

    P is the number of real limbs of the batch.
    """

    slots: torch.Tensor
    """(P,) int64, row -> place `b * L + l` in the padded batch; every place occurs once."""
    steps: tuple[slice, ...]
    """Rows of limb t, for t from 0 to the longest body's last limb; sizes never grow."""
    shape: tuple[int, int]
    """(B, L) of the padded batch."""

    @property
    def padded(self) -> bool:
        """Whether rows include padding, see `PaddedPacking`."""
        return False

    @property
    def num_rows(self) -> int:
        """P, real limbs in the batch."""
        return self.slots.shape[0]

    @cached_property
    def batch_sizes(self) -> torch.Tensor:
        """(longest body,) int64 on the CPU, rows of every step, for torch's `PackedSequence`."""
        return torch.tensor([step.stop - step.start for step in self.steps], dtype=torch.int64)

    @property
    def bodies(self) -> torch.Tensor:
        """(P,) int64, row -> index of its body in the batch."""
        return self.slots // self.shape[1]

    @property
    def positions(self) -> torch.Tensor:
        """(P,) int64, row -> token slot of its limb."""
        return self.slots % self.shape[1]

    @cached_property
    def previous(self) -> torch.Tensor:
        """(P + 1,) int64, row -> row of the same body's previous limb, or P where there is none.

        The last entry leads from P to itself, so that `previous[previous]` is two limbs back.
        """
        limb, rank, starts = self._grid
        none = rank.shape[0]
        rows = torch.where(limb > 0, starts[limb - 1] + rank, none)
        return torch.cat((rows, torch.tensor([none]))).to(self.slots.device)

    @cached_property
    def mirrored(self) -> torch.Tensor:
        """(P,) int64, row -> row of the same body's limb that is as far from the other end.

        Taking rows in this order reverses every body, and taking them so twice restores them.
        """
        limb, rank, starts = self._grid
        last = rank.bincount()[rank] - 1
        return (starts[last - limb] + rank).to(self.slots.device)

    @cached_property
    def side_by_side(self) -> tuple[torch.Tensor, tuple[int, int, int]]:
        """Places of the rows in a padded layout that shows every body in both directions.

        The layout is (2, limbs of the longest body, bodies): every body from its first limb on,
        and every body from its last one on. (2 P,) int64 are the places of each row in the two.
        """
        limb, rank, _ = self._grid
        limbs, bodies = len(self.steps), self.steps[0].stop if self.steps else 0
        last = rank.bincount()[rank] - 1
        ahead, behind = limb * bodies + rank, (limbs + last - limb) * bodies + rank
        places = torch.stack((ahead, behind), dim=1).flatten()
        return places.to(self.slots.device), (2, limbs, bodies)

    @cached_property
    def chunks(self) -> tuple["Chunk", ...]:
        """The rows cut after every `CHUNK_LIMBS` limbs, with layouts (bodies, limbs) of each."""
        limb, rank, _ = self._grid
        found = []
        for first in range(0, len(self.steps), CHUNK_LIMBS):
            steps = self.steps[first : first + CHUNK_LIMBS]
            rows = slice(steps[0].start, steps[-1].stop)
            shape = (steps[0].stop - steps[0].start, len(steps))
            slots = rank[rows] * shape[1] + limb[rows] - first
            shifted = tuple(slice(s.start - rows.start, s.stop - rows.start) for s in steps)
            found.append(Chunk(rows, Packing(slots.to(self.slots.device), shifted, shape)))
        return tuple(found)

    @cached_property
    def _grid(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Limb (P,) and rank of the body by length (P,) of every row, and every step's first row.

        Like the plan, on the CPU: an index that depends on step sizes would stall another device.
        """
        sizes = self.batch_sizes
        starts = sizes.cumsum(0) - sizes
        limb = torch.arange(len(sizes)).repeat_interleave(sizes)
        return limb, torch.arange(limb.shape[0]) - starts[limb], starts

    def pack(self, values: torch.Tensor) -> torch.Tensor:
        """Take the real limbs out of a padded tensor.

        Args:
            values: (B, L, ...), anything in padding.

        Returns:
            (P, ...), one row per real limb.
        """
        return values.flatten(0, 1).index_select(0, self.slots)

    def unpack(self, rows: torch.Tensor) -> torch.Tensor:
        """Put rows back at their places.

        Args:
            rows: (P, ...), one row per real limb.

        Returns:
            (B, L, ...), zero in padding.
        """
        batch, length = self.shape
        padded = rows.new_zeros(batch * length, *rows.shape[1:])
        # Places are unique, so neither this nor its gradient depends on the order of writing.
        return padded.index_copy(0, self.slots, rows).view(batch, length, *rows.shape[1:])


@dataclass(frozen=True)
class PaddedPacking(Packing):
    """Rows of all slots, padding included, so that shapes depend on no body's length.

    Rows are laid out as if every body had all limbs; padding follows a body's last limb. A
    recurrence in the reverse direction still starts at the last real limb of each body.
    """

    full: Packing
    """The same layout for bodies that have all limbs."""
    lengths: torch.Tensor
    """(B,) int64, real limbs."""

    @property
    def padded(self) -> bool:
        """See `Packing.padded`."""
        return True

    @property
    def batch_sizes(self) -> torch.Tensor:
        """See `Packing.batch_sizes`."""
        return self.full.batch_sizes

    @property
    def previous(self) -> torch.Tensor:
        """See `Packing.previous`."""
        return self.full.previous

    @property
    def chunks(self) -> tuple["Chunk", ...]:
        """See `Packing.chunks`."""
        return self.full.chunks

    @cached_property
    def mirrored(self) -> torch.Tensor:
        """See `Packing.mirrored`; rows of padding stay where they are."""
        body, limb = self.bodies, self.positions
        last = self.lengths.index_select(0, body) - 1
        return torch.where(limb <= last, last - limb, limb) * self.shape[0] + body

    @cached_property
    def side_by_side(self) -> tuple[torch.Tensor, tuple[int, int, int]]:
        """See `Packing.side_by_side`."""
        ahead = torch.arange(self.num_rows, device=self.slots.device)
        places = torch.stack((ahead, self.num_rows + self.mirrored), dim=1).flatten()
        return places, (2, self.shape[1], self.shape[0])


class Chunk(NamedTuple):
    """Some consecutive limbs of every body that is long enough to have them."""

    rows: slice
    """Where they stand among the packed rows."""
    layout: Packing
    """Layout of these rows alone, as (bodies, limbs); bodies in the order of their length."""


def uncompiled(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function, outside the graph if `torch.compile` is tracing the caller.

    For what depends on the lengths in a batch: traced, it would be compiled again for every
    batch. (A decorator would load the compiler, which takes a second, in every process.)
    """
    if torch.compiler.is_compiling():
        function = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return function(*args, **kwargs)


def make_packing(num_limbs: torch.Tensor, max_limbs: int) -> Packing:
    """Plan the packed layout of a batch.

    The plan is made on the CPU, because the step sizes must be Python numbers: on another device
    this copies `num_limbs` once, and nothing else waits.

    Args:
        num_limbs: (B,) int64, real limbs of every body, on any device.
        max_limbs: L, token slots.

    Returns:
        The layout, its indices on the device of `num_limbs`.

    Raises:
        TokenOverflowError: a body has more limbs than there are slots.
    """
    return uncompiled(_plan, num_limbs, max_limbs)


def _plan(num_limbs: torch.Tensor, max_limbs: int) -> Packing:
    lengths, order = num_limbs.cpu().sort(descending=True, stable=True)
    if lengths.numel() and int(lengths[0]) > max_limbs:
        raise TokenOverflowError(
            f"a body has {int(lengths[0])} limbs, but the tokens have {max_limbs} slots; "
            f"build the TokenSpec with max_limbs of at least {int(lengths[0])}"
        )
    limb = torch.arange(max_limbs).unsqueeze(1)
    real = limb < lengths  # (L, B): reading it row by row visits limbs step by step
    slots = (order * max_limbs + limb)[real]
    steps, start = [], 0
    for size in real.sum(dim=1).tolist():
        if size:
            steps.append(slice(start, start + size))
        start += size
    return Packing(slots.to(num_limbs.device), tuple(steps), (num_limbs.shape[0], max_limbs))


def make_padded_packing(num_limbs: torch.Tensor, max_limbs: int) -> PaddedPacking:
    """Plan a layout whose rows include padding; nothing waits for the device.

    Args:
        num_limbs: (B,) int64, real limbs of every body, at most `max_limbs`.
        max_limbs: L, token slots.
    """
    full = _full_packing(num_limbs.shape[0], max_limbs, num_limbs.device)
    return PaddedPacking(full.slots, full.steps, full.shape, full, num_limbs)


@cache
def _full_packing(count: int, max_limbs: int, device: torch.device) -> Packing:
    """Return the layout of bodies that have all limbs; kept for good, for captured graphs."""
    plan = make_packing(torch.full((count,), max_limbs), max_limbs)
    found = replace(plan, slots=plan.slots.to(device))
    _ = found.previous, found.chunks  # made on the CPU, which a captured graph cannot do
    return found
