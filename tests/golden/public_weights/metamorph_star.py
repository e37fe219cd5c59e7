"""Weights of the public implementation, for comparisons."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gmc_bench.core.types import Array
from tests.golden.public_weights.metamorph import transformer_settings, transformer_weights

if TYPE_CHECKING:
    from torch import Tensor


def from_reference(weights: Mapping[str, Array]) -> "dict[str, Tensor]":
    """Return the state dict of `MetaMorphStar` that holds the reference's weights.

    For the names see `transformer_weights`.
    """
    return transformer_weights(weights)


def settings_from_reference(weights: Mapping[str, Array]) -> dict[str, Any]:
    """Return the changes to `MetaMorphStarConfig` that make the network fit the weights.

    But for `num_heads`, which weights do not tell.
    """
    return transformer_settings(weights)
