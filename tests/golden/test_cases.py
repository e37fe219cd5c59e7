import numpy as np
import pytest
import torch
from torch import nn

from gmc_bench.tokens import TokenSpec
from tests.golden.cases import case_names, read_case

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


def test_every_public_implementation_has_its_cases():
    assert case_names("m") == [
        "metamorph", "metamorph_star", "metamorph_star_terrain", "metamorph_terrain",
        "mi_hgnn", "modumorph", "modumorph_terrain",
    ]  # fmt: skip
    assert case_names("swat") == ["swat", "swat_terrain"]
    assert case_names("x") == []


def test_tokens_hold_the_inputs(tmp_path, arrays):
    weights = {"w:layer.weight": arrays.pop("w:layer.weight")}
    np.savez(tmp_path / "some.1.npz", **arrays)  # a large case comes in several files
    np.savez(tmp_path / "some.2.npz", **weights)
    case = read_case("some", tmp_path)
    tokens = case.tokens
    assert (case.name, case.num_outputs, case.num_heads) == ("some", 1, 2)
    assert tokens.spec == TokenSpec(max_limbs=4, joints_per_limb=2, num_heights=9)
    assert torch.equal(tokens.features, torch.from_numpy(arrays["in:tokens"]))
    assert torch.equal(tokens.table.scaled_context, torch.from_numpy(arrays["in:context"]))
    assert torch.equal(tokens.height_map, torch.from_numpy(arrays["in:height_field"]))
    assert torch.equal(tokens.parents, torch.from_numpy(arrays["in:parents"]))
    assert tokens.num_limbs.tolist() == list(LIMBS)
    assert list(case.weights) == ["layer.weight"]


def test_context_and_height_map_may_be_absent(tmp_path, arrays):
    del arrays["in:context"], arrays["in:height_field"]
    np.savez(tmp_path / "some.npz", **arrays, **{"in:num_heads": 4})
    case = read_case("some", tmp_path)
    assert case.num_heads == 4
    assert case.tokens.height_map is None
    assert not case.tokens.table.scaled_context.any()


def test_largest_error_looks_at_real_limbs_in_evaluation_mode(tmp_path, arrays):
    arrays["out:per_limb"] = arrays["out:per_limb"].copy()
    arrays["out:per_limb"][1, 1] += 0.5
    np.savez(tmp_path / "some.npz", **arrays)
    errors = read_case("some", tmp_path).largest_error(FirstFeature())
    assert errors == pytest.approx((0.5, 0.5))
