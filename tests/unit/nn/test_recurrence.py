import numpy as np
import pytest
import torch

from gmc_bench.nn import BidirectionalRNN, make_packing

LENGTHS = [[1], [6], [1, 1, 1], [4, 4, 4], [2, 6, 1, 6, 3], [5, 1]]
DOUBLE = torch.float64


def make(lengths, inputs=3, hidden=4):
    torch.manual_seed(0)
    rnn = BidirectionalRNN(inputs, hidden).to(DOUBLE)
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


def numpy_loss(parameters, inputs, lengths, weights):
    return sum(
        np.sum(weights[body, :length] * numpy_states(parameters, inputs[body, :length]))
        for body, length in enumerate(lengths)
    )


def as_numpy(rnn):
    return {name: value.detach().numpy().copy() for name, value in rnn.named_parameters()}


@pytest.mark.parametrize("lengths", LENGTHS)
def test_forward_matches_the_equations(lengths):
    rnn, packing, inputs = make(lengths)
    found = packing.unpack(rnn(packing.pack(inputs), packing)).detach().numpy()
    for body, length in enumerate(lengths):
        expected = numpy_states(as_numpy(rnn), inputs[body, :length].numpy())
        np.testing.assert_allclose(found[body, :length], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_gradients_match_finite_differences_of_the_equations(lengths):
    rnn, packing, inputs = make(lengths, inputs=2, hidden=3)
    inputs.requires_grad_()
    weights = torch.randn(len(lengths), 6, 6, dtype=DOUBLE)
    (packing.unpack(rnn(packing.pack(inputs), packing)) * weights).sum().backward()
    parameters, values = as_numpy(rnn), inputs.detach().numpy().copy()
    found = {name: value.grad for name, value in rnn.named_parameters()} | {"inputs": inputs.grad}
    for name, array in (*parameters.items(), ("inputs", values)):
        for index in np.ndindex(array.shape):
            sides, start = [], array[index]
            for step in (1e-5, -1e-5):
                array[index] = start + step
                sides.append(numpy_loss(parameters, values, lengths, weights.numpy()))
            array[index] = start
            slope = (sides[0] - sides[1]) / 2e-5
            assert float(found[name][index]) == pytest.approx(slope, abs=1e-7), (name, index)


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


def test_the_gradient_of_a_sum_arrives_and_is_not_overwritten():
    rnn, packing, inputs = make([3, 2])
    rows = packing.pack(inputs).requires_grad_()
    states = rnn(rows, packing)
    grad = torch.ones_like(states)
    (with_tensor,) = torch.autograd.grad(states, rows, grad, retain_graph=True)
    assert torch.equal(grad, torch.ones_like(states))
    (with_expanded,) = torch.autograd.grad(states.sum(), rows)  # stride-0 gradient
    assert torch.equal(with_tensor, with_expanded)


def test_repeated_runs_are_equal_to_the_bit():
    rnn, packing, inputs = make([6, 5, 3, 6] * 40, inputs=16, hidden=32)
    results = []
    for _ in range(2):
        rnn.zero_grad()
        rnn(packing.pack(inputs), packing).square().sum().backward()
        results.append([parameter.grad.clone() for parameter in rnn.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_initialisation_is_torchs():
    rnn = BidirectionalRNN(8, 100)
    for parameter in rnn.parameters():
        assert 0.08 < parameter.abs().max() <= 0.1  # 1 / sqrt(100)
