"""Measurements in a process of their own, which is ended when one needs too much."""

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from gmc_bench.core.errors import GmcBenchError
from gmc_bench.core.interruption import leave_to_parent
from gmc_bench.profiling.memory import resident_bytes

POLL_SECONDS = 0.02
_GIB = 2**30
_ALLOCATION = "can't allocate memory"
"""What torch says when the system refuses memory."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one measurement may take."""

    max_bytes: float
    """Resident memory of the process, its libraries included; watched where there is /proc."""
    max_seconds: float


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """Why there is no number."""

    reason: str
    lasting: bool = True
    """Whether another attempt would end the same; not where the process was lost."""


MeasuredOrNot = dict[str, float] | NotMeasured


def measure_in_process(
    measure: Callable[[Any], dict[str, float]], items: Sequence[Any], limits: Limits
) -> Generator[MeasuredOrNot, None, None]:
    """Measure items one after the other in one new process.

    Args:
        measure: from an item to its figures; a function of a module, because the process is a
            fresh one.
        items: what to measure; each can be pickled.
        limits: of every single item; loading the packages does not count.

    Yields:
        The outcome of each item, in order. After the first `NotMeasured` there are no others: the
        process is gone, or no longer clean.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, measure, items), daemon=True)
    process.start()
    theirs.close()
    assert process.pid is not None
    try:
        ours.poll(None)  # packages are loaded
        try:
            ours.recv()
        except EOFError:
            yield NotMeasured("the process did not start", lasting=False)
            return
        for _ in items:
            found = _receive(ours, process.pid, limits)
            yield found
            if isinstance(found, NotMeasured):
                return
    finally:
        process.kill()
        process.join()
        ours.close()


def _receive(connection: Connection, pid: int, limits: Limits) -> MeasuredOrNot:
    """Wait for the next result, and no longer than the limits allow."""
    until = time.monotonic() + limits.max_seconds
    while not connection.poll(POLL_SECONDS):
        if (resident_bytes(pid) or 0) > limits.max_bytes:
            return _too_much_memory(limits)
        if time.monotonic() > until:
            return NotMeasured(f"more than {limits.max_seconds:g} s")
    try:
        found = connection.recv()
    except EOFError:
        return NotMeasured("the process was ended from outside", lasting=False)
    if isinstance(found, dict):
        return found
    return _too_much_memory(limits) if found == _ALLOCATION else NotMeasured(found)


def _too_much_memory(limits: Limits) -> NotMeasured:
    return NotMeasured(f"more than {limits.max_bytes / _GIB:g} GiB of process memory")


def _work(
    connection: Connection, measure: Callable[[Any], dict[str, float]], items: Sequence[Any]
) -> None:
    """Measure until the first failure; what went wrong is sent as text."""
    leave_to_parent()
    # A parent that was killed reads no more.
    with contextlib.suppress(BrokenPipeError):
        connection.send({})
        for item in items:
            try:
                found: dict[str, float] | str = measure(item)
            except GmcBenchError as error:
                found = str(error)
            except MemoryError:
                found = _ALLOCATION
            except Exception as error:  # noqa: BLE001 - a method may fail in any way at any size
                text = " ".join(f"{type(error).__name__}: {error}".split())
                found = _ALLOCATION if _ALLOCATION in text else f"failed with {text[:200]}"
            connection.send(found)
            if isinstance(found, str):
                return
