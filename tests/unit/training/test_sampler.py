"""Which body comes next, and the online training return."""

import numpy as np
import pytest

from gmc_bench.training.sampler import BalancedSampler, ReturnTracker, sampling_probabilities


def sampler(alpha=1.0, warmup=0):
    return BalancedSampler(3, horizon=100, alpha=alpha, warmup_iterations=warmup)


def record(target, body, lengths):
    target.record([body] * len(lengths), lengths)


def test_probabilities_balance_the_steps():
    # weights 100/10, 100/50, 100/100 = 10, 2, 1
    found = sampling_probabilities(np.array([10.0, 50.0, 100.0]), 100, 1.0)
    np.testing.assert_allclose(found, np.array([10, 2, 1]) / 13)
    np.testing.assert_allclose(found * [10, 50, 100], 100 / 13)


def test_alpha_zero_is_uniform_and_one_half_lies_between():
    length = np.array([25.0, 100.0])
    np.testing.assert_allclose(sampling_probabilities(length, 100, 0.0), [0.5, 0.5])
    np.testing.assert_allclose(sampling_probabilities(length, 100, 0.5), [2 / 3, 1 / 3])


def test_a_length_of_zero_counts_as_one_step():
    found = sampling_probabilities(np.array([0.0, 1.0]), 100, 1.0)
    np.testing.assert_allclose(found, [0.5, 0.5])


def test_the_average_starts_with_the_mean_of_ten_episodes():
    target = sampler()
    record(target, 0, list(range(10, 30, 2)))  # mean 19
    np.testing.assert_allclose(target.get_state()["length"][0], 19.0)
    record(target, 0, [59])  # 0.9 * 19 + 0.1 * 59
    np.testing.assert_allclose(target.get_state()["length"][0], 23.0)
    record(target, 0, [3])  # 0.9 * 23 + 0.1 * 3
    np.testing.assert_allclose(target.get_state()["length"][0], 21.0)
    assert target.get_state()["count"].tolist() == [12, 0, 0]


def test_a_body_with_fewer_than_ten_episodes_counts_with_the_horizon():
    target = sampler()
    record(target, 0, [20] * 10)
    record(target, 1, [1] * 9)
    np.testing.assert_allclose(target.probabilities(0), np.array([5, 1, 1]) / 7)
    record(target, 1, [1])
    np.testing.assert_allclose(target.probabilities(0), np.array([5, 100, 1]) / 106)


def test_drawing_is_uniform_during_the_warm_up():
    target = sampler(warmup=2)
    record(target, 0, [20] * 10)
    for iteration in (0, 1):
        np.testing.assert_allclose(target.probabilities(iteration), [1 / 3] * 3)
    np.testing.assert_allclose(target.probabilities(2), np.array([5, 1, 1]) / 7)


def test_lengths_are_taken_in_order():
    target = sampler()
    target.record([0, 1] * 10 + [0], [10, 20] * 10 + [110])
    np.testing.assert_allclose(target.get_state()["length"], [20.0, 20.0, 0.0])


def test_the_sampler_continues_from_its_state():
    target, twin = sampler(), sampler()
    record(target, 0, list(range(1, 12)))
    twin.set_state(target.get_state())
    record(twin, 0, [50])
    record(target, 0, [50])
    assert twin.get_state()["length"].tolist() == target.get_state()["length"].tolist()
    assert twin.get_state()["count"].tolist() == [12, 0, 0]


def test_the_training_return_is_a_mean_of_means():
    tracker = ReturnTracker(2)
    assert tracker.mean_return(complete=False) is None
    tracker.record([0, 0, 0], [1.0, 2.0, 6.0], [10, 20, 30])
    assert tracker.mean_return(complete=False) == pytest.approx(3.0)
    assert tracker.mean_return(complete=True) is None
    assert tracker.bodies_seen == 1
    tracker.record([1], [5.0], [100])
    assert tracker.mean_return(complete=True) == pytest.approx(4.0)  # not (1 + 2 + 6 + 5) / 4
    assert tracker.mean_length(complete=True) == pytest.approx(60.0)


def test_only_the_last_ten_episodes_of_a_body_count():
    tracker = ReturnTracker(1)
    tracker.record([0] * 12, [1000.0, 1000.0, *range(10)], [1] * 12)
    assert tracker.mean_return(complete=True) == pytest.approx(4.5)


def test_the_tracker_continues_from_its_state():
    tracker, twin = ReturnTracker(3), ReturnTracker(3)
    tracker.record([0] * 11 + [2], [float(k) for k in range(12)], list(range(12)))
    twin.set_state(tracker.get_state())
    for item in (tracker, twin):
        item.record([0, 2], [100.0, -1.0], [5, 6])
    assert twin.mean_return(complete=False) == tracker.mean_return(complete=False)
    assert twin.mean_length(complete=False) == tracker.mean_length(complete=False)
    assert twin.bodies_seen == 2


@pytest.mark.parametrize("bodies", [1, 7, 300])
def test_means_that_are_kept_are_those_of_the_windows_to_the_bit(bodies):
    """Committed learning curves depend on every bit of these means."""
    rng = np.random.default_rng(bodies)
    tracker, windows = ReturnTracker(bodies), [[] for _ in range(bodies)]
    for _ in range(40):
        index = rng.integers(bodies, size=5).tolist()
        values = (1e3 * rng.standard_normal(5)).tolist()
        tracker.record(index, values, [1] * 5)
        for body, value in zip(index, values, strict=True):
            windows[body] = [*windows[body], value][-ReturnTracker.WINDOW :]
        means = [float(np.mean(window)) for window in windows if window]
        assert tracker.mean_return(complete=False) == float(np.mean(means))
        assert tracker.bodies_seen == len(means)
        complete = float(np.mean(means)) if len(means) == bodies else None
        assert tracker.mean_return(complete=True) == complete
        state = tracker.get_state()
        again = ReturnTracker(bodies)
        again.set_state(state)
        assert again.mean_return(complete=False) == float(np.mean(means))


def test_a_mean_looks_only_at_bodies_with_new_episodes(monkeypatch):
    tracker = ReturnTracker(50)
    tracker.record(range(50), [1.0] * 50, [1] * 50)
    tracker.mean_return(complete=True)
    tracker.record([3, 3, 8], [2.0] * 3, [1] * 3)
    sizes = []
    mean = np.mean
    monkeypatch.setattr(np, "mean", lambda values: sizes.append(len(values)) or mean(values))
    tracker.mean_return(complete=True)
    assert sorted(sizes) == [2, 3, 50]  # two windows that changed, and the mean over bodies
