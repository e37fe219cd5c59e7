"""The driver of a sweep: what it gives to a launcher, tries again, gives up and tells."""

import base64
import hashlib
import html
import json
import os
import re
import time
from dataclasses import dataclass, field, replace
from datetime import date

import pytest

from gmc_bench.core.errors import ConfigError, StorageError
from gmc_bench.experiments import driver as driving
from gmc_bench.experiments import sweep_page
from gmc_bench.experiments.cell_state import (
    PHASES,
    CellState,
    SweepOverview,
    read_overview,
    read_state,
    state_file,
    write_state,
)
from gmc_bench.experiments.driver import Driver
from gmc_bench.experiments.eta import planned
from gmc_bench.experiments.events import Remark, SweepMoved, SweepRunFailed
from gmc_bench.experiments.launchers import LAUNCHERS, Cell, Ended, Launcher, LauncherSpec
from gmc_bench.experiments.lease import NAME, Lease
from gmc_bench.experiments.run_folder import LAUNCH
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.experiments.sweep_launch import Launch, read_launch, write_launch
from gmc_bench.experiments.sweep_page import make_page
from gmc_bench.experiments.sweep_texts import LiveTable, describe_sweep, headline, rows_of
from gmc_bench.records.store import write_record
from gmc_bench.training.run_config import RunConfig
from tests.support.leases import write_orphaned_lease
from tests.support.records import make_record, record_of_run

GIB = 2**30


@dataclass
class Scripted(Launcher):
    """Ends every cell at once, in the way that a list says; the last word holds for ever."""

    ways: dict[str, list[str]]
    given: list[str] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    runs: dict[str, RunConfig] = field(default_factory=dict)
    closed: int = 0

    def open(self, sweep):
        self.sweep = sweep

    def takes(self, cell, waiting):
        return waiting < 2

    def submit(self, cells):
        for cell in cells:
            self.given.append(cell.name)
            ways = self.ways[cell.name]
            self.ended.append(self._end(cell.name, ways.pop(0) if len(ways) > 1 else ways[0]))

    def _end(self, name, way):
        match way:
            case "finish":
                finish(self.sweep, name, self.runs[name])
            case "damaged":
                finish(self.sweep, name, self.runs[name])
                (self.sweep / name / "record.json").write_text("{}")
            case "silent":
                return Ended(name, "was ended by signal 9 (SIGKILL)")
            case "killed":  # while it trained: its state says so, and nobody holds its folder
                write_state(self.sweep, name, CellState(phase="training", env_steps=5))
                return Ended(name, "was ended by signal 9 (SIGKILL)")
            case "lost":
                return Ended(name, "was on a node that is gone", lost=True)
            case "held":
                return Ended(name, "ended because another holds it", lost=True, held=True)
            case _:
                permanent = way == "permanent"
                state = CellState(phase="failed", reason=f"a {way} reason", permanent=permanent)
                write_state(self.sweep, name, state)
        return Ended(name)

    def poll(self):
        ended, self.ended = self.ended, []
        return ended

    def stop(self):
        pass

    def close(self):
        self.closed += 1


def finish(sweep, name, config):
    (sweep / name).mkdir(exist_ok=True)
    (sweep / name / "config.yaml").write_text(config.to_yaml())
    write_record(sweep / name / "record.json", record_of_run(config))


@pytest.fixture(scope="module")
def config():
    sweep = Sweep.grid(methods="recmorph", suites="closed-loop", protocol="smoke", seeds=1)
    return next(iter(sweep.runs.values()))


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    (tmp_path / "plan.yaml").touch()
    monkeypatch.setattr(driving, "POLL_S", 0.0)
    monkeypatch.setattr(driving, "REPORT_S", 0.0)


def drive(path, config, ways, retries=1):
    launcher, told = Scripted({name: list(way) for name, way in ways.items()}), []
    runs = launcher.runs = {name: replace(config, seed=i) for i, name in enumerate(ways)}
    driver = Driver(path, runs, launcher, retries, told.append)
    records, failures = driver.run()
    return launcher, records, failures, told


def test_a_reason_may_quote_a_path_that_is_no_text(tmp_path):
    write_state(tmp_path, "a", CellState(phase="failed", reason="\udcff/a is damaged"))
    assert read_state(tmp_path, "a").reason == "\\udcff/a is damaged"


def test_what_fails_is_tried_again_so_often_and_says_why(tmp_path, config):
    launcher, records, failures, told = drive(
        tmp_path,
        config,
        {
            "good": ["finish"],
            "second": ["fleeting", "finish"],
            "bad": ["lasting"],
            "wrong": ["permanent"],
            "mute": ["fleeting", "silent"],
            "lost": ["lost", "lost", "lost", "finish"],
            "torn": ["damaged"],
        },
    )
    counts = {name: launcher.given.count(name) for name in launcher.given}
    expected = {"good": 1, "second": 2, "bad": 2, "wrong": 1, "mute": 2, "lost": 4, "torn": 1}
    assert counts == expected
    assert set(records) == {"good", "second", "lost"}
    assert records["good"].method == make_record().method
    assert failures["bad"] == "a lasting reason"
    assert failures["wrong"] == "a permanent reason"
    assert failures["mute"] == "its process was ended by signal 9 (SIGKILL)"
    assert "torn" in failures
    last = [event.overview for event in told if isinstance(event, SweepMoved)][-1]
    assert last.is_over
    assert last.counts() == {"finished": 3, "failed": 4}
    again, _, failures, _ = drive(
        tmp_path, config, {"good": ["finish"], "second": ["finish"], "bad": ["finish"]}
    )
    assert again.given == ["bad"]  # and what is finished is left alone
    assert failures == {}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("record.json", "", "is not readable JSON"),
        ("config.yaml", None, "holds record.json but no config.yaml; put that back"),
        ("config.yaml", "seed", "has other settings than .* has for 'a'; put them back"),
        ("record.json", "seed", r"is of another run \(demo, unimal-ft-v1, seed 7\); put that of"),
    ],
)
def test_what_was_finished_and_is_damaged_fails_and_is_shown_as_such(
    tmp_path, config, name, content, reason
):
    ways = {"a": ["finish"], "b": ["finish"]}
    drive(tmp_path, config, ways)
    path = tmp_path / "a" / name
    before = path.read_bytes()
    other = replace(config, seed=7)
    if content is None:
        path.unlink()
    elif content and name == "record.json":
        write_record(path, record_of_run(other))
    else:
        path.write_text(content and other.to_yaml())
    again, records, failures, told = drive(tmp_path, config, ways)
    assert (again.given, list(records), list(failures)) == ([], ["b"], ["a"])
    assert re.search(reason, failures["a"])
    assert [event.name for event in told if isinstance(event, SweepRunFailed)] == ["a"]
    assert read_overview(tmp_path, "ab").counts() == {"finished": 1, "failed": 1}
    path.write_bytes(before)
    assert len(drive(tmp_path, config, ways)[1]) == 2
    assert read_overview(tmp_path, "ab").counts() == {"finished": 2}


def test_what_was_begun_goes_on_first(tmp_path, config):
    write_state(tmp_path, "c", CellState(phase="training", env_steps=5))
    launcher, *_ = drive(tmp_path, config, {name: ["finish"] for name in "abcd"})
    assert launcher.given == ["c", "a", "b", "d"]


class Closed(Scripted):
    """Can run nothing."""

    def open(self, sweep):
        raise ConfigError("there is no cluster")


def test_nobody_is_told_of_a_sweep_that_cannot_start(tmp_path, config):
    told = []
    with pytest.raises(ConfigError, match="there is no cluster"):
        Driver(tmp_path, {"a": config}, Closed({}), 0, told.append).run()
    assert told == []


class Small(Scripted):
    """Has one thread, and gets no more or perhaps does."""

    grows = False

    def lack(self, cells):
        wide = [cell.name for cell in cells if cell.threads > 1]
        if wide and not self.grows:
            raise ConfigError(f"no machine for {wide[0]}")
        return f"no machine yet for {wide[0]}" if wide else ""


def test_what_a_launcher_lacks_is_said_once_or_ends_the_sweep(tmp_path, config, monkeypatch):
    told = []
    runs = {"a": config, "b": replace(config, threads=2, seed=2)}
    launcher = Small({"a": ["finish"], "b": ["finish"]}, runs=runs)
    with pytest.raises(ConfigError, match="no machine for b"):
        Driver(tmp_path, runs, launcher, 0, told.append).run()
    assert (told, launcher.given, launcher.closed) == ([], [], 1)
    monkeypatch.setattr(Small, "grows", True)
    Driver(tmp_path, runs, launcher, 0, told.append).run()
    assert told[0] == Remark("no machine yet for b")
    assert list(LiveTable(live=False)(told[0])) == ["no machine yet for b"]
    assert len([event for event in told if isinstance(event, Remark)]) == 1


class Measuring(Scripted):
    """Tells what runs took of the memory, and lacks it for those of which that is known."""

    def _end(self, name, way):
        ended = super()._end(name, way)
        write_state(self.sweep, name, CellState(phase="finished", memory=GIB))
        return ended

    def lack(self, cells):
        return "no memory yet" if any(cell.memory for cell in cells) else ""


def test_what_a_launcher_lacks_is_also_said_when_more_is_known_of_runs(tmp_path, config):
    told, runs = [], {name: replace(config, seed=i) for i, name in enumerate("abcd")}
    launcher = Measuring({name: ["finish"] for name in runs}, runs=runs)
    Driver(tmp_path, runs, launcher, 0, told.append).run()
    assert [event.text for event in told if isinstance(event, Remark)] == ["no memory yet"]


def test_a_run_that_is_taken_away_again_and_again_fails(tmp_path, config, monkeypatch):
    monkeypatch.setattr(driving, "LOST_LIMIT", 3)
    launcher, _, failures, _ = drive(tmp_path, config, {"a": ["lost"]}, retries=0)
    assert launcher.given == ["a"] * 4
    assert failures == {"a": "its process was on a node that is gone"}


def test_a_run_that_another_process_holds_is_waited_for(tmp_path, config, monkeypatch):
    monkeypatch.setattr(driving, "LOST_LIMIT", 3)
    ways = {"a": [*["held"] * 9, "finish"], "b": ["finish"], "c": ["finish"]}
    (tmp_path / "a").mkdir()
    with Lease(tmp_path / "a"):
        launcher, records, failures, told = drive(tmp_path, config, ways, retries=0)
    assert launcher.given == [*"abc", *"a" * 9]  # behind what can run
    assert (set(records), failures) == (set("abc"), {})
    remarks = [event.text for event in told if isinstance(event, Remark)]
    assert remarks == ["waiting for another process, which holds the run a"]


def test_a_run_that_is_held_without_a_sign_of_life_is_not_waited_for(tmp_path, config, monkeypatch):
    """What a killed process had started may go on with its lock."""
    monkeypatch.setattr(driving, "LOST_LIMIT", 3)
    launcher, _, failures, _ = drive(tmp_path, config, {"a": ["held"]}, retries=0)
    assert launcher.given == ["a"] * 4
    assert failures == {"a": "its process ended because another holds it"}


class Interrupted(Scripted):
    """Is interrupted while a cell trains, and once more while that is asked to stop."""

    def submit(self, cells):
        for cell in cells:
            write_state(self.sweep, cell.name, CellState(phase="training", env_steps=5))

    def poll(self):
        raise KeyboardInterrupt

    def stop(self):
        raise KeyboardInterrupt


def test_after_a_second_interruption_nothing_is_shown_as_running_or_waiting(tmp_path, config):
    told = []
    driver = Driver(tmp_path, {"a": config}, Interrupted({}), 0, told.append)
    with pytest.raises(KeyboardInterrupt):
        driver.run()
    last = [event.overview for event in told if isinstance(event, SweepMoved)][-1]
    assert last.is_over
    assert last.counts() == {"stopped": 1}


def test_a_run_that_was_killed_while_it_trained_is_not_one_that_was_taken_away(tmp_path, config):
    launcher, _, failures, _ = drive(tmp_path, config, {"a": ["killed"]})
    assert launcher.given == ["a"] * 2
    assert failures == {"a": "its process was ended by signal 9 (SIGKILL)"}


@pytest.mark.parametrize("retries", [0, 1])
def test_what_a_run_said_of_itself_earlier_is_not_why_its_process_ended(tmp_path, config, retries):
    write_state(tmp_path, "a", CellState(phase="failed", reason="earlier", permanent=True))
    launcher, records, failures, _ = drive(tmp_path, config, {"a": ["silent", "finish"]}, retries)
    assert launcher.given == ["a"] * (1 + retries)
    assert (len(records), list(failures.values())) == (
        retries,
        [] if retries else ["its process was ended by signal 9 (SIGKILL)"],
    )


def test_a_run_that_has_its_record_is_finished_before_its_process_ends(tmp_path, config):
    driver = Driver(tmp_path, {"a": config}, Scripted({}), 0, lambda event: None)
    driver.states = driver._given = {"a": CellState()}
    finish(tmp_path, "a", config)
    driver._report()
    assert driver.states["a"].phase == "finished"


def test_a_cell_asks_for_what_all_its_processes_need(tmp_path, config):
    run = replace(config, threads=2, processes=3, device="cuda")
    driver = Driver(tmp_path, {"a": run, "b": replace(run, device="cpu")}, Scripted({}), 0, print)
    assert driver._cell("a") == Cell("a", 6, gpus=3, processes=3)
    assert driver._cell("b").gpus == 0


class Refusing(Scripted):
    """Takes a few cells, which end when they are asked to, and refuses the next batch."""

    def submit(self, cells):
        if self.given:
            raise BlockingIOError("no more processes")
        self.given += [cell.name for cell in cells]

    def stop(self):
        self.ended += [Ended(name) for name in self.given]


def test_a_launcher_that_cannot_submit_ends_the_sweep_and_not_the_driver(tmp_path, config):
    launcher = Refusing({})
    driver = Driver(tmp_path, dict.fromkeys("abcd", config), launcher, 0, lambda event: None)
    with pytest.raises(BlockingIOError, match="no more processes"):
        driver.run()
    assert launcher.given == ["a", "b"]
    assert launcher.ended == []  # what ran was waited for
    assert driver._given == {}


def test_what_ends_beside_a_run_that_cannot_be_settled_is_not_waited_for(
    tmp_path, config, monkeypatch
):
    def full(*arguments):
        raise StorageError("the disk is full")

    monkeypatch.setattr(driving, "write_state", full)
    with pytest.raises(StorageError, match="the disk is full"):
        drive(tmp_path, config, {"mute": ["silent"], "good": ["finish"]})
    assert read_state(tmp_path, "good").phase == "finished"


def test_a_page_that_cannot_be_written_stops_no_run(tmp_path, config):
    (tmp_path / "sweep.html").mkdir()
    _, records, failures, _ = drive(tmp_path, config, {"a": ["finish"], "b": ["finish"]})
    assert (set(records), failures) == ({"a", "b"}, {})


def test_a_run_that_sends_states_and_no_lease_counts_as_running(tmp_path, config):
    """As from a machine that shares no folder with the driver's."""
    driver = Driver(tmp_path, {"a": config}, Scripted({}), 0, lambda event: None)
    driver.states = driver._given = {"a": CellState()}
    write_state(tmp_path, "a", CellState(phase="scoring", env_steps=5))
    driver._report()
    assert driver.states["a"].phase == "scoring"
    assert read_state(tmp_path, "a").phase == "stopped"  # of nobody who has it
    assert read_overview(tmp_path, ["a"]).states["a"].phase == "stopped"
    with Lease(tmp_path):  # a driver is there
        assert read_overview(tmp_path, ["a"]).states["a"].phase == "scoring"
    long_ago = time.time() - 61
    os.utime(state_file(tmp_path, "a"), (long_ago, long_ago))
    driver._report()
    assert driver.states["a"].phase == "waiting"
    write_state(tmp_path, "a", CellState(phase="training"))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".lease").touch()
    os.utime(tmp_path / "a" / ".lease", (long_ago, long_ago))  # the folder is shared, the node gone
    assert read_state(tmp_path, "a", launched=True).phase == "stopped"


def test_the_state_of_another_process_that_holds_the_folder_is_left_alone(tmp_path, config):
    (tmp_path / "a").mkdir()
    with Lease(tmp_path / "a"):
        write_state(tmp_path, "a", CellState(phase="training", env_steps=5))
        _, records, failures, _ = drive(tmp_path, config, {"a": ["silent"]}, retries=0)
        assert (records, list(failures)) == ({}, ["a"])
        state = read_state(tmp_path, "a")
        assert (state.phase, state.env_steps) == ("training", 5)


def test_a_worker_that_was_killed_has_failed_at_once_and_says_why(tmp_path, config):
    """Its lease was touched a moment ago, and nobody takes it away."""
    (tmp_path / "a").mkdir()
    write_orphaned_lease(tmp_path / "a")
    write_state(tmp_path, "a", CellState(phase="training", env_steps=5))
    assert read_state(tmp_path, "a").phase == "stopped"
    _, _, failures, _ = drive(tmp_path, config, {"a": ["silent"]}, retries=0)
    state = read_overview(tmp_path, ["a"]).states["a"]
    assert (state.phase, state.env_steps) == ("failed", 5)
    assert state.reason == failures["a"] == "its process was ended by signal 9 (SIGKILL)"


def test_a_worker_that_was_killed_elsewhere_has_failed_once_its_lease_is_void(tmp_path, config):
    (tmp_path / "a").mkdir()
    write_orphaned_lease(tmp_path / "a", machine="another")
    write_state(tmp_path, "a", CellState(phase="training"))
    driver = Driver(tmp_path, {"a": config}, Scripted({"a": ["silent"]}), 0, lambda event: None)
    driver.run()
    assert read_state(tmp_path, "a").phase == "training"
    os.utime(tmp_path / "a" / NAME, (1, 1))
    driver._report()
    assert read_state(tmp_path, "a").phase == "failed"


def test_states_outlive_their_writers_but_not_as_running(tmp_path):
    write_state(tmp_path, "a", CellState(phase="training", env_steps=5))
    (tmp_path / "a").mkdir()
    assert read_state(tmp_path, "a").phase == "stopped"
    with Lease(tmp_path / "a"):
        assert read_state(tmp_path, "a").phase == "training"
    assert read_state(tmp_path, "b").phase == "to do"
    (tmp_path / ".states" / "a.json").write_text(json.dumps({"phase": "odd", "more": 1}))
    assert read_state(tmp_path, "a").phase == "to do"


def test_pages_and_tables_show_every_run_and_no_text_becomes_markup(tmp_path):
    bad = "<script>alert(1)</script>"
    write_state(tmp_path, bad.replace("/", "-"), CellState(phase="failed", reason=bad))
    write_state(tmp_path, "b", CellState(phase="stopped", env_steps=5, env_steps_planned=10))
    overview = read_overview(tmp_path, [bad.replace("/", "-"), "b", "c"])
    page = make_page(replace(overview, is_over=False)).decode()
    assert page.count("<script") == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "redraw every 5 s" in page
    over = make_page(overview).decode()
    assert "<script" not in over
    assert "script-src" not in over
    assert "redraw" not in over
    text = describe_sweep(overview)
    assert text.startswith("3 runs: 1 to do, 1 failed, 1 stopped\n")
    assert f"failed: {bad.replace('/', '-')}: {bad}" in text
    assert "and 2 more" in describe_sweep(overview, lines=5)
    table = LiveTable(live=True)
    first, second = (list(table(SweepMoved(replace(overview, is_over=False)))) for _ in range(2))
    assert second[0].removeprefix(f"\x1b[{first[0].count(chr(10)) + 1}F\x1b[J") == first[0]


def test_a_table_says_of_each_run_what_is_known(tmp_path):
    on = CellState(phase="training", env_steps=500, env_steps_planned=1000, env_steps_per_s=10.0)
    done = {"env_steps": 2000, "env_steps_planned": 2000, "attempt": 1, "node": "n1"}
    states = {
        "new": CellState(),
        "done": CellState(phase="finished", mean_return=12.34, env_steps_per_s=1234.6, **done),
        "broken": CellState(phase="failed", reason="it\nbroke", attempt=2),
        "on": replace(on, attempt=3, reason="an earlier one"),
        "end": replace(on, env_steps=1000),
        "queued": CellState(phase="waiting", env_steps_planned=1000),
        "half": CellState(phase="stopped", env_steps=5, env_steps_planned=10),
        "bare": CellState(phase="finished"),
    }
    overview = SweepOverview(tmp_path, states, time_left=100.0, is_lower_bound=True)
    cells = {
        row.name: [*row.cells()[1:], row.share, row.reason] for row in rows_of(overview, PHASES)
    }
    assert cells == {
        "new": ["to do", "-", "-", "-", "-", "-", "0.000", ""],
        "done": ["finished", "2,000 of 2,000", "12.3", "1,235", "-", "n1", "1.000", ""],
        "broken": ["failed (attempt 2)", "-", "-", "-", "-", "-", "0.000", "it broke"],
        "on": ["training (attempt 3)", "500 of 1,000", "-", "10", "50 s", "-", "0.500", ""],
        "end": ["training", "1,000 of 1,000", "-", "10", "0 s", "-", "1.000", ""],
        "queued": ["waiting", "0 of 1,000", "-", "-", "-", "-", "0.000", ""],
        "half": ["stopped", "5 of 10", "-", "-", "-", "-", "0.500", ""],
        "bare": ["finished", "-", "-", "-", "-", "-", "1.000", ""],
    }
    assert {row.kind for row in rows_of(overview, ["training"])} == {"training"}
    first, _, _, *rows, reason = describe_sweep(overview).splitlines()
    assert first == (
        "8 runs: 1 to do, 1 waiting, 2 training, 2 finished, 1 failed, 1 stopped; time left: at "
        "least 2 min"
    )
    order = ["on", "end", "queued", "broken", "half", "done", "bare", "new"]
    assert [row.split()[0] for row in rows] == order
    assert reason == "failed: broken: it broke"
    assert headline(replace(overview, is_lower_bound=False)).endswith("; time left: about 2 min")
    assert headline(replace(overview, time_left=None)).endswith("; time left: unknown")
    assert headline(replace(overview, is_over=True)).endswith(" 1 failed, 1 stopped")


@pytest.mark.parametrize(("lines", "rows"), [(8, 2), (16, 8), (4, 1)])
def test_a_table_fits_where_it_is_shown(tmp_path, lines, rows):
    states = {f"run{i:02}": CellState(phase="failed", reason="no") for i in range(20)}
    text = describe_sweep(SweepOverview(tmp_path, states), lines).splitlines()
    reasons = [line for line in text if line.startswith("failed: ")]
    assert len(reasons) == max(1, lines // 4)
    assert len([line for line in text if line.startswith("run")]) - 1 == rows  # with its heading
    assert f"and {20 - rows} more" in text
    assert len(text) == max(lines, 6)


def test_on_a_terminal_a_table_takes_the_place_of_the_last_one(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((30, 10)))
    states = {f"run{i:02}": CellState(phase="waiting") for i in range(20)}
    moved = SweepMoved(SweepOverview(tmp_path, states))
    table = LiveTable(live=True)
    (first,) = table(moved)
    lines = first.splitlines()
    assert len(lines) == 7
    assert max(map(len, lines)) == 29  # the last column would begin another line
    (failed,) = table(SweepRunFailed("run00", "it broke"))
    assert failed == "\x1b[7F\x1b[Jrun00 failed: it broke"
    assert list(table(Remark("One waits."))) == ["One waits."]  # no table stands there now
    assert list(table(moved)) == [first]
    (last,) = table(SweepMoved(replace(moved.overview, is_over=True)))
    assert last.startswith("\x1b[7F\x1b[J20 runs")
    assert list(table(Remark("Done."))) == ["Done."]  # the last table stays


def test_without_a_terminal_a_line_a_minute_tells_of_a_sweep(tmp_path, monkeypatch):
    moved = SweepMoved(SweepOverview(tmp_path, {"a": CellState(phase="waiting")}))
    over = SweepMoved(replace(moved.overview, is_over=True))
    table, now = LiveTable(live=False), [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    said = []
    for seconds, event in ((0, moved), (59, moved), (61, moved), (62, moved), (63, over)):
        now[0] = 1000.0 + seconds
        said += [(seconds, text) for text in table(event)]
    text = "1 runs: 1 waiting"
    assert said == [
        (0, f"{text}; time left: unknown"), (61, f"{text}; time left: unknown"), (63, text),
    ]  # fmt: skip


def test_a_page_shows_how_far_runs_are_and_leaves_out_what_is_too_much(tmp_path, monkeypatch):
    half = CellState(phase="training", env_steps=250, env_steps_planned=500)
    states = {"a": half, "b": CellState(phase="failed", reason="no")}
    states |= {f"c{i}": CellState(phase="finished", env_steps=1) for i in range(2)}
    states |= {f"d{i}": CellState() for i in range(4)}
    overview = SweepOverview(tmp_path, states)
    assert [row.share for row in rows_of(overview, PHASES)[:5]] == [
        "0.500", "0.000", "1.000", "1.000", "0.000",
    ]  # fmt: skip
    assert '<progress max="1" value="0.2500"' in make_page(overview).decode()  # 2 of 8 runs
    monkeypatch.setattr(sweep_page, "MOST", 5)
    groups, hidden = sweep_page._groups(overview)
    assert [(title, [row.name for row in rows]) for title, rows in groups] == [
        ("Running (1)", ["a"]), ("Failed (1)", ["b"]), ("Finished (2)", ["c0", "c1"]),
        ("To do (4)", ["d0"]),
    ]  # fmt: skip
    assert hidden == 3
    monkeypatch.setattr(sweep_page, "MOST", 3)
    groups, hidden = sweep_page._groups(overview)
    assert [title for title, _ in groups] == ["Running (1)", "Failed (1)", "Finished (2)"]
    assert ([row.name for row in groups[-1][1]], hidden) == (["c0"], 5)
    page = make_page(replace(overview, states=states | {"e": CellState(phase="stopped")})).decode()
    assert '<p class="muted">6 more are not shown; ' in page
    assert f'<p class="muted">{tmp_path} · 20' in page
    assert 'data-seconds="5"' in page
    script = page.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in html.unescape(page)  # else browsers refuse it
    monkeypatch.setattr(sweep_page, "MOST", 9)
    groups, hidden = sweep_page._groups(SweepOverview(tmp_path, {"e": CellState(phase="stopped")}))
    assert ([title for title, _ in groups], hidden) == (["Not finished (1)"], 0)


def test_how_a_sweep_was_launched_is_not_forgotten_with_its_file(tmp_path):
    assert read_launch(tmp_path) == {}
    write_launch(tmp_path, Launch(retries=5).content())
    assert read_launch(tmp_path)["retries"] == 5
    (tmp_path / LAUNCH).write_bytes(b"")
    with pytest.raises(ConfigError, match=r"launch\.yaml is empty; delete it"):
        read_launch(tmp_path)


def test_launchers_are_plug_ins_with_options_of_their_own(monkeypatch):
    assert Launch.from_dict({"jobs": "3"}).jobs == 3
    launcher = LAUNCHERS.get("local").make({"jobs": "3", "nice": 2})
    assert (launcher.options.jobs, launcher.options.nice) == (3, 2)
    assert Launch.from_dict({"jobs": "none"}).jobs is None
    for options, reason in (
        ({"jobs": "many"}, "'jobs' must be an integer or none, got 'many'"),
        ({"jobs": 0}, "'jobs' must be at least 1"),
        ({"nice": date(2024, 1, 1)}, "'nice' must be an integer, got datetime.date"),
        ({7: 1}, "the launcher 'local' has no option 7"),
    ):
        with pytest.raises(ConfigError, match=reason):
            Launch.from_dict(options)
    with pytest.raises(ConfigError, match="'jobs' must be at least 1"):
        LAUNCHERS.get("local").make({"jobs": 0})
    with pytest.raises(ConfigError, match="'retries' must not be negative"):
        Launch(retries=-1)
    missing = replace(LAUNCHERS.get("local"), id="x", module="not_there", extra="more")
    with pytest.raises(ConfigError, match=r"pip install 'gmc-bench\[more\]'"):
        missing.make({})
    assert isinstance(missing, LauncherSpec)


@pytest.mark.parametrize(("running", "left"), [(4, 225), (1, 1050), (0, 1100)])
def test_what_waits_in_a_queue_does_not_run(tmp_path, config, running, left):
    """Ray and Slurm take all runs at once."""
    names = [f"r{i}" for i in range(11)]
    told = []
    driver = Driver(tmp_path, dict.fromkeys(names, config), Scripted({}), 0, told.append)
    steps = planned(config)
    measured = CellState(phase="finished", env_steps_per_s=steps / 100, scoring_s=0)
    driver._measured.add_state("before", config, measured)
    driver._given = dict.fromkeys(names, CellState())
    driver.states = dict.fromkeys(names, CellState(phase="waiting"))
    for name in names[:running]:
        half = replace(measured, phase="training", env_steps=steps // 2)
        write_state(tmp_path, name, replace(half, env_steps_planned=steps))
    driver._report()
    assert told[0].overview.time_left == pytest.approx(left)


def test_a_run_that_no_worker_tells_of_is_seen_in_its_folder(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text("")
    assert read_state(tmp_path, "a").phase == "stopped"
    with Lease(tmp_path / "a"):
        assert read_state(tmp_path, "a").phase == "training"


def test_a_damaged_state_counts_as_none_and_one_that_lost_its_digest_too(tmp_path):
    state = CellState(phase="failed", attempt=2, reason="It broke.", mean_return=float("nan"))
    write_state(tmp_path, "a", state)
    path = state_file(tmp_path, "a")
    kept = read_state(tmp_path, "a")
    assert (kept.attempt, kept.mean_return) == (2, None)
    path.write_bytes(path.read_bytes().replace(b'"attempt":2', b'"attempt":3'))
    assert read_state(tmp_path, "a") == CellState()
    path.write_text(json.dumps(kept.to_dict()))
    assert read_state(tmp_path, "a") == CellState()
