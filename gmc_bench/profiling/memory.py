"""Memory that tensors inside a piece of code take at most, and that of processes."""

import contextlib
import ctypes
import gc
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class PeakMemory(TorchDispatchMode):
    """Record the largest number of bytes that tensors made inside the block hold at one time.

    Counted per storage, so views are free; what existed before, such as weights and inputs, is
    not counted, nor is scratch memory inside an operation. Exact and the same on every machine,
    unlike the size of the process. Storages report when they are freed, so that the time is linear
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


def resident_bytes(pid: int | None = None) -> int | None:
    """Return the resident memory of a process, of this one by default; `None` without /proc."""
    try:
        pages = Path(f"/proc/{pid or os.getpid()}/statm").read_text(encoding="ascii").split()[1]
    except (OSError, IndexError):
        return None
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def start_peak() -> None:
    """Give freed memory back to the system, and let `peak_resident_bytes` start from here.

    Where the system cannot do either (it takes glibc and /proc), peaks are those of the whole
    process.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_resident_bytes() -> int | None:
    """Return the largest resident memory since `start_peak`; `None` without /proc."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    return 1024 * found[0] if found else None
