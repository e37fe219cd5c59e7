"""Stored activations of public implementations, to hold a re-implementation against.

A file holds the weights of one small network under the reference's own names, its inputs and its
outputs. Nothing about its sizes is assumed: they follow from the shapes of the arrays.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gmc_bench.conformance.tokens import select
from gmc_bench.core.types import Array
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.tokens.spec import TokenSpec

FOLDER_VARIABLE = "GMC_REFERENCE_DIR"
"""Environment variable that names the folder of the files."""
DEFAULT_HEADS = 2
"""Attention heads of a network whose file does not say (as input `num_heads`); weights do not."""


@dataclass(frozen=True, kw_only=True)
class ReferenceCase:
    """One network of a public implementation: weights, inputs, outputs."""

    name: str
    """Name of the file, without its ending."""
    weights: dict[str, Array]
    """Parameters under the reference's names."""
    inputs: dict[str, Array]
    """Everything that went in, also what `tokens` does not hold, such as node types."""
    outputs: dict[str, Array]
    """`per_limb` (B, L, num_outputs) float32; compare real limbs only."""
    tokens: TokenBatch
    """The same inputs as tokens; every environment has a body of its own in the table."""

    @property
    def num_outputs(self) -> int:
        """Numbers per limb."""
        return int(self.outputs["per_limb"].shape[-1])

    @property
    def num_heads(self) -> int:
        """Attention heads."""
        return int(self.inputs.get("num_heads", DEFAULT_HEADS))

    def largest_error(self, network: nn.Module) -> tuple[float, float]:
        """Return the largest absolute differences of a network's outputs on real limbs.

        Args:
            network: maps tokens to (B, L, num_outputs); is put into evaluation mode.

        Returns:
            The difference with all bodies in one batch, and with every body alone.
        """
        network.eval()
        expected = torch.from_numpy(self.outputs["per_limb"])
        with torch.no_grad():
            together = network(self.tokens)
            alone = [network(select(self.tokens, [row])) for row in range(len(self.tokens))]
        real = ~self.tokens.limb_padding_mask
        first, second = (
            float((found - expected)[real].abs().max()) for found in (together, torch.cat(alone))
        )
        return first, second


def reference_folder() -> Path:
    """Return the folder of the files; it need not exist."""
    default = Path(__file__).parents[3] / "shared" / "reference"
    return Path(os.environ.get(FOLDER_VARIABLE, default))


def reference_files(prefixes: Sequence[str]) -> list[Path]:
    """Return the files whose name starts with one of `prefixes`, sorted; empty without a folder."""
    return sorted(
        path for path in reference_folder().glob("*.npz") if path.stem.startswith(tuple(prefixes))
    )


def read_reference(path: Path) -> ReferenceCase:
    """Read one file.

    Args:
        path: an `.npz` file with the keys `w:<name>`, `in:<name>` and `out:per_limb`; inputs are
            at least `tokens` (B, L, F), `token_padding_mask` (B, L) and `parents` (B, L), and may
            hold `context` (B, L, Fc) and `height_field` (B, G).
    """
    groups: dict[str, dict[str, Array]] = {"w": {}, "in": {}, "out": {}}
    with np.load(path) as file:
        for key in file.files:
            group, name = key.split(":", maxsplit=1)
            groups[group][name] = file[key]
    return ReferenceCase(
        name=path.stem,
        weights=groups["w"],
        inputs=groups["in"],
        outputs=groups["out"],
        tokens=_make_tokens(groups["in"]),
    )


def _make_tokens(inputs: dict[str, Array]) -> TokenBatch:
    arrays = {name: torch.from_numpy(value) for name, value in inputs.items()}
    features, padding = arrays["tokens"].float(), arrays["token_padding_mask"].bool()
    heights, scaled = arrays.get("height_field"), arrays.get("context")
    spec = _spec_of(
        features.shape[1], features.shape[2], 0 if heights is None else heights.shape[1]
    )
    context = features[..., torch.from_numpy(spec.context_indices)]
    table = TokenTable(
        spec=spec,
        context=context,
        scaled_context=torch.zeros_like(context) if scaled is None else scaled.float(),
        limb_padding_mask=padding,
        # The outputs are compared before actions are masked, so every limb may have all of them.
        action_padding_mask=padding.unsqueeze(-1).expand(-1, -1, spec.joints_per_limb),
        parents=arrays["parents"].long(),
        num_limbs=(~padding).sum(dim=1),
    )
    return TokenBatch(
        table,
        torch.arange(len(features)),
        features[..., torch.from_numpy(spec.dynamic_indices)],
        None if heights is None else heights.float(),
    )


def _spec_of(max_limbs: int, num_features: int, num_heights: int) -> TokenSpec:
    """Return the layout with that many features; each joint slot adds the same number."""
    joints = 1
    while TokenSpec(max_limbs, joints).num_features < num_features:
        joints += 1
    return TokenSpec(max_limbs, joints, num_heights)


def transformer_weights(weights: Mapping[str, Array]) -> dict[str, torch.Tensor]:
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


_LAYER = re.compile(r"transformer_encoder\.layers\.(\d+)\.")
# Linear layers and ReLUs alternate in these two, so that linear layers have even numbers.
_DECODER = re.compile(r"decoder\.(\d+)\.")
_HEIGHT_MAP = re.compile(r"hfield_encoder\.encoder\.(\d+)\.")


def _indices(weights: Mapping[str, Array], pattern: re.Pattern[str]) -> list[int]:
    return sorted({int(found[1]) for name in weights if (found := pattern.match(name))})
