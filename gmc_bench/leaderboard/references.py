"""Normalisation of train scores: 0 is an untrained policy (the floor), 1 a specialist of the body.

A specialist is a policy of one body; the floor is the same method untrained, or else no action at
all. A body on which the specialist is not clearly better than the floor has no meaningful scale:
such bodies are left out and counted.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gmc_bench.core.types import DoubleArray
from gmc_bench.leaderboard.aggregate import Row
from gmc_bench.leaderboard.statistics import Estimate, mean, run_interval
from gmc_bench.records.schema import BodyReturns

NO_ACTION = "zero-action"
"""Method that does nothing."""
MIN_STANDARD_ERRORS = 4.0
"""Least difference of specialist and floor on a body, in standard errors of it."""
MIN_SHARE = 0.1
"""Least difference of specialist and floor on a body, as a share of the median over bodies; it
bounds the weight of a body in the mean."""


@dataclass(frozen=True, eq=False)
class Scale:
    """Min-max scale of train scores: (x - floor) / (specialist - floor), body by body."""

    specialist: Row
    floor: Row
    bodies: tuple[str, ...]
    """(B,), digests of the bodies that count, each content once."""
    low: DoubleArray
    """(B,), score of the floor."""
    span: DoubleArray
    """(B,), score of the specialist minus that of the floor."""
    num_bodies: int
    """Different train bodies; all but `bodies` are left out."""

    def normalize(self, row: Row) -> DoubleArray:
        """Return normalised scores (R, B) of a row's R runs."""
        runs = [_episodes(run.record.returns) for run in row.runs]
        scores = np.array([[statistics.fmean(run[body]) for body in self.bodies] for run in runs])
        shares: DoubleArray = (scores - self.low) / self.span
        return shares

    def estimate(self, row: Row) -> Estimate:
        """Return the mean normalised score over bodies with its interval over runs."""
        return run_interval(self.normalize(row), mean)


def steps_per_body(row: Row) -> float:
    """Return the control steps that a run was trained on one body, the mean over runs."""
    records = [run.record for run in row.runs]
    return statistics.fmean(item.env_steps / item.morphologies.num_train for item in records)


def core_seconds(row: Row) -> float:
    """Return the training time of a run times its threads and processes, s, the median over runs.

    A mean would be dominated by a run that shared its cores with other programs.
    """
    return statistics.median(run.record.core_seconds for run in row.runs)


def find_scale(specialist: Row, untrained: Iterable[Row]) -> Scale | None:
    """Return the scale between a specialist and its floor.

    Args:
        specialist: a complete row of separate weights per body.
        untrained: rows without training, on the same bodies.

    Returns:
        The scale; `None` without a complete floor, or if no body is left to count.
    """
    floor = _floor_of(specialist, untrained)
    if floor is None:
        return None
    top, bottom = _returns_by_body(specialist), _returns_by_body(floor)
    spans = {
        body: span
        for body in top.keys() & bottom.keys()
        if (span := _clear_span(top[body], bottom[body])) is not None
    }
    if not spans:
        return None
    least = MIN_SHARE * statistics.median(spans.values())
    bodies = tuple(sorted(body for body, span in spans.items() if span >= least))
    return Scale(
        specialist=specialist,
        floor=floor,
        bodies=bodies,
        low=np.array([_mean_of_runs(bottom[body]) for body in bodies]),
        span=np.array([spans[body] for body in bodies]),
        num_bodies=len(top),
    )


def _floor_of(specialist: Row, untrained: Iterable[Row]) -> Row | None:
    complete = [row for row in untrained if not row.missing and row.train_score is not None]
    key = specialist.key
    same = [row for row in complete if row.key[:3] == key[:3]]
    idle = [row for row in complete if row.key.method == NO_ACTION]
    return next(iter([*same, *idle]), None)


def _clear_span(top: Sequence[Sequence[float]], low: Sequence[Sequence[float]]) -> float | None:
    """Return how far the specialist is above the floor on a body; `None` if not clearly.

    Args:
        top: returns of the specialist's episodes, run by run.
        low: those of the floor.
    """
    span = _mean_of_runs(top) - _mean_of_runs(low)
    errors = [_variance_of_mean(top), _variance_of_mean(low)]
    if None in errors:
        return None
    error = math.sqrt(math.fsum(item for item in errors if item is not None))
    return span if span > MIN_STANDARD_ERRORS * error else None


def _variance_of_mean(runs: Sequence[Sequence[float]]) -> float | None:
    """Return the variance of a body's mean score, from its variance over episodes or over runs.

    It is the larger of the two: few runs may agree by chance, and episodes of one run say nothing
    about the variance between runs. `None` for a single episode.
    """
    episodes = [value for run in runs for value in run]
    if len(episodes) < 2:
        return None
    within = statistics.variance(episodes) / len(episodes)
    means = [statistics.fmean(run) for run in runs]
    between = statistics.variance(means) / len(means) if len(means) > 1 else 0.0
    return max(within, between)


def _mean_of_runs(runs: Sequence[Sequence[float]]) -> float:
    return statistics.fmean(statistics.fmean(run) for run in runs)


def _returns_by_body(row: Row) -> dict[str, list[list[float]]]:
    """Return by body the returns of its episodes, run by run."""
    runs = [_episodes(run.record.returns) for run in row.runs]
    return {body: [run[body] for run in runs] for body in runs[0]}


def _episodes(returns: Iterable[BodyReturns]) -> dict[str, list[float]]:
    """Return by content of the train bodies the returns of their deterministic episodes."""
    found: dict[str, list[float]] = {}
    for item in returns:
        if (item.split, item.mode) == ("train", "deterministic"):
            values = [episode.episode_return for episode in item.episodes]
            found.setdefault(item.body_digest, []).extend(values)
    return found
