"""Sizes and weights of the public implementation, for `gmc_baselines.modumorph.model`.

All shapes are the same on both sides: generated weights are (in, out), and attention layers stack
query, key and value as torch does. Only names differ:

| public name | here |
|---|---|
| `context_embed_attention.*` | `attention.context.layers.0.*` |
| `context_encoder_attention.<2k - 1>.*` | `attention.context.layers.<k>.*` |
| `transformer_encoder.layers.<k>.*` | `attention.layers.<k>.*` |
| `context_embed_HN.*` | `maps.context.layers.0.*` |
| `context_encoder_HN.<2k - 1>.*` | `maps.context.layers.<k>.*` |
| `hnet_embed_weight.*`, `hnet_embed_bias.*` | `maps.layers.0.weight.*`, `maps.layers.0.bias.*` |
| `hnet_decoder_weight.<k>.*` | `maps.layers.<k + 1>.weight.*` |
| `hnet_decoder_bias.<k>.*` | `maps.layers.<k + 1>.bias.*` |
| `hfield_encoder.encoder.<2k>.*` | `height_map.layers.<k>.*` |
| `limb_embed.*`, `decoder.*` | left out: built there, but never used |
"""

import re
from collections.abc import Mapping
from typing import Any

import torch

from gmc_bench.core.types import Array

_UNUSED = ("limb_embed.", "decoder.")
_BRANCHES = {"attention": "attention", "HN": "maps"}


def from_reference(weights: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    """Return a state dict for `ModuMorph`.

    Args:
        weights: parameters of one network under the public names; those of its unused shared
            embedding and decoder are ignored.
    """
    return {
        _renamed(name): torch.tensor(value)
        for name, value in weights.items()
        if not name.startswith(_UNUSED)
    }


def settings_from_reference(weights: Mapping[str, Array]) -> dict[str, Any]:
    """Return the sizes of a network, as changes to `ModuMorphConfig`.

    Args:
        weights: parameters of one network under the public names. They do not tell `num_heads`.
    """
    decoder = _widths(weights, r"hnet_decoder_bias\.(\d+)\.bias")
    height_map = _widths(weights, r"hfield_encoder\.encoder\.(\d+)\.bias")
    attention = _widths(weights, r"context_encoder_attention\.(\d+)\.bias")
    generator = _widths(weights, r"context_encoder_HN\.(\d+)\.bias")
    feedforward = _widths(weights, r"transformer_encoder\.layers\.(\d+)\.linear1\.bias")
    settings: dict[str, Any] = {
        "width": len(weights["hnet_embed_bias.bias"]),
        "feedforward": feedforward[0],
        "num_layers": len(feedforward),
        "attention_context_layers": 1 + len(attention),
        "generator_context_layers": 1 + len(generator),
        "generator_context_width": len(weights["context_embed_HN.bias"]),
        "decoder_hidden": decoder[:-1],
    }
    if height_map:
        settings["height_map_hidden"] = height_map
    return settings


def _widths(weights: Mapping[str, Array], bias: str) -> list[int]:
    """Return the widths of numbered layers in order; `bias` matches the names of their biases."""
    found = {int(match[1]): name for name in weights if (match := re.fullmatch(bias, name))}
    return [len(weights[name]) for _, name in sorted(found.items())]


def _renamed(name: str) -> str:
    """Return the name here of one parameter."""
    if found := re.match(r"context_embed_(\w+)\.", name):
        return f"{_BRANCHES[found[1]]}.context.layers.0.{name[found.end() :]}"
    if found := re.match(r"context_encoder_(\w+)\.(\d+)\.", name):
        layer = (int(found[2]) + 1) // 2  # ReLUs have the even numbers
        return f"{_BRANCHES[found[1]]}.context.layers.{layer}.{name[found.end() :]}"
    if found := re.match(r"hnet_embed_(weight|bias)\.", name):
        return f"maps.layers.0.{found[1]}.{name[found.end() :]}"
    if found := re.match(r"hnet_decoder_(weight|bias)\.(\d+)\.", name):
        return f"maps.layers.{int(found[2]) + 1}.{found[1]}.{name[found.end() :]}"
    if found := re.match(r"hfield_encoder\.encoder\.(\d+)\.", name):
        return f"height_map.layers.{int(found[1]) // 2}.{name[found.end() :]}"
    return re.sub(r"^transformer_encoder\.", "attention.", name)
