"""Arguments that users give from Python: checked at the door, where a mistake is still theirs."""

import contextlib
import os
from pathlib import Path
from typing import Any

from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError


def as_path(given: Any, what: str) -> Path:
    """Return the path that a user named; `~` stands for the home folder.

    Args:
        given: text or a path.
        what: it shall be, e.g. `the folder of a run`, for messages.

    Raises:
        ConfigError: it is something else, or names nothing.
    """
    named = isinstance(given, (str, os.PathLike)) and isinstance(os.fspath(given), str)
    if not named or not os.fspath(given) or "\0" in os.fspath(given):
        raise ConfigError(f"{what} must be named by text or a path, got {shown(given)}")
    path = Path(given)
    with contextlib.suppress(RuntimeError):  # nobody has that name: a folder may
        path = path.expanduser()
    return path


def require_instance(given: Any, kind: type[Any], what: str, fix: str) -> None:
    """Raise unless an argument is of a class.

    Args:
        given: the argument.
        kind: its class.
        what: needs it, e.g. `an environment`, for messages.
        fix: half a sentence that says where to get one.

    Raises:
        ConfigError: it is something else.
    """
    if not isinstance(given, kind):
        raise ConfigError(f"{what} needs a {kind.__name__}, got {shown(given)}; {fix}")
