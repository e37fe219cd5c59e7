"""Weights of the public implementation, for comparisons."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gmc_bench.conformance.reference import transformer_settings, transformer_weights
from gmc_bench.core.types import Array

if TYPE_CHECKING:
    from torch import Tensor

_POSITIONS = "pos_embedding.pe"


def from_reference(weights: Mapping[str, Array]) -> "dict[str, Tensor]":
    """Return the state dict of `MetaMorph` that holds the reference's weights.

    `pos_embedding.pe` (L, 1, width) becomes `positions` (L, width); for all other names see
    `transformer_weights`.
    """
    found = transformer_weights(weights)
    if _POSITIONS in found:
        found["positions"] = found.pop(_POSITIONS).squeeze(1)
    return found


def settings_from_reference(weights: Mapping[str, Array]) -> dict[str, Any]:
    """Return the changes to `MetaMorphConfig` that make the network fit the weights.

    But for `num_heads`, which weights do not tell.
    """
    return {
        **transformer_settings(weights),
        "positions": _POSITIONS in weights,
    }
