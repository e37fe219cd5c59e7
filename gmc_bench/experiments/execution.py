"""Execution of a run: train what is left, score the policy, write the record."""

import hashlib

from gmc_bench.experiments.events import (
    IterationFinished,
    Listener,
    RecordWritten,
    TrainingFinished,
    TrainingStarted,
)
from gmc_bench.experiments.record import make_record
from gmc_bench.experiments.scoring import score
from gmc_bench.experiments.session import Session
from gmc_bench.records.curve import plot_learning_curve
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import write_atomic, write_record
from gmc_bench.training.in_folder import continue_latest, train_in_folder
from gmc_bench.training.run_folder import RunFolder
from gmc_bench.training.trainer import make_trainer


def execute(session: Session, folder: RunFolder, emit: Listener) -> RunRecord:
    """Train what is left to train, score the policy and write the record.

    Args:
        session: the run.
        folder: its folder, locked.
        emit: is told what happens.

    Raises:
        GmcBenchError: the run cannot go on.
    """
    trainer = make_trainer(
        session.config,
        session.method,
        session.task,
        session.bodies.split("train"),
        session.spec,
    )
    config = session.config
    continue_latest(trainer, folder, config.run_digest)
    emit(TrainingStarted(trainer.env_steps, trainer.env_steps_planned))
    train_in_folder(
        trainer,
        folder,
        config.run_digest,
        config.checkpoint_interval_s,
        lambda done: emit(IterationFinished(done.env_steps, done.mean_return)),
    )
    policy = trainer.policy.to_bytes()
    write_atomic(folder.policy, policy)
    emit(TrainingFinished(folder.policy))
    returns = score(session, trainer.policy, on_progress=emit)
    record = make_record(session, trainer, returns, hashlib.sha256(policy).hexdigest())
    title = (
        f"{session.method.title or session.method.id} - {session.task.title}, seed {record.seed}"
    )
    plot_learning_curve(record.learning_curve, folder.curve, title)
    write_record(folder.record, record)  # last: a folder that holds it is finished
    emit(RecordWritten(folder.record, record))
    return record
