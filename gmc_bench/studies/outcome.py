"""Outcome of the runs of a study."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gmc_bench.leaderboard.learning_curve import Curve, common_curves, curve_area, mean_curve
from gmc_bench.records.schema import RunRecord, Split
from gmc_bench.studies.schema import Arm


@dataclass(frozen=True)
class Outcome:
    """One run of a study."""

    arm: Arm
    task: str
    """Full task id."""
    seed: int
    record: RunRecord | None
    """`None` where the run is not finished."""
    measured: dict[str, Any] = field(default_factory=dict)
    """What was measured on the policy beyond its record; empty where it was not."""


def runs_of(outcomes: Iterable[Outcome], task: str, arm: Arm) -> list[Outcome]:
    """Return the runs of one arm on one task: one for each seed."""
    return [item for item in outcomes if (item.task, item.arm.name) == (task, arm.name)]


Number = Callable[[Outcome], float | None]
"""Reads one number from a run; `None` where there is none."""


def training_return(outcome: Outcome) -> float | None:
    """Return the final online training return."""
    return outcome.record.training_return if outcome.record else None


def train_score(outcome: Outcome) -> float | None:
    """Return the score on the training bodies, by mean actions."""
    return _score(outcome, "train")


def test_score(outcome: Outcome) -> float | None:
    """Return the zero-shot score: test bodies, which were not trained on, by mean actions."""
    return _score(outcome, "test")


def _score(outcome: Outcome, split: Split) -> float | None:
    return outcome.record.score(split, "deterministic") if outcome.record else None


SCORES: tuple[tuple[str, Number], ...] = (
    ("Training return", training_return),
    ("Train score", train_score),
    ("Test score", test_score),
)
"""What methods are ranked by, with its heading."""


def area(outcome: Outcome) -> float | None:
    """Return the mean training return over all of training."""
    if outcome.record is None:
        return None
    found = curve_area(*common_curves([outcome.record.learning_curve]))
    return None if found is None else found.value


def learning_curve_of(runs: Sequence[Outcome]) -> Curve | None:
    """Return the mean learning curve of runs; `None` unless all are finished, or without any."""
    curves = [run.record.learning_curve for run in runs if run.record is not None]
    if not curves or len(curves) < len(runs):
        return None
    return mean_curve(*common_curves(curves))


def measured(name: str, factor: float = 1.0) -> Number:
    """Return a function that reads a measured number by its name, times a factor."""

    def read(outcome: Outcome) -> float | None:
        value = outcome.measured.get(name)
        return None if value is None else factor * float(value)

    return read


@dataclass(frozen=True)
class Summary:
    """A number over the seeds of an arm."""

    mean: float
    sd: float | None
    """Sample standard deviation; `None` for a single run."""
    count: int

    def text(self, digits: int = 1) -> str:
        """Return mean and deviation as a table shows them."""
        if self.sd is None:
            return f"{self.mean:z,.{digits}f}"
        return f"{self.mean:z,.{digits}f} ± {self.sd:,.{digits}f}"


def summarize(outcomes: Sequence[Outcome], number: Number) -> Summary | None:
    """Return mean and deviation over runs.

    Args:
        outcomes: the runs of one arm on one task.
        number: what is averaged.

    Returns:
        `None` as soon as one run lacks the number: what happens to be there is never averaged.
    """
    values = [number(outcome) for outcome in outcomes]
    there = [value for value in values if value is not None and math.isfinite(value)]
    if not values or len(there) < len(values):
        return None
    sd = float(np.std(there, ddof=1)) if len(there) > 1 else None
    return Summary(float(np.mean(there)), sd, len(there))
