"""Several runs one after the other: the tasks of a suite, started or continued."""

import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.cli import execution
from gmc_bench.cli.output import note, say
from gmc_bench.cli.overview import describe_plan, describe_results, summary_line
from gmc_bench.core.errors import ConfigError, GmcBenchError, StorageError
from gmc_bench.experiments.eta import ETA, duration
from gmc_bench.experiments.session import check_method, open_session
from gmc_bench.methods import METHODS
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import write_atomic
from gmc_bench.training.plan_folder import Plan, PlanFolder, PlannedRun, make_plan, read_plan
from gmc_bench.training.run_config import RunConfig, read_run_config
from gmc_bench.training.run_folder import new_folder


def start(configs: Sequence[RunConfig], bodies: MorphologySet, path: Path | None) -> int:
    """Run several tasks.

    Args:
        configs: resolved settings of each.
        bodies: the body set of all.
        path: the plan's folder; default a new one under `runs/`.

    Returns:
        The exit code: 1 if a task failed.

    Raises:
        GmcBenchError: nothing can be run, or nothing more.
    """
    for config in configs:  # before a folder is made that nobody could use
        check_method(open_session(config, bodies))
    plan = make_plan(configs)
    path = path or new_folder(Path("runs"), plan_name(plan))
    with PlanFolder(path, create=True) as folder:
        folder.write(plan)
        return Campaign(folder, plan, bodies).run()


def resume(folder: PlanFolder) -> int:
    """Continue a plan: finished tasks are kept, the others run.

    Args:
        folder: the plan's folder, locked.

    Returns:
        The exit code: 1 if a task failed.

    Raises:
        GmcBenchError: nothing can be run, or nothing more.
    """
    plan = read_plan(folder.plan)
    return Campaign(folder, plan, load_morphologies(plan.runs[0].config.morphologies)).run()


def preview(configs: Sequence[RunConfig]) -> None:
    """Show the plan of several tasks: as a table, and the whole of it as YAML."""
    preview_plan(make_plan(configs))


def preview_plan(plan: Plan) -> None:
    """Show a plan of which nothing was begun."""
    eta = ETA([run.env_steps for run in plan.runs])
    note(describe_plan(plan, ["to do"] * len(plan.runs), eta))
    say(plan.to_yaml())


def plan_name(plan: Plan) -> str:
    """Return the default folder name of a plan."""
    config = plan.runs[0].config
    suite = config.suite.rpartition("-v")[0]
    return (
        f"{METHODS.load(config.method).id}_{suite}_{config.protocol.name}_{config.morphologies}"
        f"_seed{config.seed}"
    )


class Campaign:
    """The runs of a plan, from wherever they are to the table.

    Args:
        folder: the plan's folder, locked.
        plan: what it holds.
        bodies: the body set of all runs.
        again: the command that continues it; default that of a run.
    """

    def __init__(
        self, folder: PlanFolder, plan: Plan, bodies: MorphologySet, *, again: str | None = None
    ) -> None:
        self.again = again or f"gmc-bench run --resume {folder.path}"
        self.folder = folder
        self.plan = plan
        self.bodies = bodies
        self.records: dict[str, RunRecord] = {}
        self.failures: dict[str, str] = {}
        self.eta = ETA([run.env_steps for run in plan.runs])

    def run(self, *, table: bool = True) -> int:
        """Run what is left; return the exit code.

        Args:
            table: show the table of results at the end.

        Raises:
            ConfigError: the settings, the body set or the method's file are not those of the plan.
            StorageError: a file could not be written.
        """
        try:
            self._find_finished()
            states = [self._state(run) for run in self.plan.runs]
            note(describe_plan(self.plan, states, self.eta))
            note(f"plan folder {self.folder.path}")
            for index, run in enumerate(self.plan.runs):
                self._visit(index, run)
        except (KeyboardInterrupt, GmcBenchError, OSError) as error:
            if table and self.records:
                self._show()
            if isinstance(error, KeyboardInterrupt):
                note(f"\nStopped. Continue with: {self.again}")
            raise
        if table:
            self._show()
        return 1 if self.failures else 0

    def _find_finished(self) -> None:
        for index, run in enumerate(self.plan.runs):
            try:
                record = self.folder.read_finished(run)
            except GmcBenchError as error:
                self.failures[run.name] = str(error)
                self.eta.settle(index)
                continue
            if record is not None:
                self.records[run.name] = record
                self.eta.settle(index, record.env_steps, record.wall_clock_s.total)

    def _state(self, run: PlannedRun) -> str:
        if run.name in self.failures:
            return "failed"
        if run.name in self.records:
            return "finished"
        return "begun" if self.folder.was_begun(run) else "to do"

    def _visit(self, index: int, run: PlannedRun) -> None:
        label = f"task {index + 1} of {len(self.plan.runs)} ({run.name})"
        if run.name in self.failures:
            note(f"\n{label} failed: {self.failures[run.name]}")
            return
        if run.name in self.records:
            note(f"\n{label} was finished before: {summary_line(self.records[run.name])}")
            return
        note(f"\n{label}")
        started = time.perf_counter()
        self.eta.begin(index)
        try:
            record = self._execute(run)
        except (ConfigError, StorageError, OSError):
            raise  # the other tasks would meet the same
        except Exception as error:  # noqa: BLE001 - the other tasks can be run all the same
            expected = isinstance(error, GmcBenchError)
            if not expected:
                note(traceback.format_exc().rstrip())
            reason = str(error) if expected else f"{type(error).__name__}: {error}"
            self.failures[run.name] = reason
            self.eta.settle(index)
            note(f"{label} failed: {reason}")
        else:
            self.records[run.name] = record
            self.eta.settle(index, record.env_steps, record.wall_clock_s.total)
            took = duration(time.perf_counter() - started)
            note(f"{label} done in {took}: {summary_line(record)}")
            note(f"time left for all: {self.eta.time_left()}")

    def _execute(self, run: PlannedRun) -> RunRecord:
        with self.folder.open_run(run) as folder:
            if not folder.config.is_file():
                write_atomic(folder.config, run.config.to_yaml().encode())
            session = open_session(read_run_config(folder.config), self.bodies)
            return execution.execute(session, folder, self.eta)

    def _show(self) -> None:
        say()
        say(describe_results(self.plan, self.records, self.failures))
        say(f"plan folder     {self.folder.path}")
