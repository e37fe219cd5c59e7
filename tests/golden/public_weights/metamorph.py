"""Weights of the public implementation, for comparisons."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gmc_bench.core.types import Array

if TYPE_CHECKING:
    from torch import Tensor

_POSITIONS = "pos_embedding.pe"
_LAYER = re.compile(r"transformer_encoder\.layers\.(\d+)\.")
# Linear layers and ReLUs alternate in these two, so that linear layers have even numbers.
_DECODER = re.compile(r"decoder\.(\d+)\.")
_HEIGHT_MAP = re.compile(r"hfield_encoder\.encoder\.(\d+)\.")


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


def transformer_weights(weights: Mapping[str, Array]) -> "dict[str, Tensor]":
    """Rename the parameters that the transformers of the UNIMAL code bases have in common.

    | reference | here |
    |---|---|
    | `limb_embed.*` | `embedding.*` |
    | `transformer_encoder.layers.<i>.*` | `layers.<i>.*` |
    | `hfield_encoder.encoder.<2i>.*` | `decoder.height_map.layers.<i>.*` |
    | `decoder.<2i>.*`, but the last one | `decoder.hidden.<i>.*` |
    | the last `decoder.<2i>.*` | `decoder.output.*` |

    Args:
        weights: parameters under the reference's names.

    Returns:
        Copies of all of them; those that the table does not name keep their names.
    """
    import torch

    last = max(_indices(weights, _DECODER))

    def rename(name: str) -> str:
        name = re.sub(r"^limb_embed\.", "embedding.", name)
        name = re.sub(r"^transformer_encoder\.layers\.", "layers.", name)
        if found := _HEIGHT_MAP.match(name):
            return f"decoder.height_map.layers.{int(found[1]) // 2}.{name[found.end() :]}"
        if found := _DECODER.match(name):
            index = int(found[1])
            layer = "output" if index == last else f"hidden.{index // 2}"
            return f"decoder.{layer}.{name[found.end() :]}"
        return name

    return {rename(name): torch.tensor(value) for name, value in weights.items()}


def transformer_settings(weights: Mapping[str, Array]) -> dict[str, Any]:
    """Return the sizes of such a transformer: changes to its settings, without `num_heads`."""
    layers = _indices(weights, _LAYER)
    first = f"transformer_encoder.layers.{layers[0]}."
    decoder, height_map = _indices(weights, _DECODER), _indices(weights, _HEIGHT_MAP)
    settings: dict[str, Any] = {
        "width": len(weights["limb_embed.bias"]),
        "num_layers": len(layers),
        "feedforward": len(weights[f"{first}linear1.bias"]),
        "decoder_hidden": [len(weights[f"decoder.{i}.bias"]) for i in decoder[:-1]],
    }
    if height_map:
        widths = [len(weights[f"hfield_encoder.encoder.{i}.bias"]) for i in height_map]
        settings["height_map_hidden"] = widths
    return settings


def _indices(weights: Mapping[str, Array], pattern: re.Pattern[str]) -> list[int]:
    return sorted({int(found[1]) for name in weights if (found := pattern.match(name))})
