"""Training in a folder: from its latest checkpoint on, with curves and checkpoints on the way."""

import time
from collections.abc import Callable

from gmc_bench.training.checkpoint import Checkpoint, read_latest, write_checkpoint
from gmc_bench.training.log import EventLog
from gmc_bench.training.run_folder import RunFolder
from gmc_bench.training.trainer import Iteration, Trainer


def continue_latest(trainer: Trainer, folder: RunFolder, run: str) -> None:
    """Let a trainer go on from the latest checkpoint of a folder, if there is one.

    Args:
        trainer: at its start.
        folder: the run's.
        run: digest of the run's settings.

    Raises:
        CheckpointError: the checkpoint is damaged or of another run.
    """
    checkpoint = read_latest(folder.checkpoints, run)
    if checkpoint is not None:
        trainer.set_state(checkpoint.state)


def train_in_folder(
    trainer: Trainer,
    folder: RunFolder,
    run: str,
    interval_s: float,
    on_iteration: Callable[[Iteration], None] | None = None,
) -> None:
    """Run the remaining iterations, writing curves, and checkpoints on the way and at the end.

    Args:
        trainer: what is trained.
        folder: the run's.
        run: digest of the run's settings.
        interval_s: seconds between checkpoints.
        on_iteration: told after each iteration, when all is written.

    Raises:
        StorageError: the disk is full or cannot be written.
    """
    written = time.perf_counter()
    with EventLog(folder.logs, trainer.env_steps) as log:

        def note(done: Iteration) -> None:
            nonlocal written
            log.write(done.scalars, done.env_steps)
            if done.is_last or time.perf_counter() - written >= interval_s:
                checkpoint = Checkpoint(run, trainer.iteration, trainer.get_state())
                write_checkpoint(folder.checkpoints, checkpoint)
                written = time.perf_counter()
            if on_iteration:
                on_iteration(done)

        trainer.train(note)
