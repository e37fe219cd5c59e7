"""One run from start to record: train, score, write down, show."""

import hashlib

from tqdm import tqdm

from gmc_bench.cli.output import note, number
from gmc_bench.cli.report import make_record, show
from gmc_bench.cli.session import Session, score
from gmc_bench.evaluation.policy_file import policy_tensors
from gmc_bench.results.curve import plot_learning_curve
from gmc_bench.results.schema import RunRecord
from gmc_bench.results.store import write_atomic, write_record
from gmc_bench.training.checkpoint import encode_tensors
from gmc_bench.training.run_folder import RunFolder
from gmc_bench.training.trainer import Progress, Trainer


def execute(session: Session, folder: RunFolder) -> RunRecord:
    """Train what is left to train, score the policy, write the record and show the result."""
    trainer = Trainer(
        session.config,
        session.method,
        session.task,
        session.bodies.split("train"),
        session.spec,
        folder,
    )
    _train(trainer)
    policy = encode_tensors(policy_tensors(trainer.model, trainer.normalizer))
    write_atomic(folder.policy, policy)
    returns = score(session, trainer.model, trainer.normalizer)
    record = make_record(session, trainer, returns, hashlib.sha256(policy).hexdigest())
    title = (
        f"{session.method.title or session.method.id} - {session.task.title}, seed {record.seed}"
    )
    plot_learning_curve(record.learning_curve, folder.curve, title)
    write_record(folder.record, record)  # last: a folder that holds it is finished
    show(record, folder)
    return record


def _train(trainer: Trainer) -> None:
    total, start = trainer.env_steps_planned, trainer.env_steps
    if start:
        note(f"Continuing at {start:,} of {total:,} env steps.")
    with tqdm(total=total, initial=start, unit="step", unit_scale=True, desc="train") as bar:

        def advance(progress: Progress) -> None:
            bar.set_postfix_str(f"return {number(progress.mean_return)}", refresh=False)
            bar.update(progress.env_steps - bar.n)

        trainer.train(advance)
