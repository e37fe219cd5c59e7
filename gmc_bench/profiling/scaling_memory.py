"""The same count as `PeakMemory` for code of very many operations."""

import weakref
from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

from gmc_bench.profiling.memory import _tensors


class QuickPeakMemory(TorchDispatchMode):
    """Record the largest number of bytes that tensors made inside the block hold at one time.

    What counts is what `PeakMemory` says. That looks at all living tensors after every operation,
    which takes quadratic time in a loop over a thousand limbs whose gradient keeps each step; here
    a storage says itself when it goes.
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
