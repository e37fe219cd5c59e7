"""Time left, worked out by hand."""

import pytest

from gmc_bench.cli.outlook import Outlook, duration


class Clock:
    """Seconds that pass when told to."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def train(outlook, clock, task, *moments):
    """Begin a task and advance to (env steps, seconds since the last) one after the other."""
    outlook.begin(task)
    for env_steps, seconds in moments:
        clock.now += seconds
        outlook.advance(env_steps)


def test_nothing_is_known_before_a_second_iteration(clock):
    outlook = Outlook([1000, 1000], clock)
    assert outlook.time_of(0) == outlook.time_left() == "unknown"
    train(outlook, clock, 0, (100, 60))  # the first one also compiles
    assert outlook.headline() == "task 1 of 2, time left unknown"
    clock.now += 10
    outlook.advance(200)
    # 10 steps/s: 800 steps of this task, 1000 of the next; nothing was scored yet.
    assert outlook.headline() == "task 1 of 2, at least 3 min left for all"
    assert outlook.time_of(1) == "at least 2 min"  # 100 s


def test_scoring_that_was_measured_counts_for_every_task_left(clock):
    outlook = Outlook([1000, 1000, 1000], clock)
    train(outlook, clock, 0, (100, 1), (200, 10))
    outlook.scored(40)
    outlook.settle(0, 1000, 100)
    assert outlook.time_left() == "about 5 min"  # 2 x (100 + 40) s
    assert outlook.time_of(1) == "about 2 min"
    train(outlook, clock, 1)
    assert outlook.headline() == "task 2 of 3, about 5 min left for all"


def test_the_present_task_goes_by_its_own_speed(clock):
    outlook = Outlook([1000, 1000], clock)
    outlook.settle(0, 1000, 10)  # 100 steps/s
    outlook.scored(5)
    train(outlook, clock, 1, (100, 1), (200, 50))  # 2 steps/s
    assert outlook.time_left() == "about 7 min"  # 800 / 2 + 5 s


def test_later_tasks_go_by_the_speed_of_all(clock):
    outlook = Outlook([1000, 100, 1000], clock)
    outlook.settle(0, 1000, 10)
    train(outlook, clock, 1, (50, 1), (100, 90))  # done; 1050 steps in 100 s over both tasks
    outlook.settle(1, 100, 90)
    assert outlook.time_left() == "at least 2 min"  # 1000 / (1100 / 100) = 91 s


def test_what_failed_is_off_the_list_and_says_nothing_about_speed(clock):
    outlook = Outlook([1000, 1000], clock)
    train(outlook, clock, 0, (100, 1), (200, 10))
    outlook.settle(0)
    assert outlook.time_left() == "unknown"
    outlook.settle(1)
    assert outlook.time_left() == "about 0 s"


def test_a_continued_task_counts_from_where_it_is(clock):
    outlook = Outlook([1000, 1000], clock)
    outlook.settle(0, 1000, 100)
    outlook.begin(1)
    outlook.resume(900)
    assert outlook.time_left() == "at least 10 s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89, "89 s"), (91, "2 min"), (1860, "31 min"), (9000, "2.5 h")],
)
def test_durations_are_told_roughly(seconds, text):
    assert duration(seconds) == text
