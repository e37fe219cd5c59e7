"""Core hours of runs that nobody has made yet, from what others have taken."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gmc_bench.leaderboard.findings.evidence import Evidence
from gmc_bench.leaderboard.findings.pools import PlannedRun
from gmc_bench.leaderboard.overview import rows_by_method
from gmc_bench.records.schema import RunRecord
from gmc_bench.suites import SUITES

_HOUR = 3600.0


@dataclass(frozen=True)
class _Rate:
    """Core seconds per control step of one finished run."""

    method: str
    board: tuple[str, str]
    training: float
    acting: float | None
    """Of simulation and of choosing actions; `None` where only the whole is known."""
    shared: bool = True
    """One policy for all bodies; a policy for each says nothing about other methods."""


def _rate_of(record: RunRecord) -> _Rate:
    acting = record.wall_clock_s.simulation + record.wall_clock_s.policy
    return _Rate(
        record.method,
        (record.suite, record.task),
        record.core_seconds / record.env_steps,
        acting * record.all_threads / record.env_steps,
        record.controller == "shared",
    )


class Costs:
    """Core hours by the throughput of finished runs under today's rules.

    The nearest runs count: those of the method on the board, else of the method on others, else of
    all methods on the board, else of all. Terrain and more limbs cost more than flat ground with
    few, so an estimate from another board is often too low.

    Args:
        evidence: whose records and studies are measured.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._rates = [_rate_of(item) for item in evidence.records() if item.env_steps]
        self._evidence = evidence
        for study in evidence.studies.values():
            for run in study.runs:
                seconds, steps = run.numbers.get("core_seconds"), run.numbers.get("env_steps")
                if seconds and steps:
                    rate = _Rate(run.method, (study.suite, run.task), seconds / steps, None)
                    self._rates.append(rate)

    def hours(self, runs: Iterable[PlannedRun]) -> float | None:
        """Return the core hours of all runs together; `None` where nothing was measured yet.

        What a study takes over from a board costs nothing.
        """
        found = [self._hours(run) for run in runs if not (run.ranked and self._is_there(run))]
        there = [hours for hours in found if hours is not None]
        return sum(there) if len(there) == len(found) else None

    def _is_there(self, run: PlannedRun) -> bool:
        board = self._evidence.board(run.suite, run.task)
        row = rows_by_method(board).get(run.method) if board else None
        return row is not None and run.seed in row.seeds

    def _hours(self, run: PlannedRun) -> float | None:
        board = (run.suite, run.task)
        steps = run.steps * SUITES.get(run.suite).protocol(None, run.task).env_steps
        shared = [rate for rate in self._rates if rate.shared]
        for nearest in (
            [rate for rate in self._rates if (rate.method, rate.board) == (run.method, board)],
            [rate for rate in self._rates if rate.method == run.method],
            [rate for rate in shared if rate.board == board],
            shared,
        ):
            values = [rate.acting if run.evaluated else rate.training for rate in nearest]
            known = [value for value in values if value is not None]
            if known:
                return statistics.median(known) * (run.evaluated or steps) / _HOUR
        return None


def hours_text(hours: float | None) -> str:
    """Return core hours for a table."""
    return "unknown" if hours is None else f"{hours:,.1f}"


def distinct(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return runs without repetition."""
    return list(dict.fromkeys(runs))


def made_once(runs: Iterable[PlannedRun]) -> list[PlannedRun]:
    """Return the runs of several plans without repetition.

    A run that a study shares with a board is left out where the board asks for it too.
    """
    found = distinct(list(runs))
    boards = {_place(run) for run in found if not run.study}
    return [run for run in found if not (run.ranked and _place(run) in boards)]


def _place(run: PlannedRun) -> tuple[str, str, str, int]:
    return run.suite, run.task, run.method, run.seed
