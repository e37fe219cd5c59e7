"""Parts of a network that depend on the body alone: computed once per body, not per sample."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gmc_bench.nn.tokens import TokenBatch, TokenTable

MAX_KEPT_BYTES = 256 * 2**20
"""Results larger than this for a whole table are computed per batch even when weights are fixed."""


class PerBody(nn.Module):
    """A module whose result depends on the body and the weights alone.

    Subclasses implement `compute`. While weights change, it runs once for every different body
    of a batch, with gradients; within `fixed_weights` it runs once for the whole table.

    Shapes:
        TokenBatch of B environments showing U different bodies -> `values`, tensors (U, ...), and
        `index` (B,) int64 with `values[index]` the values of each environment (in training, take
        them with `take_rows`, whose gradient does not depend on chance). U may be any number of
        bodies that contains those of the batch.
    """

    def __init__(self) -> None:
        super().__init__()
        self._keep = False
        self._kept: tuple[TokenTable, tuple[torch.Tensor, ...] | None] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and files hold: not the kept results, which nothing would drop."""
        return {**self.__dict__, "_keep": False, "_kept": None}

    @abstractmethod
    def compute(self, table: TokenTable, bodies: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return tensors (U, ...) for the rows `bodies` (U,) int64 of a table."""

    def forward(self, tokens: TokenBatch) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
        """Return the values of different bodies, and where each environment finds its own."""
        if self._keep and not torch.is_grad_enabled():
            kept = self._of_table(tokens.table)
            if kept is not None:
                return kept, tokens.morphology_index
        bodies, index = tokens.bodies
        return self.compute(tokens.table, bodies), index

    @property
    def keeps(self) -> bool:
        """Whether results are kept."""
        return self._keep

    def keep(self, on: bool) -> None:
        """Start or stop keeping results; stopping forgets them."""
        self._keep, self._kept = on, None

    def _of_table(self, table: TokenTable) -> tuple[torch.Tensor, ...] | None:
        """Return the values of all bodies, kept for the next call; `None` if they are too many."""
        if self._kept is None or self._kept[0] is not table:
            rows = torch.arange(len(table), device=table.num_limbs.device)
            one = sum(value.nbytes for value in self.compute(table, rows[:1]))
            kept = None
            if one * len(table) <= MAX_KEPT_BYTES:
                # Contiguous, because rows are taken at every step: from a permuted view that would
                # copy the results of all bodies each time.
                kept = tuple(value.contiguous() for value in self.compute(table, rows))
            self._kept = (table, kept)
        return self._kept[1]


@contextmanager
def fixed_weights(network: nn.Module) -> Iterator[None]:
    """Run a network without gradients, keeping what depends on the bodies alone.

    The weights must not change inside the block.
    """
    parts = [
        module for module in network.modules() if isinstance(module, PerBody) and not module.keeps
    ]
    for part in parts:
        part.keep(True)
    try:
        with torch.no_grad():
            yield
    finally:
        for part in parts:
            part.keep(False)
