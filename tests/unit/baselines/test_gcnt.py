"""GCNT against its equations in NumPy, limb by limb."""

from functools import partial

import numpy as np
import pytest
import torch

from gmc_baselines.gcnt import SPEC
from gmc_baselines.gcnt.model import GCNT, build
from gmc_baselines.gcnt.wl import colour_histogram, refine_colours
from gmc_bench.conformance.tokens import random_parents
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn import LimbGraph, fixed_weights
from gmc_bench.tokens import TokenSpec
from tests.support.equations import (
    TREE_BATCHES,
    assert_forward_matches,
    assert_gradients_match,
    perturbed,
    tree_tokens,
)

SLOTS = 7
VARIANTS = [{}, {"max_distance": 2, "colour_rounds": 1, "num_convolutions": 1}]


def pad(trees, slots):
    return torch.tensor([tree + [-2] * (slots - len(tree)) for tree in trees])


def make_tokens(trees, slots=SLOTS):
    return tree_tokens(trees, TokenSpec(slots), first_again=True)


def make_network(changes, slots=SLOTS):
    torch.manual_seed(0)
    small = {
        "width": 6,
        "num_heads": 2,
        "feedforward": 5,
        "num_layers": 2,
        "num_convolutions": 2,
        "colour_bins": 5,
        **changes,
    }
    config = SPEC.make_config("paper", small)
    return config, perturbed(build(config, TokenSpec(slots), 2))


def limb_types(parents):
    return [0 if parent == -1 else 1 if i in parents else 2 for i, parent in enumerate(parents)]


def neighbours_of(parents):
    limbs = range(len(parents))
    return [[j for j in limbs if parents[i] == j or parents[j] == i] for i in limbs]


def hops(parents):
    """Joints between all limbs, by walking outwards from each."""
    neighbours = neighbours_of(parents)
    found = []
    for start in range(len(parents)):
        reached, front, steps = {start: 0}, [start], 0
        while front:
            steps += 1
            front = [j for i in front for j in neighbours[i] if j not in reached]
            reached.update(dict.fromkeys(front, steps))
        found.append(reached)
    return found


def split_mix(state):
    """Output of the generator SplitMix64 for a state, in Python's unlimited integers."""
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def hashed_colours(parents, rounds):
    neighbours, colours = neighbours_of(parents), limb_types(parents)
    for _ in range(rounds):
        own = [split_mix(colour) for colour in colours]
        colours = [
            split_mix((own[i] + sum(split_mix(own[j]) for j in near)) % 2**64)
            for i, near in enumerate(neighbours)
        ]
    return colours


def classical_colours(parents, rounds):
    """Refinement with the sorted colours of the neighbours written out."""
    neighbours, colours = neighbours_of(parents), [str(kind) for kind in limb_types(parents)]
    for _ in range(rounds):
        colours = [
            f"({colours[i]}|{','.join(sorted(colours[j] for j in near))})"
            for i, near in enumerate(neighbours)
        ]
    return colours


def layer_norm(p, prefix, x):
    centred = x - np.mean(x)
    normed = centred / np.sqrt(np.mean(centred**2) + 1e-5)
    return p[f"{prefix}weight"] * normed + p[f"{prefix}bias"]


def graph_features(p, parents, config):
    """g of every limb: graph convolutions over the types, joined with the colour shares."""
    neighbours = neighbours_of(parents)
    degree = [1 + len(near) for near in neighbours]
    prefix = "attention.encoder."
    rows = [p[f"{prefix}types.weight"][:, kind] for kind in limb_types(parents)]
    for layer in range(config.num_convolutions):
        first = p[f"{prefix}convolutions.{layer}.spread.lin.weight"]
        second = p[f"{prefix}convolutions.{layer}.update.weight"]
        spread = [
            sum(first @ rows[j] / np.sqrt(degree[i] * degree[j]) for j in [i, *near])
            for i, near in enumerate(neighbours)
        ]
        rows = [second @ np.maximum(s, 0) + x for s, x in zip(spread, rows, strict=True)]
    shares = np.zeros(config.colour_bins)
    for colour in hashed_colours(parents, config.colour_rounds):
        shares[colour % config.colour_bins] += 1 / len(parents)
    weight, bias = p[f"{prefix}join.weight"], p[f"{prefix}join.bias"]
    return [weight @ np.concatenate((x, shares)) + bias for x in rows]


def attend(p, prefix, conditions, rows, bias, num_heads):
    """Queries and keys from the conditions, values from the rows; bias[i][j] holds heads."""
    width = len(rows[0])
    size = width // num_heads
    weight = np.split(p[f"{prefix}in_proj_weight"], 3)
    offset = np.split(p[f"{prefix}in_proj_bias"], 3)
    query, key, value = (
        [weight[k] @ x + offset[k] for x in source]
        for k, source in enumerate((conditions, conditions, rows))
    )
    found = []
    for i in range(len(rows)):
        heads = []
        for head in range(num_heads):
            part = slice(head * size, (head + 1) * size)
            scores = [
                np.exp(query[i][part] @ key[j][part] / np.sqrt(size) + bias[i][j][head])
                for j in range(len(rows))
            ]
            mixed = sum(s * v[part] for s, v in zip(scores, value, strict=True))
            heads.append(mixed / sum(scores))
        found.append(p[f"{prefix}out_proj.weight"] @ np.concatenate(heads))
    return [x + p[f"{prefix}out_proj.bias"] for x in found]


def reference(p, features, parents, config):
    """Outputs (num_limbs, num_outputs) of one body."""
    limbs = range(len(parents))
    scale = np.sqrt(config.width)
    rows = [scale * (p["embedding.weight"] @ o + p["embedding.bias"]) for o in features]
    graph = graph_features(p, parents, config)
    steps = hops(parents)
    table = p["attention.distances"]
    bias = [[table[min(steps[i][j], config.max_distance)] for j in limbs] for i in limbs]
    for index in range(config.num_layers):
        prefix = f"attention.layers.{index}."
        conditions = [layer_norm(p, f"{prefix}norm_context.", g) for g in graph]
        values = [layer_norm(p, f"{prefix}norm1.", x) for x in rows]
        mixed = attend(p, f"{prefix}self_attn.", conditions, values, bias, config.num_heads)
        rows = [x + y for x, y in zip(rows, mixed, strict=True)]
        for limb, x in enumerate(rows):
            hidden = p[f"{prefix}linear1.weight"] @ layer_norm(p, f"{prefix}norm2.", x)
            hidden = np.maximum(hidden + p[f"{prefix}linear1.bias"], 0)
            rows[limb] = x + p[f"{prefix}linear2.weight"] @ hidden + p[f"{prefix}linear2.bias"]
    return np.stack([p["decoder.output.weight"] @ x + p["decoder.output.bias"] for x in rows])


def graph_of(trees, slots=SLOTS):
    parents = pad(trees, slots)
    graph = LimbGraph(parents, parents == -2)
    return graph.limb_type.numpy(), graph.adjacency.numpy()


@pytest.mark.parametrize("changes", VARIANTS)
@pytest.mark.parametrize("trees", TREE_BATCHES.values(), ids=TREE_BATCHES)
def test_forward_matches_the_equations(changes, trees):
    config, network = make_network(changes)
    assert_forward_matches(network, make_tokens(trees), partial(reference, config=config))


@pytest.mark.parametrize("changes", VARIANTS)
def test_gradients_match_finite_differences_of_the_equations(changes):
    config, network = make_network(changes)
    tokens = make_tokens([[-1], [-1, 0, 1, 2, 0], [-1, 0]])
    assert_gradients_match(network, tokens, partial(reference, config=config))


def test_the_reference_hash_gives_the_published_numbers_of_split_mix():
    """First outputs of the generator seeded with 1234567, as published for SplitMix64."""
    states = [1234567 + step * 0x9E3779B97F4A7C15 for step in range(3)]
    assert [split_mix(state) for state in states] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_colours_match_integer_arithmetic(rounds):
    trees = TREE_BATCHES["mixture"] + TREE_BATCHES["random"]
    found = refine_colours(*graph_of(trees), rounds=rounds)
    for row, tree in enumerate(trees):
        assert found[row, : len(tree)].tolist() == hashed_colours(tree, rounds)


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_hashed_colours_tell_limbs_apart_as_classical_refinement_does(rounds):
    rng = np.random.default_rng(0)
    trees = [random_parents(rng, int(rng.integers(1, 13))) for _ in range(60)]
    found = refine_colours(*graph_of(trees, 12), rounds=rounds)
    hashed = [c for row, tree in enumerate(trees) for c in found[row, : len(tree)].tolist()]
    classical = [c for tree in trees for c in classical_colours(tree, rounds)]
    assert len(set(hashed)) == len(set(classical)) == len(set(zip(hashed, classical, strict=True)))


def test_histogram_depends_on_the_tree_and_not_on_the_order_of_limbs():
    """A torso with a chain of two and a single limb, drawn in three orders.

    0 - 1 - 2,  0 - 3   and   0 - 1,  0 - 2 - 3   and   0 - 2 - 1,  0 - 3.
    """
    same = [[-1, 0, 1, 0], [-1, 0, 0, 2], [-1, 2, 0, 0]]
    star, chain = [-1, 0, 0, 0], [-1, 0, 1, 2]
    found = colour_histogram(*graph_of([*same, star, chain]), rounds=3, bins=32)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    assert (found[3] != found[4]).any()
    assert (found[0] != found[3]).any()
    assert (found[0] != found[4]).any()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=0, atol=1e-15)
    # A star has two kinds of limb, its torso and three leaves; a chain of four has four kinds.
    assert sorted(found[3][found[3] > 0]) == [0.25, 0.75]
    assert found[4].max() == 0.25


def test_default_histograms_tell_random_trees_apart():
    def shape(tree, limb=0):
        children = [child for child, parent in enumerate(tree) if parent == limb]
        return f"({''.join(sorted(shape(tree, child) for child in children))})"

    rng = np.random.default_rng(0)
    trees = [random_parents(rng, int(rng.integers(6, 13))) for _ in range(300)]
    config = SPEC.make_config("paper")
    found = colour_histogram(
        *graph_of(trees, 12), rounds=config.colour_rounds, bins=config.colour_bins
    )
    assert len(np.unique(found, axis=0)) == len({shape(tree) for tree in trees}) > 100


def test_padding_is_not_counted():
    trees = [[-1], [-1, 0, 0]]
    narrow = colour_histogram(*graph_of(trees, 3), rounds=3, bins=8)
    np.testing.assert_array_equal(colour_histogram(*graph_of(trees, 20), rounds=3, bins=8), narrow)


def test_kept_colours_are_those_of_the_table():
    """Training and test bodies take turns; both share rows 0 and 1 of their tables."""
    _, network = make_network({})
    first, second = make_tokens([[-1, 0, 1], [-1, 0]]), make_tokens([[-1, 0, 0], [-1]])
    expected = [make_network({})[1](tokens) for tokens in (first, second)]
    for _ in range(2):
        for tokens, outputs in zip((first, second), expected, strict=True):
            assert torch.equal(network(tokens), outputs)


def test_attention_kept_for_fixed_weights_changes_nothing():
    _, network = make_network({})
    tokens = make_tokens(TREE_BATCHES["mixture"])
    expected = network(tokens).detach()
    with fixed_weights(network):
        for _ in range(2):
            torch.testing.assert_close(network(tokens), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("changes", VARIANTS)
def test_short_bodies_in_many_slots_give_finite_gradients(changes):
    _, network = make_network(changes, slots=40)
    network(make_tokens([[-1], [-1, 0]], slots=40)).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        # Embedding 6,784; types 384; a convolution 2 * 128^2; join 160 * 128 + 128; distances 26;
        # a layer 329,856 and 256 of the norm on g; decoders 258 and 129.
        ("paper", 2 * (6_784 + 384 + 98_304 + 20_608 + 26 + 5 * 330_112) + 258 + 129),
        # Embedding 2,120; types 120; a convolution 2 * 40^2; join 72 * 40 + 40; distances 26; a
        # layer 4 * 40^2 + 4 * 40 + 2 * 40 * 160 + 160 + 40 + 6 * 40; decoders 82 and 41.
        ("lite", 2 * (2_120 + 120 + 6_400 + 2_920 + 26 + 3 * 19_800) + 82 + 41),
    ],
)
def test_parameter_counts(preset, expected):
    policy = ActorCritic(SPEC, SPEC.make_config(preset), TokenSpec(12))
    assert policy.num_parameters() == expected == SPEC.parameters[preset]


def test_gradients_are_repeated_with_several_threads():
    """Plain indexing would add up those of the distances in an order left to chance."""
    trees = [random_parents(np.random.default_rng(seed), 30) for seed in range(20)]
    _, network = make_network({"num_layers": 1, "num_convolutions": 1}, slots=30)
    table, own = make_tokens(trees, slots=30).table, torch.arange(20)
    outer = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        (attention,) = network.attention.compute(table, own)
        total = (attention * torch.randn(attention.shape, dtype=torch.float64)).sum()
        distances = network.attention.distances
        runs = [torch.autograd.grad(total, distances, retain_graph=True)[0] for _ in range(12)]
    finally:
        torch.set_num_threads(outer)
    assert all(torch.equal(run, runs[0]) for run in runs)


def test_initialisation():
    torch.manual_seed(0)
    network = GCNT(SPEC.make_config("paper"), TokenSpec(12), 2)
    largest = {name: value.abs().max().item() for name, value in network.state_dict().items()}
    encoder = "attention.encoder"
    assert 0.099 < largest["embedding.weight"] <= 0.1
    assert 0.0095 < largest["decoder.output.weight"] <= 0.01
    assert 0.55 < largest[f"{encoder}.types.weight"] <= 0.5774  # 1 / sqrt(3)
    assert 0.152 < largest[f"{encoder}.convolutions.0.spread.lin.weight"] <= 0.1531  # sqrt(6 / 256)
    assert 0.088 < largest[f"{encoder}.convolutions.0.update.weight"] <= 0.0884  # 1 / sqrt(128)
    assert largest["attention.distances"] == 0
