"""What a record says of a training."""

from dataclasses import replace

import pytest

from gmc_bench.experiments.record import make_record
from gmc_bench.experiments.session import open_session
from gmc_bench.training.trainer import make_trainer


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
