import math

import pytest
import torch

from gmc_bench.nn import MaskedGaussian

STD = torch.tensor(0.9, dtype=torch.float64)
# Body 0 has two actuators, body 1 has one.
MASK = torch.tensor([[[True, True], [False, False]], [[True, True], [False, True]]])
MEAN = torch.tensor([[[9.0, 9.0], [0.5, -1.0]], [[9.0, 9.0], [2.0, 9.0]]], dtype=torch.float64)


def test_log_prob_by_hand():
    action = torch.zeros_like(MEAN)
    action[0, 1] = torch.tensor(
        [1.4, -1.0], dtype=torch.float64
    )  # one and zero standard deviations away
    action[1, 1, 0] = 0.2  # two standard deviations away
    # ln(0.9) = -0.105360515657826, ln(2 pi) / 2 = 0.918938533204673
    peak = 0.105360515657826 - 0.918938533204673
    found = MaskedGaussian(MEAN, STD, MASK).log_prob(action)
    assert found.tolist() == pytest.approx([2 * peak - 0.5, peak - 2.0], rel=1e-13)


def test_entropy_by_hand():
    one = 1.418938533204673 - 0.105360515657826  # ln(2 pi e) / 2 + ln(0.9)
    found = MaskedGaussian(MEAN, STD, MASK).entropy()
    assert found.tolist() == pytest.approx([2 * one, one], rel=1e-13)


def test_log_prob_and_entropy_agree_with_torch_where_everything_is_active():
    torch.manual_seed(0)
    mean, action = torch.randn(2, 3, 4, 2, dtype=torch.float64)
    nothing_masked = torch.zeros(3, 4, 2, dtype=torch.bool)
    ours = MaskedGaussian(mean, STD, nothing_masked)
    torchs = torch.distributions.Normal(mean, STD)
    assert torch.allclose(ours.log_prob(action), torchs.log_prob(action).sum((1, 2)))
    assert torch.allclose(ours.entropy(), torchs.entropy().sum((1, 2)))


def test_mode_is_the_mean_with_zeros_in_padding():
    assert MaskedGaussian(MEAN, STD, MASK).mode.tolist() == [
        [[0.0, 0.0], [0.5, -1.0]],
        [[0.0, 0.0], [2.0, 0.0]],
    ]


def test_samples_follow_the_generator_and_are_zero_in_padding():
    distribution = MaskedGaussian(MEAN, STD, MASK)
    first = distribution.sample(torch.Generator().manual_seed(3))
    torch.randn(5)  # the global generator plays no part
    assert torch.equal(first, distribution.sample(torch.Generator().manual_seed(3)))
    assert not torch.equal(first, distribution.sample(torch.Generator().manual_seed(4)))
    assert not first[MASK].any()
    assert not first.requires_grad


def test_samples_have_the_mean_and_standard_deviation():
    mean = torch.full((20_000, 1, 1), 0.7)
    mask = torch.zeros(20_000, 1, 1, dtype=torch.bool)
    sample = MaskedGaussian(mean, STD.float(), mask).sample(torch.Generator().manual_seed(0))
    assert float(sample.mean()) == pytest.approx(0.7, abs=4 * 0.9 / math.sqrt(20_000))
    assert float(sample.std()) == pytest.approx(0.9, rel=0.02)


def test_padding_reaches_neither_value_nor_gradient():
    mean = MEAN.clone().masked_fill(MASK, torch.nan).requires_grad_()
    action = torch.ones_like(MEAN).masked_fill(MASK, torch.nan)
    log_prob = MaskedGaussian(mean, STD, MASK).log_prob(action)
    log_prob.sum().backward()
    assert log_prob.isfinite().all()
    # d log p / d mean = (a - mean) / std^2
    expected = [[[0, 0], [0.5 / 0.81, 2 / 0.81]], [[0, 0], [-1 / 0.81, 0]]]
    assert torch.allclose(mean.grad, torch.tensor(expected, dtype=torch.float64))
