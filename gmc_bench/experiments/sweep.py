"""Sweep: several runs in one folder, one after the other, begun or continued."""

import contextlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.errors import ConfigError, GmcBenchError, RunFolderError, StorageError
from gmc_bench.experiments.events import (
    Listener,
    Listeners,
    RunStarted,
    SweepFinished,
    SweepRunFailed,
    SweepRunFinished,
    SweepRunKept,
    SweepRunStarted,
    SweepStarted,
)
from gmc_bench.experiments.experiment import RUNS, Experiment
from gmc_bench.experiments.method import load_method
from gmc_bench.experiments.resolve import Resolved, choose, choose_bodies, resolve
from gmc_bench.experiments.run_folder import is_unused, new_folder
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.sweep_folder import SweepFolder, name_runs, read_runs
from gmc_bench.records.store import write_atomic
from gmc_bench.training.run_config import RunConfig, read_run_config

if TYPE_CHECKING:
    from gmc_bench.bodies.schema import MorphologySet
    from gmc_bench.records.schema import RunRecord


@dataclass(frozen=True)
class SweepResult:
    """What became of the runs of a sweep."""

    records: "dict[str, RunRecord]" = field(default_factory=dict)
    """Of the finished runs, by name."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why others failed, by name."""


class Sweep:
    """Several runs in one folder: tasks, methods, variants or seeds.

    ```python
    spec = ExperimentSpec(method="recmorph", suite="unimal", protocol="smoke")
    result = Sweep([spec.replace(task=task) for task in ("ft", "incline")], out="runs/a").run()
    ```

    Args:
        specs: what to run, in order; by name, or named by what tells them apart.
        out: the folder; by default a new one under `runs/`.
        on_event: is told what happens, see `gmc_bench.experiments.events`.
        files: further files of the folder by name, written before any run begins.

    Raises:
        GmcBenchError: a specification cannot be resolved.
    """

    def __init__(
        self,
        specs: Sequence[ExperimentSpec] | Mapping[str, ExperimentSpec],
        *,
        out: Path | str | None = None,
        on_event: Listener | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        self._emit = Listeners(on_event)
        self._files = dict(files or {})
        self._locked: SweepFolder | None = None
        self.path = None if out is None else Path(out)
        """The folder; none as long as none was named or made."""
        listed = list(specs.values()) if isinstance(specs, Mapping) else specs
        self.resolved: tuple[Resolved, ...] = tuple(_resolve_all(listed))
        """The specifications with their names looked up; empty for a sweep that was opened."""
        if not self.resolved:
            raise ConfigError("a sweep needs at least one specification, got none")
        configs = [item.config for item in self.resolved]
        self.runs: dict[str, RunConfig] = (
            dict(zip(specs, configs, strict=True))
            if isinstance(specs, Mapping)
            else name_runs(configs)
        )
        """Settings of all runs by name, in order."""
        self._bodies: dict[str, MorphologySet] = {
            item.bodies.id: item.bodies for item in self.resolved
        }

    @classmethod
    def open(cls, path: Path | str, *, on_event: Listener | None = None) -> Self:
        """Return the sweep that a folder holds, finished or not.

        Raises:
            RunFolderError: it is not the folder of several runs.
            ConfigError: the list of runs is damaged.
        """
        folder = SweepFolder(Path(path))
        sweep = cls.__new__(cls)
        sweep._emit = Listeners(on_event)
        sweep._files, sweep._bodies, sweep._locked = {}, {}, None
        sweep.path, sweep.resolved, sweep.runs = folder.path, (), read_runs(folder.plan)
        return sweep

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a function of what happens from now on; return one that ends that."""
        return self._emit.subscribe(listener)

    def __getitem__(self, name: str) -> Experiment:
        """Return one of the runs as an experiment of its own; it must have been begun.

        Raises:
            KeyError: there is no run of this name.
            RunFolderError: it was never begun.
        """
        self.runs[name]  # a folder beside the runs is none of them
        return Experiment.open(self._place() / name, bodies=self._bodies_of(self.runs[name]))

    def run(self) -> SweepResult:
        """Run all from the start, in a new folder.

        Returns:
            Records and failures. A run that fails does not stop the others, unless they would meet
            the same: settings that do not fit, or files that cannot be written.

        Raises:
            GmcBenchError: nothing can be run, or nothing more.
        """
        from gmc_bench.experiments.session import check_method, open_session

        for config in self.runs.values():  # before a folder is made that nobody could use
            check_method(open_session(config, self._bodies_of(config)))
        self.path = self.path or new_folder(RUNS, self._default_name())
        with self.locked(create=True) as folder:
            for name, data in self._files.items():
                write_atomic(folder.path / name, data)
            folder.write(self.runs)  # last: a folder that holds it can be continued
            return self._visit_all(folder)

    def resume(self) -> SweepResult:
        """Continue: finished runs are kept, begun ones go on, the others run.

        Returns:
            Records and failures, see `run`.

        Raises:
            RunFolderError: the folder is in use, or holds something else.
            GmcBenchError: nothing can be run, or nothing more.
        """
        if self.resolved and (self.path is None or not self.path.exists() or is_unused(self.path)):
            return self.run()
        with self.locked() as folder:
            self._require_same(folder)
            for config in self.runs.values():
                self._bodies_of(config)  # without them, no run can go on
            return self._visit_all(folder)

    @contextlib.contextmanager
    def locked(self, *, create: bool = False) -> Iterator[SweepFolder]:
        """Hold the folder for this process, also over several calls.

        Args:
            create: make it; it must be absent or empty.

        Raises:
            RunFolderError: it is in use, not empty, or not the folder of several runs.
        """
        if self._locked is not None:
            yield self._locked
            return
        with SweepFolder(self._place(), create=create) as folder:
            self._locked = folder
            try:
                yield folder
            finally:
                self._locked = None

    def _place(self) -> Path:
        if self.path is None:
            raise RunFolderError("the sweep has no folder yet; run it first, or name one")
        return self.path

    def _default_name(self) -> str:
        config = next(iter(self.runs.values()))
        suite = config.suite.rpartition("-v")[0]
        return (
            f"{load_method(config.method).id}_{suite}_{config.protocol.name}_"
            f"{config.morphologies}_seed{config.seed}"
        )

    def _require_same(self, folder: SweepFolder) -> None:
        """Raise unless the folder lists the very runs of this sweep."""
        found = read_runs(folder.plan)
        listed, wanted = (
            {name: (config.identity(), config.seed) for name, config in runs.items()}
            for runs in (found, self.runs)
        )
        if listed != wanted:
            raise RunFolderError(
                f"{folder.path} holds other runs; choose another 'out', or continue them with "
                f"Sweep.open"
            )

    def _bodies_of(self, config: RunConfig) -> "MorphologySet":
        name = config.morphologies
        if name not in self._bodies:
            self._bodies[name] = load_morphologies(name)
        return self._bodies[name]

    def _visit_all(self, folder: SweepFolder) -> SweepResult:
        result = SweepResult()
        states = {}
        for name, config in self.runs.items():
            states[name] = "begun" if folder.was_begun(name) else "to do"
            try:
                record = folder.read_finished(name, config)
            except GmcBenchError as error:
                states[name], result.failures[name] = "failed", str(error)
            else:
                if record is not None:
                    states[name], result.records[name] = "finished", record
        self._emit(
            SweepStarted(
                folder.path,
                self.runs,
                states,
                dict(result.records),
                dict(result.failures),
            )
        )
        for name in self.runs:
            self._visit(folder, name, result)
        self._emit(SweepFinished(result.records, result.failures))
        return result

    def _visit(self, folder: SweepFolder, name: str, result: SweepResult) -> None:
        if name in result.failures:
            self._emit(SweepRunFailed(name, result.failures[name]))
            return
        if name in result.records:
            self._emit(SweepRunKept(name, result.records[name]))
            return
        self._emit(SweepRunStarted(name))
        try:
            record = self._execute(folder, name)
        except (ConfigError, StorageError, OSError):
            raise  # the other runs would meet the same
        except Exception as error:  # noqa: BLE001 - the other runs can go on all the same
            expected = isinstance(error, GmcBenchError)
            reason = str(error) if expected else f"{type(error).__name__}: {error}"
            result.failures[name] = reason
            trace = None if expected else traceback.format_exc().rstrip()
            self._emit(SweepRunFailed(name, reason, trace))
        else:
            result.records[name] = record
            self._emit(SweepRunFinished(name, record))

    def _execute(self, sweep: SweepFolder, name: str) -> "RunRecord":
        from gmc_bench.experiments.execution import execute
        from gmc_bench.experiments.session import open_session

        config = self.runs[name]
        with sweep.open_run(name, config) as folder:
            begun = folder.config.is_file()
            if not begun:
                write_atomic(folder.config, config.to_yaml().encode())
            config = read_run_config(folder.config)
            session = open_session(config, self._bodies_of(config))
            self._emit(RunStarted(folder.path, config, session.env_steps, begun))
            return execute(session, folder, self._emit)


def _resolve_all(specs: Iterable[ExperimentSpec]) -> Iterator[Resolved]:
    """Resolve specifications, loading every body set once."""
    loaded: dict[tuple[str, str | None], tuple[MorphologySet, str]] = {}
    for spec in specs:
        key = (spec.suite, spec.bodies)
        if key not in loaded:
            loaded[key] = choose_bodies(spec.bodies, choose(spec).suite)
        yield resolve(spec, loaded[key])
