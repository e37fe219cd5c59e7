"""Group: the processes that share one run, each with a part of its environments.

All of them go through the same iterations. What they measure is exchanged, so that every process
holds the statistics, the random streams and the weights that one process with all environments
would hold, up to the order of sums.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

from gmc_bench.core.errors import GmcBenchError
from gmc_bench.core.types import DoubleArray

TIMEOUT_S = 600.0
"""Seconds after which a process that does not answer counts as lost: more than any step takes."""


class LostProcessError(GmcBenchError):
    """Another process of the run has ended, or does not answer."""


@dataclass(frozen=True)
class Share:
    """The environments of one process: consecutive rows of those of the whole run."""

    first: int
    num_rows: int
    total: int
    """Environments of all processes."""

    @property
    def rows(self) -> slice:
        """Its rows among all."""
        return slice(self.first, self.first + self.num_rows)


class Group:
    """A process that is alone: every exchange gives back what was put in.

    The methods of a group are called by all of its processes in the same order.
    """

    rank: int = 0
    """Number of this process; the first, 0, writes files and decides what is done next."""
    size: int = 1
    """P, processes."""

    def share(self, total: int) -> Share:
        """Return this process's part of the environments; parts differ by one at most."""
        bounds = [total * rank // self.size for rank in range(self.size + 1)]
        first = bounds[self.rank]
        return Share(first, bounds[self.rank + 1] - first, total)

    def exchange(self, values: torch.Tensor) -> list[torch.Tensor]:
        """Return the tensors of all processes, in order; they have one shape."""
        return [values]

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum over all processes, of the same bits in each; `values` may change."""
        return values

    def broadcast(self, value: Any) -> Any:
        """Return what the first process gives."""
        return value

    def collect(self, value: Any) -> list[Any]:
        """Return what all processes give, in order; all but the first get an empty list."""
        return [value]

    def gather(self, values: torch.Tensor, dim: int = 0) -> torch.Tensor:
        """Return the tensors of all processes side by side.

        Args:
            values: of this process; sizes may differ along `dim`.
            dim: along which they are joined.
        """
        if self.size == 1:
            return values
        found = values.movedim(dim, 0)
        count = torch.tensor([len(found)], dtype=torch.int64, device=values.device)
        counts = torch.cat(self.exchange(count)).tolist()
        if not any(counts):
            return values
        padded = found.new_zeros(max(counts), *found.shape[1:])
        padded[: len(found)] = found
        parts = self.exchange(padded)
        joined = [part[:number] for part, number in zip(parts, counts, strict=True)]
        return torch.cat(joined).movedim(0, dim)

    def moments(
        self, mean: DoubleArray, variance: DoubleArray, count: DoubleArray
    ) -> tuple[DoubleArray, DoubleArray, DoubleArray]:
        """Return the moments of the samples of all processes, given those of this one's."""
        if self.size == 1:
            return mean, variance, count
        own = torch.from_numpy(np.stack(np.broadcast_arrays(mean, variance, count)))
        means, variances, counts = torch.stack(self.exchange(own), dim=1).numpy()  # (P, ...) each
        total = counts.sum(axis=0)
        whole = (means * counts).sum(axis=0) / total
        spread = ((variances + (means - whole) ** 2) * counts).sum(axis=0)
        return whole, spread / total, total

    def sum_gradients(
        self, parameters: Iterable[nn.Parameter], beside: torch.Tensor
    ) -> torch.Tensor:
        """Replace gradients by their sums over all processes.

        A parameter that has no gradient anywhere gets none.

        Args:
            parameters: with gradients, or without.
            beside: further numbers, which are summed in the same exchange.

        Returns:
            The sums of these numbers.
        """
        if self.size == 1:
            return beside
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        used = torch.tensor([parameter.grad is not None for parameter in trained])
        gradients = [
            torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            for parameter in trained
        ]
        first = (beside.flatten(), used.to(gradients[0]))
        flat = torch.cat([*first, *(gradient.flatten() for gradient in gradients)])
        sizes = [beside.numel(), len(trained), *(parameter.numel() for parameter in trained)]
        summed, anywhere, *sums = torch.split(self.sum(flat), sizes)
        for parameter, total, some in zip(trained, sums, anywhere.tolist(), strict=True):
            parameter.grad = total.view_as(parameter) if some else None
        return summed.view_as(beside)

    def announce(self, task: str | None) -> None:
        """Tell the others what the first process is about to do; `None`: nothing more."""
        if self.rank == 0 and self.size > 1:
            self.broadcast(task)

    def next_task(self) -> str | None:
        """Return what the first process announces."""
        task: str | None = self.broadcast(None)
        return task


class ProcessGroup(Group):
    """The processes of torch.distributed's default group: gloo on CPUs, NCCL on GPUs."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def exchange(self, values: torch.Tensor) -> list[torch.Tensor]:
        """Return the tensors of all processes, in order; they have one shape."""
        values = values.contiguous()
        found = [torch.empty_like(values) for _ in range(self.size)]
        with _answers():
            dist.all_gather(found, values)
        return found

    def sum(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum over all processes, of the same bits in each; `values` changes."""
        with _answers():
            dist.all_reduce(values)
        return values

    def broadcast(self, value: Any) -> Any:
        """Return what the first process gives."""
        box = [value]
        with _answers():
            dist.broadcast_object_list(box, src=0)
        return box[0]

    def collect(self, value: Any) -> list[Any]:
        """Return what all processes give, in order; all but the first get an empty list."""
        found = [None] * self.size if self.rank == 0 else None
        with _answers():
            dist.gather_object(value, found, dst=0)
        return found or []


@contextmanager
def joined(
    rank: int | None = None,
    size: int | None = None,
    store: Any = None,
) -> Iterator[ProcessGroup]:
    """Join the group of a run for as long as the context lasts.

    Args:
        rank: of this process; by default, the environment says it, and where the others are.
        size: processes.
        store: where they find each other.

    Raises:
        LostProcessError: they do not find each other.
    """
    given: dict[str, Any] = (
        {} if store is None else {"rank": rank, "world_size": size, "store": store}
    )
    # NCCL otherwise ends this process where another is lost, instead of raising.
    os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
    with _answers():
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
            timeout=timedelta(seconds=TIMEOUT_S),
            **given,
        )
    try:
        yield ProcessGroup()
        with suppress(LostProcessError), _answers():
            dist.barrier()  # nobody leaves before all have received the last message
    finally:
        dist.destroy_process_group()


@contextmanager
def _answers() -> Iterator[None]:
    """Turn what torch raises where a process is gone into one sentence."""
    try:
        yield
    except RuntimeError as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise LostProcessError(
            f"another process of the run has ended or does not answer ({reason}); continue the "
            f"run with --resume"
        ) from error
