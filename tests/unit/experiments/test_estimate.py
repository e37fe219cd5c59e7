"""Estimates of what a sweep takes: from which runs they come, and what follows from them."""

from dataclasses import replace

import pytest

from gmc_bench.experiments.cell_state import CellState, write_state
from gmc_bench.experiments.estimate import Measured, describe_plan, time_left
from gmc_bench.experiments.eta import planned
from gmc_bench.experiments.lease import Lease
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.experiments.sweep_texts import headline
from gmc_bench.records.store import write_record
from tests.support.records import make_record

GIB = 2**30


@pytest.fixture(scope="module")
def config():
    sweep = Sweep.grid(methods="recmorph", suites="closed-loop", protocol="smoke", seeds=1)
    return next(iter(sweep.runs.values()))


def finished(config, seconds, **changes):
    """Return the state of a run whose training took so long."""
    return CellState(phase="finished", env_steps_per_s=planned(config) / seconds, **changes)


@pytest.fixture
def measured(config):
    """A run that trained for 100 s, was scored in 7 s and took 2 GiB."""
    found = Measured()
    found.add_state("before", config, finished(config, 100, scoring_s=7, memory=2 * GIB))
    return found


def plan(config, states, measured, jobs=None):
    """Return the plan of runs that differ in their seeds, in given states."""
    runs = {f"r{i}": replace(config, seed=i) for i in range(len(states))}
    return describe_plan(runs, dict(zip(runs, states, strict=True)), measured, jobs)


def test_what_was_never_measured_is_unknown(config):
    assert "the time of 2 is unknown" in plan(config, [CellState()] * 2, Measured(), jobs=2)


@pytest.mark.parametrize(
    ("threads", "processes", "seconds"), [(1, 1, 107), (2, 1, 57), (1, 4, 32), (2, 2, 32)]
)
def test_threads_and_processes_share_the_work(config, measured, threads, processes, seconds):
    run = replace(config, threads=threads, processes=processes)
    assert measured.seconds(run) == pytest.approx(seconds)
    other = Measured()
    other.add_state("before", run, finished(config, 100, scoring_s=7))
    assert other.seconds(run) == pytest.approx(107)
    assert other.seconds(config) == pytest.approx(7 + 100 * threads * processes)


@pytest.mark.parametrize(
    ("changes", "seconds"),
    [
        ({}, 40),
        ({"protocol": "lite"}, 40),
        ({"suite": "unimal-v1"}, 40),
        ({"suite": "unimal-v1", "task": "unimal-vt-v1"}, 40),
        ({"hardware": {"threads": 2, "processes": 2}}, 160),
        ({"preset": "paper"}, None),
        ({"method": "metamorph-star"}, None),
    ],
)
def test_records_tell_of_runs_of_their_method_and_preset(config, tmp_path, changes, seconds):
    hardware = changes.pop("hardware", {})
    own = {"method": "recmorph", "preset": "lite", "protocol": "smoke"}
    own |= {"suite": config.suite, "task": config.task}
    record = make_record(**{**own, **changes})
    machine = record.hardware.model_copy(update={"threads": 1, **hardware})
    speed = planned(config) / 40
    record = record.model_copy(update={"hardware": machine, "env_steps_per_s": speed})
    write_record(tmp_path / "runs" / "x" / "record.json", record)
    untrained = record.model_copy(update={"env_steps_per_s": 0.0})
    write_record(tmp_path / "runs" / "y" / "record.json", untrained)
    for name, threads in (("none", 0), ("many", "1e999")):  # no record of ours, and passed over
        content = f'{{"hardware": {{"threads": {threads}}}, "env_steps_per_s": 1}}'
        (tmp_path / f"{name}.json").write_text(content)
    (tmp_path / "deep.json").write_text("[" * 100_000)
    measured = Measured()
    assert measured.seconds(config) is None
    measured.add_records(tmp_path)
    assert measured.seconds(config) == (None if seconds is None else pytest.approx(seconds))


def test_the_closest_runs_count_and_of_them_the_median(config):
    measured = Measured()
    for i, (changes, seconds) in enumerate(
        [({}, 10), ({}, 30), ({}, 20), ({"task": "unimal-vt-v1"}, 999)]
    ):
        measured.add_state(f"r{i}", replace(config, **changes), finished(config, seconds))
    assert measured.seconds(config) == pytest.approx(20)
    measured.add_state("r0", config, finished(config, 40))  # the same run, later
    assert measured.seconds(config) == pytest.approx(30)
    measured, lite = Measured(), replace(config.protocol, name="lite")
    for i, (changes, seconds) in enumerate(
        [
            ({"suite": "unimal-v1", "task": "unimal-vt-v1"}, 40),
            ({"suite": "unimal-v1"}, 30),
            ({"protocol": lite}, 20),
            ({}, 10),
        ]
    ):
        measured.add_state(f"r{i}", replace(config, **changes), finished(config, seconds))
        assert measured.seconds(config) == pytest.approx(seconds)


def test_without_measured_scoring_a_time_is_a_lower_bound(config, measured):
    assert "1 runs; about 2 min one by one" in plan(config, [CellState()], measured)
    other = Measured()
    other.add_state("before", config, finished(config, 80))
    assert "1 runs; at least 80 s one by one" in plan(config, [CellState()], other)
    protocol = replace(config.protocol, name="lite")
    lite = replace(config, protocol=protocol)  # with other episodes
    assert measured.scoring(lite) is None
    assert measured.scoring(replace(config, task="unimal-vt-v1")) == 7
    measured.add_state("untrained", lite, CellState(phase="finished", scoring_s=9))
    assert measured.scoring(lite) == 9  # which was not known before
    untrained = replace(config, untrained=True)
    assert (measured.seconds(untrained), Measured().seconds(untrained)) == (7, 0.0)


def test_what_was_done_of_a_run_counts_and_its_scoring_is_to_come(config, measured):
    half = CellState(phase="stopped", env_steps=planned(config) // 2)
    text = plan(config, [half], measured)
    assert "1 runs; about 57 s one by one" in text
    row = next(line.split() for line in text.splitlines() if line.startswith("recmorph"))
    assert row[6:8] == ["0", f"{planned(config) // 2:,}"]  # done, and steps that are left
    several = [half, replace(half, phase="failed"), replace(half, phase="finished")]
    text = plan(config, several, measured)
    row = next(line.split() for line in text.splitlines() if line.startswith("recmorph"))
    assert row[5:8] == ["3", "1", f"{planned(config):,}"]
    own = replace(half, phase="training", env_steps_per_s=planned(config) / 20)
    own = replace(own, env_steps_planned=planned(config))  # 10 s at its own speed
    assert "1 runs; about 17 s one by one" in plan(config, [own], measured)
    assert replace(own, env_steps=planned(config) + 1).time_left() == 0.0


@pytest.mark.parametrize(
    ("states", "jobs", "text"),
    [
        ([CellState()] * 4, 2, "about 7 min one by one, 4 min with 2 at a time"),
        ([CellState()] * 3, 64, "about 5 min one by one, 2 min with 3 at a time"),
        (
            [CellState(), CellState(phase="stopped", env_steps=8191)],
            2,
            "about 2 min one by one, 2 min with 2 at a time",
        ),
        ([CellState(phase="finished")] * 3, 64, "3 runs; about 0 s one by one"),
    ],
)
def test_no_more_runs_at_a_time_than_there_are_nor_faster_than_one(
    config, measured, states, jobs, text
):
    found = plan(config, states, measured, jobs)
    assert text in found
    left = sum(state.phase != "finished" for state in states)
    together = min(jobs, left)
    memory = f"memory: at most {2 * together:.1f} GiB for {together} runs at a time"
    assert (memory in found) == (left > 0)
    assert ("at a time" in found) == (left > 0)


def test_memory_is_the_largest_that_a_run_took_and_what_runs_has_not_taken_all(config, measured):
    smaller = finished(config, 100, memory=GIB)
    measured.add_state("later", config, smaller)
    assert measured.memory(config) == 2 * GIB
    other = Measured()
    other.add_state("now", config, replace(smaller, phase="training"))
    assert other.memory(config) is None
    other.add_state("now", config, replace(smaller, phase="failed"))
    assert other.memory(config) == GIB


def test_the_runs_that_take_most_may_come_together(config, measured):
    large = replace(config, task="unimal-vt-v1")
    measured.add_state("large", large, finished(large, 100, memory=5 * GIB))
    runs = {"a": config, "b": large, "c": replace(config, seed=3)}
    text = describe_plan(runs, dict.fromkeys(runs, CellState()), measured, 2)
    assert "memory: at most 7.0 GiB for 2 runs at a time" in text
    # The runs of one line may be variants of a method, of one of which nothing is known yet.
    variant = replace(config, protocol=replace(config.protocol, preset="paper"))
    runs["d"] = variant
    text = describe_plan(runs, dict.fromkeys(runs, CellState()), measured, 2)
    assert "memory: at most" not in text
    lines = [line for line in text.splitlines() if line.startswith("recmorph")]
    assert [line.count("unknown") for line in lines] == [2, 0]  # time and memory
    measured.add_state("variant", variant, finished(variant, 100, memory=9 * GIB))
    text = describe_plan(runs, dict.fromkeys(runs, CellState()), measured, 2)
    assert "memory: at most 14.0 GiB for 2 runs at a time" in text
    assert "9.0 GiB\n" in text


def test_a_plan_says_which_runs_are_unofficial_and_why(config, measured):
    reasons = [("shared", "many"), *[("shared", "many", "few")] * 2, *[("shared", "many")] * 4]
    reasons.append(("shared",))
    runs = {
        f"r{i}": replace(config, seed=i, unofficial_reasons=each) for i, each in enumerate(reasons)
    }
    text = describe_plan(runs, dict.fromkeys(runs, CellState()), measured)
    said = ("shared", "many (7 runs)", "few (r1, r2)")
    assert text.endswith("".join(f"\nunofficial: {each}" for each in said))


def test_the_longest_run_is_waited_for(config, measured):
    runs = {name: replace(config, seed=i) for i, name in enumerate("abc")}
    states = {"a": CellState(phase="training"), "b": CellState(phase="scoring")}
    states["b"] = replace(states["b"], env_steps=planned(config))
    left = time_left("ab", runs, states, measured)
    assert left.seconds == pytest.approx(107)  # and not the half of 107 and 7
    assert not left.is_lower_bound
    runs["c"] = replace(config, protocol=replace(config.protocol, name="lite"))
    states["c"] = CellState()
    assert time_left(
        "ac", runs, states, measured
    ).is_lower_bound  # other episodes were never measured
    assert time_left("", runs, states, measured).seconds == 0.0
    assert time_left("ab", runs, states, Measured()).seconds is None


def test_who_looks_at_a_sweep_learns_of_the_time_left_what_its_driver_knows(tmp_path):
    sweep = Sweep.grid(
        methods="recmorph",
        suites="closed-loop",
        protocol="smoke",
        seeds=(1, 2, 3),
        out=tmp_path / "s",
    )
    assert not sweep.overview().is_over  # nor begun
    failed = CellState(phase="failed", permanent=True)
    steps = planned(next(iter(sweep.runs.values())))
    with sweep.locked(create=True) as folder:
        folder.write(sweep.runs)
        assert sweep.overview().time_left is None
        (folder.path / "seed1").mkdir()
        with Lease(folder.path / "seed1"):
            state = CellState(phase="training", env_steps=steps // 2, env_steps_planned=steps)
            write_state(folder.path, "seed1", replace(state, env_steps_per_s=steps / 60))
            write_state(folder.path, "seed3", failed)
            found = Sweep.open(folder.path).overview()
    assert found.time_left == found.to_dict()["time_left"] == pytest.approx(90)
    assert (found.to_dict()["is_lower_bound"], found.to_dict()["is_over"]) == (True, False)
    assert headline(found).endswith("1 to do, 1 training, 1 failed; time left: at least 2 min")
    assert sweep.overview().time_left is None  # nobody runs it any more
    assert sweep.overview().to_dict()["is_over"]
    for name in sweep.runs:
        write_state(folder.path, name, failed)
    assert sweep.overview().time_left == 0.0
