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


def test_a_body_counts_from_its_first_episode_and_before_like_the_average():
    target = sampler()
    np.testing.assert_allclose(target.probabilities(0), [1 / 3] * 3)
    record(target, 0, [10] * 12)
    np.testing.assert_allclose(target.probabilities(0), [1 / 3] * 3)
    record(target, 1, [20, 40])  # mean 30; the third body counts like (10 + 30) / 2
    weights = np.array([1 / 10, 1 / 30, 1 / 20])
    np.testing.assert_allclose(target.probabilities(0), weights / weights.sum())


def test_drawing_is_uniform_during_the_warm_up():
    target = sampler(warmup=2)
    target.record([0, 1, 2], [20, 100, 100])
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
    tracker = ReturnTracker(2, 1)
    assert tracker.mean_return(complete=False) is None
    tracker.record([0, 0, 0], [1.0, 2.0, 6.0], [10, 20, 30])
    assert tracker.mean_return(complete=False) == pytest.approx(3.0)
    assert tracker.mean_return(complete=True) is None
    tracker.record([1], [5.0], [100])
    assert tracker.mean_return(complete=True) == pytest.approx(4.0)  # not (1 + 2 + 6 + 5) / 4
    assert tracker.mean_length(complete=True) == pytest.approx(60.0)


def test_episodes_of_the_latest_iterations_count_or_else_the_last_one():
    state, found = ReturnTracker(3, 2).get_state(), []
    for index, returns in (
        ([0, 1, 1, 2], [1.0, 2.0, 4.0, 10.0]),
        ([0], [3.0]),
        ([0], [8.0]),  # the first iteration is forgotten; the others had one last episode there
        ([2, 2], [0.0, 1.0]),
        ([], []),
        ([], []),
    ):
        tracker = ReturnTracker(3, 2)
        tracker.set_state(state)  # as if the run had been stopped after every iteration
        tracker.begin_iteration()
        tracker.record(index, returns, [1] * len(index))
        found.append(tracker.mean_return(complete=True))
        state = tracker.get_state()
    means = [(1, 3, 10), (2, 3, 10), (5.5, 4, 10), (8, 4, 0.5), (8, 4, 0.5), (8, 4, 1)]
    assert found == pytest.approx([np.mean(bodies) for bodies in means])


def test_returns_may_be_negative_and_an_iteration_forgets_its_mean():
    tracker = ReturnTracker(2, 1)
    tracker.record([0, 0, 1], [-2.0, -4.0, -6.0], [1, 3, 5])
    assert tracker.mean_return(complete=True) == -4.5
    assert tracker.mean_length(complete=True) == 3.5
    tracker.begin_iteration()  # now the last episodes count: -4 and -6, 3 and 5
    assert tracker.mean_return(complete=True) == -5.0
    assert tracker.mean_length(complete=True) == 4.0
    assert tracker.body_returns.tolist() == [-4.0, -6.0]


def test_a_tracker_takes_over_a_state_and_leaves_it_alone():
    other, tracker = ReturnTracker(2, 1), ReturnTracker(2, 1)
    other.record([0, 1], [1.0, 3.0], [10, 20])
    tracker.record([0, 1], [5.0, 5.0], [1, 1])
    assert tracker.mean_return(complete=True) == 5.0
    tracker.set_state(other.get_state())
    assert tracker.mean_return(complete=True) == 2.0
    tracker.begin_iteration()
    tracker.record([0], [7.0], [10])
    assert tracker.mean_return(complete=True) == 5.0
    assert other.mean_return(complete=True) == 2.0
