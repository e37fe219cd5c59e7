"""What a record says of a training."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gmc_bench.core.config import definition_digest
from gmc_bench.experiments import execution
from gmc_bench.experiments import record as recording
from gmc_bench.experiments.events import RunStoppedError, TrainingFinished
from gmc_bench.experiments.record import make_record
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.experiments.session import open_session
from gmc_bench.records.environment import GitState
from gmc_bench.records.schema import FrictionResult
from gmc_bench.suites.unimal import SUITE
from gmc_bench.training.trainer import make_trainer
from tests.support.records import make_friction


@pytest.fixture
def trained(config):
    """A session, and its trainer as if it had done all iterations in 10 s without an episode."""
    config = replace(config, method="mlp", method_config={"hidden": [4]})
    session = open_session(config)
    bodies = session.bodies.split("train")
    trainer = make_trainer(config, session.method, session.task, bodies, session.spec)
    trainer.iteration, trainer.timers.total = trainer.protocol.num_iterations, 10.0
    return session, trainer


def test_the_training_return_is_of_all_bodies_or_missing(trained):
    session, trainer = trained

    def found():
        end = trainer.tracker.mean_return(complete=True)
        point = {"mean_return": end, "mean_length": None, "episodes": 0}
        trainer.curve = [{"env_steps": trainer.env_steps, **point}]
        record = make_record(session, trainer.policy, trainer, (), weights_digest="0" * 64)
        return record.status, record.env_steps > 0, record.training_return

    assert found() == ("complete", True, None)
    trainer.tracker.record([0, 0], [2.0, 3.0], [5, 5])
    assert found() == ("complete", True, None)  # body 1 has never ended an episode
    trainer.tracker.record([1], [6.5], [7])
    assert found() == ("complete", True, 4.5)


def test_who_waits_for_a_training_is_told_the_mean_of_the_bodies_that_finished_an_episode(
    trained, tmp_path, monkeypatch
):
    """Trials of a tuning are judged by it: in short runs, a body may finish none."""
    session, trainer = trained
    trainer.tracker.record([0, 0], [2.0, 3.0], [5, 5])
    monkeypatch.setattr(execution, "_trained", lambda *_: trainer)
    told = []

    def stop(event):
        told.append(event)
        raise RunStoppedError

    with RunFolder(tmp_path / "run", create=True) as folder, pytest.raises(RunStoppedError):
        execution.execute(session, folder, stop)
    assert told == [TrainingFinished(folder.policy, 2.5)]


def test_times_and_changes_on_the_way_are_those_of_the_trainer(trained):
    session, trainer = trained
    timers = trainer.timers
    timers.simulation, timers.policy, timers.update = 4.0, 2.25, 3.0
    trainer.threads = [[0, 1], [3, 2]]
    point = {"mean_return": None, "mean_length": None, "episodes": 0}
    trainer.curve = [{"env_steps": trainer.env_steps, **point}]
    record = make_record(session, trainer.policy, trainer, (), weights_digest="0" * 64)
    protocol = session.config.protocol
    steps = protocol.num_iterations * protocol.num_envs * protocol.rollout_length
    assert (record.env_steps, record.env_steps_planned) == (steps, steps)
    assert record.env_steps_per_s == pytest.approx(steps / 10.0)
    times = record.wall_clock_s
    assert (times.total, times.simulation, times.policy, times.update) == (10.0, 4.0, 2.25, 3.0)
    assert times.other == 0.75
    (remark,) = record.remarks
    assert remark.endswith("the run was under way: 1 from iteration 1, 2 from iteration 4")
    timers.simulation, trainer.processes = 4.751, [[0, 1], [2, 4]]
    record = make_record(session, trainer.policy, trainer, (), weights_digest="0" * 64)
    assert record.wall_clock_s.other == 0.0  # clocks that overlap by rounding
    assert len(record.remarks) == 2
    assert record.remarks[0].endswith("under way: 1 from iteration 1, 4 from iteration 3")


def test_a_record_says_which_software_and_processor_changed_on_the_way(trained):
    session, trainer = trained
    point = {"mean_return": None, "mean_length": None, "episodes": 0}
    trainer.curve = [{"env_steps": trainer.env_steps, **point}]
    last = trainer.made_with[0][1]
    older = {name: value for name, value in last.items() if name != "scipy"}
    first = {**older, "processor": "another", "torch": "1.0"}
    trainer.made_with = [[0, first], [3, {**older, "torch": "1.0"}], [4, last]]
    record = make_record(session, trainer.policy, trainer, (), weights_digest="0" * 64)
    assert record.remarks == (
        f"torch changed while the run was under way: 1.0 from iteration 1, "
        f"{last['torch']} from iteration 5",
        f"processor changed while the run was under way: another from iteration 1, "
        f"{last['processor']} from iteration 4",
    )
    assert not record.official
    assert "torch changed while the run was under way" in record.unofficial_reasons
    assert not any("processor" in reason for reason in record.unofficial_reasons)
    assert not record.resized
    # After the last iteration only the scores are made with it.
    trainer.made_with = [[0, {**last, "scipy": "1.0"}], [trainer.iteration, last]]
    record = make_record(session, trainer.policy, trainer, (), weights_digest="0" * 64)
    text = "scipy changed while the run was under way"
    assert record.remarks == (f"{text}: 1.0 from iteration 1, {last['scipy']} in scoring",)
    assert text in record.unofficial_reasons


def test_a_record_states_bodies_machine_commit_and_rules_of_its_run(trained, monkeypatch):
    session, trainer = trained
    point = {"mean_return": None, "mean_length": None, "episodes": 0}
    trainer.curve = [{"env_steps": trainer.env_steps, **point}]
    trainer.collector.diverged_episodes, trainer.collector.loops_opened = 3, 5
    splits = {**session.bodies.splits, "test": session.bodies.splits["test"][:1]}
    session = replace(session, bodies=replace(session.bodies, splits=splits))
    friction = tuple(map(FrictionResult.model_validate, make_friction()))

    def record(commit, dirty, **changes):
        monkeypatch.setattr(recording, "checkout", lambda: GitState(commit, dirty))
        run = replace(session, config=replace(session.config, **changes))
        digest = {"weights_digest": "0" * 64, "friction": friction}
        return make_record(run, trainer.policy, trainer, (), **digest)

    here, before = "a" * 40, "b" * 40
    for begun, dirty, stated in (
        (None, False, False), (here, False, False), (here, True, True), (before, False, True),
    ):  # fmt: skip
        assert record(here, dirty, git_commit=begun).git_dirty is stated
    assert record(None, None, git_commit=before).git_dirty is None
    found = record(here, False, threads=2, processes=3, unofficial_reasons=("a seed",))
    assert (found.hardware.threads, found.hardware.processes) == (2, 3)
    assert (found.official, found.unofficial_reasons) == (False, ("a seed",))
    assert (found.controller, found.untrained) == ("single_robot", None)
    assert found.suite_digest == definition_digest(SUITE.only(session.config.task))
    assert found.suite_digest != definition_digest(SUITE)
    bodies = found.morphologies
    assert (bodies.source, bodies.licence) == ("made for tests", "MIT")
    assert (bodies.num_train, bodies.num_test) == (2, 1)
    assert found.metres_per_return == session.task.metres_per_return
    assert found.metres_per_return is not None
    assert found.protocol_seeds == session.config.protocol.seeds
    assert (found.diverged_episodes, found.loops_opened) == (3, 5)
    assert found.parameters == trainer.policy.model.num_parameters()
    assert found.friction == friction
    since = datetime.now(UTC) - datetime.fromisoformat(found.created)
    assert timedelta(0) <= since < timedelta(minutes=5)
