"""numba's `njit` for code that calls code of other files, and where no folder can be written."""

import atexit
import hashlib
import inspect
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba

_CALLED = tuple(Path(__file__).parents[1] / name for name in ("nn", "sim"))
"""Folders with compiled functions that those of other folders call."""


def _nothing() -> None:
    """Stand for any function of this package."""


def _require_cache() -> None:
    """Give numba a cache folder of this process's own where it has none and would not compile.

    That is so where neither the package nor the user's home can be written, as in containers that
    run as another user. The folder is not shared, because whoever can write compiled code can run
    any code.
    """
    try:
        numba.njit(cache=True)(_nothing)
    except RuntimeError:
        folder = tempfile.mkdtemp(prefix="gmc-bench-numba-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        numba.config.CACHE_DIR = folder
        warnings.warn(
            "numba can write neither to this package nor to the home folder, so every process "
            "compiles anew (half a minute); set NUMBA_CACHE_DIR to a folder that can be written",
            stacklevel=1,
        )


_require_cache()


def njit(**options: Any) -> Callable[[Any], Any]:
    """Return numba's `njit`, with a cache on disk that outlives no change of what is called.

    Compiled code contains that of the functions it calls and the values of constants, but numba
    compiles it anew only when its own file changes. So after an update, old code would go on being
    used, or fail because a class has another name. Here it is also compiled anew when another file
    of its folder or of `_CALLED` has changed, except in a zip file.

    Args:
        options: of `numba.njit`.
    """

    def compile_(function: Any) -> Any:
        found = numba.njit(**options)(function)
        file = getattr(getattr(found, "_cache", None), "_cache_file", None)
        if file is not None:  # it is without `cache`, or if numba is switched off
            own = Path(inspect.getfile(function)).parent
            # What follows the version in an index of compiled code is read only if this is equal.
            file._version = " ".join([file._version, *map(_digest, dict.fromkeys((own, *_CALLED)))])
        return found

    return compile_


@cache
def _digest(folder: Path) -> str:
    """Return a digest of all Python files of a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.glob("[!.]*.py")):  # not what editors put beside open files
        with suppress(OSError):  # if one vanishes or cannot be read, it is not imported either
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()
