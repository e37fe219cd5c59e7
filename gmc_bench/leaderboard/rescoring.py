"""Verification of kept evaluations: the policy is scored again and the scores are compared."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.errors import RecordError
from gmc_bench.experiments.events import Event, Progress
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.leaderboard.board import Board
from gmc_bench.leaderboard.rerun import VerificationOutcome
from gmc_bench.leaderboard.verification import comparison_for, quantile, variance_of_mean
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.kept import EVALUATIONS, KeptEvaluation, policy_of, read_evaluation
from gmc_bench.records.kinship import contents, mean_return
from gmc_bench.records.parts import BodyReturns
from gmc_bench.records.store import StoredRecord
from gmc_bench.records.verification import CONFIDENCE


def is_evaluation(path: Path) -> bool:
    """Return whether a path is the file of an evaluation in a leaderboard."""
    return path.is_file() and path.parent.name == EVALUATIONS


def verify_evaluation(
    path: Path,
    board: Board,
    root: Path,
    on_progress: Callable[[Progress], None] | None = None,
) -> VerificationOutcome:
    """Score the policy of a kept evaluation again, on the same bodies.

    A kept evaluation has one number. On the kind of machine and with the software that made it, the
    same must come out. Elsewhere, or where an older file does not state the machine, the last bits
    of an episode differ and grow: then the two scores must differ by no more than two evaluations
    do in all but one of a thousand cases.

    Args:
        path: the evaluation.
        board: the leaderboard that has the record of its policy, with the weights.
        root: its folder.
        on_progress: gets the episodes done so far.

    Raises:
        RecordError: the file is no evaluation, the leaderboard has no record of its policy, or it
            is about other bodies than those here.
        GmcBenchError: the policy cannot be scored here.
    """
    kept = read_evaluation(path)
    stored = _record_of(kept, board, path)
    bodies = load_morphologies(kept.morphologies.id)
    count = len(bodies.split(kept.split))
    if (bodies.digest, count) != (kept.morphologies.digest, kept.bodies):
        raise RecordError(
            f"{path} scores {kept.bodies} bodies of a set {bodies.id} with the hash "
            f"{kept.morphologies.digest[:12]}, but here it has {count} and {bodies.digest[:12]}; "
            f"it does not describe an evaluation on this set"
        )

    def tell(event: Event) -> None:
        if isinstance(event, Progress) and on_progress is not None:
            on_progress(event)

    found = Experiment.open(root / stored.path, on_event=tell).evaluate(
        bodies=None if kept.morphologies == kept.trained_on else bodies,
        split=kept.split,
        mode="deterministic",
        episodes=kept.episodes,
        sensor_dropout=kept.sensor_dropout,
    )
    score = mean_return(found.returns)
    assert score is not None
    if score == kept.score:
        return VerificationOutcome("verified", 1, f"{path}: the same score, {score:,.2f}")
    hardware = collect_hardware(found.trained.config.threads)
    if comparison_for(kept, hardware, collect_versions()) == "exact":
        text = (
            f"{path}: {kept.score!r} kept, {score!r} found; on the machine and with the software "
            f"that it states, the same must come out"
        )
        return VerificationOutcome("failed", 1, text)
    limit = _limit(found.returns)
    passed = abs(score - kept.score) <= limit
    text = (
        f"{path}: {kept.score:,.2f} kept, {score:,.2f} found; by chance they differ by up to "
        f"{limit:,.2f}"
    )
    return VerificationOutcome("verified" if passed else "failed", 1, text)


def _record_of(kept: KeptEvaluation, board: Board, path: Path) -> StoredRecord:
    """Return the record of an evaluation's policy.

    Raises:
        RecordError: there is none.
    """
    for stored in board.records:
        if policy_of(stored.record, stored.record.morphologies) == policy_of(kept, kept.trained_on):
            return stored
    raise RecordError(
        f"the leaderboard has no record of the policy that {path} scores ({kept.method}, seed "
        f"{kept.seed}, weights {kept.weights_digest[:12]}); add its run first"
    )


def _limit(returns: Sequence[BodyReturns]) -> float:
    """Return what the difference of two scores of one policy exceeds once in a thousand by chance.

    The variance of a score is that of episodes around the mean of their body, or of all bodies
    where each has one episode; bodies may differ in it, so its degrees of freedom are Welch's.
    """
    groups = [
        [episode.episode_return for item in same for episode in item.episodes]
        for same in contents(returns)
    ]
    if sum(map(len, groups)) < 2:
        return 0.0
    variance, freedom = variance_of_mean(groups, [1.0 / len(groups)] * len(groups))
    return quantile((1.0 - CONFIDENCE) / 2.0, freedom) * math.sqrt(2.0 * variance)
