"""Time left, worked out by hand."""

import pytest

from gmc_bench.experiments.eta import ETA, duration


class Clock:
    """Seconds that pass when told to."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def train(eta, clock, task, *moments):
    """Begin a task and advance to (env steps, seconds since the last) one after the other."""
    eta.begin(task)
    for env_steps, seconds in moments:
        clock.now += seconds
        eta.advance(env_steps)


def test_nothing_is_known_before_a_second_iteration(clock):
    eta = ETA({"a": 1000, "b": 1000}, clock)
    assert eta.time_of("a") == eta.time_left() == "unknown"
    train(eta, clock, "a", (100, 60))  # the first one also compiles
    assert eta.headline() == "task 1 of 2, time left unknown"
    clock.now += 10
    eta.advance(200)
    # 10 steps/s: 800 steps of this task, 1000 of the next; nothing was scored yet.
    assert eta.headline() == "task 1 of 2, at least 3 min left for all"
    assert eta.time_of("b") == "at least 2 min"  # 100 s


def test_scoring_that_was_measured_counts_for_every_task_left(clock):
    eta = ETA({"a": 1000, "b": 1000, "c": 1000}, clock)
    train(eta, clock, "a", (100, 1), (200, 10))
    eta.scored(40)
    eta.settle("a", 1000, 100)
    assert eta.time_left() == "about 5 min"  # 2 x (100 + 40) s
    assert eta.time_of("b") == "about 2 min"
    train(eta, clock, "b")
    assert eta.headline() == "task 2 of 3, about 5 min left for all"


def test_the_present_task_goes_by_its_own_speed(clock):
    eta = ETA({"a": 1000, "b": 1000}, clock)
    eta.settle("a", 1000, 10)  # 100 steps/s
    eta.scored(5)
    train(eta, clock, "b", (100, 1), (200, 50))  # 2 steps/s
    assert eta.time_left() == "about 7 min"  # 800 / 2 + 5 s


def test_later_tasks_go_by_the_speed_of_all(clock):
    eta = ETA({"a": 1000, "b": 100, "c": 1000}, clock)
    eta.settle("a", 1000, 10)
    train(eta, clock, "b", (50, 1), (100, 90))  # done; 1050 steps in 100 s over both tasks
    eta.settle("b", 100, 90)
    assert eta.time_left() == "at least 2 min"  # 1000 / (1100 / 100) = 91 s


def test_what_failed_is_off_the_list_and_says_nothing_about_speed(clock):
    eta = ETA({"a": 1000, "b": 1000}, clock)
    train(eta, clock, "a", (100, 1), (200, 10))
    eta.settle("a")
    assert eta.time_left() == "unknown"
    eta.settle("b")
    assert eta.time_left() == "about 0 s"


def test_a_continued_task_counts_from_where_it_is(clock):
    eta = ETA({"a": 1000, "b": 1000}, clock)
    eta.settle("a", 1000, 100)
    eta.begin("b")
    eta.resume(900)
    assert eta.time_left() == "at least 10 s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89, "89 s"), (91, "2 min"), (1860, "31 min"), (9000, "2.5 h")],
)
def test_durations_are_told_roughly(seconds, text):
    assert duration(seconds) == text
