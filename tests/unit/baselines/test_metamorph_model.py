"""MetaMorph and MetaMorph*: one network with and one without positions and dropout."""

import dataclasses

import numpy as np
import pytest
import torch
from torch import nn

from gmc_baselines import metamorph, metamorph_star
from gmc_bench.conformance.tokens import any_order, random_tokens, reorder
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn import TokenBatch
from gmc_bench.tokens import TokenSpec
from tests.golden.public_weights.metamorph import transformer_settings, transformer_weights

METAMORPH, STAR = metamorph.SPEC, metamorph_star.SPEC
SMALL = {"width": 8, "feedforward": 16, "num_layers": 2}
TOKENS = TokenSpec(6)


def make(spec=METAMORPH, preset="paper", lengths=(6, 1, 4), batch_size=5, **changes):
    torch.manual_seed(0)
    network = spec.build(spec.make_config(preset, {**SMALL, **changes}), TOKENS, 2)
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return network, random_tokens(np.random.default_rng(0), TOKENS, lengths, batch_size)


def into_the_layers(network, tokens):
    """Return what the first encoder layer gets, (P, width)."""
    seen = []
    handle = network.layers[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    with torch.no_grad():
        network(tokens)
    handle.remove()
    return seen[0]


@pytest.mark.parametrize(
    ("spec", "preset", "num_heights", "decoder_hidden", "expected"),
    [
        # embedding 6,784; table 1,536; five layers of 329,856; decoders 258 and 129.
        (METAMORPH, "paper", 0, [], 2 * (6_784 + 1_536 + 5 * 329_856) + 258 + 129),
        (METAMORPH, "paper", 1410, [64], 3_529_027),
        (METAMORPH, "paper", 1410, [64, 64], 3_537_347),
        (METAMORPH, "paper-no-positions", 0, [], 3_312_515),
        (METAMORPH, "lite", 0, [], 139_763),
        (STAR, "paper", 0, [], 3_312_515),
        (STAR, "paper", 1410, [64], 3_525_955),
        (STAR, "paper", 1410, [64, 64], 3_534_275),
        (STAR, "lite", 0, [], 138_995),
    ],
)
def test_parameter_counts(spec, preset, num_heights, decoder_hidden, expected):
    config = spec.make_config(preset, {"decoder_hidden": decoder_hidden})
    policy = ActorCritic(spec, config, TokenSpec(12, num_heights=num_heights))
    assert policy.num_parameters() == expected


@pytest.mark.parametrize("spec", [METAMORPH, STAR])
def test_forward_is_torchs_encoder(spec):
    network, tokens = make(spec)
    network = network.double().eval()
    context = tokens.table.context.double()
    table = dataclasses.replace(tokens.table, context=context)
    tokens = TokenBatch(table, tokens.morphology_index, tokens.dynamic.double())
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).double()
    encoder.layers.load_state_dict(network.layers.state_dict())
    limbs = 8**0.5 * (tokens.features @ network.embedding.weight.T + network.embedding.bias)
    if spec is METAMORPH:
        limbs = limbs + network.positions
    encoded = encoder(limbs, src_key_padding_mask=tokens.limb_padding_mask)
    real = ~tokens.limb_padding_mask
    expected = network.decoder.output(encoded)[real]
    assert torch.allclose(network(tokens)[real], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("spec", [METAMORPH, STAR])
def test_initialisation(spec):
    torch.manual_seed(0)
    network = spec.build(spec.make_config("paper"), TokenSpec(12), 2)
    largest = {name: value.abs().max().item() for name, value in network.state_dict().items()}
    assert 0.099 < largest["embedding.weight"] <= 0.1
    assert 0.0095 < largest["decoder.output.weight"] <= 0.01
    assert largest["decoder.output.bias"] == 0
    assert 0.107 < largest["layers.0.self_attn.in_proj_weight"] <= (6 / 512) ** 0.5
    assert largest["layers.0.self_attn.in_proj_bias"] == 0
    assert largest["layers.0.norm1.weight"] == 1
    for name, value in network.layers[0].named_parameters():
        for other in network.layers[1:]:
            assert torch.equal(value, other.get_parameter(name))
            assert value is not other.get_parameter(name)


def test_position_table_starts_standard_normal():
    torch.manual_seed(0)
    table = METAMORPH.build(METAMORPH.make_config("paper"), TokenSpec(12), 2).positions
    assert table.shape == (12, 128)
    assert float(table.detach().mean()) == pytest.approx(0.0, abs=0.08)
    assert float(table.detach().std()) == pytest.approx(1.0, abs=0.08)


def test_positions_are_added_by_token_slot():
    network, tokens = make()
    network.eval()
    added = into_the_layers(network, tokens) - network.embedding.packed(tokens)
    expected = network.positions[tokens.packing.positions]
    assert torch.allclose(added, expected, rtol=0, atol=1e-5)


def test_dropout_hides_channels_of_the_sum_in_training():
    network, tokens = make(width=64, batch_size=40)
    whole = into_the_layers(network.eval(), tokens)
    dropped = into_the_layers(network.train(), tokens)
    kept = dropped != 0
    assert float(kept.float().mean()) == pytest.approx(0.9, abs=0.02)
    assert torch.allclose(dropped[kept], whole[kept] / 0.9, rtol=1e-5, atol=1e-5)


def test_dropout_is_drawn_anew_in_every_pass_of_training_only():
    network, tokens = make()
    assert not torch.equal(network(tokens), network(tokens))
    network.eval()
    assert torch.equal(network(tokens), network(tokens))


@pytest.mark.parametrize(("spec", "preset"), [(METAMORPH, "paper-no-dropout"), (STAR, "paper")])
def test_without_dropout_training_changes_nothing(spec, preset):
    network, tokens = make(spec, preset)
    # In training, attention runs in compiled code, whose last bits differ.
    torch.testing.assert_close(
        network.train()(tokens), network.eval()(tokens), rtol=1e-5, atol=1e-5
    )


def test_without_positions_the_order_of_limbs_does_not_matter():
    network, tokens = make(preset="paper-no-positions")
    network.eval()
    order = any_order(np.random.default_rng(1), tokens)
    rows = torch.arange(len(tokens)).unsqueeze(1)
    expected = network(tokens)[rows, order]
    assert torch.allclose(network(reorder(tokens, order)), expected, rtol=0, atol=1e-4)
    claimed = METAMORPH.capabilities_of("paper-no-positions")
    assert claimed.permutation_equivariant
    assert not METAMORPH.capabilities_of("paper").permutation_equivariant


def test_dropout_of_all_channels_is_refused():
    with pytest.raises(ConfigError, match=r"'embedding_dropout' must be below 1, got 1\.0"):
        METAMORPH.make_config("paper", {"embedding_dropout": 1.0})


@pytest.mark.parametrize("spec", [METAMORPH, STAR])
def test_half_precision_and_compilation_give_the_same(spec):
    network, tokens = make(spec)
    network.eval()
    expected = network(tokens)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.allclose(network(tokens).float(), expected, rtol=0, atol=0.3)
    compiled = torch.compile(network, backend="eager")
    assert torch.allclose(compiled(tokens), expected, rtol=0, atol=1e-4)


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
