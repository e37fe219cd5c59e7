"""numba's `njit`, which also works where no folder for compiled code can be written."""

import atexit
import shutil
import tempfile
import warnings

import numba


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
njit = numba.njit
"""Compile a function; see numba."""
