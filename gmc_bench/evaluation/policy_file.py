"""The file that makes a trained policy usable: weights and observation statistics."""

import torch

from gmc_bench.core.errors import CheckpointError
from gmc_bench.core.types import Array
from gmc_bench.envs.normalization import TokenNormalizer
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.tokens import TokenTable
from gmc_bench.tokens.table import MorphologyTable

_MODEL = "model."
_NORMALIZER = "normalizer."


def policy_tensors(model: ActorCritic, normalizer: TokenNormalizer) -> dict[str, Array]:
    """Return weights and statistics as named arrays.

    Statistics of separate bodies have a first dimension over bodies, as their weights have.
    """
    tensors = {
        f"{_MODEL}{name}": value.detach().cpu().numpy()
        for name, value in model.state_dict().items()
    }
    tensors |= {f"{_NORMALIZER}{name}": value for name, value in normalizer.state_dict().items()}
    return tensors


def load_policy_tensors(
    tensors: dict[str, Array], model: ActorCritic, normalizer: TokenNormalizer, origin: str
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
    model.load_state_dict(
        {
            name.removeprefix(_MODEL): torch.from_numpy(value.copy())
            for name, value in tensors.items()
            if name.startswith(_MODEL)
        }
    )
    normalizer.load_state_dict(
        {
            name.removeprefix(_NORMALIZER): value
            for name, value in tensors.items()
            if name.startswith(_NORMALIZER)
        }
    )


def token_table(
    table: MorphologyTable, normalizer: TokenNormalizer, device: torch.device | str = "cpu"
) -> TokenTable:
    """Return the bodies' fixed part as networks see it, normalised, on a device."""
    return TokenTable(
        spec=table.spec,
        context=torch.from_numpy(normalizer.normalize_context(table)),
        scaled_context=torch.from_numpy(normalizer.scale_context(table)),
        limb_padding_mask=torch.from_numpy(table.limb_padding_mask),
        action_padding_mask=torch.from_numpy(table.action_padding_mask),
        parents=torch.from_numpy(table.parents),
        num_limbs=torch.from_numpy(table.num_limbs),
        loops=None if table.loops is None else torch.from_numpy(table.loops),
    ).to(device)
