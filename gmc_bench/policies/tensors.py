"""Named arrays as safetensors."""

import json
from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from gmc_bench.core.errors import CheckpointError
from gmc_bench.core.types import Array

_DESCRIPTION = "gmc_bench"
"""Name of the description in the file's head."""


class DamagedFileError(CheckpointError):
    """A file is not what was written."""


def encode_tensors(tensors: dict[str, Array], description: Any = None) -> bytes:
    """Return arrays as safetensors; the same arguments always give the same bytes.

    Args:
        tensors: the arrays.
        description: a JSON value that goes into the file's head, if one is given.
    """
    # One entry: the order of several differs from call to call.
    head = None if description is None else {_DESCRIPTION: json.dumps(description, sort_keys=True)}
    data: bytes = save_tensors({name: tensors[name].copy() for name in sorted(tensors)}, head)
    return data


def read_description(data: bytes, origin: Any) -> Any:
    """Return the description in the head of safetensors data; `None` without one.

    Raises:
        DamagedFileError: the head cannot be read; the message names `origin`.
    """
    size = int.from_bytes(data[:8], "little")
    try:
        text = json.loads(data[8 : 8 + size]).get("__metadata__", {}).get(_DESCRIPTION)
        return None if text is None else json.loads(text)
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise _unreadable(origin, error) from error


def decode_tensors(data: bytes, origin: Any) -> dict[str, Array]:
    """Return the arrays of safetensors data.

    Raises:
        DamagedFileError: the data is not safetensors; the message names `origin`.
    """
    try:
        tensors: dict[str, Array] = load_tensors(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise _unreadable(origin, error) from error
    return tensors


def _unreadable(origin: Any, error: Exception) -> DamagedFileError:
    return DamagedFileError(
        f"{origin} is not a readable safetensors file ({error}); restore it from where it came from"
    )
