"""Reading of files that may come from strangers: by plain names, up to a size."""

import errno
import os
from pathlib import Path
from typing import Any

MOST_BYTES = 64 * 2**20
"""Size of the largest text file that is read; those of this package have a few MiB at most."""
_PART_BYTES = 2**20


def read_limited(path: Path) -> bytes:
    """Return the content of a file of text.

    Raises:
        OSError: it cannot be read, or has more than `MOST_BYTES`.
    """
    data = bytearray()
    with path.open("rb") as file:
        # Its size says little: devices and pipes state none, and another process may add to it.
        while part := file.read(_PART_BYTES):
            data += part
            if len(data) > MOST_BYTES:
                raise OSError(errno.EFBIG, f"more than {MOST_BYTES // 2**20} MiB", os.fspath(path))
    return bytes(data)


def listed_file(folder: Path, name: Any, suffix: str) -> Path:
    """Return a file that a list in its folder names.

    Args:
        folder: of the list.
        name: what the list says.
        suffix: what it must end in.

    Raises:
        ValueError: it is no plain name, so that it may lead elsewhere, or names no file, such as a
            pipe that nobody writes to.
    """
    if not isinstance(name, str) or Path(name).name != name or not name.endswith(suffix):
        raise ValueError(f"{name!r:.80} is no name of a file {suffix}")
    path = folder / name
    if path.exists() and not path.is_file():
        raise ValueError(f"{name} is no regular file")
    return path
