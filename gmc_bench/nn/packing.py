"""Rows of real limbs only: padding costs nothing and cannot leak."""

from dataclasses import dataclass

import torch

from gmc_bench.errors import TokenOverflowError


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
    def num_rows(self) -> int:
        """P, real limbs in the batch."""
        return self.slots.shape[0]

    @property
    def bodies(self) -> torch.Tensor:
        """(P,) int64, row -> index of its body in the batch."""
        return self.slots // self.shape[1]

    @property
    def positions(self) -> torch.Tensor:
        """(P,) int64, row -> token slot of its limb."""
        return self.slots % self.shape[1]

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
