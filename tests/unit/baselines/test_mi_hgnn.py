"""MI-HGNN against an independent implementation of its equations, limb by limb."""

from functools import partial

import numpy as np
import pytest
import torch

from gmc_baselines.mi_hgnn import SPEC
from gmc_baselines.mi_hgnn.model import RELATIONS, build, typed_limbs
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.tokens import TokenSpec
from tests.support.equations import (
    CHAIN,
    SINGLE,
    STAR,
    TREES,
    assert_forward_matches,
    assert_gradients_match,
    linear,
    perturbed,
    relu,
    tree_tokens,
)

GROUND = TokenSpec(7, num_heights=5)
FLAT = TokenSpec(7)
BATCHES = [TREES, [SINGLE], [SINGLE, SINGLE], [CHAIN], [STAR], [[-1, 0]], [STAR, SINGLE]]


def make(changes, trees, spec=FLAT, num_outputs=2):
    torch.manual_seed(0)
    config = SPEC.make_config("paper", {"width": 4, "num_layers": 3, **changes})
    network = perturbed(build(config, spec, num_outputs), 0.2)
    return config, network, tree_tokens(trees, spec)


def kind_of(limb, parents):
    if parents[limb] == -1:
        return "base"
    return "joint" if limb in parents else "foot"


def neighbours_of(limb, parents):
    found = [child for child, parent in enumerate(parents) if parent == limb]
    return found if parents[limb] == -1 else [*found, parents[limb]]


def convolution(p, layer, rows, parents):
    width = len(rows[0])
    found = []
    for limb, row in enumerate(rows):
        total = np.zeros(width)
        for source in ("base", "joint", "foot"):
            name = f"convs.{layer}.convs.<{source}___to___{kind_of(limb, parents)}>"
            if f"{name}.lin_root.weight" not in p:
                continue  # base to base and foot to foot: no tree has such a joint
            heard = np.zeros(width)
            for other in neighbours_of(limb, parents):
                if kind_of(other, parents) == source:
                    heard = heard + rows[other]
            total = total + linear(p, f"{name}.lin_rel", heard)
            total = total + p[f"{name}.lin_root.weight"] @ row
        found.append(relu(total))
    return found


def reference(p, features, parents, heights=None, *, config):
    """Outputs (num_limbs, num_outputs) of one body with features (num_limbs, F)."""
    rows = [
        relu(linear(p, f"encoder.lins.{kind_of(limb, parents)}", feature))
        for limb, feature in enumerate(features)
    ]
    for layer in range(config.num_layers):
        rows = convolution(p, layer, rows, parents)
    if heights is not None:
        for layer in range(2):
            heights = relu(linear(p, f"decoder.height_map.layers.{layer}", heights))
        rows = [np.concatenate((x, heights)) for x in rows]
    for layer in range(len(config.decoder_hidden)):
        rows = [relu(linear(p, f"decoder.hidden.{layer}", x)) for x in rows]
    return np.stack([linear(p, "decoder.output", x) for x in rows])


@pytest.mark.parametrize("spec", [FLAT, GROUND], ids=["flat", "ground"])
@pytest.mark.parametrize("changes", [{}, {"num_layers": 1}, {"decoder_hidden": [3]}])
@pytest.mark.parametrize("trees", BATCHES)
def test_forward_matches_the_equations(changes, trees, spec):
    config, network, tokens = make(changes, trees, spec)
    assert_forward_matches(network, tokens, partial(reference, config=config))


@pytest.mark.parametrize("decoder_hidden", [[], [3]])
def test_gradients_match_finite_differences_of_the_equations(decoder_hidden):
    trees = [SINGLE, STAR, TREES[-1]]
    changes = {"num_layers": 2, "decoder_hidden": decoder_hidden, "height_map_hidden": [4, 3]}
    config, network, tokens = make(changes, trees, GROUND)
    assert_gradients_match(network, tokens, partial(reference, config=config))


def test_limbs_and_joints_of_a_hand_drawn_batch():
    """A torso with a two-limb leg and a stub, beside a lone torso."""
    tokens = tree_tokens([[-1, 0, 1, 0], [-1]], FLAT)
    limbs = typed_limbs(tokens)
    assert tokens.packing.slots.tolist() == [0, 7, 1, 2, 3]  # both torsos come first
    assert limbs.order.tolist() == [0, 1, 2, 3, 4]
    assert limbs.sizes == (2, 1, 2)
    assert {relation: limbs.edges[relation].tolist() for relation in RELATIONS} == {
        ("base", "to", "joint"): [[0], [0]],
        ("joint", "to", "base"): [[0], [0]],
        ("joint", "to", "joint"): [[], []],
        ("foot", "to", "joint"): [[0], [0]],
        ("joint", "to", "foot"): [[0], [0]],
        ("base", "to", "foot"): [[0], [1]],
        ("foot", "to", "base"): [[1], [0]],
    }


@pytest.mark.parametrize("trees", BATCHES)
def test_splitting_and_joining_keep_every_limb(trees):
    tokens = tree_tokens(trees, FLAT)
    limbs = typed_limbs(tokens)
    rows = torch.arange(tokens.packing.num_rows)
    assert limbs.join(limbs.split(rows)).tolist() == rows.tolist()
    assert sum(edges.shape[1] for edges in limbs.edges.values()) == tokens.packed_edges.shape[1]


def test_a_relation_without_edges_contributes_its_root_term_and_bias():
    _, network, tokens = make({"num_layers": 1}, [SINGLE])
    before = network(tokens)
    with torch.no_grad():
        network.convs[0].convs["joint", "to", "base"].lin_rel.bias += 1.0
    assert not torch.equal(network(tokens), before)


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        # 52 features and 2 actions: encoders 3 * 53 * 128; a layer 7 * (2 * 128^2 + 128); decoders
        # 258 and 129.
        ("paper", 2 * (20_352 + 8 * 230_272) + 387),
        ("lite", 2 * (3 * 53 * 34 + 4 * 7 * (2 * 34**2 + 34)) + 105),
    ],
)
def test_parameter_counts(preset, expected):
    policy = ActorCritic(SPEC, SPEC.make_config(preset), TokenSpec(12))
    assert policy.num_parameters() == expected == SPEC.parameters[preset]


def test_parameter_count_with_the_five_published_relations():
    policy = ActorCritic(SPEC, SPEC.make_config("paper"), TokenSpec(12))
    added = ("<base___to___foot>", "<foot___to___base>")
    found = sum(
        parameter.numel()
        for name, parameter in policy.named_parameters()
        if not any(relation in name for relation in added)
    )
    assert found == 2_672_771


def test_initialisation():
    torch.manual_seed(0)
    state = build(SPEC.make_config("paper"), FLAT, 2).state_dict()
    largest = {name: value.abs().max().item() for name, value in state.items()}
    assert 0.138 < largest["encoder.lins.foot.weight"] <= 0.1387  # 1 / sqrt(52)
    assert 0.138 > largest["encoder.lins.foot.bias"] > 0.1
    for name in ("lin_rel.weight", "lin_root.weight"):
        found = largest[f"convs.7.convs.<base___to___foot>.{name}"]
        assert 0.088 < found <= 0.0884  # 1 / sqrt(128)
    assert 0.0095 < largest["decoder.output.weight"] <= 0.01
    assert largest["decoder.output.bias"] == 0


def test_a_setting_without_effect_is_named():
    with pytest.raises(ConfigError, match="'embedding_init' has no effect"):
        SPEC.make_config("paper", {"embedding_init": 0.2})
