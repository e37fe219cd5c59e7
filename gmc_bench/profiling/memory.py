"""How much memory the results inside a piece of code take at most."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode


class PeakMemory(TorchDispatchMode):
    """Record the largest number of bytes that tensors made inside the block hold at one time.

    Counted per storage, so views are free; what existed before, such as weights and inputs, is
    not counted, nor is scratch memory inside an operation. Exact and the same on every machine,
    unlike the size of the process.

        with PeakMemory() as peak:
            network(tokens)
        print(peak.nbytes)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nbytes = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operation and count its results."""
        before = {value.untyped_storage()._cdata for value in _tensors((args, kwargs))}
        found = func(*args, **(kwargs or {}))
        # Storages whose last tensor is gone are released before new ones are counted.
        self._alive = {
            key: (reference, size)
            for key, (reference, size) in self._alive.items()
            if not reference.expired()  # type: ignore[no-untyped-call]
        }
        for value in _tensors(found):
            storage = value.untyped_storage()
            if storage._cdata not in before:
                reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
                self._alive[storage._cdata] = (reference, storage.nbytes())
        self.nbytes = max(self.nbytes, sum(size for _, size in self._alive.values()))
        return found


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        yield from _tensors(tuple(values.values()))
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _tensors(value)
