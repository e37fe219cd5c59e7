"""Execution of a run: train what is left, score the policy, write the record."""

import hashlib
import time

from gmc_bench.core.errors import StorageError
from gmc_bench.experiments.events import (
    CheckpointWritten,
    IterationFinished,
    Listener,
    RecordWritten,
    Remark,
    RunStoppedError,
    TrainingFinished,
    TrainingStarted,
)
from gmc_bench.experiments.friction import suite_friction
from gmc_bench.experiments.launch import dismiss, shared
from gmc_bench.experiments.record import changes_of, make_record
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.experiments.scoring import EpisodeWatch, score
from gmc_bench.experiments.session import Session, untrained_policy
from gmc_bench.experiments.tracking import tracked
from gmc_bench.records.curve import plot_learning_curve
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import write_atomic, write_record
from gmc_bench.training.checkpoint import Checkpoint, read_latest, write_checkpoint
from gmc_bench.training.log import EventLog
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.trainer import Iteration, Trainer, make_trainer


def execute(
    session: Session, folder: RunFolder, emit: Listener, watch: EpisodeWatch | None = None
) -> RunRecord:
    """Train what is left to train, if anything is, score the policy and write the record.

    Args:
        session: the run.
        folder: its folder, locked.
        emit: is told what happens.
        watch: returns observers of the scored episodes, see `Experiment.watch`.

    Raises:
        GmcBenchError: the run cannot go on.
    """
    with tracked(session, folder, emit) as listener:
        return _execute(session, folder, listener, watch)


def _execute(
    session: Session, folder: RunFolder, emit: Listener, watch: EpisodeWatch | None
) -> RunRecord:
    # Of a run that was half taken from a leaderboard; what is made here is no copy of it.
    folder.kept.unlink(missing_ok=True)
    trainer = None
    if session.config.untrained:
        dismiss()
    else:
        trainer = _trained(session, folder, emit)
    policy = untrained_policy(session) if trainer is None else trainer.policy
    weights = policy.to_bytes()
    folder.lease.require()
    write_atomic(folder.policy, weights)
    last = None if trainer is None else trainer.tracker.mean_return(complete=False)
    emit(TrainingFinished(folder.policy, last))
    record = make_record(
        session,
        policy,
        trainer,
        score(session, policy, on_progress=emit, watch=watch),
        weights_digest=hashlib.sha256(weights).hexdigest(),
        friction=suite_friction(session, policy, emit),
    )
    _draw_curve(session, record, folder, emit)
    folder.lease.require()
    write_record(folder.record, record)  # last: a folder that holds it is finished
    emit(RecordWritten(folder.record, record))
    return record


def _draw_curve(session: Session, record: RunRecord, folder: RunFolder, emit: Listener) -> None:
    """Draw the learning curve; a fault of drawing is no reason to lose the record.

    Raises:
        StorageError: the picture could not be written.
    """
    title = (
        f"{session.method.title or session.method.id} - {session.task.title}, seed {record.seed}"
    )
    try:
        plot_learning_curve(record.learning_curve, folder.curve, title)
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever matplotlib and its fonts raise
        emit(Remark(f"no learning curve was drawn: {type(error).__name__}: {error}"))


def _trained(session: Session, folder: RunFolder, emit: Listener) -> Trainer:
    """Return the trainer of a run after its last iteration."""
    with shared(session.config, folder.path) as group:
        trainer = make_trainer(
            session.config,
            session.method,
            session.task,
            session.bodies.split("train"),
            session.spec,
            group,
        )
        continue_latest(trainer, folder, session.config)
        train(trainer, folder, session.config, emit)
    return trainer


def continue_latest(trainer: Trainer, folder: RunFolder, config: RunConfig) -> None:
    """Let a trainer at its start go on from the latest checkpoint of its run, if there is one.

    Raises:
        CheckpointError: the checkpoint is damaged or of another run.
    """
    checkpoint = read_latest(folder.checkpoints, config.run_digest)
    state = trainer.group.broadcast(None if checkpoint is None else checkpoint.state)
    if state is not None:
        trainer.set_state(state)


def train(trainer: Trainer, folder: RunFolder, config: RunConfig, emit: Listener) -> None:
    """Run the remaining iterations, writing curves, and checkpoints on the way and at the end.

    Raises:
        StorageError: the disk is full or cannot be written.
    """
    emit(TrainingStarted(trainer.env_steps, trainer.env_steps_planned))
    for what, counts in (("process(es)", trainer.processes), ("thread(s)", trainer.threads)):
        if len(counts) > 1 and counts[-1][0] == trainer.iteration:
            before, now = counts[-2][1], counts[-1][1]
            emit(Remark(f"{before} {what} before, {now} from here on: the last bits differ."))
    for name, values in changes_of(trainer.made_with).items():
        if values[-1][0] == trainer.iteration:
            old, new = values[-2][1], values[-1][1]
            emit(Remark(f"{name}: {old} before, {new} from here on: returns may differ."))
    written = time.perf_counter()
    with EventLog(folder.logs, trainer.env_steps) as log:

        def save(done: Iteration) -> None:
            nonlocal written
            folder.lease.require()
            checkpoint = Checkpoint(config.run_digest, trainer.iteration, trainer.get_state())
            path = write_checkpoint(folder.checkpoints, checkpoint)
            written = time.perf_counter()
            emit(CheckpointWritten(path, done.env_steps))

        def note(done: Iteration) -> None:
            folder.lease.require()
            log.write(done.scalars, done.env_steps)
            due = done.is_last or time.perf_counter() - written >= config.checkpoint_interval_s
            if due:
                save(done)
            try:
                emit(IterationFinished(done.env_steps, done.mean_return, done.scalars))
            except RunStoppedError:
                if not due:
                    save(done)
                raise

        trainer.train(note)
