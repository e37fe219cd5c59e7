"""Study in a folder: its runs, what is measured on them, and the tables and pictures."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gmc_bench.core.arguments import as_path
from gmc_bench.core.errors import ConfigError, RunFolderError
from gmc_bench.core.table import Table
from gmc_bench.experiments.devices import gpu_name
from gmc_bench.experiments.events import Listener, Listeners
from gmc_bench.experiments.method import load_method, method_of
from gmc_bench.experiments.resolve import checkout, unofficial_reasons
from gmc_bench.experiments.run_folder import LOCK, PLAN, is_file, new_folder
from gmc_bench.experiments.session import open_session, torch_state
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.sweep import Sweep, SweepResult
from gmc_bench.experiments.sweep_launch import launching
from gmc_bench.records.environment import (
    GitState,
    collect_hardware,
    collect_versions,
    merged_versions,
)
from gmc_bench.records.kept import STUDY_FILE, BodySetId, KeptStudy, StudyNumbers, plain_numbers
from gmc_bench.records.store import read_sealed, record_digest, seal, sealed, write_atomic
from gmc_bench.studies import outcome as read
from gmc_bench.studies.measurements import MEASURED, MEASUREMENTS, FinishedRun
from gmc_bench.studies.outcome import Outcome
from gmc_bench.studies.request import STUDY, Request, read_request, variant_run_name
from gmc_bench.studies.schema import Arm

STUDIES = Path("studies")
"""Where folders go that nobody names."""
PICTURE, RESULT = "figure.png", STUDY_FILE
_NUMBERS = {
    "training_return": read.training_return,
    "train_score": read.train_score,
    "test_score": read.test_score,
    "area": read.area,
}
_OTHER_STEPS = "the protocol's env_steps was changed"
_OF_RECORDS = ("parameters", "env_steps", "core_seconds")


@dataclass(frozen=True)
class StudyResult:
    """What came out of a study, all of which is also in its folder."""

    outcomes: list[Outcome]
    """Of all runs, also those that are not finished."""
    tables: dict[str, Table]
    """By name of their files; the first is the main one."""
    pictures: list[Path]
    failures: dict[str, str]
    """Why runs are not finished, by name."""


class StudyRun:
    """The runs of a study in one folder, and what follows from them.

    Args:
        request: what was asked for.
        sweep: the runs.
    """

    def __init__(self, request: Request, sweep: Sweep) -> None:
        self.request = request
        self.sweep = sweep
        first = next(iter(sweep.runs.values()))
        method = load_method(request.methods[0]).id
        name = f"{request.study.id}_{method}_{first.protocol.name}_{first.morphologies}"
        self.path = sweep.path = sweep.path or new_folder(STUDIES, name)
        """The folder of the study; it need not exist yet."""
        self._emit = Listeners()
        self._measurement = MEASUREMENTS[request.study.measure]
        arms = request.arms
        self.arms: dict[str, Arm] = {}
        """Of every run, by name."""
        for name, config in sweep.runs.items():
            fitting = [
                arm for arm in arms if variant_run_name(arm, config.task, config.seed) == name
            ]
            if not fitting:
                raise ConfigError(
                    f"the plan has a run {name!r}, which is no variant of the study "
                    f"{request.study.id!r}; restore the plan"
                )
            self.arms[name] = fitting[0]

    @classmethod
    def plan(
        cls,
        request: Request,
        base: ExperimentSpec,
        *,
        tasks: Sequence[str] = (),
        seeds: Sequence[int] = (),
        out: Path | str | None = None,
        reuse: Path | str | None = None,
        elsewhere: bool = False,
    ) -> Self:
        """Return a study of which nothing was begun; see `Request.specs` and `Sweep`.

        Raises:
            GmcBenchError: a variant does not fit the method, or an option is wrong.
        """
        specs = request.specs(base, tasks, seeds)
        files = {STUDY: request.to_yaml().encode()}
        sweep = Sweep(specs, out=out, files=files, reuse=reuse, elsewhere=elsewhere)
        return cls(request, sweep)

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Return the study that a folder holds, finished or not.

        Raises:
            RunFolderError: it is not the folder of a study.
            ConfigError: what was asked for, or the list of runs, is damaged.
        """
        place = as_path(path, "the folder of a study")
        has_runs = is_file(place / PLAN)
        if not is_file(place / STUDY) and (has_runs or not is_file(place / LOCK)):
            where = shlex.quote(str(place))
            go_on = f", or go on with these runs by: gmc-bench sweep --resume {where}"
            raise RunFolderError(
                f"{place} is not a study folder (it has no {STUDY}); give the folder that "
                f"'gmc-bench study' printed{go_on if has_runs else ''}"
            )
        sweep = Sweep.open(place)
        return cls(read_request(place / STUDY), sweep)

    def subscribe(self, listener: Listener) -> None:
        """Call a function with each event from now on."""
        self._emit.subscribe(listener)
        self.sweep.subscribe(listener)

    def run(self, launcher: str | None = None, *, retries: int = 1, **options: Any) -> StudyResult:
        """Run all, measure, and write tables and pictures, in a new folder.

        Args:
            launcher: who runs them, see `Sweep.run`; this process measures.
            retries: likewise, as for the following.
            options: likewise.

        Raises:
            GmcBenchError: nothing, or nothing more, can be run, or a policy cannot be measured.
        """
        with launching(launcher, retries, options) as launched:
            self.require_measurable()
            self.sweep.check_methods(trains_here=launched is None)
            with self.sweep.locked(create=True):
                return self._finish(self.sweep.begin(launched))

    def require_measurable(self) -> None:
        """Raise unless what the study measures can be measured on every run.

        Raises:
            GmcBenchError: it cannot.
        """
        for config, resolved in zip(self.sweep.runs.values(), self.sweep.resolved, strict=True):
            self._measurement.require(open_session(config, resolved.bodies), self.request)

    def resume(
        self, launcher: str | None = None, *, retries: int = 1, **options: Any
    ) -> StudyResult:
        """Continue: what is finished or measured is kept.

        Args:
            launcher: see `run`, as for the following.
            retries: likewise.
            options: likewise.

        Raises:
            RunFolderError: the folder is in use.
            GmcBenchError: nothing, or nothing more, can be run, or a policy cannot be measured.
        """
        idle = self.sweep.is_done
        with launching(launcher, retries, options, idle=idle) as launched, self.sweep.locked():
            return self._finish(self.sweep.go_on(launched))

    def _finish(self, result: SweepResult) -> StudyResult:
        git = checkout()
        finished = {
            name: FinishedRun(name, arm, self.sweep[name], record, self.path, self._emit)
            for name, arm in self.arms.items()
            if (record := result.records.get(name)) is not None
        }
        measured = {name: self._measure(run, git) for name, run in finished.items()}
        compared, pictures = self._measurement.compare(list(finished.values()), self.request)
        outcomes = [
            Outcome(
                arm,
                self.sweep.runs[name].task,
                self.sweep.runs[name].seed,
                result.records.get(name),
                compared.get(name, measured.get(name, {})),
            )
            for name, arm in self.arms.items()
        ]
        study, path = self.request.study, self.path
        tables = {name: make(study, outcomes) for name, make in self._measurement.tables.items()}
        for name, table in tables.items():
            write_atomic(path / f"{name}.md", table.to_markdown().encode())
            write_atomic(path / f"{name}.csv", table.to_csv().encode())
        if self._measurement.figure is not None:
            pictures = [path / PICTURE, *pictures]
            write_atomic(path / PICTURE, self._measurement.figure(study, outcomes))
        write_atomic(path / RESULT, seal(self._result(outcomes, git)))
        return StudyResult(outcomes, tables, pictures, result.failures)

    def _measure(self, run: FinishedRun, git: GitState) -> dict[str, Any]:
        """Return what is measured on a policy, from its file if that is there.

        A measurement counts only for the very run, and the very software and commit, that it was
        made with.

        Raises:
            RecordError: a stored measurement was changed.
            StorageError: it cannot be written.
        """
        if not self._measurement.keeps_numbers:
            return {}
        made_with = {
            "study": self.request.study.id,
            "record_digest": record_digest(run.record),
            "weights_digest": run.record.weights_digest,
            "versions": collect_versions(),
            "git_commit": git.commit,
            "git_dirty": git.dirty,
            **self._measurement.setting(self.sweep.runs[run.name], self.request),
        }
        path = self.path / MEASURED / f"{run.name}.json"
        if path.exists():
            content, _ = read_sealed(path)
            if {name: content.get(name) for name in made_with} == made_with:
                found: dict[str, Any] = content["measured"]
                return found
        with torch_state(run.session).in_use():  # as for the score
            numbers = self._measurement.measure(run, self.request)
        config = run.session.config
        content = {
            **made_with,
            "measured": numbers,
            "hardware": collect_hardware(config.threads, gpu_name(config.device)).model_dump(),
        }
        write_atomic(path, sealed(content))
        return numbers

    def _result(self, outcomes: Sequence[Outcome], git: GitState) -> KeptStudy:
        """Return everything behind a table: which runs, and what was measured on them."""
        first = next(iter(self.sweep.runs.values()))
        return KeptStudy(
            study=self.request.study.id,
            suite=first.suite,
            protocol=first.protocol.name,
            status="complete" if all(item.record for item in outcomes) else "incomplete",
            runs=tuple(
                _numbers(item, method_of(self.sweep.runs[name]).id, self._changes(name, item), git)
                for name, item in zip(self.arms, outcomes, strict=True)
            ),
            versions=versions_of(outcomes),
        )

    def _changes(self, name: str, outcome: Outcome) -> tuple[str, ...] | None:
        """Return what is unofficial about a finished run beyond what sets its variant apart."""
        record, config = outcome.record, self.sweep.runs[name]
        if record is None:
            return None
        plain = ExperimentSpec(
            method=config.method, suite=config.suite, task=config.task,
            protocol=config.protocol.name, seed=config.seed,
        )  # fmt: skip
        variant = self.request.variant(plain, outcome.arm)
        own = set(unofficial_reasons(variant, record.morphologies.num_train))
        steps = config.protocol.env_steps
        if variant.settings.get("env_steps", steps) != steps:
            own.discard(_OTHER_STEPS)  # a share of what was asked for, not of the protocol's
        return tuple(reason for reason in record.unofficial_reasons if reason not in own)


def versions_of(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return the software that runs were made with, and measured with where they were."""
    found = [item.record.versions for item in outcomes if item.record is not None]
    if any(item.measured for item in outcomes):
        found.append(collect_versions())
    return merged_versions(found)


def _numbers(
    outcome: Outcome, method: str, changes: tuple[str, ...] | None, git: GitState
) -> StudyNumbers:
    """Return all numbers of a run; `git` is the checkout that measured it."""
    record = outcome.record
    dirty = record.git_dirty if record else None
    if record and outcome.measured and git.dirty is not False:
        dirty = True  # what was measured comes from no commit
    bodies = record.morphologies if record else None
    numbers: dict[str, Any] = {name: read_number(outcome) for name, read_number in _NUMBERS.items()}
    if record is not None:
        numbers |= {name: getattr(record, name) for name in _OF_RECORDS}
    return StudyNumbers(
        arm=outcome.arm.name,
        task=outcome.task,
        seed=outcome.seed,
        method=method,
        record_digest=record_digest(record) if record else None,
        git_commit=record.git_commit if record else None,
        git_dirty=dirty,
        morphologies=BodySetId(id=bodies.id, digest=bodies.digest) if bodies else None,
        method_version=record.method_version if record else None,
        preset=record.preset if record else None,
        protocol_digest=record.protocol_digest if record else None,
        task_digest=record.task_digest if record else None,
        changes=changes,
        numbers=plain_numbers({**numbers, **outcome.measured}),
    )
