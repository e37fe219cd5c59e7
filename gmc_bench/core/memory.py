"""Memory that is left on this machine, and what processes take of it."""

import contextlib
import resource
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CONTAINER = Path("/sys/fs/cgroup")
"""Limits of the control group of a container, as it sees them itself."""


def available_memory() -> int | None:
    """Return the bytes that new processes can have, `None` where the system does not say."""
    free = _meminfo(_MEMINFO)
    try:  # of a container
        limit = int((_CONTAINER / "memory.max").read_text(encoding="ascii"))
        used = int((_CONTAINER / "memory.current").read_text(encoding="ascii"))
    except (OSError, ValueError):  # none, or no limit
        return free
    used -= _page_cache(_CONTAINER / "memory.stat")
    return limit - used if free is None else min(free, limit - used)


def _page_cache(path: Path) -> int:
    """Return the bytes of inactive page cache, which the system frees when others need it."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    found = [line.split()[1] for line in lines if line.startswith("inactive_file ")]
    return int(found[0]) if found else 0


def _meminfo(path: Path) -> int | None:
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def memory_of(pid: int) -> int:
    """Return the resident memory of a process and of all that it started, bytes.

    It is 0 where the system does not say.
    """
    place = Path(f"/proc/{pid}")
    try:
        pages = int((place / "statm").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * resource.getpagesize() + sum(map(memory_of, _children(place)))


def _children(place: Path) -> list[int]:
    """Return the processes that the threads of one have started, given its folder in /proc."""
    found: list[int] = []
    for path in place.glob("task/*/children"):
        with contextlib.suppress(OSError, ValueError):  # the thread has ended
            found += map(int, path.read_text(encoding="ascii").split())
    return found
