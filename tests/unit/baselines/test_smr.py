"""SMR against an independent implementation of its equations, limb by limb and step by step."""

import dataclasses

import numpy as np
import pytest
import torch

from gmc_baselines.smr import SPEC
from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.nn import History, TokenBatch
from gmc_bench.tokens import TokenSpec
from tests.support.equations import as_numpy, assert_slopes, gradients_of, sigmoid

TOKENS = TokenSpec(5)
VARIANTS = [
    {},
    {"cell": "lstm"},
    {"memory_place": "before_embedding"},
    {"cell": "lstm", "memory_place": "before_embedding"},
]
STEPS, ENVS = 3, 4


def make(changes):
    torch.manual_seed(0)
    sizes = {"width": 4, "num_heads": 2, "feedforward": 5, "num_layers": 2}
    config = SPEC.make_config("paper", {**sizes, **changes})
    network = SPEC.build(config, TOKENS, 2).double()
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    return config, network


def past(state_width, seed=0):
    """Three steps of four environments; two start a new episode with a larger or smaller body."""
    rng = np.random.default_rng(seed)
    tokens = random_tokens(rng, TOKENS, (5, 1, 3, 2), batch_size=STEPS * ENVS)
    index = torch.tensor([[0, 1, 2, 3], [0, 2, 2, 3], [1, 2, 2, 3]]).flatten()
    table = dataclasses.replace(tokens.table, context=tokens.table.context.double())
    tokens = TokenBatch(table, index, tokens.dynamic.double())
    starts = torch.zeros(STEPS, ENVS, dtype=torch.bool)
    starts[1, 1] = starts[2, 0] = True
    state = torch.from_numpy(rng.standard_normal((ENVS, TOKENS.max_limbs, state_width)))
    actions = torch.from_numpy(rng.standard_normal((STEPS, ENVS, TOKENS.max_limbs, 2)))
    return tokens, History(state, actions.masked_fill(starts[..., None, None], 0.0), starts)


def layer_norm(x, p, name):
    centred = x - x.mean()
    scaled = centred / np.sqrt((centred**2).mean() + 1e-5)
    return p[f"{name}.weight"] * scaled + p[f"{name}.bias"]


def unit(p, config, x, state):
    drive = p["memory.cell.weight_ih"] @ x + p["memory.cell.bias_ih"]
    width = config.width
    recurrent = p["memory.cell.weight_hh"] @ state[:width] + p["memory.cell.bias_hh"]
    if config.cell == "gru":
        reset = sigmoid(drive[:width] + recurrent[:width])
        update = sigmoid((drive + recurrent)[width : 2 * width])
        new = np.tanh(drive[2 * width :] + reset * recurrent[2 * width :])
        return (1 - update) * new + update * state
    inlet, forget, new, outlet = np.split(drive + recurrent, 4)
    cell = sigmoid(forget) * state[width:] + sigmoid(inlet) * np.tanh(new)
    return np.concatenate((sigmoid(outlet) * np.tanh(cell), cell))


def attention_layer(p, config, name, rows):
    normed = [layer_norm(x, p, f"{name}.norm1") for x in rows]
    stacked = [
        p[f"{name}.self_attn.in_proj_weight"] @ x + p[f"{name}.self_attn.in_proj_bias"]
        for x in normed
    ]
    size = config.width // config.num_heads
    mixed = [np.zeros(config.width) for _ in rows]
    for head in range(config.num_heads):
        part = [slice(k * config.width + head * size, k * config.width + (head + 1) * size)
                for k in range(3)]  # fmt: skip
        for i, query in enumerate(stacked):
            logits = np.array([query[part[0]] @ key[part[1]] for key in stacked]) / np.sqrt(size)
            weights = np.exp(logits - logits.max())
            weights /= weights.sum()
            found = sum(w * value[part[2]] for w, value in zip(weights, stacked, strict=True))
            mixed[i][part[0]] = found
    found = []
    for x, mix in zip(rows, mixed, strict=True):
        x = x + p[f"{name}.self_attn.out_proj.weight"] @ mix
        x = x + p[f"{name}.self_attn.out_proj.bias"]
        hidden = p[f"{name}.linear1.weight"] @ layer_norm(x, p, f"{name}.norm2")
        hidden = np.maximum(hidden + p[f"{name}.linear1.bias"], 0)
        found.append(x + p[f"{name}.linear2.weight"] @ hidden + p[f"{name}.linear2.bias"])
    return found


def reference(p, config, tokens, history):
    """Outputs by (step, environment), and the last states by environment."""
    scale = np.sqrt(config.width)
    features = tokens.features.numpy()
    outputs, last = {}, []
    for env in range(ENVS):
        state = history.state[env].numpy().copy()
        for step in range(STEPS):
            row = step * ENVS + env
            if history.starts[step, env]:
                state[:] = 0
            rows = []
            for limb in range(int(tokens.num_limbs[row])):
                action = history.previous_actions[step, env, limb].numpy()
                x = features[row, limb]
                if config.memory_place == "after_embedding":
                    x = scale * (p["embedding.weight"] @ x + p["embedding.bias"])
                state[limb] = unit(p, config, np.concatenate((x, action)), state[limb])
                x = state[limb][: config.width]
                if config.memory_place == "before_embedding":
                    x = scale * (p["embedding.weight"] @ x + p["embedding.bias"])
                rows.append(x)
            for layer in range(config.num_layers):
                rows = attention_layer(p, config, f"layers.{layer}", rows)
            outputs[step, env] = [
                p["decoder.output.weight"] @ x + p["decoder.output.bias"] for x in rows
            ]
        last.append(state[: len(rows)])
    return outputs, last


@pytest.mark.parametrize("preset", sorted(SPEC.presets))
def test_training_unrolls_sixteen_steps(preset):
    """As `deviations` says."""
    network = SPEC.build(SPEC.make_config(preset), TOKENS, 2)
    assert network.sequence_length == 16
    assert any("unrolls 16 consecutive steps" in sentence for sentence in SPEC.deviations)


@pytest.mark.parametrize("changes", VARIANTS)
def test_forward_matches_the_equations(changes):
    config, network = make(changes)
    tokens, history = past(network.state_width)
    found, state = network(tokens, history)
    expected, last = reference(as_numpy(network), config, tokens, history)
    for (step, env), rows in expected.items():
        got = found[step * ENVS + env].detach().numpy()
        np.testing.assert_allclose(got[: len(rows)], rows, rtol=0, atol=1e-10)
        assert not got[len(rows) :].any()
    for env, rows in enumerate(last):
        got = state[env, : len(rows)].detach().numpy()
        np.testing.assert_allclose(got, rows, rtol=0, atol=1e-10)


@pytest.mark.parametrize("changes", VARIANTS)
def test_gradients_match_finite_differences_of_the_equations(changes):
    config, network = make(changes)
    tokens, history = past(network.state_width)
    weights = torch.from_numpy(np.random.default_rng(1).standard_normal((STEPS * ENVS, 5, 2)))
    weights = weights.masked_fill(tokens.limb_padding_mask[..., None], 0)
    (network(tokens, history)[0] * weights).sum().backward()
    p = as_numpy(network)

    def loss():
        outputs, _ = reference(p, config, tokens, history)
        return sum(
            float(np.sum(weights[step * ENVS + env, : len(rows)].numpy() * np.stack(rows)))
            for (step, env), rows in outputs.items()
        )

    assert_slopes(gradients_of(network), p, loss)


def test_the_unit_is_the_one_of_torch():
    _, network = make({})
    tokens, history = past(network.state_width)
    first = dataclasses.replace(
        history,
        previous_actions=history.previous_actions[:1],
        starts=history.starts[:1],
    )
    one = TokenBatch(tokens.table, tokens.morphology_index[:ENVS], tokens.dynamic[:ENVS])
    _, state = network(one, first)
    inputs = torch.cat((network.embedding(one), history.previous_actions[0]), dim=-1)
    real = ~one.limb_padding_mask
    expected = network.memory.cell(inputs[real], history.state[real])
    torch.testing.assert_close(state[real], expected)
    assert not state[~real].any()


def test_attention_layers_start_as_copies_as_in_the_backbone():
    network = SPEC.build(SPEC.make_config("lite"), TOKENS, 2)
    first, *others = (layer.state_dict() for layer in network.layers)
    assert others
    for other in others:
        assert all(torch.equal(value, other[name]) for name, value in first.items())


def test_stated_counts_follow_from_those_of_metamorph_star():
    """GRU(128 + 2 -> 128) adds 99,840 to each network of MetaMorph* (3,312,515 in all)."""
    assert SPEC.parameters["paper"] == 3_312_515 + 2 * 99_840


def test_initialisation_of_the_embedding_behind_the_memory():
    torch.manual_seed(0)
    changes = {"memory_place": "before_embedding", "embedding_init": 0.02}
    network = SPEC.build(SPEC.make_config("paper", changes), TOKENS, 2)
    assert 0.0199 < network.embedding.weight.abs().max() <= 0.02
