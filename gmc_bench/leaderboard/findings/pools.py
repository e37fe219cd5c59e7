"""Sources of the numbers of a claim: rows of a board, variants of a study, kept scores."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gmc_bench.leaderboard.aggregate import Row
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.findings.evidence import Evidence, is_set
from gmc_bench.leaderboard.measured import is_measured_as_today
from gmc_bench.leaderboard.overview import row_of_each_method, rows_by_method
from gmc_bench.leaderboard.references import NO_ACTION
from gmc_bench.records.breakdown import by_loops, friction_means
from gmc_bench.records.kept import EVALUATIONS, KeptStudy, StudyNumbers
from gmc_bench.records.kinship import mean_return, scored
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import StoredRecord
from gmc_bench.suites import SUITES

SEEDS = 3
"""Runs of each variant of a study, and policies of each method that are scored on other bodies."""
HORIZON = 1_000
"""Control steps of an episode that does not end early."""


@dataclass(frozen=True)
class Sample:
    """One metric of several runs that differ in their seed."""

    label: str
    """Method or variant."""
    seeds: tuple[int, ...]
    values: tuple[float, ...]
    """One per seed."""
    sources: tuple[str, ...]
    """File of each value, relative to the leaderboard's folder."""


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A training, or the scoring of a policy, that somebody could make."""

    suite: str
    task: str
    method: str
    seed: int
    study: str = ""
    """Study and variant that it is for; empty where it is a row of a board."""
    steps: float = 1.0
    """Multiple of the env steps of the protocol."""
    evaluated: int = 0
    """Of a policy that is there and only scored: control steps at most; 0 for a training."""
    ranked: bool = False
    """It is for a study, but one that the board ranks too, and need not be made twice."""


class Pool(Protocol):
    """Where the numbers of a claim come from."""

    def samples(self, evidence: Evidence, metric: str) -> dict[str, Sample]:
        """Return a metric of all runs that there are, by label."""
        ...

    def seeds_without(self, evidence: Evidence, metric: str) -> dict[str, tuple[int, ...]]:
        """Return by label the seeds of runs that are there, but lack the metric."""
        ...

    def made(self, evidence: Evidence) -> set[tuple[str, int]]:
        """Return label and seed of all runs that are there, whatever they lack."""
        ...

    def runs(self, labels: Sequence[str]) -> dict[tuple[str, int], PlannedRun]:
        """Return by label and seed all runs that a claim about these labels takes."""
        ...

    def command(self, labels: Sequence[str]) -> str:
        """Return what makes these runs."""
        ...

    def links(self, evidence: Evidence) -> list[str]:
        """Return the files that readers can look at, relative to the leaderboard's folder."""
        ...

    def idle(self, evidence: Evidence) -> set[str]:
        """Return the labels known to score no more than doing nothing does."""
        ...

    def floor(self, evidence: Evidence, metric: str) -> Sample | None:
        """Return what doing nothing reaches, if somebody measured it."""
        ...


@dataclass(frozen=True)
class BoardPool:
    """Rows of a board: labels are methods."""

    suite: str
    task: str

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of a complete row."""
        return SUITES.get(self.suite).protocol(None, self.task).seeds

    def samples(self, evidence: Evidence, metric: str) -> dict[str, Sample]:
        """Return what the first seeds of each method reached; see `METRICS`, and frictions."""
        rows = self._rows(evidence)
        found = {method: _sample(method, row, metric) for method, row in rows.items()}
        return {method: sample for method, sample in found.items() if sample is not None}

    def _rows(self, evidence: Evidence) -> dict[str, Row]:
        """Return the row of each method."""
        board = evidence.board(self.suite, self.task)
        if board is None:
            return {}
        return row_of_each_method(board.table.references) | rows_by_method(board)

    def made(self, evidence: Evidence) -> set[tuple[str, int]]:
        """Return method and seed of all runs of rows."""
        rows = self._rows(evidence).items()
        return {(method, seed) for method, row in rows for seed in row.seeds}

    def seeds_without(self, evidence: Evidence, metric: str) -> dict[str, tuple[int, ...]]:
        """Return by method the seeds whose frictions were measured by another rule than today's.

        All other numbers are in every record of a row.
        """
        if metric in METRICS:
            return {}
        found = {
            method: tuple(
                run.record.seed for run in row.runs if not is_measured_as_today(run.record)
            )
            for method, row in self._rows(evidence).items()
        }
        return {method: seeds for method, seeds in found.items() if seeds}

    def runs(self, labels: Sequence[str]) -> dict[tuple[str, int], PlannedRun]:
        """Return a complete row of each method."""
        return {
            (method, seed): PlannedRun(suite=self.suite, task=self.task, method=method, seed=seed)
            for method in labels
            for seed in self.seeds
        }

    def command(self, labels: Sequence[str], seeds: Sequence[int] | None = None) -> str:
        """Return a sweep, by default over the seeds of complete rows."""
        return (
            f"gmc-bench sweep --methods {' '.join(labels)} --suites {self.suite} --tasks "
            f"{self.task} --seeds {' '.join(map(str, seeds or self.seeds))}"
        )

    def links(self, evidence: Evidence) -> list[str]:
        """Return the table."""
        board = evidence.board(self.suite, self.task)
        if board is None:
            return []
        return [evidence.page(board)]

    def idle(self, evidence: Evidence) -> set[str]:
        """Return the methods whose mean is not above that of no action, on the same bodies."""
        board = evidence.board(self.suite, self.task)
        if board is None:
            return set()
        return {
            method
            for method, row in self._rows(evidence).items()
            for floor in _rows_of_no_action(board)
            if _no_better(row, floor)
        }

    def floor(self, evidence: Evidence, metric: str) -> Sample | None:
        """Return what no action at all reaches."""
        board = evidence.board(self.suite, self.task)
        found = [_sample(NO_ACTION, row, metric) for row in _rows_of_no_action(board)]
        return found[0] if found else None


@dataclass(frozen=True)
class StudyPool:
    """Runs of a study: labels are variants."""

    study: str
    arms: Mapping[str, str]
    """Method of each variant, all that the study trains."""
    task: str = "ft"
    """Short name of the task that the claim is about."""
    asked: str = ""
    """The method that the study is asked for; empty for the study's own."""
    tasks: tuple[str, ...] = ()
    """Tasks that the study is run on at once; by default the one of the claim."""
    suite: str = "unimal-v1"
    ranked: tuple[str, ...] = ()
    """Variants that are the methods as boards rank them."""

    def samples(self, evidence: Evidence, metric: str) -> dict[str, Sample]:
        """Return a metric of a study's runs, as `KeptStudy` names it."""
        found = {}
        for path, arm, runs in self._complete(evidence):
            values = [run.numbers.get(metric) for run in runs]
            there = [value for value in values if value is not None]
            if len(there) == len(runs):
                seeds = tuple(run.seed for run in runs)
                found[arm] = Sample(arm, seeds, tuple(there), (path,) * len(runs))
        return found

    def seeds_without(self, evidence: Evidence, metric: str) -> dict[str, tuple[int, ...]]:
        """Return by variant the seeds of which the study could not measure the metric."""
        found = {
            arm: tuple(run.seed for run in runs if run.numbers.get(metric) is None)
            for _, arm, runs in self._complete(evidence)
        }
        return {arm: seeds for arm, seeds in found.items() if seeds}

    def made(self, evidence: Evidence) -> set[tuple[str, int]]:
        """Return variant and seed of all runs of the study."""
        return {
            (arm, run.seed)
            for study in evidence.studies.values()
            for arm in self.arms
            for run in study.runs
            if self._fits(evidence, study, run, arm)
        }

    def _complete(self, evidence: Evidence) -> Iterator[tuple[str, str, list[StudyNumbers]]]:
        """Yield file, variant and runs of all variants with runs from the first seed on."""
        for path, study in evidence.studies.items():
            for arm in self.arms:
                fitting = (run for run in study.runs if self._fits(evidence, study, run, arm))
                runs = sorted(fitting, key=lambda run: run.seed)
                if runs and [run.seed for run in runs] == list(range(1, len(runs) + 1)):
                    yield path, arm, runs

    def _fits(self, evidence: Evidence, study: KeptStudy, run: StudyNumbers, arm: str) -> bool:
        """Say whether a run is of the variant, on the suite's bodies, by today's rules."""
        suite = SUITES.get(self.suite)
        task = suite.task(self.task)
        found = (study.study, study.suite, study.protocol, run.arm, run.task, run.method)
        wanted = (self.study, suite.id, suite.default_protocol, arm, task, self.arms[arm])
        if found != wanted or study.status != "complete" or run.git_dirty is not False:
            return False
        steps = run.numbers.get("env_steps") or 0.0
        rules = suite.protocol(None, task)
        full = steps > rules.env_steps - rules.num_envs * rules.rollout_length  # whole rollouts
        asked = full and run.seed in rules.seeds
        bodies = is_set(evidence, run.morphologies, suite.default_morphologies[0])
        engine = evidence.has_engine_of(suite.id, task, study.versions)
        return asked and bodies and engine and follows_todays_rules(evidence, study, run)

    def runs(self, labels: Sequence[str]) -> dict[tuple[str, int], PlannedRun]:
        """Return the first seeds of all variants, which the study's command trains together."""
        task = SUITES.get(self.suite).task(self.task)
        return {
            (arm, seed): PlannedRun(
                suite=self.suite, task=task, method=method, seed=seed,
                study=f"{self.study} {arm}", ranked=arm in self.ranked,
            )
            for arm, method in self.arms.items()
            for seed in range(1, SEEDS + 1)
        }  # fmt: skip

    def command(self, labels: Sequence[str]) -> str:
        """Return the study's command."""
        method = f" --method {self.asked}" if self.asked else ""
        return (
            f"gmc-bench study {self.study}{method} --task {' '.join(self.tasks or (self.task,))} "
            f"--seeds {' '.join(map(str, range(1, SEEDS + 1)))} --threads 1"
            f"{' --reuse leaderboards' if self.ranked else ''}"
        )

    def links(self, evidence: Evidence) -> list[str]:
        """Return the study's file."""
        return [
            path
            for path, study in evidence.studies.items()
            if any(self._fits(evidence, study, run, arm) for run in study.runs for arm in self.arms)
        ]

    def idle(self, evidence: Evidence) -> set[str]:
        """Return nothing: no study holds runs that do nothing."""
        return set()

    def floor(self, evidence: Evidence, metric: str) -> Sample | None:
        """Return nothing, likewise."""
        return None


@dataclass(frozen=True)
class VariantPool:
    """Policies of a board on varied bodies, or with a limb unseen: labels are methods."""

    variation: str
    """E.g. `dynamics-v1`; empty for one hidden limb on the train bodies."""
    bodies: int
    """That are scored."""
    suite: str = "unimal-v1"
    task: str = "unimal-ft-v1"

    def samples(self, evidence: Evidence, metric: str) -> dict[str, Sample]:
        """Return the scores of the first seeds of each method, of the policies in its row."""
        found = self._scores(evidence)
        return {
            method: Sample(
                method,
                tuple(sorted(runs)),
                tuple(runs[seed][0] for seed in sorted(runs)),
                tuple(runs[seed][1] for seed in sorted(runs)),
            )
            for method, runs in found.items()
            if sorted(runs) == list(range(1, len(runs) + 1))
        }

    def _scores(self, evidence: Evidence) -> dict[str, dict[int, tuple[float, str]]]:
        """Return by method and seed the score of its policy, and the file."""
        board = evidence.board(self.suite, self.task)
        known = {
            (run.record.method, run.record.seed, run.record.weights_digest)
            for row in (rows_by_method(board).values() if board else ())
            for run in _asked_for(row)
        }
        suite = SUITES.get(self.suite)
        episodes = suite.protocol(None, self.task).evaluation.episodes
        base = suite.default_morphologies[0]
        bodies = f"{base}+{self.variation}" if self.variation else base
        found: dict[str, dict[int, tuple[float, str]]] = {}
        for path, item in evidence.evaluations.items():
            board_key = (item.suite, item.task, item.protocol, item.trained_on.id)
            fits = board_key == (self.suite, self.task, suite.default_protocol, base)
            fits = fits and is_set(evidence, item.trained_on, base)
            fits = fits and evidence.has_engine_of(self.suite, self.task, item.versions)
            fits = fits and (item.method, item.seed, item.weights_digest) in known
            fits = fits and (item.bodies, item.episodes) == (self.bodies, episodes)
            dropped = (item.sensor_dropout, item.split) == (True, "train")
            varied = (item.sensor_dropout, item.split) == (False, "test")
            if fits and item.morphologies.id == bodies and (varied if self.variation else dropped):
                found.setdefault(item.method, {})[item.seed] = (item.score, path)
        return found

    def made(self, evidence: Evidence) -> set[tuple[str, int]]:
        """Return method and seed of all policies that were scored."""
        return {(method, seed) for method, runs in self._scores(evidence).items() for seed in runs}

    def seeds_without(self, evidence: Evidence, metric: str) -> dict[str, tuple[int, ...]]:
        """Return nothing: an evaluation is a score."""
        return {}

    def runs(self, labels: Sequence[str]) -> dict[tuple[str, int], PlannedRun]:
        """Return the evaluations of each method's first seeds."""
        rules = SUITES.get(self.suite).protocol(None, self.task).evaluation
        steps = self.bodies * rules.episodes * len(rules.modes) * HORIZON
        return {
            (method, seed): PlannedRun(
                suite=self.suite, task=self.task, method=method, seed=seed,
                study=self.variation or "dropout", evaluated=steps,
            )
            for method in labels
            for seed in range(1, SEEDS + 1)
        }  # fmt: skip

    def command(self, labels: Sequence[str]) -> str:
        """Return the evaluation of one run."""
        base = SUITES.get(self.suite).default_morphologies[0]
        if not self.variation:
            return "gmc-bench evaluate RUN_DIR --split train --sensor-dropout --json"
        return f"gmc-bench evaluate RUN_DIR --morphologies {base}+{self.variation} --json"

    def links(self, evidence: Evidence) -> list[str]:
        """Return the folder of evaluations."""
        return [f"{EVALUATIONS}/"] if self.samples(evidence, "") else []

    def idle(self, evidence: Evidence) -> set[str]:
        """Return nothing: nobody evaluated doing nothing."""
        return set()

    def floor(self, evidence: Evidence, metric: str) -> Sample | None:
        """Return nothing, likewise."""
        return None


def follows_todays_rules(
    evidence: Evidence,
    study: KeptStudy,
    run: StudyNumbers,
    changes: Mapping[str, Any] | None = None,
) -> bool:
    """Say whether a run has today's task, protocol and method, but for what sets it apart.

    Older files do not state it. There the rules are those of the study's ranked run of the same
    method, which the board has.

    Args:
        evidence: with the board.
        study: the file.
        run: one of its runs.
        changes: what of the protocol sets the run's variant apart, nested as the protocol is.
    """
    if run.protocol_digest is None:
        digests = {item.record_digest for item in study.runs if item.method == run.method}
        return any(
            _is_installed(stored) for stored in evidence.stored() if stored.digest in digests
        )
    from gmc_bench.leaderboard.rules import rules_of_variants  # loads what tasks are made of

    rules = rules_of_variants(
        study.suite, run.task, study.protocol, run.method, str(run.preset), changes
    )
    return not run.changes and rules == (run.method_version, run.protocol_digest, run.task_digest)


def _is_installed(stored: StoredRecord) -> bool:
    """Say whether the method of a record of today's rules is there in the same version."""
    from gmc_bench.leaderboard.rules import rules_of_variants  # loads what tasks are made of

    made = stored.record
    rules = rules_of_variants(made.suite, made.task, made.protocol, made.method, made.preset)
    return rules is not None and rules.method_version == made.method_version


def _rows_of_no_action(board: TableAnalysis | None) -> list[Row]:
    rows = board.table.untrained if board else ()
    return [row for row in rows if row.key.method == NO_ACTION]


def _no_better(row: Row, floor: Row) -> bool:
    """Say whether a row's mean is not above another's; specialists have no test bodies."""
    name = "test_score" if row.controller == "shared" else "train_score"
    own, other = getattr(row, name), getattr(floor, name)
    return own is not None and other is not None and own.mean <= other.mean


def _asked_for(row: Row) -> list[StoredRecord]:
    """Return the runs of seeds that the protocol asks for.

    Extra seeds were added where a table was close; tests would have to be corrected for that.
    """
    return [run for run in row.runs if run.record.seed in run.record.protocol_seeds]


def _sample(method: str, row: Row, metric: str) -> Sample | None:
    """Return a metric of the first seeds that the protocol asks for, so that nobody can choose."""
    runs = _asked_for(row)
    seeds = tuple(run.record.seed for run in runs)
    if not seeds or runs[0].record.protocol_seeds[: len(seeds)] != seeds:
        return None
    values = [read_metric(run.record, metric) for run in runs]
    there = [value for value in values if value is not None]
    if len(there) < len(values):
        return None
    return Sample(method, seeds, tuple(there), tuple(run.path for run in runs))


METRICS: Mapping[str, Callable[[RunRecord], float | None]] = {
    "training_return": lambda record: record.training_return,
    "train_score": lambda record: record.score("train", "deterministic"),
    "test_score": lambda record: record.score("test", "deterministic"),
    "looped_score": lambda record: mean_return(
        by_loops(scored(record.returns, "test")).get("closed loops", [])
    ),
}
"""Of records, by name."""


def read_metric(record: RunRecord, metric: str) -> float | None:
    """Return a metric of a record: one of `METRICS`, or a friction, `/` and a heading of it.

    Frictions count as the suite measures them today.
    """
    if metric in METRICS:
        return METRICS[metric](record)
    if not is_measured_as_today(record):
        return None
    friction, _, heading = metric.partition("/")
    return friction_means(record.friction or ()).get(friction, {}).get(heading)
