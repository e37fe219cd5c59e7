"""The network against an independent implementation of the paper's equations, body by body."""

import dataclasses

import numpy as np
import pytest
import torch

from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn import TokenBatch
from gmc_bench.testing.tokens import random_tokens
from gmc_bench.tokens import TokenSpec
from recmorph import SPEC
from recmorph.model import RecMorph, build

TOKENS = TokenSpec(6)
SWITCHES = [
    {},
    {"modulation": False},
    {"modulation": False, "rms_norm": False},
    {"modulation": False, "rms_norm": False, "residual": False},
    {"rms_norm": False},
]
LENGTHS = [(1,), (6,), (3, 3, 3), (2, 6, 1, 4)]


def make(changes, lengths, batch_size, num_outputs=2):
    torch.manual_seed(0)
    config = SPEC.make_config("paper", {"width": 4, "hidden": 3, "num_blocks": 2, **changes})
    network = build(config, TOKENS, num_outputs).double()
    for parameter in network.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    tokens = random_tokens(np.random.default_rng(0), TOKENS, lengths, batch_size)
    return config, network, tokens


def silu(x):
    return x / (1 + np.exp(-x))


def norm(x, scale, eps):
    return scale * x / np.sqrt(np.mean(x**2) + eps)


def recurrence(p, prefix, inputs):
    found = []
    for suffix, order in (("l0", range(len(inputs))), ("l0_reverse", range(len(inputs))[::-1])):
        bias = p[f"{prefix}bias_ih_{suffix}"] + p[f"{prefix}bias_hh_{suffix}"]
        state = np.zeros(len(bias))
        states = [state] * len(inputs)
        for j in order:
            state = np.tanh(
                p[f"{prefix}weight_hh_{suffix}"] @ state
                + p[f"{prefix}weight_ih_{suffix}"] @ inputs[j]
                + bias
            )
            states[j] = state
        found.append(states)
    return [np.concatenate(pair) for pair in zip(*found, strict=True)]


def block(p, prefix, rows, config):
    def projected(name, x):
        if config.rms_norm:
            x = norm(x, p[f"{prefix}{name}_projection.scale"], config.norm_eps)
        return p[f"{prefix}{name}_projection.weight"] @ x

    context = recurrence(p, f"{prefix}recurrence.", [silu(projected("input", x)) for x in rows])
    found = []
    for x, y in zip(rows, context, strict=True):
        if config.modulation:
            gate = silu(p[f"{prefix}gate_projection.weight"] @ x)
            y = y * np.concatenate((gate, gate))
        out = projected("output", y)
        if config.residual:
            out = x + out
        if config.rms_norm:
            out = norm(out, p[f"{prefix}output_norm.weight"], config.norm_eps)
        found.append(out)
    return found


def reference(p, features, config):
    """Outputs (num_limbs, num_outputs) of one body with features (num_limbs, F)."""
    scale = np.sqrt(config.width)
    rows = [scale * (p["embedding.weight"] @ o + p["embedding.bias"]) for o in features]
    for index in range(config.num_blocks):
        rows = block(p, f"blocks.{index}.", rows, config)
    return np.stack([p["decoder.output.weight"] @ x + p["decoder.output.bias"] for x in rows])


def as_numpy(network):
    return {name: value.detach().numpy().copy() for name, value in network.named_parameters()}


def as_double(tokens):
    table = dataclasses.replace(tokens.table, context=tokens.table.context.double())
    return TokenBatch(table, tokens.morphology_index, tokens.dynamic.double())


@pytest.mark.parametrize("changes", SWITCHES)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_forward_matches_the_equations(changes, lengths):
    config, network, tokens = make(changes, lengths, batch_size=len(lengths) + 2)
    tokens = as_double(tokens)
    found = network(tokens).detach().numpy()
    for row, count in enumerate(tokens.num_limbs.tolist()):
        features = tokens.features[row, :count].numpy()
        expected = reference(as_numpy(network), features, config)
        np.testing.assert_allclose(found[row, :count], expected, rtol=0, atol=1e-10)
        assert not found[row, count:].any()


def test_one_environment_alone():
    config, network, tokens = make({}, (5,), batch_size=1)
    tokens = as_double(tokens)
    expected = reference(as_numpy(network), tokens.features[0, :5].numpy(), config)
    np.testing.assert_allclose(
        network(tokens)[0, :5].detach().numpy(), expected, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("changes", SWITCHES)
def test_gradients_match_finite_differences_of_the_equations(changes):
    config, network, tokens = make(changes, (1, 4, 2), batch_size=3)
    tokens = as_double(tokens)
    weights = torch.randn(3, 6, 2, dtype=torch.float64)
    (network(tokens) * weights.masked_fill(tokens.limb_padding_mask[..., None], 0)).sum().backward()
    parameters = as_numpy(network)
    bodies = [
        (tokens.features[row, :count].numpy(), weights[row, :count].numpy())
        for row, count in enumerate(tokens.num_limbs.tolist())
    ]

    def loss():
        return sum(np.sum(w * reference(parameters, o, config)) for o, w in bodies)

    rng = np.random.default_rng(0)
    for name, parameter in network.named_parameters():
        array = parameters[name]
        for index in rng.choice(array.size, size=min(6, array.size), replace=False):
            start, sides = array.flat[index], []
            for step in (1e-5, -1e-5):
                array.flat[index] = start + step
                sides.append(loss())
            array.flat[index] = start
            slope = (sides[0] - sides[1]) / 2e-5
            found = float(parameter.grad.flatten()[index])
            assert found == pytest.approx(slope, rel=1e-6, abs=1e-6), name


@pytest.mark.parametrize(
    ("preset", "changes", "expected"),
    [
        # 52 features and 2 actions: embedding 6,784; a block 2 * 128 * 256 + 263,168 + 512 * 128
        # + 768; decoders 258 and 129.
        ("paper", {}, 3_174_019),
        ("paper", {"modulation": False}, 3_174_019 - 8 * 128 * 256),
        ("paper", {"modulation": False, "rms_norm": False}, 2_905_731),
        ("paper", {"modulation": False, "rms_norm": False, "residual": False}, 2_905_731),
        # embedding 3,392; a block 2 * 64 * 64 + 2 * (2 * 64 * 64 + 128) + 128 * 64 + 256.
        ("lite", {}, 2 * (3_392 + 2 * 33_280) + 130 + 65),
    ],
)
def test_parameter_counts(preset, changes, expected):
    policy = ActorCritic(SPEC, SPEC.make_config(preset, changes), TokenSpec(12))
    assert policy.num_parameters() == expected


def test_spec_states_the_counts_of_its_presets():
    assert SPEC.parameters == {"paper": 3_174_019, "lite": 140_099}


def test_backward_direction_starts_at_the_last_real_limb():
    """The torso's output depends on the last limb, and not on the slot after it."""
    _, network, tokens = make({}, (4,), batch_size=1)
    dynamic = tokens.dynamic.double().requires_grad_()
    tokens = TokenBatch(as_double(tokens).table, tokens.morphology_index, dynamic)
    network(tokens)[0, 0].sum().backward()
    assert dynamic.grad[0, 3].any()
    assert not dynamic.grad[0, 4:].any()


def test_initialisation():
    torch.manual_seed(0)
    network = RecMorph(SPEC.make_config("paper"), TokenSpec(12), 2)
    largest = {name: value.abs().max().item() for name, value in network.state_dict().items()}
    assert 0.099 < largest["embedding.weight"] <= 0.1
    assert 0.0095 < largest["decoder.output.weight"] <= 0.01
    assert largest["decoder.output.bias"] == 0
    assert 0.062 < largest["blocks.0.recurrence.weight_hh_l0"] <= 0.0625  # 1 / sqrt(256)
    assert 0.088 < largest["blocks.0.input_projection.weight"] <= 0.0884  # 1 / sqrt(128)
    assert 0.044 < largest["blocks.0.output_projection.weight"] <= 0.0442  # 1 / sqrt(512)
    assert largest["blocks.0.output_norm.weight"] == 1


def test_decoder_may_have_hidden_layers():
    config = SPEC.make_config("lite", {"decoder_hidden": [64]})
    network = RecMorph(config, TokenSpec(12), 2)
    assert [layer.out_features for layer in network.decoder.hidden] == [64]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_same_outputs_and_gradients():
    _, network, tokens = make({}, (2, 6, 1, 4), batch_size=6)
    tokens = as_double(tokens)
    found = []
    for device in ("cpu", "cuda"):
        moved = TokenBatch(
            tokens.table.to(device), tokens.morphology_index.to(device), tokens.dynamic.to(device)
        )
        network.to(device).zero_grad()
        output = network(moved)
        output.square().sum().backward()
        found.append([output.cpu(), *(p.grad.cpu() for p in network.parameters())])
    for on_cpu, on_gpu in zip(*found, strict=True):
        assert torch.allclose(on_cpu, on_gpu, rtol=0, atol=1e-10)
