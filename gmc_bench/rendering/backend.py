"""OpenGL context without a window: the source of all pixels."""

import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from gmc_bench.core.errors import ConfigError

VARIABLE = "MUJOCO_GL"
"""Environment variable with which a user chooses the backend, as for MuJoCo itself."""
BACKENDS = ("osmesa", "egl", "glfw")
INSTALL_OSMESA = "install libOSMesa (Debian: apt-get install libosmesa6)"
# A library that is missing shows as any of these, depending on the backend.
_MISSING = (ImportError, AttributeError, OSError, RuntimeError, TypeError)


def choose_backend(environ: Mapping[str, str] = os.environ) -> str:
    """Choose how pictures are drawn.

    Args:
        environ: environment variables.

    Returns:
        What `MUJOCO_GL` says. If it is unset: `glfw` (a hidden window) where there is a display,
        `osmesa` (on the processor) where its library is found, else `egl`, which needs a GPU.

    Raises:
        ConfigError: `MUJOCO_GL` names no backend.
    """
    wanted = environ.get(VARIABLE, "").lower().strip()
    if wanted:
        if wanted not in BACKENDS:
            raise ConfigError(
                f"{VARIABLE} is {wanted!r}, expected one of {', '.join(BACKENDS)}; unset it to let "
                f"gmc-bench choose"
            )
        return wanted
    if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"):
        return "glfw"
    from ctypes.util import find_library  # late: every command imports this module

    return "osmesa" if find_library("OSMesa") else "egl"


def import_engine() -> None:
    """Import MuJoCo, which opens the library that `MUJOCO_GL` names; do this before anything else.

    Raises:
        ConfigError: `MUJOCO_GL` names no backend, or one whose library is not there.
    """
    backend = choose_backend()
    try:
        import_module("mujoco")
    except _MISSING as error:
        raise _refusal(backend, error) from error


def with_engine(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns.

    MuJoCo opens the library that `MUJOCO_GL` names when it is first imported, even where nothing
    is drawn.

    Raises:
        ConfigError: MuJoCo could not be imported with what `MUJOCO_GL` names.
    """
    try:
        return function(*arguments)
    except _MISSING as error:
        backend = os.environ.get(VARIABLE)
        frames = traceback.walk_tb(error.__traceback__)
        modules = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
        opening = any(re.match(r"mujoco\.(.+\.)?gl_context$", name) for name in modules)
        if not backend or "mujoco" in sys.modules or not opening:
            raise
        raise ConfigError(
            f"MuJoCo cannot be loaded with {VARIABLE}={backend} ({_reason(error)}); unset it, or "
            f"{INSTALL_OSMESA} and set it to osmesa"
        ) from error


def open_context(width: int, height: int) -> Any:
    """Open a context and make it the current one.

    MuJoCo's own renderer settles on a backend when the package is first imported, and the
    simulator imports it before anything is drawn. Hence this choice of our own, made when needed.

    Args:
        width: of the pictures, pixels.
        height: of the pictures, pixels.

    Returns:
        The context; call its `free` when done.

    Raises:
        ConfigError: nothing can be drawn on this machine.
    """
    backend = choose_backend()
    import mujoco

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # glfw's; what they are about fails below
            context = import_module(f"mujoco.{backend}").GLContext(width, height)
            context.make_current()
        # A context that cannot be drawn with is noticed only here.
        empty = mujoco.MjModel.from_xml_string("<mujoco/>")
        mujoco.MjrContext(empty, mujoco.mjtFontScale.mjFONTSCALE_100.value).free()
    except (*_MISSING, mujoco.FatalError) as error:
        raise _refusal(backend, error) from error
    return context


def _refusal(backend: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"no picture can be drawn with {VARIABLE}={backend} ({_reason(error)}); "
        f"{INSTALL_OSMESA}, or set {VARIABLE} to another of {', '.join(BACKENDS)}"
    )


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
