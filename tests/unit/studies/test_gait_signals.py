"""Periods and phases of motions that are known."""

import numpy as np
import pytest

from gmc_bench.studies.gait_signals import autocorrelation, joint_phases, stride_lag

DT = 0.02
TIME = np.arange(500) * DT


def wave(frequency, shift=0.0):
    return np.cos(2 * np.pi * frequency * TIME - shift)


def test_autocorrelation_by_hand():
    # Less their mean of 1 the values are 1, -1, 1, -1: neighbours are opposites.
    np.testing.assert_allclose(autocorrelation(np.array([[2.0], [0], [2], [0]])), [1, -1, 1])
    # 3, -1, -1, -1 one step apart: (-3 + 1 + 1) / sqrt(11 x 3).
    found = autocorrelation(np.array([[4.0], [0], [0], [0]]))
    assert found[1] == pytest.approx(-1 / np.sqrt(33))
    assert (autocorrelation(np.ones((6, 2))) == 0.0).all()
    # Columns count by how much they move.
    both = np.column_stack([10 * wave(1.0), wave(2.0)])
    assert autocorrelation(both)[25] == pytest.approx((-100 + 1) / 101, abs=0.02)


@pytest.mark.parametrize("frequency", [0.7, 1.5, 2.3])
def test_the_stride_is_the_period_of_the_joint_that_moves_most(frequency):
    angles = np.column_stack([0.1 * wave(3.1), 0.4 * wave(frequency, 1.0), np.zeros(500)])
    assert 1 / (stride_lag(angles, 100) * DT) == pytest.approx(frequency, rel=0.005)


def test_two_beats_in_a_stride_are_one_stride():
    beats = wave(1.0) + 1.5 * wave(2.0, 0.3)
    assert stride_lag(beats[:, None], 100) * DT == pytest.approx(1.0, rel=0.01)


def test_a_repeated_stride_is_not_a_longer_one():
    noise = np.random.default_rng(0).normal(0.0, 0.05, 500)
    assert stride_lag((wave(2.0) + noise)[:, None], 100) * DT == pytest.approx(0.5, rel=0.02)


BEATS = np.tile([3.0, 1.0, 1.0, 1.0], 10)
# Nowhere below zero, up to half of the time: its opposite comes later.
ONE_WAY = np.concatenate([BEATS, np.zeros(120), -BEATS])


@pytest.mark.parametrize(
    "angles", [np.zeros((50, 2)), np.zeros((50, 0)), TIME[:, None], ONE_WAY[:, None]]
)
def test_no_stride_without_repetition(angles):
    assert np.isnan(stride_lag(angles, 100))


def test_what_repeats_itself_slowly_is_not_a_stride():
    slow = wave(0.25)[:, None]
    assert stride_lag(slow, 220) * DT == pytest.approx(4.0, rel=0.02)
    assert np.isnan(stride_lag(slow, 100))
    longest = stride_lag(wave(0.5)[:, None], 100)  # of 100 steps
    assert longest == pytest.approx(100.0, rel=0.02)


def test_the_phase_is_zero_at_the_greatest_angle_and_grows():
    angles = np.column_stack([0.3 + 0.2 * wave(1.0), 0.2 * wave(1.0, np.pi / 2), 0.001 * wave(1.0)])
    phases = joint_phases(angles)
    turned = np.unwrap(phases[:, 0])
    np.testing.assert_allclose(turned, 2 * np.pi * TIME, atol=1e-6)
    difference = np.angle(np.exp(1j * (phases[:, 0] - phases[:, 1])))
    np.testing.assert_allclose(difference, np.pi / 2, atol=1e-6)
    assert np.isnan(phases[:, 2]).all()
