"""The Body Transformer against its equations in NumPy, limb by limb."""

from functools import partial

import numpy as np
import pytest
import torch

from gmc_baselines.bot import SPEC
from gmc_baselines.bot.model import BodyTransformer, build
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.tokens import TokenSpec
from tests.support.equations import (
    TREE_BATCHES,
    assert_forward_matches,
    assert_gradients_match,
    perturbed,
    tree_tokens,
)

SLOTS = 7
VARIANTS = [{}, {"masking": "hard"}, {"positions": True}]


def make_tokens(trees, slots=SLOTS):
    return tree_tokens(trees, TokenSpec(slots), first_again=True)


def make_network(changes, slots=SLOTS):
    torch.manual_seed(0)
    small = {"width": 6, "num_heads": 2, "feedforward": 5, "num_layers": 3, **changes}
    config = SPEC.make_config("paper", small)
    return config, perturbed(build(config, TokenSpec(slots), 2))


def layer_norm(x, weight, bias):
    centred = x - np.mean(x)
    return weight * centred / np.sqrt(np.mean(centred**2) + 1e-5) + bias


def attend(p, prefix, rows, allowed, num_heads):
    """Attention of every limb i to the limbs `allowed[i]`."""
    width = len(rows[0])
    size = width // num_heads
    weight, bias = p[f"{prefix}in_proj_weight"], p[f"{prefix}in_proj_bias"]
    query, key, value = (
        [weight[k * width : (k + 1) * width] @ x + bias[k * width : (k + 1) * width] for x in rows]
        for k in range(3)
    )
    found = []
    for i in range(len(rows)):
        heads = []
        for head in range(num_heads):
            part = slice(head * size, (head + 1) * size)
            scores = [np.exp(query[i][part] @ key[j][part] / np.sqrt(size)) for j in allowed[i]]
            mixed = sum(s * value[j][part] for s, j in zip(scores, allowed[i], strict=True))
            heads.append(mixed / sum(scores))
        found.append(p[f"{prefix}out_proj.weight"] @ np.concatenate(heads))
    return [x + p[f"{prefix}out_proj.bias"] for x in found]


def encoder_layer(p, prefix, rows, allowed, num_heads):
    def normed(name, x):
        return layer_norm(x, p[f"{prefix}{name}.weight"], p[f"{prefix}{name}.bias"])

    found = []
    for x, mixed in zip(
        rows, attend(p, f"{prefix}self_attn.", rows, allowed, num_heads), strict=True
    ):
        x = normed("norm1", x + mixed)
        inner = np.maximum(p[f"{prefix}linear1.weight"] @ x + p[f"{prefix}linear1.bias"], 0)
        x = normed("norm2", x + p[f"{prefix}linear2.weight"] @ inner + p[f"{prefix}linear2.bias"])
        found.append(x)
    return found


def reference(p, features, parents, config):
    """Outputs (num_limbs, num_outputs) of one body."""
    limbs = range(len(parents))
    everyone = [list(limbs) for _ in limbs]
    neighbours = [[j for j in limbs if i == j or parents[i] == j or parents[j] == i] for i in limbs]
    scale = np.sqrt(config.width)
    rows = [scale * (p["embedding.weight"] @ o + p["embedding.bias"]) for o in features]
    if config.positions:
        rows = [x + p["positions"][slot] for slot, x in enumerate(rows)]
    for index in range(config.num_layers):
        masked = config.masking == "hard" or index % 2 == 0
        allowed = neighbours if masked else everyone
        rows = encoder_layer(p, f"layers.{index}.", rows, allowed, config.num_heads)
    return np.stack([p["decoder.output.weight"] @ x + p["decoder.output.bias"] for x in rows])


@pytest.mark.parametrize("changes", VARIANTS)
@pytest.mark.parametrize("trees", TREE_BATCHES.values(), ids=TREE_BATCHES)
def test_forward_matches_the_equations(changes, trees):
    config, network = make_network(changes)
    assert_forward_matches(network, make_tokens(trees), partial(reference, config=config))


@pytest.mark.parametrize("changes", VARIANTS)
def test_gradients_match_finite_differences_of_the_equations(changes):
    config, network = make_network({**changes, "num_layers": 2})
    tokens = make_tokens([[-1], [-1, 0, 1, 0], [-1, 0]])
    assert_gradients_match(network, tokens, partial(reference, config=config))


@pytest.mark.parametrize(
    ("masking", "reached"),
    [
        ("hard", {0, 1, 2}),  # two layers, one joint each
        ("mixed", {0, 1, 2, 3, 4}),  # the second layer is open
    ],
)
def test_masking_limits_what_the_torso_sees(masking, reached):
    _, network = make_network({"masking": masking, "num_layers": 2})
    tokens = make_tokens([[-1, 0, 1, 2, 3]])
    dynamic = tokens.dynamic.requires_grad_()
    network(tokens)[0, 0].sum().backward()
    assert {limb for limb in range(SLOTS) if dynamic.grad[0, limb].any()} == reached


@pytest.mark.parametrize("changes", VARIANTS)
def test_short_bodies_in_many_slots_give_finite_gradients(changes):
    _, network = make_network(changes, slots=40)
    network(make_tokens([[-1], [-1, 0]], slots=40)).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        # 52 features and 2 actions: embedding 6,784; a layer 4 * 128^2 + 4 * 128 + 2 * 128 * 1024
        # + 1024 + 128 + 4 * 128; decoders 258 and 129.
        ("paper", 2 * (6_784 + 5 * 329_856) + 258 + 129),
        ("paper-hard", 3_312_515),
        ("paper-positions", 3_312_515 + 2 * 12 * 128),
        # embedding 2,544; a layer 4 * 48^2 + 4 * 48 + 2 * 48 * 128 + 128 + 48 + 4 * 48.
        ("lite", 2 * (2_544 + 3 * 22_064) + 98 + 49),
        ("lite-hard", 137_619),
    ],
)
def test_parameter_counts(preset, expected):
    policy = ActorCritic(SPEC, SPEC.make_config(preset), TokenSpec(12))
    assert policy.num_parameters() == expected == SPEC.parameters[preset]


def test_only_slot_vectors_break_the_symmetry_of_limbs():
    assert SPEC.capabilities_of("paper").permutation_equivariant
    assert SPEC.capabilities_of("lite-hard").permutation_equivariant
    assert not SPEC.capabilities_of("paper-positions").permutation_equivariant
    assert all(SPEC.capabilities_of(preset).uses_graph for preset in SPEC.presets)


def test_initialisation():
    torch.manual_seed(0)
    network = BodyTransformer(SPEC.make_config("paper-positions"), TokenSpec(12), 2)
    state = network.state_dict()
    assert 0.099 < state["embedding.weight"].abs().max() <= 0.1
    assert 0.0095 < state["decoder.output.weight"].abs().max() <= 0.01
    assert state["positions"].std().item() == pytest.approx(0.02, rel=0.05)
    for name in ("self_attn.out_proj", "linear1", "linear2"):
        assert state[f"layers.1.{name}.weight"].std().item() == pytest.approx(0.02, rel=0.05)
        assert not state[f"layers.1.{name}.bias"].any()
    limit = np.sqrt(6 / (4 * 128))  # xavier over the stacked query, key and value map
    assert 0.99 * limit < state["layers.1.self_attn.in_proj_weight"].abs().max() <= limit
    assert not state["layers.1.self_attn.in_proj_bias"].any()
    # Layers are copies, of which the linear maps are drawn anew.
    for name, same in (("self_attn.in_proj_weight", True), ("linear1.weight", False)):
        assert torch.equal(state[f"layers.0.{name}"], state[f"layers.1.{name}"]) is same
