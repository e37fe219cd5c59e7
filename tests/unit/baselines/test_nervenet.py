"""NerveNet against an independent implementation of its equations, limb by limb."""

from functools import partial

import numpy as np
import pytest
import torch

from gmc_baselines.nervenet import SPEC
from gmc_baselines.nervenet.model import build
from gmc_bench.core.errors import ConfigError
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn import TokenBatch
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
    sigmoid,
    tree_tokens,
)

GROUND = TokenSpec(7, num_heights=5)
FLAT = TokenSpec(7)
GRU = {"form": "gru", "width": 6, "decoder_hidden": [5, 4]}
FORMS = [
    {},
    {"share_weights": True},
    {"decoder_hidden": [3]},
    GRU,
    {**GRU, "share_weights": True},
    {**GRU, "decoder_hidden": []},
]


def make(changes, trees, spec=FLAT, num_outputs=2):
    torch.manual_seed(0)
    config = SPEC.make_config("paper", {"width": 4, "num_layers": 3, **changes})
    network = perturbed(build(config, spec, num_outputs))
    return config, network, tree_tokens(trees, spec)


def mean_over_neighbours(messages, parents):
    found = []
    for limb, parent in enumerate(parents):
        neighbours = [child for child, its in enumerate(parents) if its == limb]
        if parent >= 0:
            neighbours.append(parent)
        total = np.zeros_like(messages[limb])
        for other in neighbours:
            total = total + messages[other]
        found.append(total / max(len(neighbours), 1))
    return found


def residual_step(p, name, rows, parents):
    normed = [(h - h.mean()) / np.sqrt(h.var() + 1e-5) for h in rows]
    messages = [relu(linear(p, f"{name}.message_projection", n)) for n in normed]
    found = []
    for h, n, a in zip(rows, normed, mean_over_neighbours(messages, parents), strict=True):
        s = relu(linear(p, f"{name}.self_projection", n))
        z = relu(linear(p, f"{name}.update_projection", np.concatenate((s, a))))
        found.append(h + linear(p, f"{name}.output_projection", z))
    return found


def gated_step(p, name, rows, parents):
    messages = rows
    for layer in range(3):
        messages = [np.tanh(linear(p, f"{name}.message_layers.{layer}", m)) for m in messages]
    w_keep, w_reset, w_new = np.split(p[f"{name}.heard_gates.weight"], 3)
    b_keep, b_reset, b_new = np.split(p[f"{name}.heard_gates.bias"], 3)
    u_keep, u_reset = np.split(p[f"{name}.own_gates.weight"], 2)
    u_new = p[f"{name}.own_candidate.weight"]
    found = []
    for h, a in zip(rows, mean_over_neighbours(messages, parents), strict=True):
        keep = sigmoid(w_keep @ a + u_keep @ h + b_keep)
        reset = sigmoid(w_reset @ a + u_reset @ h + b_reset)
        new = np.tanh(w_new @ a + u_new @ (reset * h) + b_new)
        found.append(keep * h + (1 - keep) * new)
    return found


def reference(p, features, parents, heights=None, *, config):
    """Outputs (num_limbs, num_outputs) of one body with features (num_limbs, F)."""
    gated = config.form == "gru"
    if gated:
        kind = p["embedding.type_vector"]
        rows = [
            np.concatenate((kind, np.tanh(linear(p, "embedding.observation", o)))) for o in features
        ]
    else:
        rows = [np.sqrt(config.width) * linear(p, "embedding", o) for o in features]
    for step in range(config.num_layers):
        name = f"layers.{0 if config.share_weights else step}"
        rows = (gated_step if gated else residual_step)(p, name, rows, parents)
    if heights is not None:
        for layer in range(2):
            heights = relu(linear(p, f"decoder.height_map.layers.{layer}", heights))
        rows = [np.concatenate((h, heights)) for h in rows]
    for layer in range(len(config.decoder_hidden)):
        activation = np.tanh if gated else relu
        rows = [activation(linear(p, f"decoder.hidden.{layer}", h)) for h in rows]
    return np.stack([linear(p, "decoder.output", h) for h in rows])


@pytest.mark.parametrize("spec", [FLAT, GROUND], ids=["flat", "ground"])
@pytest.mark.parametrize("changes", FORMS)
def test_forward_matches_the_equations(changes, spec):
    config, network, tokens = make(changes, TREES, spec)
    assert_forward_matches(network, tokens, partial(reference, config=config))


@pytest.mark.parametrize("changes", [{}, GRU])
@pytest.mark.parametrize("tree", [SINGLE, CHAIN, STAR])
def test_one_environment_alone(changes, tree):
    config, network, tokens = make(changes, [tree])
    assert_forward_matches(network, tokens, partial(reference, config=config))


@pytest.mark.parametrize("changes", FORMS)
def test_gradients_match_finite_differences_of_the_equations(changes):
    trees = [SINGLE, STAR, TREES[-1]]
    config, network, tokens = make({**changes, "height_map_hidden": [4, 3]}, trees, GROUND)
    assert [layer.out_features for layer in network.decoder.height_map.layers] == [4, 3]
    assert_gradients_match(network, tokens, partial(reference, config=config))


@pytest.mark.parametrize(
    ("preset", "changes", "expected"),
    [
        # 52 features and 2 actions: embedding 53 * 256; a layer 5 * 256^2 + 4 * 256; decoders
        # 514 and 257.
        ("paper", {}, 2 * (13_568 + 4 * 328_704) + 771),
        ("paper", {"share_weights": True}, 685_315),
        ("lite", {}, 2 * (53 * 80 + 2 * (5 * 80**2 + 4 * 80)) + 243),
        # type 32, observation 53 * 32, message MLP 3 * 65 * 64, gates 3 * (2 * 64^2 + 64), head
        # 2 * 65 * 64 and 130 or 65.
        ("paper-gru", {}, 2 * (32 + 1_696 + 12_480 + 24_768 + 8_320) + 130 + 65),
        ("lite-gru", {}, 2 * (40 + 53 * 40 + 5 * 81 * 80 + 3 * (2 * 80**2 + 80)) + 162 + 81),
    ],
)
def test_parameter_counts(preset, changes, expected):
    policy = ActorCritic(SPEC, SPEC.make_config(preset, changes), TokenSpec(12))
    assert policy.num_parameters() == expected
    if not changes:
        assert SPEC.parameters[preset] == expected


@pytest.mark.parametrize("changes", [{}, GRU])
def test_a_message_travels_one_joint_per_layer(changes):
    _, network, tokens = make({**changes, "width": 16}, [CHAIN])
    dynamic = tokens.dynamic.clone().requires_grad_()
    network(TokenBatch(tokens.table, tokens.morphology_index, dynamic))[0, 0].sum().backward()
    assert dynamic.grad[0, 3].any()
    assert not dynamic.grad[0, 4:].any()


def test_initialisation_of_the_residual_form():
    torch.manual_seed(0)
    network = build(SPEC.make_config("paper"), FLAT, 2)
    largest = {name: value.abs().max().item() for name, value in network.state_dict().items()}
    assert 0.099 < largest["embedding.weight"] <= 0.1
    assert 0.0095 < largest["decoder.output.weight"] <= 0.01
    assert largest["decoder.output.bias"] == 0
    assert 0.062 < largest["layers.0.message_projection.weight"] <= 0.0625  # 1 / sqrt(256)
    assert 0.044 < largest["layers.3.update_projection.weight"] <= 0.0442  # 1 / sqrt(512)
    assert not any("norm" in name for name in largest)


def test_initialisation_of_the_original_form():
    torch.manual_seed(0)
    state = build(SPEC.make_config("paper-gru"), FLAT, 2).state_dict()
    assert state["embedding.type_vector"].abs().unique().tolist() == [1.0]
    for name, value in state.items():
        if name.endswith("weight"):
            for matrix in value.split(64):  # gates are stacked
                size = min(matrix.shape)
                rows = matrix if len(matrix) == size else matrix.T
                torch.testing.assert_close(rows @ rows.T, torch.eye(size), rtol=0, atol=1e-5)
        elif name.endswith("bias"):
            start = 0.0 if "gates" in name else 0.01
            assert value.unique().tolist() == pytest.approx([start]), name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"form": "gru", "width": 5}, "'width' must be even"),
        ({"form": "gru", "embedding_init": 0.2}, "'embedding_init' has no effect"),
        ({"form": "gru", "decoder_init": 0.2}, "'decoder_init' has no effect"),
        ({"form": "lstm"}, "'form' must be one of residual, gru"),
    ],
)
def test_settings_that_cannot_work_are_named(changes, message):
    with pytest.raises(ConfigError, match=message):
        SPEC.make_config("paper", changes)
