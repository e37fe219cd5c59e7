"""Every exception of the package.

Each message is one sentence that says what was got, what was expected and how to fix it.
The command line prints it and exits with `GmcBenchError.exit_code`.
"""

import difflib
import errno
from collections.abc import Callable, Iterable
from typing import Any

LONGEST = 3000
"""Characters of a message; what is longer shows an input that is not worth reading."""


class GmcBenchError(Exception):
    """Base class of the package's errors."""

    exit_code = 2

    def __str__(self) -> str:
        """Return the sentence, without the middle of one that quotes a very long input."""
        text = super().__str__()
        if len(text) <= LONGEST:
            return text
        half = LONGEST // 2
        return f"{text[:half]} [{len(text) - 2 * half:,} characters left out] {text[-half:]}"


class ConfigError(GmcBenchError):
    """A configuration value, key or file cannot be used."""


class UnknownNameError(GmcBenchError):
    """A name is not registered."""


class PluginError(GmcBenchError):
    """A registered name exists but could not be loaded, or breaks its contract."""


class MorphologyError(GmcBenchError):
    """A robot body cannot be read, is not a tree, or cannot be driven."""


class MorphologySetError(GmcBenchError):
    """A set of bodies is missing, damaged, or does not match its pinned hash."""


class TokenOverflowError(GmcBenchError):
    """A body has more limbs or joints than the token layout has slots."""


class RunFolderError(GmcBenchError):
    """A run folder is in use, incomplete, or not a run folder."""


class CheckpointError(GmcBenchError):
    """A checkpoint is damaged or belongs to another run."""


class RecordError(GmcBenchError):
    """A result record is invalid."""


class StorageError(GmcBenchError):
    """No file could be written or no process started; nothing written earlier was touched."""


class TrainingDivergedError(GmcBenchError):
    """Weights became infinite or not a number; what follows would not be a measurement."""


def reject_unknown(given: Iterable[object], known: Iterable[str], owner: str) -> None:
    """Raise for a name that is not known.

    Args:
        given: names, as they came.
        known: the names that exist.
        owner: of the names, e.g. `a sweep`.

    Raises:
        ConfigError: one of them does not exist.
    """
    names = set(known)
    for name in given:
        if name not in names:
            raise ConfigError(f"{owner} has no {name!r}{did_you_mean(str(name), names)}")


_CLOSED = (errno.EACCES, errno.ENAMETOOLONG, errno.EPERM)
"""Error numbers with which a system denies access to a path."""


def with_open_paths(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns.

    Raises:
        ConfigError: the system denied it access to a path, which is another user's or too long.
    """
    try:
        return function(*arguments)
    except OSError as error:
        if error.errno not in _CLOSED or error.filename is None:
            raise
        raise ConfigError(
            f"cannot look at {error.filename}: {error.strerror}; give a path that you may use"
        ) from error


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """Return `"; did you mean 'x'?"` for the closest known name, or the list of known names.

    Args:
        name: the name that was not found.
        known: the names that exist.
        prefix: put before the names that are shown; it does not count for what is close.

    Returns:
        A clause that continues an error sentence; empty when nothing is known.
    """
    names = sorted(known)
    close = [other for other in names if other.lower() == str(name).lower()]
    close = close or difflib.get_close_matches(str(name), names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {prefix + close[0]!r}?"
    return f"; known: {', '.join(prefix + name for name in names)}" if names else ""
