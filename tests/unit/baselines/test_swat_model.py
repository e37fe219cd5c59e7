import dataclasses

import numpy as np
import pytest
import torch

from gmc_baselines.swat import SPEC, model
from gmc_baselines.swat.model import Swat, trees_of
from gmc_bench.conformance.tokens import random_tokens, select
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn import TokenBatch, fixed_weights
from gmc_bench.tokens import TokenSpec

SMALL = {"width": 8, "feedforward": 16, "num_layers": 2}
TOKENS = TokenSpec(6)


def make(lengths=(6, 1, 4), batch_size=5, **changes):
    torch.manual_seed(0)
    network = Swat(SPEC.make_config("paper", {**SMALL, **changes}), TOKENS, 2)
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    tokens = random_tokens(np.random.default_rng(0), TOKENS, lengths, batch_size)
    return network, tokens


@pytest.mark.parametrize(
    ("preset", "num_heights", "decoder_hidden", "expected"),
    [
        # MetaMorph's 3,315,587 with tables of the same size, and (3 + 1) * 2 per layer.
        ("paper", 0, [], 3_315_667),
        ("paper", 1410, [64], 3_529_107),
        ("paper", 1410, [64, 64], 3_537_427),
        ("lite", 0, [], 139_811),
    ],
)
def test_parameter_counts(preset, num_heights, decoder_hidden, expected):
    config = SPEC.make_config(preset, {"decoder_hidden": decoder_hidden})
    policy = ActorCritic(SPEC, config, TokenSpec(12, num_heights=num_heights))
    assert policy.num_parameters() == expected


@pytest.mark.parametrize(
    ("width", "expected"), [(128, (42, 42, 44)), (32, (10, 10, 12)), (40, (13, 13, 14))]
)
def test_traversals_share_the_width(width, expected):
    assert SPEC.make_config("paper", {"width": width}).traversal_widths == expected


def test_fewer_channels_than_traversals_are_refused():
    with pytest.raises(ConfigError, match="'width' must be at least 3, got 2"):
        SPEC.make_config("paper", {"width": 2})


def test_initialisation():
    torch.manual_seed(0)
    network = Swat(SPEC.make_config("paper"), TokenSpec(12), 2)
    values = torch.cat([table.weight.detach().flatten() for table in network.tree.tables])
    assert float(values.mean()) == pytest.approx(0.0, abs=0.1)
    assert float(values.std()) == pytest.approx(1.0, abs=0.1)
    assert network.tree.relation_bias[0].weight.abs().max() <= 3**-0.5
    for first, *others in (network.tree.relation_bias, network.layers):  # all layers start alike
        for name, weight in first.named_parameters():
            assert all(torch.equal(weight, other.get_parameter(name)) for other in others)
            assert all(weight is not other.get_parameter(name) for other in others)


def test_masks_are_the_linear_map_of_the_relations_and_hide_padding():
    network, tokens = make()
    (_, *masks), index = network.tree(tokens)
    assert len(masks) == 2
    _, relations = trees_of(tokens.table)
    for layer, mask in zip(network.tree.relation_bias, masks, strict=True):
        for row, body in enumerate(tokens.morphology_index.tolist()):
            count = int(tokens.num_limbs[row])
            found = mask[index[row]]
            expected = relations[body] @ layer.weight.T + layer.bias  # (L, L, H)
            expected = expected.permute(2, 0, 1)[..., :count]
            assert torch.allclose(found[..., :count], expected, rtol=0, atol=1e-6)
            assert (found[..., count:] == -torch.inf).all()


def test_what_depends_on_the_bodies_alone_may_be_kept():
    network, tokens = make()
    expected = network(tokens)
    with fixed_weights(network):
        found = network(tokens)
        again = network(select(tokens, [3, 1]))
    assert torch.allclose(found, expected, rtol=0, atol=1e-4)
    assert torch.allclose(again, expected[[3, 1]], rtol=0, atol=1e-4)


def test_another_table_has_other_trees():
    network, tokens = make(lengths=(6, 5))
    chain = torch.where(tokens.table.parents >= 0, torch.arange(-1, 5), tokens.table.parents)
    other = TokenBatch(
        dataclasses.replace(tokens.table, parents=chain), tokens.morphology_index, tokens.dynamic
    )
    first = network(tokens)
    assert not torch.allclose(network(other), first, atol=1e-3)
    assert torch.equal(network(tokens), first)


def test_trees_are_kept_as_long_as_their_table(monkeypatch):
    """A captured graph reads them in place, whatever tables the network meets later."""
    network, tokens = make(lengths=(6, 5))
    _, other = make(lengths=(3, 4))
    made = []
    monkeypatch.setattr(model, "trees_of", lambda table: made.append(trees_of(table)) or made[-1])
    for batch in (tokens, other, tokens):
        network(batch)
    assert len(made) == 2
    assert tokens.table.once(model.trees_of) is made[0]


def test_a_body_of_one_limb_works_and_has_finite_gradients():
    network, tokens = make(lengths=(1,), batch_size=2)
    network(tokens).square().sum().backward()
    for parameter in network.parameters():
        assert parameter.grad.isfinite().all()


def test_half_precision_and_compilation_give_the_same():
    network, tokens = make()
    expected = network(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.allclose(network(tokens).float(), expected, rtol=0, atol=0.2)
    compiled = torch.compile(network, backend="eager")
    assert torch.allclose(compiled(tokens), expected, rtol=0, atol=1e-4)
