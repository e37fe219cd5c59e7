"""Probes of made-up features, whose results are known."""

import numpy as np
import pytest

from gmc_bench.core.errors import ConfigError
from gmc_bench.studies import linear_probe
from gmc_bench.studies.linear_probe import (
    balanced_accuracy,
    explained_variance,
    split_by_time,
    standardised,
)


def rng():
    return np.random.default_rng(0)


def test_the_last_third_is_held_out_behind_a_gap():
    step = np.repeat(np.arange(200, 500), 4)
    train, test = split_by_time(step, rng())
    assert set(step[train]) == set(range(200, 380))
    assert set(step[test]) == set(range(400, 500))
    assert len(train) == 180 * 4
    assert len(test) == 100 * 4


def test_the_split_of_thinned_steps_and_of_too_few():
    train, test = split_by_time(np.arange(200, 500, 7), rng())
    assert (train.max(), test.min()) == (25, 29)  # steps 375 and 403
    with pytest.raises(ConfigError, match="needs at least 3 steps, got 2; collect more"):
        split_by_time(np.array([4, 5]), rng())


def test_more_rows_than_a_probe_takes_are_drawn(monkeypatch):
    monkeypatch.setattr(linear_probe, "MAX_ROWS", 50)
    step = np.repeat(np.arange(300), 4)
    train, test = split_by_time(step, rng())
    assert len(train) == len(np.unique(train)) == len(test) == 50
    assert step[train].max() < 180
    assert step[test].min() >= 200
    assert train.tolist() == split_by_time(step, rng())[0].tolist()
    assert train.tolist() != split_by_time(step, np.random.default_rng(1))[0].tolist()


def test_standardising_takes_numbers_of_the_first_array_alone():
    constant = np.float32(1000.1)  # but for rounding
    fitted = np.array([[1.0, constant], [3.0, np.nextafter(constant, np.float32(2e3))]], np.float32)
    other = np.array([[5.0, 1001.1]], np.float32)
    first, second = standardised(fitted, other)
    np.testing.assert_allclose(first, [[-1, 0], [1, 0]], atol=1e-3)
    np.testing.assert_allclose(second, [[3, 1]], atol=1e-3)  # a constant channel is not blown up


def test_classes_that_are_there_are_read_and_noise_is_not():
    known, asked = rng().integers(0, 4, 2000), rng().integers(0, 4, 1000)
    noise = [rng().normal(size=(n, 6)).astype(np.float32) for n in (2000, 1000)]
    marked = [part.copy() for part in noise]
    for part, label in zip(marked, (known, asked), strict=True):
        part[:, :4] += 20 * np.eye(4)[label]
    assert balanced_accuracy(marked, known, asked) == 1.0
    assert balanced_accuracy(noise, known, asked) == pytest.approx(0.25, abs=0.05)


def test_rare_classes_weigh_as_much_as_frequent_ones():
    # Nothing tells the classes apart, so that all rows go to the frequent one: recall 1 and 0.
    known, asked = np.repeat([0, 1], [900, 100]), np.repeat([0, 1], [90, 10])
    inputs = [np.zeros((n, 2), np.float32) for n in (1000, 100)]
    assert balanced_accuracy(inputs, known, asked) == 0.5


@pytest.mark.parametrize(("size", "expected"), [(0.003, 0.5), (1.0, (5 / 7 + 1) / 2)])
def test_the_penalty_is_beside_the_mean_loss_however_many_rows_there_are(size, expected):
    """A feature of the square 9e-6 must not be read with a penalty of 1e-4; one of 1 is.

    Of ten rows, two of the frequent class and all three of the rare one have it.
    """
    known = np.tile(np.repeat([0, 1], [7, 3]), 1000)
    feature = size * np.tile(np.repeat([-1.0, 1.0], 5), 1000).astype(np.float32)[:, None]
    assert balanced_accuracy([feature, feature], known, known) == pytest.approx(expected)


def ridge(noise, scale=(1.0, 100.0)):
    """Return R2 of two targets of unlike size that are linear but for noise."""
    draw = rng()
    inputs = [draw.normal(size=(n, 5)).astype(np.float32) for n in (4000, 4000)]
    map_ = np.array([[1, 0, 2, 0, 0], [0, 2, 0, 1, 0]]).T / np.sqrt(5)
    targets = [
        ((part @ map_ + noise * draw.normal(size=(len(part), 2))) * scale).astype(np.float32)
        for part in inputs
    ]
    active = [np.ones((4000, 2), bool)] * 2
    return explained_variance(inputs, targets, active), inputs, targets


def test_linear_targets_are_explained_as_far_as_they_are_linear():
    assert ridge(0.0)[0] == pytest.approx(1.0, abs=1e-4)
    assert ridge(1.0)[0] == pytest.approx(0.5, abs=0.03)
    assert ridge(1.0, scale=(1.0, 1e-3))[0] == pytest.approx(ridge(1.0)[0], abs=1e-4)


def test_a_target_that_has_drifted_gives_less_than_nothing():
    _, inputs, targets = ridge(0.0)
    assert explained_variance(inputs, [targets[0], -targets[1]], [np.ones((4000, 2), bool)] * 2) < 0


@pytest.mark.parametrize(("shift", "expected"), [(0.0, 0.75), (3.0, 1.0 - 9.25)])
def test_explained_variance_by_hand(shift, expected):
    """Features of the variance 1e-3, as large as the penalty, so that half a target is found.

    What is off by `shift` on the rows tested is an error, but no variance.
    """
    sign = np.tile([1.0, -1.0], 50)[:, None]
    feature = (1e-3**0.5 * sign).astype(np.float32)
    targets = [sign.astype(np.float32), (sign[:40] + shift).astype(np.float32)]
    # A second target is nowhere active among the rows tested.
    both = [np.repeat(part, 2, axis=1) for part in targets]
    active = [np.ones((100, 2), bool), np.tile([True, False], (40, 1))]
    found = explained_variance([feature, feature[:40]], both, active)
    assert found == pytest.approx(expected, rel=1e-4)


def test_what_is_not_active_counts_for_nothing():
    expected, inputs, targets = ridge(1.0)
    active = [np.ones((4000, 2), bool) for _ in range(2)]
    for part, mask in zip(targets, active, strict=True):
        part[::2, 0], mask[::2, 0] = 1e9, False
    found = explained_variance(inputs, targets, active)
    assert found == pytest.approx(expected, abs=0.03)
    for mask in active:
        mask[:, 0] = False
    assert explained_variance(inputs, targets, active) == pytest.approx(0.5, abs=0.03)


def test_targets_that_never_vary_are_refused():
    inputs = [rng().normal(size=(9, 2)).astype(np.float32)] * 2
    targets, active = [np.ones((9, 1), np.float32)] * 2, [np.ones((9, 1), bool)] * 2
    with pytest.raises(ConfigError, match="the probed actions do not vary"):
        explained_variance(inputs, targets, active)
