"""Time left, worked out by hand."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from gmc_bench.experiments.cell_state import SweepOverview
from gmc_bench.experiments.eta import ETA, duration
from gmc_bench.experiments.events import (
    IterationFinished,
    RecordWritten,
    RunStarted,
    SweepMoved,
    SweepRunFinished,
    SweepRunStarted,
    SweepStarted,
    TrainingFinished,
    TrainingStarted,
)


class Clock:
    """Seconds that pass when told to."""

    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def train(eta, clock, run, *moments):
    """Begin a run and advance to (env steps, seconds since the last) one after the other."""
    eta.begin(run)
    for env_steps, seconds in moments:
        clock.now += seconds
        eta.advance(env_steps)


def test_nothing_is_known_before_a_second_iteration(clock):
    eta = ETA({"a": 1000, "b": 1000}, clock)
    assert eta.time_of("a") == eta.time_left() == "unknown"
    train(eta, clock, "a", (100, 60))  # the first one also compiles
    assert eta.headline() == "run 1 of 2, time left unknown"
    clock.now += 10
    eta.advance(200)
    # 10 steps/s: 800 steps of this run, 1000 of the next; nothing was scored yet.
    assert eta.headline() == "run 1 of 2, at least 3 min left for all"
    assert eta.time_of("b") == "at least 2 min"  # 100 s


def test_nothing_is_known_before_anything_is_planned(clock):
    eta = ETA(clock=clock)
    assert eta.headline() == "0 of 0 runs done, time left unknown"
    train(eta, clock, "", (100, 1), (200, 10))  # a trial of a search, which tells of no start
    assert eta.time_left() == "unknown"


def test_runs_of_a_launched_sweep_overlap_as_its_launcher_knows(clock):
    eta, place = ETA(clock=clock), Path("s")
    runs = {name: SimpleNamespace(untrained=True) for name in "ab"}
    record = SimpleNamespace(env_steps=1000, wall_clock_s=SimpleNamespace(total=100))
    eta(SweepStarted(place, runs, {}, {"a": record}, {}))
    eta(SweepMoved(SweepOverview(place, {}, time_left=1200.0)))
    assert eta.headline() == "1 of 2 runs done, about 20 min left for all"
    eta(SweepMoved(SweepOverview(place, {})))
    assert eta.time_left() == "unknown"
    eta(SweepRunFinished("b", record))
    eta(SweepMoved(SweepOverview(place, {}, time_left=0.0, is_over=True)))
    assert eta.headline() == "2 of 2 runs done, about 0 s left for all"


def test_scoring_that_was_measured_counts_for_every_run_left(clock):
    eta = ETA({"a": 1000, "b": 1000, "c": 1000}, clock)
    train(eta, clock, "a", (100, 1), (200, 10))
    eta.scored(40)
    eta.settle("a", 1000, 100)
    assert eta.time_left() == "about 5 min"  # 2 x (100 + 40) s
    assert eta.time_of("b") == "about 2 min"
    train(eta, clock, "b")
    assert eta.headline() == "run 2 of 3, about 5 min left for all"


def test_scoring_takes_as_long_as_it_took_on_average(clock):
    eta = ETA({"a": 1000, "b": 1000}, clock)
    eta.settle("a", 1000, 100)
    eta.scored(500)
    eta.scored(100)
    assert eta.time_of("b") == "about 7 min"  # 100 + (500 + 100) / 2 s


def test_a_sweep_is_measured_by_what_it_tells(clock):
    """Of four runs, one was finished before in 100 s of training, and one had failed."""
    protocol = SimpleNamespace(num_iterations=10, steps_per_iteration=100)
    config = SimpleNamespace(untrained=False, protocol=protocol)
    record = SimpleNamespace(env_steps=1000, wall_clock_s=SimpleNamespace(total=100.0))
    eta, place = ETA(clock=clock), Path("s")
    runs = dict.fromkeys(("old", "bad", "c", "d"), config)
    eta(SweepStarted(place, runs, {}, {"old": record}, {"bad": "no"}))
    assert eta.time_left() == "at least 3 min"  # 2 x 100 s
    eta(SweepRunStarted("c"))
    assert eta.position == "run 3 of 4"
    eta(TrainingStarted(0, 1000))
    for env_steps, seconds in ((500, 60), (1000, 50)):  # 10 steps/s but for the first 500
        clock.now += seconds
        eta(IterationFinished(env_steps, None))
    eta(TrainingFinished(place, None))
    clock.now += 400
    eta(RecordWritten(place, record))
    slower = SimpleNamespace(env_steps=1000, wall_clock_s=SimpleNamespace(total=300.0))
    eta(SweepRunFinished("c", slower))
    assert eta.time_left() == "about 10 min"  # 1000 / (2000 / 400) + 400 s


def test_a_run_alone_is_measured_by_what_it_tells_one_after_the_other(clock):
    eta, place = ETA(clock=clock), Path("a")
    # 1000 steps at 10 per second, and once it was measured 40 s of scoring
    for begun, left in ((0, "at least 2 min"), (500, "about 2 min")):
        eta(RunStarted(place, SimpleNamespace(task="unimal-ft-v1"), 2000, begun > 0))
        assert eta.time_left() == "unknown"
        eta(TrainingStarted(begun, 2000))
        for env_steps, seconds in ((900, 60), (1000, 10)):
            clock.now += seconds
            eta(IterationFinished(env_steps, None))
        assert eta.time_left() == left
        assert eta.headline() == f"run 1 of 1, {eta.time_left()} left for all"
        eta(TrainingFinished(place, None))
        clock.now += 40
        eta(RecordWritten(place, SimpleNamespace()))
        assert eta.time_left() == "about 0 s"


def test_the_present_run_goes_by_its_own_speed(clock):
    eta = ETA({"a": 1000, "b": 1000}, clock)
    eta.settle("a", 1000, 10)  # 100 steps/s
    eta.scored(5)
    train(eta, clock, "b", (100, 1), (200, 50))  # 2 steps/s
    assert eta.time_left() == "about 7 min"  # 800 / 2 + 5 s


def test_later_runs_go_by_the_speed_of_all(clock):
    eta = ETA({"a": 1000, "b": 100, "c": 1000}, clock)
    eta.settle("a", 1000, 10)
    train(eta, clock, "b", (50, 1), (100, 90))  # done; 1050 steps in 100 s over both runs
    eta.settle("b", 100, 90)
    assert eta.time_left() == "at least 2 min"  # 1000 / (1100 / 100) = 91 s


def test_what_failed_is_off_the_list_and_says_nothing_about_speed(clock):
    eta = ETA({"a": 1000, "b": 1000}, clock)
    train(eta, clock, "a", (100, 1), (200, 10))
    eta.settle("a")
    assert eta.time_left() == "unknown"
    eta.settle("b")
    assert eta.time_left() == "about 0 s"


def test_a_continued_run_counts_from_where_it_is(clock):
    eta = ETA({"a": 1000, "b": 1000}, clock)
    eta.settle("a", 1000, 100)
    eta.begin("b")
    eta.resume(900)
    assert eta.time_left() == "at least 10 s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89, "89 s"), (91, "2 min"), (1860, "31 min"), (5340, "89 min"), (9000, "2.5 h")],
)
def test_durations_are_told_roughly(seconds, text):
    assert duration(seconds) == text
