import numpy as np
import torch

from gmc_bench.nn import TokenBatch
from gmc_bench.testing.tokens import random_tokens
from gmc_bench.tokens import TokenSpec

SPEC = TokenSpec(4)


def numbered_tokens() -> TokenBatch:
    """Two bodies whose features can be told apart by value: context 100 + i, dynamic i."""
    tokens = random_tokens(np.random.default_rng(0), SPEC, (2, 4), batch_size=3)
    tokens.table.context[:] = 100 + torch.arange(35.0)
    dynamic = torch.arange(17.0).expand(3, 4, 17).clone()
    return TokenBatch(tokens.table, torch.tensor([1, 0, 1]), dynamic)


def test_features_stand_where_the_layout_says():
    features = numbered_tokens().features
    assert features.shape == (3, 4, 52)
    names = {"body_xpos": [0, 1, 2], "body_pos": [100, 101, 102], "qpos/0": [13], "gear/1": [134]}
    for name, expected in names.items():
        group = SPEC.slice(name)
        assert features[1, 1, group.start : group.stop].tolist() == expected


def test_packed_features_are_the_features_of_the_real_limbs():
    tokens = random_tokens(np.random.default_rng(1), SPEC, (2, 4, 3), batch_size=7)
    assert tokens.packed_features.shape == (int(tokens.num_limbs.sum()), 52)
    assert torch.equal(tokens.packed_features, tokens.packing.pack(tokens.features))


def test_packing_is_made_once_for_all_networks():
    tokens = numbered_tokens()
    assert tokens.packing is tokens.packing
    assert tokens.packed_features is tokens.packed_features
    assert tokens.packing.shape == (3, 4)


def test_features_have_the_type_of_what_varies():
    tokens = random_tokens(np.random.default_rng(1), SPEC, (2, 4, 3), batch_size=4)
    double = TokenBatch(tokens.table, tokens.morphology_index, tokens.dynamic.double())
    assert torch.equal(double.features, tokens.features.double())
