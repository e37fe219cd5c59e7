"""One run from start to record: train, score, write down, show."""

import hashlib
import time

from tqdm import tqdm

from gmc_bench.cli.bars import Bars
from gmc_bench.cli.output import note, number
from gmc_bench.cli.report import show
from gmc_bench.evaluation.policy_file import policy_tensors
from gmc_bench.experiments.eta import ETA
from gmc_bench.experiments.record import make_record
from gmc_bench.experiments.scoring import score
from gmc_bench.experiments.session import Session
from gmc_bench.records.curve import plot_learning_curve
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import write_atomic, write_record
from gmc_bench.training.checkpoint import encode_tensors
from gmc_bench.training.independent_trainer import make_trainer
from gmc_bench.training.run_folder import RunFolder
from gmc_bench.training.trainer import Progress, Trainer

TASK_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt}{postfix}"
"""Of a task of several: its speed makes way for the time left for all, to fit 80 columns."""


def execute(session: Session, folder: RunFolder, eta: ETA | None = None) -> RunRecord:
    """Train what is left to train, score the policy, write the record and show the result.

    Args:
        session: the run.
        folder: its folder, locked.
        eta: where the run's speed is noted, and what the progress bar says, if the run is one
            of several.
    """
    trainer = make_trainer(
        session.config,
        session.method,
        session.task,
        session.bodies.split("train"),
        session.spec,
        folder,
    )
    _train(trainer, eta)
    policy = encode_tensors(policy_tensors(trainer.model, trainer.normalizer))
    write_atomic(folder.policy, policy)
    started = time.perf_counter()
    with Bars() as bars:
        returns = score(session, trainer.model, trainer.normalizer, on_progress=bars)
    if eta is not None:
        eta.scored(time.perf_counter() - started)
    record = make_record(session, trainer, returns, hashlib.sha256(policy).hexdigest())
    title = (
        f"{session.method.title or session.method.id} - {session.task.title}, seed {record.seed}"
    )
    plot_learning_curve(record.learning_curve, folder.curve, title)
    write_record(folder.record, record)  # last: a folder that holds it is finished
    if eta is None:  # of several runs, the table at the end tells
        show(record, folder)
    return record


def _train(trainer: Trainer, eta: ETA | None) -> None:
    total, start = trainer.env_steps_planned, trainer.env_steps
    if start:
        note(f"Continuing at {start:,} of {total:,} env steps.")
    if eta is not None:
        eta.resume(start)
    with tqdm(
        total=total,
        initial=start,
        unit="step",
        unit_scale=True,
        desc=eta.headline() if eta else "train",
        bar_format=TASK_BAR if eta else None,
    ) as bar:

        def advance(progress: Progress) -> None:
            if eta is not None:
                eta.advance(progress.env_steps)
                bar.set_description_str(eta.headline(), refresh=False)
            bar.set_postfix_str(f"return {number(progress.mean_return)}", refresh=False)
            bar.update(progress.env_steps - bar.n)

        trainer.train(advance)
