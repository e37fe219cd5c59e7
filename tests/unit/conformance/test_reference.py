import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.conformance.reference import (
    read_reference,
    reference_files,
    transformer_settings,
    transformer_weights,
)
from gmc_bench.tokens import TokenSpec

LIMBS = (3, 2)


class FirstFeature(nn.Module):
    """Every limb's first feature; training mode and padding give something else."""

    def forward(self, tokens):
        found = tokens.features[..., :1] + self.training
        return found.masked_fill(tokens.limb_padding_mask.unsqueeze(-1), 7.0)


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    padding = np.arange(4) >= np.array(LIMBS)[:, None]
    tokens = rng.standard_normal((2, 4, 52)).astype(np.float32)
    return {
        "w:layer.weight": np.ones((2, 3), np.float32),
        "in:tokens": tokens,
        "in:token_padding_mask": padding,
        "in:parents": np.array([[-1, 0, 1, -2], [-1, 0, -2, -2]]),
        "in:context": rng.standard_normal((2, 4, 35)).astype(np.float32),
        "in:height_field": rng.standard_normal((2, 9)).astype(np.float32),
        "out:per_limb": tokens[..., :1],
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GMC_REFERENCE_DIR", str(tmp_path))
    return tmp_path


def test_files_are_found_by_prefix(folder):
    for name in ("b_terrain.npz", "b.npz", "ab.npz", "c.npz", "b.txt"):
        (folder / name).touch()
    assert [path.name for path in reference_files(["b", "c"])] == [
        "b.npz",
        "b_terrain.npz",
        "c.npz",
    ]


def test_no_folder_has_no_files(monkeypatch, tmp_path):
    monkeypatch.setenv("GMC_REFERENCE_DIR", str(tmp_path / "missing"))
    assert reference_files([""]) == []


def test_tokens_hold_the_inputs(folder, arrays):
    np.savez(folder / "some.npz", **arrays)
    case = read_reference(folder / "some.npz")
    tokens = case.tokens
    assert (case.name, case.num_outputs, case.num_heads) == ("some", 1, 2)
    assert tokens.spec == TokenSpec(max_limbs=4, joints_per_limb=2, num_heights=9)
    assert torch.equal(tokens.features, torch.from_numpy(arrays["in:tokens"]))
    assert torch.equal(tokens.table.scaled_context, torch.from_numpy(arrays["in:context"]))
    assert torch.equal(tokens.height_map, torch.from_numpy(arrays["in:height_field"]))
    assert torch.equal(tokens.parents, torch.from_numpy(arrays["in:parents"]))
    assert tokens.num_limbs.tolist() == list(LIMBS)
    assert list(case.weights) == ["layer.weight"]


def test_context_and_height_map_may_be_absent(folder, arrays):
    del arrays["in:context"], arrays["in:height_field"]
    np.savez(folder / "some.npz", **arrays, **{"in:num_heads": 4})
    case = read_reference(folder / "some.npz")
    assert case.num_heads == 4
    assert case.tokens.height_map is None
    assert not case.tokens.table.scaled_context.any()


def test_largest_error_looks_at_real_limbs_in_evaluation_mode(folder, arrays):
    arrays["out:per_limb"] = arrays["out:per_limb"].copy()
    arrays["out:per_limb"][1, 1] += 0.5
    np.savez(folder / "some.npz", **arrays)
    errors = read_reference(folder / "some.npz").largest_error(FirstFeature())
    assert errors == pytest.approx((0.5, 0.5))


def test_transformer_names_and_sizes():
    shapes = {
        "limb_embed.bias": (8,),
        "transformer_encoder.layers.0.linear1.bias": (16,),
        "transformer_encoder.layers.1.linear1.bias": (16,),
        "hfield_encoder.encoder.0.bias": (5,),
        "hfield_encoder.encoder.2.bias": (6,),
        "decoder.0.bias": (7,),
        "decoder.2.bias": (2,),
        "other.decoder.0.bias": (1,),
    }
    weights = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    assert transformer_settings(weights) == {
        "width": 8,
        "num_layers": 2,
        "feedforward": 16,
        "decoder_hidden": [7],
        "height_map_hidden": [5, 6],
    }
    assert list(transformer_weights(weights)) == [
        "embedding.bias",
        "layers.0.linear1.bias",
        "layers.1.linear1.bias",
        "decoder.height_map.layers.0.bias",
        "decoder.height_map.layers.1.bias",
        "decoder.hidden.0.bias",
        "decoder.output.bias",
        "other.decoder.0.bias",
    ]
