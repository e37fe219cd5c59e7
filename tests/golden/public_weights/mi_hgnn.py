"""Weights of the public MI-HGNN code, under the names of this implementation."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gmc_bench.core.types import Array

if TYPE_CHECKING:
    from torch import Tensor


def from_reference(weights: Mapping[str, Array]) -> "dict[str, Tensor]":
    """Rename parameters of the public code, for `load_state_dict`.

    | public code | here |
    |---|---|
    | `encoder.lins.<type>.*` | the same |
    | `convs.<k>.convs.<relation>.lin_rel.*`, `.lin_root.*` | the same |
    | `decoder.*` | `decoder.output.*` |

    Args:
        weights: the state dict of the public code's network.

    Returns:
        The same numbers; nothing is dropped or reshaped.

    Source:
        lunarlab-gatech/Morphology-Informed-HGNN, commit 98e8768.
    """
    import torch

    return {
        name.replace("decoder.", "decoder.output.", 1): torch.as_tensor(value)
        for name, value in weights.items()
    }
