"""Core seconds to a return: when a contender stops, goes on, and what is said of it."""

import itertools
import os
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import time_to_return as subject
from benchmarks.time_to_return import Log, Point, follow, run_side
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.conformance.morphologies import chain, star
from gmc_bench.core.errors import ConfigError

BODIES = MorphologySet(
    id="unit", splits={"train": (chain(3), star(3)), "test": (star(3),)}, source="unit"
)
RULES = replace(
    subject.BEFORE,
    num_envs=4,
    rollout_length=16,
    env_steps=64 * 4,
    ppo=replace(subject.BEFORE.ppo, batch_size=32, repeat=1),
)


class Climber:
    """Ten steps, 25 core seconds and a return of 100 more per iteration."""

    env_steps_planned = 1000

    def __init__(self, env_steps=0):
        self.env_steps = self.saved = env_steps

    @property
    def mean_return(self):
        return None if self.env_steps < 20 else 10.0 * self.env_steps

    def core_seconds(self):
        return 2.5 * self.env_steps

    def iterate(self):
        self.env_steps += 10

    def save(self):
        self.saved = self.env_steps


@pytest.mark.parametrize(
    ("targets", "budget", "planned", "last"),
    [([150, 300], 1e9, 1000, 30), ([9e9], 100.0, 1000, 40), ([9e9], 1e9, 50, 50)],
)
def test_a_contender_stops_at_the_last_return_its_budget_or_the_end_of_its_schedule(
    tmp_path, targets, budget, planned, last
):
    climber, log = Climber(), Log(tmp_path / "x.jsonl", {})
    climber.env_steps_planned = planned
    list(follow(climber, log, targets, budget))
    assert climber.saved == climber.env_steps == log.points[-1].env_steps == last
    assert log.points[0] == Point(25.0, 10, None)
    assert Log(tmp_path / "x.jsonl", {}).points == log.points


def test_what_came_after_the_last_checkpoint_is_measured_again(tmp_path):
    path = tmp_path / "x.jsonl"
    climber = Climber()
    stopped = follow(climber, Log(path, {}), [1000], 1e9)
    next(stopped)  # saved after 75 core seconds
    climber.iterate()
    log = Log(path, {})
    log.add(Point(1e4, 40, 400.0))  # of an iteration whose weights are lost
    with path.open("a") as file:
        file.write('{"core_s": 1e')  # killed
    log = Log(path, {})
    assert [point.env_steps for point in log.points] == [10, 20, 30, 40]
    list(follow(Climber(climber.saved), log, [1000], 1e9))
    whole = Log(tmp_path / "whole.jsonl", {})
    list(follow(Climber(), whole, [1000], 1e9))
    assert log.points == whole.points == Log(path, {}).points
    with pytest.raises(ConfigError, match="another setting"):
        Log(path, {"seed": 2})


FEWER = replace(BODIES, splits={"train": (chain(3),), "test": (star(3),)})


@pytest.mark.parametrize("other", [{"seed": 2}, {"protocol": subject.BEFORE}, {"bodies": FEWER}])
def test_a_curve_of_other_rules_seed_or_bodies_is_not_continued(tmp_path, other):
    same = {"name": "new", "bodies": BODIES, "protocol": RULES, "seed": 1, "out": tmp_path}
    subject.open_log(**same).keep(0)
    assert subject.open_log(**same).points == []
    with pytest.raises(ConfigError, match="another setting"):
        subject.open_log(**same | other)


def test_training_goes_on_to_the_same_curve(tmp_path):
    def curve(out, *budgets):
        for budget in budgets:
            points = run_side("new", BODIES, RULES, 1, [9e9], budget, tmp_path / out)
        assert all(a.core_s < b.core_s for a, b in itertools.pairwise(points))
        return [(point.env_steps, point.mean_return) for point in points]

    whole = curve("whole", 1e9)
    assert [steps for steps, _ in whole] == [64, 128, 192, 256]
    assert curve("parts", 1e-9, 1e9) == whole
    assert curve("parts", 1e9) == whole  # nothing is left to do


def test_the_plain_side_counts_all_its_processes_and_waits_for_all_bodies(monkeypatch):
    training = SimpleNamespace(
        envs=SimpleNamespace(processes=[SimpleNamespace(pid=pid) for pid in (7, 8)]),
        episodes=SimpleNamespace(last={0: 5.0}, mean_return=lambda: 5.0),
    )
    monkeypatch.setattr(subject, "PlainTraining", lambda *_, **__: training)
    monkeypatch.setattr(subject, "seconds_of", {7: 1000.0, 8: 2000.0}.__getitem__)
    plain = subject.Plain(BODIES, RULES, 1)
    assert plain.core_seconds() == pytest.approx(3000.0 + time.process_time(), abs=0.5)
    assert plain.mean_return is None  # of two bodies, one has finished no episode
    training.episodes.last[1] = 5.0
    assert plain.mean_return == 5.0


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_processor_time_of_another_process_is_read_as_our_own():
    busy = time.process_time() + 0.05
    while time.process_time() < busy:
        pass
    assert subject.seconds_of(os.getpid()) == pytest.approx(time.process_time(), abs=0.05)


def test_processor_time_that_the_system_does_not_tell_is_refused():
    with pytest.raises(ConfigError, match="leave out --contender plain"):
        subject.seconds_of(2**30)


def test_the_report_says_who_did_not_get_there():
    curves = {
        "new": [Point(10.0, 100, None), Point(20.0, 200, 600.0), Point(50.0, 500, 1200.0)],
        "before": [Point(100.0, 100, 510.0), Point(300.0, 300, 900.0)],
        "plain": [Point(150.0, 100, None), Point(400.0, 300, 499.0)],
    }
    found = subject.report(curves, [500.0, 1000.0, 2000.0], 300.0, ())
    times, ratios = found.tables
    assert times.headings[4:] == [
        "core s to 500 (10 m)", "core s to 1,000 (20 m)", "core s to 2,000 (40 m)"
    ]  # fmt: skip
    assert [row[3:] for row in times.rows] == [
        ["1,200.0", "20", "50", "not reached"],
        ["900.0", "100", "not reached", "not reached"],
        ["499.0", "not reached", "not reached", "not reached"],
    ]
    assert ratios.rows == [
        ["before / new", "5.0", "> 6.0", "-"], ["plain / new", "> 20.0", "> 8.0", "-"]
    ]  # fmt: skip
    assert found.figures["before"]["core_s_to"] == {"500": 100.0, "1000": None, "2000": None}
