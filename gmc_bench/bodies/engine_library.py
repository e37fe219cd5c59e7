"""The shared library inside the mujoco wheel, with its log file switched off.

By default MuJoCo writes `MUJOCO_LOG.TXT` into the working folder of whoever runs it. Warnings are
counted and reported by this package, errors are raised by the wheel, so the file is switched off.
"""

import ctypes
from functools import cache
from pathlib import Path

import mujoco

from gmc_bench.core.errors import PluginError


class _LogConfig(ctypes.Structure):
    """`mjLogConfig` of MuJoCo 3.17."""

    _fields_ = (
        ("logto_console", ctypes.c_bool),
        ("logto_file", ctypes.c_bool),
        ("logfile", ctypes.c_char * 1024),
        ("topics", ctypes.c_int),
    )


@cache
def engine_library() -> ctypes.CDLL:
    """Return the library that the wheel loaded, with its log file switched off.

    Raises:
        PluginError: it is not where the wheel of this MuJoCo version puts it.
    """
    folder = Path(mujoco.__file__).parent
    candidates = sorted(folder.glob("libmujoco.so*")) + sorted(folder.glob("libmujoco*.dylib"))
    if not candidates:
        raise PluginError(
            f"no MuJoCo library in {folder}; reinstall the mujoco wheel "
            f"(batched stepping supports Linux and macOS)"
        )
    library = ctypes.CDLL(str(candidates[0]))
    library.mju_getLogConfig.restype = _LogConfig
    library.mju_setLogConfig.argtypes = [_LogConfig]
    library.mju_setLogConfig.restype = None
    config = library.mju_getLogConfig()
    config.logto_file = False
    library.mju_setLogConfig(config)
    return library
