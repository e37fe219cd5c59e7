"""Keeps the C library from giving memory back between updates."""

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_MMAP_THRESHOLD = 32 * 2**20
"""glibc takes no higher one on 64-bit machines."""


def keep_freed_memory() -> bool:
    """Let this process keep memory that it has freed, for the next allocation.

    An update makes and drops the same tensors of some megabytes again and again. By default glibc
    maps such blocks anew each time, and the kernel fills every page with zeros on first touch: up
    to a quarter of an update. The price is that the process stays as large as it ever was.

    Returns:
        Whether anything was changed; other C libraries are left alone.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        library = ctypes.CDLL("libc.so.6")
        mallopt = library.mallopt
    except (OSError, AttributeError):
        return False
    settings = {_M_MMAP_THRESHOLD: _LARGEST_MMAP_THRESHOLD, _M_TRIM_THRESHOLD: 2**31 - 1}
    return all([mallopt(option, value) == 1 for option, value in settings.items()])
