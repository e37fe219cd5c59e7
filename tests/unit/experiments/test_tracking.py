"""Tracked runs: whole curves over stops, the same bits, and trackers that fail."""

import json
import math
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag

import pytest

import gmc_bench as gmc
from gmc_bench.core.errors import ConfigError, GmcBenchError
from gmc_bench.experiments import tracking
from gmc_bench.experiments.events import (
    IterationFinished,
    RecordWritten,
    Remark,
    TrainingStarted,
)
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.experiments.tracking import (
    Tracking,
    TrackingState,
    facts_of,
    read_tracking_state,
    scores_of,
)
from gmc_bench.records.store import record_digest
from gmc_bench.trackers import TRACKERS, Connection, TrackedRun, Tracker
from gmc_bench.trackers.choice import choose_tracker
from gmc_bench.training.log import EventLog
from tests.support.records import make_record

SPEC = gmc.ExperimentSpec(
    method="recmorph",
    suite="unimal",
    task="ft",
    protocol="smoke",
    bodies="tiny",
    settings={
        "num_envs": 2,
        "rollout_length": 16,
        "env_steps": 128,
        "ppo": {"batch_size": 32, "repeat": 1},
        "model": {"width": 8, "hidden": 8},
        "evaluation": {"splits": ["train"], "modes": ["deterministic"]},
    },
    threads=1,
    checkpoint_interval=0,
)
"""Four iterations."""


class Table(Connection):
    """A table of text, one row per number; breaks or hangs when it is told to."""

    def __init__(self, run, breaks=None, hangs=None):
        self.path = run.folder / f"{run.id}.tsv"
        self.place = str(self.path)
        self.breaks, self.hangs = breaks, hangs
        self._row("connect", len(run.settings))

    def write(self, scalars, env_steps):
        self._row("write", env_steps, *scalars.items())

    def finish(self, scores, facts, env_steps):
        self._row("finish", env_steps, *scores.items(), *facts.items())

    def close(self, *, finished):
        self._row("close", finished)

    def _row(self, what, *values):
        if what == self.breaks:
            raise SystemExit(f"no\nnetwork to {what}")
        if what == self.hangs:
            Flag().wait(30)
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\t".join(map(str, (what, *values))) + "\n")


def rows(folder):
    (path,) = Path(folder).glob("*.tsv")
    return [line.split("\t")[:2] for line in path.read_text(encoding="utf-8").splitlines()]


def track(folder, events, **trouble):
    """Send events to a table in a folder; return the remarks."""
    tracker = Tracker(id="table", title="Table", connect=lambda run: Table(run, **trouble))
    run = TrackedRun(name="a", project=None, settings={"seed": 1}, folder=folder, id="b")
    state = replace(read_tracking_state(folder / tracking.STATE, "table"), id="b")
    told = []
    with Tracking(tracker, run, state, folder / "logs", told.append) as listener:
        for event in events:
            listener(event)
    return [event.text for event in told if isinstance(event, Remark)]


def iterations(*steps):
    return [IterationFinished(step, 1.0, {"a": step / 2, "b": None}) for step in steps]


@pytest.mark.slow
def test_a_run_that_is_stopped_is_tracked_once_and_ends_in_the_same_bits(tmp_path):
    def stop(event):
        if isinstance(event, IterationFinished) and event.env_steps == 64:
            raise KeyboardInterrupt

    plain = gmc.Experiment(SPEC, out="plain").run()
    with pytest.raises(KeyboardInterrupt):
        gmc.Experiment(SPEC, out="run", track="jsonl", on_event=stop).run()
    told = []
    record = gmc.Experiment.open("run", on_event=told.append).resume()
    assert Path("run/policy.safetensors").read_bytes() == (
        Path("plain/policy.safetensors").read_bytes()
    )
    assert (record.config_digest, record.returns) == (plain.config_digest, plain.returns)
    assert "track: jsonl" in Path("run/config.yaml").read_text()
    path = Path("run/tracking/track.jsonl")
    assert Remark(f"JSON lines tracks this run: {path}") in told
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [line["event"] for line in lines] == [
        "started", "iteration", "started", *["iteration"] * 3, "finished",
    ]  # fmt: skip
    assert lines[0] == lines[2]
    assert lines[0]["settings"]["protocol.ppo.batch_size"] == 32
    curve = [line for line in lines if line["event"] == "iteration"]
    assert [line["env_steps"] for line in curve] == [32, 64, 96, 128]  # 64 from the event file
    last = [event for event in told if isinstance(event, IterationFinished)][-1]
    expected = {k: v for k, v in last.scalars.items() if v is not None and math.isfinite(v)}
    assert curve[-1] == {"event": "iteration", "env_steps": 128, **expected}
    assert lines[-1]["score/train_deterministic"] == record.score("train", "deterministic")
    assert lines[-1]["record_digest"] == record_digest(record)
    assert "the method's width was changed" in lines[-1]["official"]


def test_numbers_are_sent_once_and_gaps_are_closed(tmp_path):
    with EventLog(tmp_path / "logs", 0) as log:
        for step in (10, 20, 30, 40):
            log.write({"a": step / 2}, step)
    first = track(tmp_path, [TrainingStarted(0, 60), *iterations(10, 20)])
    assert first == [f"Table tracks this run: {tmp_path / 'b.tsv'}"]
    # What the tracker did not come to send before the checkpoint of 40 is sent first.
    track(tmp_path, [TrainingStarted(40, 60), *iterations(50, 60)])
    # The checkpoint of 30 is older than what was sent.
    record = make_record()
    track(
        tmp_path,
        [TrainingStarted(30, 60), *iterations(40, 50, 60), RecordWritten(tmp_path, record)],
    )
    sent = rows(tmp_path)
    assert [row[1] for row in sent if row[0] == "write"] == ["10", "20", "30", "40", "50", "60"]
    assert [row[1] for row in sent if row[0] == "close"] == ["False", "False", "True"]
    assert sent[-2] == ["finish", str(record.env_steps)]


@pytest.mark.parametrize(("what", "left"), [("connect", []), ("write", ["connect"])])
def test_a_tracker_that_fails_is_one_sentence(tmp_path, what, left):
    told = track(tmp_path, iterations(*range(1, 6)), breaks=what)
    assert told[-1] == (
        f"Table does not track this run any longer, which goes on without it: no network to {what}"
    )
    assert len(told) == 1 + len(left)
    assert [row[0] for path in tmp_path.glob("*.tsv") for row in rows(path.parent)] == left


def test_nobody_waits_long_for_a_tracker_that_never_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "PATIENCE_S", 0.05)
    told = track(tmp_path, iterations(1), hangs="write")
    assert told[-1] == ("Table has not taken everything after 0.05 s; the run waits no longer.")


def test_a_run_that_is_being_stopped_waits_less_for_its_tracker(tmp_path, monkeypatch):
    monkeypatch.setattr(tracking, "PATIENCE_S", 0.05)
    monkeypatch.setattr(tracking, "STOPPED_PATIENCE_S", 0.01)
    tracker = Tracker(id="t", title="Table", connect=lambda run: Table(run, hangs="connect"))
    run = TrackedRun(name="a", project=None, settings={}, folder=tmp_path, id="b")
    told = []
    listener = Tracking(tracker, run, TrackingState("t", "b"), tmp_path / "logs", told.append)
    with pytest.raises(KeyboardInterrupt), listener:
        raise KeyboardInterrupt
    assert [event.text for event in told] == [
        "Table has not taken everything after 0.01 s; the run waits no longer."
    ]


def test_scores_and_facts_of_a_record():
    record = make_record(official=False, unofficial_reasons=("one", "two"))
    times = record.wall_clock_s.model_copy(update={"total": 7.0})
    record = record.model_copy(update={"wall_clock_s": times, "training_return": math.nan})
    assert scores_of(record) == {
        "score/train_deterministic": 150.0,
        "score/test_deterministic": 30.0,
        "time/training_s": 7.0,
    }
    assert facts_of(record)["official"] == "one; two"
    assert facts_of(make_record())["official"] == "yes"


def test_a_run_whose_tracker_is_gone_goes_on(tmp_path):
    tracker = Tracker(id="table", title="Table", connect=Table)
    untrained = SPEC.replace(untrained=True)
    with TRACKERS.temporarily("table", tracker):
        record = gmc.Experiment(untrained, track="table:walks", out="run").run()
    assert [row[0] for row in rows("run/tracking")] == ["connect", "finish", "close"]
    assert read_tracking_state(Path("run/tracking/state.json"), "table:walks").env_steps == 0
    Path("run/record.json").unlink()
    told = []
    again = gmc.Experiment.open("run", on_event=told.append).resume()
    assert again.returns == record.returns
    (remark,) = [event.text for event in told if isinstance(event, Remark)]
    assert remark.startswith("The run goes on without its tracker: unknown tracker 'table'")


def test_settings_that_cannot_be_sent_stop_no_run(tmp_path, monkeypatch):
    def refuse(content):
        raise ConfigError("'model.a_b' is given more than once")

    monkeypatch.setattr(tracking, "flatten", refuse)
    tracker, told = Tracker(id="table", title="Table", connect=Table), []
    with TRACKERS.temporarily("table", tracker):
        session = gmc.Experiment(SPEC, track="table").session
        with (
            RunFolder(tmp_path / "run", create=True) as folder,
            tracking.tracked(session, folder, told.append) as emit,
        ):
            emit("event")
    assert told == [
        Remark("The run goes on without its tracker: 'model.a_b' is given more than once"), "event"
    ]  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"[]", b'{"id": 3}', b'{"track": "b", "id": "c"}'])
def test_what_is_no_state_of_this_tracker_is_a_new_one(tmp_path, content):
    path = tmp_path / "state.json"
    path.write_bytes(content)
    found = read_tracking_state(path, "a")
    assert (found.track, found.env_steps) == ("a", 0)
    found = replace(found, env_steps=7)
    found.write(path)
    assert read_tracking_state(path, "a") == found == TrackingState("a", found.id, 7)
    elsewhere = read_tracking_state(path, "c")
    assert (elsewhere.track, elsewhere.env_steps) == ("c", 0)
    assert elsewhere.id != found.id


def test_a_missing_package_is_named_before_anything_is_made(tmp_path):
    tracker = Tracker(
        id="table", title="Table", connect=Table, package="no_such_module", install="pip install x"
    )
    with (
        TRACKERS.temporarily("table", tracker),
        pytest.raises(
            ConfigError,
            match=r"needs the package no_such_module, which is not installed; run: pip install x$",
        ),
    ):
        gmc.Experiment(SPEC, track="table", out="run").run()
    (tmp_path / "no_such_module").mkdir()  # as W&B leaves one behind
    with TRACKERS.temporarily("table", tracker), pytest.raises(ConfigError, match="needs"):
        choose_tracker("table")
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("jsonlines", "unknown tracker 'jsonlines'; did you mean 'jsonl'?"),
        ("jsonl:a", "the tracker 'jsonl' has no projects, got 'a'; give jsonl"),
        ("jsonl:", "'jsonl:' names no project after the colon; leave the colon out"),
        ("wandb:team/", "the project 'team/' of 'wandb:team/' ends with a slash; name it in full"),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused(text, problem):
    with pytest.raises(GmcBenchError) as caught:
        choose_tracker(text)
    assert str(caught.value) == problem


@pytest.mark.parametrize("name", TRACKERS.names())
def test_registered_trackers_say_what_they_need(name):
    tracker = TRACKERS.get(name)
    assert tracker.id == name
    assert tracker.package is None or tracker.install == f"pip install 'gmc-bench[{name}]'"


def test_the_tracker_decides_no_numbers():
    assert SPEC.replace(track="jsonl").digest == SPEC.digest
    plain, other = gmc.Experiment(SPEC), gmc.Experiment(SPEC, track="jsonl")
    assert other.config.run_digest == plain.config.run_digest
    assert other.config.track == "jsonl"


def test_half_a_line_of_a_killed_process_is_taken_away(tmp_path):
    (tmp_path / "track.jsonl").write_bytes(b'{"event": "iteration"}\n{"event": "iter')
    run = TrackedRun(name="a", project=None, settings={}, folder=tmp_path, id="b")
    TRACKERS.get("jsonl").connect(run).close(finished=False)
    lines = (tmp_path / "track.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["iteration", "started"]
