import math

import numpy as np
import pytest
import torch

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.nn import TokenEmbedding
from gmc_bench.tokens import TokenSpec

SPEC = TokenSpec(4)


@pytest.fixture
def tokens():
    return random_tokens(np.random.default_rng(0), SPEC, (4, 2, 3), batch_size=5)


def test_parameters_are_those_of_a_linear_layer():
    embedding = TokenEmbedding(SPEC, 8)
    linear = torch.nn.Linear(52, 8)
    assert {k: v.shape for k, v in embedding.state_dict().items()} == {
        k: v.shape for k, v in linear.state_dict().items()
    }


def test_output_is_the_scaled_linear_map_of_all_features(tokens):
    embedding = TokenEmbedding(SPEC, 9)
    expected = 3.0 * (tokens.features @ embedding.weight.T + embedding.bias)
    assert torch.allclose(embedding(tokens), expected, atol=1e-5)
    unscaled = TokenEmbedding(SPEC, 9, scale=1.0)
    unscaled.load_state_dict(embedding.state_dict())
    assert torch.allclose(unscaled(tokens), expected / 3.0, atol=1e-5)


def test_packed_output_holds_the_real_limbs(tokens):
    embedding = TokenEmbedding(SPEC, 6)
    expected = tokens.packing.pack(embedding(tokens))
    assert torch.allclose(embedding.packed(tokens), expected, atol=1e-5)


def test_initialisation():
    embedding = TokenEmbedding(SPEC, 2000, init=0.1)
    weight, bias = embedding.weight.detach(), embedding.bias.detach()
    assert weight.abs().max() <= 0.1
    assert float(weight.std()) == pytest.approx(0.1 / math.sqrt(3), rel=0.02)
    assert bias.abs().max() <= 1 / math.sqrt(52)
    assert float(bias.std()) == pytest.approx(1 / math.sqrt(3 * 52), rel=0.1)
