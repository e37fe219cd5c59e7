"""Ways to compile the networks of a method that is checked."""

import os
import shutil
import sys

from gmc_bench.core.errors import ConfigError

BACKENDS = ("inductor", "aot_eager", "none")
"""Fully, traced only (some seconds per network), not at all."""


def choose_backend(wanted: str | None = None) -> tuple[str, str]:
    """Return how to compile, fully by default where that is possible, and why if it is not.

    Raises:
        ConfigError: full compilation is asked for where there is no C++ compiler.
    """
    if wanted in ("aot_eager", "none"):
        return wanted, ""
    # This is where torch looks for one.
    compiler = os.environ.get("CXX") or {"darwin": "clang++", "win32": "cl"}.get(
        sys.platform, "g++"
    )
    if shutil.which(compiler) is not None:
        return "inductor", ""
    if wanted is None:
        why = f"no C++ compiler {compiler!r} found: compiling with aot_eager, which needs none"
        return "aot_eager", why
    raise ConfigError(
        f"--backend inductor needs a C++ compiler, but {compiler!r} was not found; install it, "
        f"name another one in the variable CXX, or use --backend aot_eager"
    )
