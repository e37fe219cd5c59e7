"""Output of the verbs: results to stdout, everything else to stderr."""

import contextlib
import json
import os
import sys
from typing import Any

from gmc_bench.core.errors import StorageError


def say(text: str = "") -> None:
    """Write one line of results to stdout.

    Raises:
        BrokenPipeError: the reader has gone.
        StorageError: it cannot be written for another reason.
    """
    if sys.stdout is None:  # closed before Python started
        raise StorageError("cannot write the results: stdout is closed; send it to a file")
    try:
        encoding = sys.stdout.encoding or "utf-8"  # which need not have every letter of a path
        sys.stdout.write(f"{text.encode(encoding, 'backslashreplace').decode(encoding)}\n")
        sys.stdout.flush()
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        discard_stdout()
        raise StorageError(
            f"cannot write the results to stdout: {error.strerror}; send it elsewhere"
        ) from error


def discard_stdout() -> None:
    """Send what is still to be written to stdout nowhere, so that it fails no more."""
    with contextlib.suppress(OSError, ValueError):  # no real file, as in tests
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_json(content: Any) -> None:
    """Write one JSON document to stdout."""
    say(json.dumps(content, indent=2))


def note(text: str) -> None:
    """Write one line about what is going on to stderr, which does not fail (see `main`)."""
    sys.stderr.write(f"{text}\n")
