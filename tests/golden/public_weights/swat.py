"""Weights of the public implementation, for comparisons."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gmc_bench.core.types import Array
from tests.golden.public_weights.metamorph import transformer_settings, transformer_weights

if TYPE_CHECKING:
    from torch import Tensor

_BIAS = re.compile(r"^layers\.(\d+)\.RE_encoder\.")
_TABLE = re.compile(r"^swat_PE_encoder\.swat_pe\.")


def from_reference(weights: Mapping[str, Array]) -> "dict[str, Tensor]":
    """Return the state dict of `Swat` that holds the reference's weights.

    `swat_PE_encoder.swat_pe.<k>.*` becomes `tree.tables.<k>.*`, and
    `transformer_encoder.layers.<i>.RE_encoder.*` becomes `tree.relation_bias.<i>.*`; for all
    other names see `transformer_weights`.
    """

    def rename(name: str) -> str:
        return _TABLE.sub("tree.tables.", _BIAS.sub(r"tree.relation_bias.\1.", name))

    return {rename(name): value for name, value in transformer_weights(weights).items()}


def settings_from_reference(weights: Mapping[str, Array]) -> dict[str, Any]:
    """Return the changes to `SwatConfig` that make the network fit the weights.

    The relation bias has one row per attention head.
    """
    heads = len(weights["transformer_encoder.layers.0.RE_encoder.bias"])
    return {**transformer_settings(weights), "num_heads": heads}
