"""Named arrays as safetensors: weights and observation statistics of policies."""

from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from gmc_bench.core.errors import CheckpointError
from gmc_bench.core.types import Array
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.policies.normalization import TokenNormalizer

_MODEL = "model."
_NORMALIZER = "normalizer."


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


def policy_tensors(model: ActorCritic, normalizer: TokenNormalizer) -> dict[str, Array]:
    """Return weights and statistics as named arrays.

    Statistics of separate bodies have a first dimension over bodies, as their weights have.
    """
    tensors = {
        f"{_MODEL}{name}": value.detach().cpu().numpy()
        for name, value in model.state_dict().items()
    }
    return tensors | {f"{_NORMALIZER}{name}": v for name, v in normalizer.get_state().items()}


def load_policy_tensors(
    tensors: dict[str, Array], model: ActorCritic, normalizer: TokenNormalizer, origin: Any
) -> None:
    """Take over the arrays of `policy_tensors`.

    Raises:
        CheckpointError: names or shapes are those of another method; `origin` is named.
    """
    expected = {name: value.shape for name, value in policy_tensors(model, normalizer).items()}
    found = {name: value.shape for name, value in tensors.items()}
    if found != expected:
        differ = [name for name in expected | found if found.get(name) != expected.get(name)]
        if all(name.startswith(_NORMALIZER) and name in found for name in differ):
            raise CheckpointError(
                f"{origin} holds observation statistics of the shape {found[differ[0]]}, expected "
                f"{expected.get(differ[0])}; evaluate it with the version of the method that made "
                f"it"
            )
        raise CheckpointError(
            f"{origin} holds the weights of another method or other settings; use the folder of "
            f"the run that made them"
        )

    def part(prefix: str) -> dict[str, Array]:
        return {
            name.removeprefix(prefix): value
            for name, value in tensors.items()
            if name.startswith(prefix)
        }

    weights = {name: torch.from_numpy(value.copy()) for name, value in part(_MODEL).items()}
    model.load_state_dict(weights)
    normalizer.set_state(part(_NORMALIZER))
