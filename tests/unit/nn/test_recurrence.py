import functools

import numpy as np
import pytest
import torch

from gmc_bench.nn import BidirectionalRNN, make_packing
from gmc_bench.nn.packing import make_padded_packing
from gmc_bench.nn.recurrence import BidirectionalGRU, BidirectionalLSTM
from tests.support.equations import as_numpy, assert_slopes, gradients_of, sigmoid

LENGTHS = [[1], [6], [1, 1, 1], [4, 4, 4], [2, 6, 1, 6, 3], [5, 1]]
DOUBLE = torch.float64


GATED = [BidirectionalGRU, BidirectionalLSTM]
CELLS = [BidirectionalRNN, *GATED]


def make(lengths, inputs=3, hidden=4, cell=BidirectionalRNN):
    torch.manual_seed(0)
    rnn = cell(inputs, hidden).to(DOUBLE)
    packing = make_packing(torch.tensor(lengths), max_limbs=6)
    return rnn, packing, torch.randn(len(lengths), 6, inputs, dtype=DOUBLE)


def numpy_states(parameters, body):
    """Both directions over one body, limb by limb, from the paper's equations."""
    found = []
    for suffix, order in (("l0", range(len(body))), ("l0_reverse", range(len(body))[::-1])):
        a, b = parameters[f"weight_hh_{suffix}"], parameters[f"weight_ih_{suffix}"]
        bias = parameters[f"bias_hh_{suffix}"] + parameters[f"bias_ih_{suffix}"]
        state, states = np.zeros(len(a)), np.zeros((len(body), len(a)))
        for limb in order:
            state = np.tanh(a @ state + b @ body[limb] + bias)
            states[limb] = state
        found.append(states)
    return np.concatenate(found, axis=1)


def gru_step(inner, outer, carried):
    (h,) = carried
    (xr, xz, xn), (hr, hz, hn) = np.split(inner, 3), np.split(outer, 3)
    z = sigmoid(xz + hz)
    return ((1 - z) * np.tanh(xn + sigmoid(xr + hr) * hn) + z * h,)


def lstm_step(inner, outer, carried):
    i, f, g, o = np.split(inner + outer, 4)
    memory = sigmoid(f) * carried[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(memory), memory


def numpy_gated(step, parameters, body):
    """Both directions of a gated cell over one body, limb by limb; carried is (h, memory...)."""
    found = []
    for suffix, order in (("l0", range(len(body))), ("l0_reverse", range(len(body))[::-1])):
        w, u = parameters[f"cell.weight_ih_{suffix}"], parameters[f"cell.weight_hh_{suffix}"]
        b, c = parameters[f"cell.bias_ih_{suffix}"], parameters[f"cell.bias_hh_{suffix}"]
        hidden = u.shape[1]
        carried = (np.zeros(hidden),) * (1 if step is gru_step else 2)
        states = np.zeros((len(body), hidden))
        for limb in order:
            carried = step(w @ body[limb] + b, u @ carried[0] + c, carried)
            states[limb] = carried[0]
        found.append(states)
    return np.concatenate(found, axis=1)


REFERENCE = {
    BidirectionalRNN: numpy_states,
    BidirectionalGRU: functools.partial(numpy_gated, gru_step),
    BidirectionalLSTM: functools.partial(numpy_gated, lstm_step),
}


def numpy_loss(reference, parameters, inputs, lengths, weights):
    return sum(
        np.sum(weights[body, :length] * reference(parameters, inputs[body, :length]))
        for body, length in enumerate(lengths)
    )


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_forward_matches_the_equations(cell, lengths):
    rnn, packing, inputs = make(lengths, cell=cell)
    found = packing.unpack(rnn(packing.pack(inputs), packing)).detach().numpy()
    for body, length in enumerate(lengths):
        expected = REFERENCE[cell](as_numpy(rnn), inputs[body, :length].numpy())
        np.testing.assert_allclose(found[body, :length], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", LENGTHS)
def test_gradients_match_finite_differences_of_the_equations(cell, lengths):
    rnn, packing, inputs = make(lengths, inputs=2, hidden=3, cell=cell)
    inputs.requires_grad_()
    weights = torch.randn(len(lengths), 6, 6, dtype=DOUBLE)
    (packing.unpack(rnn(packing.pack(inputs), packing)) * weights).sum().backward()
    parameters, values = as_numpy(rnn), inputs.detach().numpy().copy()
    found = gradients_of(rnn) | {"inputs": inputs.grad}

    def loss():
        return numpy_loss(REFERENCE[cell], parameters, values, lengths, weights.numpy())

    arrays = parameters | {"inputs": values}
    assert_slopes(found, arrays, loss, rel=None, tolerance=1e-7)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_torch_rnn_with_the_same_state_dict_agrees(lengths):
    rnn, packing, inputs = make(lengths)
    theirs = torch.nn.RNN(3, 4, bidirectional=True, batch_first=True).to(DOUBLE)
    theirs.load_state_dict(rnn.state_dict())
    sequence = torch.nn.utils.rnn.pack_padded_sequence(
        inputs, torch.tensor(lengths), batch_first=True, enforce_sorted=False
    )
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(theirs(sequence)[0], batch_first=True)
    found = packing.unpack(rnn(packing.pack(inputs), packing))[:, : expected.shape[1]]
    assert torch.allclose(found, expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_both_directions_side_by_side_are_the_same_function(lengths):
    """As on a GPU, and where rows include padding."""
    rnn, packing, _ = make(lengths)
    padded = make_padded_packing(torch.tensor(lengths), 6)
    real = torch.arange(6) < torch.tensor(lengths).unsqueeze(1)
    drive = torch.randn(len(lengths), 6, 8, dtype=DOUBLE, requires_grad=True)
    weights = torch.randn(packing.num_rows, 8, dtype=DOUBLE)
    parts = [drive, rnn.weight_hh_l0, rnn.weight_hh_l0_reverse]

    def found(recur, layout):
        states = layout.unpack(recur(layout.pack(drive), layout))[real]
        return [states, *torch.autograd.grad((states * weights).sum(), parts)]

    expected = found(rnn._recur, packing)
    for layout in (packing, padded):
        for one, other in zip(found(rnn._recur_side_by_side, layout), expected, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_the_gradient_of_a_sum_arrives_and_is_not_overwritten():
    rnn, packing, inputs = make([3, 2])
    rows = packing.pack(inputs).requires_grad_()
    states = rnn(rows, packing)
    grad = torch.ones_like(states)
    (with_tensor,) = torch.autograd.grad(states, rows, grad, retain_graph=True)
    assert torch.equal(grad, torch.ones_like(states))
    (with_expanded,) = torch.autograd.grad(states.sum(), rows)  # stride-0 gradient
    assert torch.equal(with_tensor, with_expanded)


@pytest.mark.parametrize("cell", CELLS)
def test_repeated_runs_are_equal_to_the_bit(cell):
    rnn, packing, inputs = make([6, 5, 3, 6] * 40, inputs=16, hidden=32, cell=cell)
    results = []
    for _ in range(2):
        rnn.zero_grad()
        rnn(packing.pack(inputs), packing).square().sum().backward()
        results.append([parameter.grad.clone() for parameter in rnn.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("cell", CELLS)
def test_an_empty_batch(cell):
    rnn, _, _ = make([1], cell=cell)
    packing = make_packing(torch.zeros(0, dtype=torch.int64), max_limbs=6)
    assert rnn(torch.zeros(0, 3, dtype=DOUBLE), packing).shape == (0, 8)


@pytest.mark.parametrize("cell", CELLS)
def test_bfloat16_autocast_is_close_with_float32_gradients(cell):
    rnn, packing, inputs = make([6, 1, 4, 6], inputs=32, hidden=32, cell=cell)
    rnn.float()
    rows = packing.pack(inputs).float().requires_grad_()
    wanted = rnn(rows, packing)
    wanted_grads = torch.autograd.grad(wanted.square().sum(), [rows, *rnn.parameters()])
    with torch.autocast("cpu", torch.bfloat16):
        found = rnn(torch.nn.functional.linear(rows, torch.eye(32)), packing)
    assert found.dtype == torch.bfloat16
    assert (found - wanted).abs().max() < 0.03  # 6 steps of numbers below 1 with 8 bits
    grads = torch.autograd.grad(found.float().square().sum(), [rows, *rnn.parameters()])
    for grad, want in zip(grads, wanted_grads, strict=True):
        assert grad.dtype == torch.float32
        assert torch.linalg.vector_norm(grad - want) < 0.05 * torch.linalg.vector_norm(want)


@pytest.mark.parametrize("cell", CELLS)
def test_initialisation_is_torchs(cell):
    rnn = cell(8, 100)
    for parameter in rnn.parameters():
        assert 0.08 < parameter.abs().max() <= 0.1  # 1 / sqrt(100)
