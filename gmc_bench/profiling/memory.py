"""How much memory the results inside a piece of code take at most."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class PeakMemory(TorchDispatchMode):
    """Record the largest number of bytes that tensors made inside the block hold at one time.

    Counted per storage, so views are free; what existed before, such as weights and inputs, is
    not counted, nor is scratch memory inside an operation. Exact and the same on every machine,
    unlike the size of the process. A storage says itself when it goes, so that the time is linear
    in the operations.

        with PeakMemory() as peak:
            network(tokens)
        print(peak.nbytes)
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.nbytes = 0
        self._alive: dict[int, int] = {}
        self._total = 0

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
        for value in _tensors(found):
            storage = value.untyped_storage()
            key = storage._cdata
            if key not in before and key not in self._alive:
                self._alive[key] = storage.nbytes()
                self._total += self._alive[key]
                weakref.finalize(storage, self._forget, key).atexit = False
        self.nbytes = max(self.nbytes, self._total)
        return found

    def _forget(self, key: int) -> None:
        self._total -= self._alive.pop(key, 0)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        yield from _tensors(tuple(values.values()))
    elif isinstance(values, (tuple, list)):
        for value in values:
            yield from _tensors(value)
