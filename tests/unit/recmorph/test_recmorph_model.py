"""The network against an independent implementation of the paper's equations, body by body."""

import dataclasses

import numpy as np
import pytest
import torch

from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.nn import TokenBatch, make_packing
from gmc_bench.tokens import TokenSpec
from recmorph import BIGRU, BILSTM, BIMAMBA2, SPEC
from recmorph.model import RecMorph, build
from tests.support.equations import as_numpy, assert_slopes, gradients_of
from tests.support.slow import slow_but

TOKENS = TokenSpec(6)
SWITCHES = [
    {"norm_eps": 0.1},
    {"modulation": False},
    {"modulation": False, "rms_norm": False},
    {"modulation": False, "rms_norm": False, "residual": False},
    {"rms_norm": False},
]
VARIANTS = {
    "bigru": {"cell": "bigru"},
    "bilstm": {"cell": "bilstm"},
    "bimamba2": {"cell": "bimamba2", "hidden": 4, "mamba_state": 3, "mamba_head": 4},
}
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


def block(p, prefix, rows, config, mix):
    def projected(name, x):
        if config.rms_norm:
            x = norm(x, p[f"{prefix}{name}_projection.scale"], config.norm_eps)
        return p[f"{prefix}{name}_projection.weight"] @ x

    context = mix(p, f"{prefix}recurrence.", [silu(projected("input", x)) for x in rows])
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


def reference(p, features, config, mix=recurrence):
    """Outputs (num_limbs, num_outputs) of one body with features (num_limbs, F)."""
    scale = np.sqrt(config.width)
    rows = [scale * (p["embedding.weight"] @ o + p["embedding.bias"]) for o in features]
    for index in range(config.num_blocks):
        rows = block(p, f"blocks.{index}.", rows, config, mix)
    return np.stack([p["decoder.output.weight"] @ x + p["decoder.output.bias"] for x in rows])


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

    assert_slopes(gradients_of(network), parameters, loss)


@pytest.mark.parametrize("cell", VARIANTS)
def test_other_cells_stand_in_the_same_block(cell):
    """Each body alone, the cell itself taken from the network; cells have references of theirs."""
    config, network, tokens = make(VARIANTS[cell], (1, 6, 3), batch_size=4)
    tokens = as_double(tokens)
    found = network(tokens).detach().numpy()

    def mix(prefix, inputs):
        module = network.get_submodule(prefix.rstrip("."))
        packing = make_packing(torch.tensor([len(inputs)]), len(inputs))
        with torch.no_grad():
            return list(module(torch.from_numpy(np.stack(inputs)), packing).numpy())

    for row, count in enumerate(tokens.num_limbs.tolist()):
        features = tokens.features[row, :count].numpy()
        expected = reference(
            as_numpy(network), features, config, lambda _, prefix, inputs: mix(prefix, inputs)
        )
        np.testing.assert_allclose(found[row, :count], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("cell", VARIANTS)
def test_gradients_with_other_cells_match_finite_differences(cell):
    _, network, tokens = make(VARIANTS[cell], (1, 6, 3), batch_size=4)
    tokens = as_double(tokens)
    directions = [torch.randn_like(parameter) for parameter in network.parameters()]
    network(tokens).sum().backward()
    found = sum(
        float((parameter.grad * direction).sum())
        for parameter, direction in zip(network.parameters(), directions, strict=True)
    )
    sides = []
    with torch.no_grad():
        for change in (1e-6, -2e-6):
            for parameter, direction in zip(network.parameters(), directions, strict=True):
                parameter += change * direction
            sides.append(float(network(tokens).sum()))
    assert found == pytest.approx((sides[0] - sides[1]) / 2e-6, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("cell", ["birnn", *VARIANTS])
def test_bfloat16_autocast_is_close_with_float32_gradients(cell):
    _, network, tokens = make(VARIANTS.get(cell, {}), (1, 6, 3), batch_size=4)
    network.float()
    expected = network(tokens).detach()
    with torch.autocast("cpu", torch.bfloat16):
        found = network(tokens)
    error = torch.linalg.vector_norm(found - expected) / torch.linalg.vector_norm(expected)
    assert 0 < error < 0.05
    found.float().sum().backward()
    for parameter in network.parameters():
        assert parameter.grad.dtype == torch.float32
        assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("cell", slow_but(["birnn", *VARIANTS], "bigru"))
def test_compiled_networks_agree_and_are_not_compiled_for_every_batch(cell):
    config = SPEC.make_config("lite", {"width": 8, "hidden": 8} | VARIANTS.get(cell, {}))
    torch.manual_seed(0)
    network = build(config, TOKENS, 2)
    torch.compiler.reset()
    frames = torch._dynamo.utils.counters["frames"]
    compiled, totals = torch.compile(network, backend="eager"), []
    for seed in range(8):
        lengths = tuple(np.random.default_rng(seed).integers(1, 7, size=4))
        tokens = random_tokens(np.random.default_rng(seed), TOKENS, lengths, 5 + seed)
        gradients = []
        for run in (network, compiled):
            network.zero_grad()
            outputs = run(tokens)
            outputs.square().sum().backward()
            gradients.append([outputs, *(parameter.grad for parameter in network.parameters())])
        for plain, traced in zip(*gradients, strict=True):
            assert torch.allclose(plain, traced, rtol=0, atol=1e-5)
        totals.append(frames["total"])
    assert totals[-1] == totals[3]


@pytest.mark.parametrize(
    ("method", "preset", "expected"),
    [
        # 52 features and 2 actions: embedding 6,784; a block 2 * 128 * 256 + cell + 512 * 128
        # + 768; decoders 258 and 129. Cells: tanh RNN 263,168, GRU three, LSTM four times that.
        (SPEC, "paper", 2 * (6_784 + 4 * (131_840 + 263_168)) + 387),
        (SPEC, "paper-2", 2 * (6_784 + 2 * (131_840 + 263_168)) + 387),
        (SPEC, "paper-plain", 3_174_019 - 8 * (128 * 256 + 768)),
        (SPEC, "paper-residual", 3_174_019 - 8 * (128 * 256 + 768)),
        (SPEC, "paper-rms-norm", 3_174_019 - 8 * 128 * 256),
        (SPEC, "paper-plain-matched", 3_164_483),
        # embedding 3,392; a block 2 * 64 * 64 + 2 * (2 * 64 * 64 + 128) + 128 * 64 + 256.
        (SPEC, "lite", 2 * (3_392 + 2 * 33_280) + 130 + 65),
        (BIGRU, "paper", 2 * (6_784 + 4 * (131_840 + 3 * 263_168)) + 387),
        (BIGRU, "paper-2", 3_699_331),
        (BILSTM, "paper", 2 * (6_784 + 4 * (131_840 + 4 * 263_168)) + 387),
        (BILSTM, "paper-2", 4_752_003),
        # two mixers of 465,176 (see the test of the mixer)
        (BIMAMBA2, "paper", 2 * (6_784 + 2 * (131_840 + 2 * 465_176)) + 387),
    ],
)
def test_stated_counts_follow_from_the_widths(method, preset, expected):
    assert method.parameters[preset] == expected


@pytest.mark.parametrize("method", [SPEC, BIGRU, BILSTM, BIMAMBA2], ids=lambda spec: spec.id)
def test_lite_networks_have_about_the_same_size(method):
    assert method.parameters["lite"] == pytest.approx(140_099, rel=0.05)


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
        gradients = [p.grad.cpu().clone() for p in network.parameters()]  # `to` moves them
        found.append([output.detach().cpu(), *gradients])
    for on_cpu, on_gpu in zip(*found, strict=True):
        assert torch.allclose(on_cpu, on_gpu, rtol=0, atol=1e-10)
