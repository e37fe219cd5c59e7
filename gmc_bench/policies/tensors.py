"""Named arrays as safetensors."""

from typing import Any

from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from gmc_bench.core.errors import CheckpointError
from gmc_bench.core.types import Array


class DamagedFileError(CheckpointError):
    """A file is not what was written."""


def encode_tensors(tensors: dict[str, Array]) -> bytes:
    """Return arrays as safetensors; the same arrays always give the same bytes."""
    data: bytes = save_tensors({name: tensors[name].copy() for name in sorted(tensors)})
    return data


def decode_tensors(data: bytes, origin: Any) -> dict[str, Array]:
    """Return the arrays of safetensors data.

    Raises:
        DamagedFileError: the data is not safetensors; the message names `origin`.
    """
    try:
        tensors: dict[str, Array] = load_tensors(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedFileError(f"{origin} is not a readable safetensors file ({error})") from error
    return tensors
