"""Sweep: several runs in one folder, in turn or by a launcher, begun or continued."""

import contextlib
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.arguments import as_path, require_instance
from gmc_bench.core.config import coerce, fields_of
from gmc_bench.core.errors import ConfigError, GmcBenchError, RunFolderError, reject_unknown
from gmc_bench.experiments.cell_state import (
    CellState,
    SweepOverview,
    is_vouched_for,
    read_overview,
)
from gmc_bench.experiments.devices import check_device
from gmc_bench.experiments.estimate import Measured, time_left
from gmc_bench.experiments.events import (
    Listener,
    Listeners,
    Remark,
)
from gmc_bench.experiments.experiment import RUNS, Experiment
from gmc_bench.experiments.grid import Grid
from gmc_bench.experiments.launch import require_one_run
from gmc_bench.experiments.method import load_method
from gmc_bench.experiments.resolve import Resolved, another_commit, resolve_all
from gmc_bench.experiments.reuse import KnownRuns
from gmc_bench.experiments.run_folder import (
    CONFIG,
    KEPT,
    LAUNCH,
    PLAN,
    RECORD,
    is_file,
    is_free,
    new_folder,
    require_unused,
)
from gmc_bench.experiments.sequential_driver import SequentialDriver
from gmc_bench.experiments.spec import ExperimentSpec, require_specs
from gmc_bench.experiments.sweep_folder import (
    SweepFolder,
    first_of_each,
    name_runs,
    read_runs,
    require_names,
)
from gmc_bench.experiments.sweep_launch import Launched, launching, read_launch, write_launch
from gmc_bench.records.store import LEDGER_NAME, write_atomic
from gmc_bench.training.run_config import MACHINE_SETTINGS, RunConfig

if TYPE_CHECKING:
    from gmc_bench.bodies.schema import MorphologySet
    from gmc_bench.records.schema import RunRecord
    from gmc_bench.records.store import StoredRecord

REUSE = "reuse"
"""Name, in the file of the launch, of the leaderboard that runs are taken from."""


@dataclass(frozen=True)
class SweepResult:
    """What became of the runs of a sweep."""

    records: "Mapping[str, RunRecord]" = field(default_factory=dict)
    """Of the finished runs, by name; of a launcher, read from their files when asked for."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why others failed, by name."""

    def __repr__(self) -> str:
        return f"<{len(self.records)} finished runs, {len(self.failures)} failed>"


class Sweep:
    """Several runs in one folder: tasks, methods, variants or seeds.

    As a container it holds the names of the runs, in order, and returns each as an experiment.

    ```python
    spec = ExperimentSpec(method="recmorph", suite="unimal", protocol="smoke")
    result = Sweep([spec.replace(task=task) for task in ("ft", "incline")], out="runs/a").run()
    ```

    Args:
        specs: what to run, in order; by name, or named by what tells them apart.
        out: the folder; by default a new one under `runs/`.
        on_event: is told what happens, see `gmc_bench.experiments.events`.
        files: further files of the folder by name, written before any run begins.
        elsewhere: other machines will run it, which need not have this one's threads and devices.
        reuse: a leaderboard's folder; runs that it has, with their weights, are taken from there
            and not repeated.

    Raises:
        GmcBenchError: a specification cannot be resolved, a name cannot be that of a folder, or
            there is no such leaderboard.
    """

    def __init__(
        self,
        specs: Sequence[ExperimentSpec] | Mapping[str, ExperimentSpec],
        *,
        out: Path | str | None = None,
        on_event: Listener | None = None,
        files: Mapping[str, bytes] | None = None,
        elsewhere: bool = False,
        reuse: Path | str | None = None,
    ) -> None:
        require_one_run()
        self._emit = Listeners(on_event)
        self._files = dict(files or {})
        self._locked: SweepFolder | None = None
        self.path = None if out is None else as_path(out, "the folder of a sweep")
        """The folder; none as long as none was named or made."""
        if isinstance(specs, Mapping):
            require_names(specs)
        listed = require_specs(specs.values() if isinstance(specs, Mapping) else specs)
        self.resolved: tuple[Resolved, ...] = tuple(resolve_all(listed, elsewhere=elsewhere))
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
        self.reuse = None if reuse is None else as_path(reuse, "a leaderboard").absolute()
        self._known = None if reuse is None else KnownRuns(as_path(reuse, "a leaderboard"))

    def __repr__(self) -> str:
        place = "" if self.path is None else f" in {self.path}"
        return f"<sweep of {len(self.runs)} runs{place}>"

    @classmethod
    def open(cls, path: Path | str, *, on_event: Listener | None = None) -> Self:
        """Return the sweep that a folder holds, finished or not.

        Raises:
            RunFolderError: it is not the folder of several runs.
            ConfigError: the list of runs is damaged.
        """
        folder = SweepFolder(as_path(path, "the folder of a sweep"))
        sweep = cls.__new__(cls)
        sweep._emit = Listeners(on_event)
        sweep._files, sweep._bodies, sweep._locked = {}, {}, None
        sweep.path, sweep.resolved, sweep.runs = folder.path, (), read_runs(folder.plan)
        return sweep

    @classmethod
    def grid(
        cls,
        grid: Grid | None = None,
        *,
        out: Path | str | None = None,
        on_event: Listener | None = None,
        elsewhere: bool = False,
        reuse: Path | str | None = None,
        **fields: Any,
    ) -> Self:
        """Return the sweep of a grid: methods x suites x tasks x settings x seeds.

        ```python
        sweep = Sweep.grid(methods=["recmorph", "metamorph-star"], suites=["unimal"], seeds=[1, 2])
        result = sweep.run("local", jobs=2)
        ```

        Args:
            grid: the grid; or its fields as keywords.
            out: the folder; by default a new one under `runs/`.
            on_event: is told what happens.
            elsewhere: see `Sweep`, as for the following.
            reuse: likewise.
            fields: of `gmc_bench.experiments.grid.Grid`, in place of `grid` or to change it.

        Raises:
            GmcBenchError: a field is unknown, or a name, or a setting does not fit.
        """
        if grid is None:
            found = Grid.from_dict(fields)
        else:
            fix = "give its fields as keywords otherwise, methods=..."
            require_instance(grid, Grid, "the sweep of a grid", fix)
            reject_unknown(fields, fields_of(Grid), "a sweep")
            found = replace(grid, **fields)
        sweep = cls(found.specs(), out=out, on_event=on_event, elsewhere=elsewhere, reuse=reuse)
        # What comes to the same is run once, e.g. where a value is spelled in two ways.
        kept = {name: sweep.runs[name] for name in first_of_each(sweep.runs)}
        sweep.resolved = tuple(
            item for name, item in zip(sweep.runs, sweep.resolved, strict=True) if name in kept
        )
        sweep.runs = kept
        return sweep

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a function of what happens from now on; return one that ends that."""
        return self._emit.subscribe(listener)

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __contains__(self, name: object) -> bool:
        return name in self.runs

    def __len__(self) -> int:
        return len(self.runs)

    def __getitem__(self, name: str) -> Experiment:
        """Return one of the runs as an experiment of its own; it must have been begun.

        Raises:
            KeyError: there is no run of this name.
            RunFolderError: it was never begun.
        """
        config = self.runs[name]  # a folder beside the runs is none of them
        bodies: MorphologySet | None = None
        with contextlib.suppress(GmcBenchError):  # what was written can be read without them
            bodies = self._bodies_of(config)
        return Experiment.open(self._place() / name, bodies=bodies)

    def check(self) -> Self:
        """Check whether all can be run here, each as `Experiment.check` does.

        Returns:
            The sweep.

        Raises:
            GmcBenchError: one cannot.
        """
        self.check_methods(trains_here=True)
        return self

    def check_methods(self, *, trains_here: bool) -> None:
        """Build the networks, before a folder is made that nobody could use.

        Args:
            trains_here: whether this machine trains them; if not, one run stands for all that
                build the same networks.

        Raises:
            GmcBenchError: networks cannot be built, or not be trained here.
        """
        from gmc_bench.experiments.session import check_networks, open_session

        seen = set()
        for name, config in self.runs.items():
            what = name if trains_here else repr(_checked(config))
            if what not in seen:
                seen.add(what)
                session = open_session(config, self._bodies_of(config))
                check_networks(session, trains_here=trains_here)

    def run(self, launcher: str | None = None, *, retries: int = 1, **options: Any) -> SweepResult:
        """Run all from the start, in a new folder.

        Args:
            launcher: who runs them, e.g. `local` for processes; without one, this process does, one
                after the other.
            retries: how often a launcher tries a run again that failed.
            options: of the launcher, e.g. `jobs`.

        Returns:
            Records and failures. A run that fails does not stop the others, unless all run in this
            process and would meet the same: settings that do not fit, or files that cannot be
            written.

        Raises:
            GmcBenchError: nothing, or nothing more, can be run.
        """
        with launching(launcher, retries, options) as launched:
            self.check_methods(trains_here=launched is None)
            return self.begin(launched)

    def begin(self, launched: Launched | None) -> SweepResult:
        """Run all from the start as `run` does, by a launcher that is ready, with checked methods.

        Args:
            launched: see `launching`; `None` is this process.

        Raises:
            GmcBenchError: nothing, or nothing more, can be run.
        """
        self._require_devices(launched)
        self.path = self.path or new_folder(RUNS, self._default_name())
        with self.locked(create=True) as folder:
            for name, data in self._files.items():
                write_atomic(folder.path / name, data)
            self._write_launch(folder, launched)
            folder.write(self.runs)  # last: a folder that holds it can be continued
            self._take_over(folder)
            return self._visit_all(folder, launched)

    def resume(
        self, launcher: str | None = None, *, retries: int = 1, **options: Any
    ) -> SweepResult:
        """Continue: finished runs are kept, begun ones go on, the others run.

        Args:
            launcher: see `run`, as for the following; it may be another one than before.
            retries: likewise.
            options: likewise.

        Returns:
            Records and failures, see `run`.

        Raises:
            RunFolderError: the folder is in use, or holds something else.
            GmcBenchError: nothing, or nothing more, can be run.
        """
        with launching(launcher, retries, options, idle=self.is_done) as launched:
            return self.go_on(launched)

    def go_on(self, launched: Launched | None) -> SweepResult:
        """Continue as `resume` does, by a launcher that is ready.

        Args:
            launched: see `begin`.

        Raises:
            RunFolderError: the folder is in use, or holds something else.
            GmcBenchError: nothing, or nothing more, can be run.
        """
        if self.resolved and (self.path is None or is_free(self.path)):
            self.check_methods(trains_here=launched is None)
            return self.begin(launched)
        self._require_begun()
        with self.locked() as folder:
            self._require_same(folder)
            self._require_devices(launched)
            self._write_launch(folder, launched)
            self._take_over(folder)
            left = (config for name, config in self.runs.items() if not self._has_record(name))
            if text := another_commit(left):
                self._emit(Remark(text))
            if launched is None:
                for name, config in self.runs.items():
                    if not self._has_record(name):
                        self._bodies_of(config)  # without them, no run can go on
            return self._visit_all(folder, launched)

    def require_fit(self) -> None:
        """Raise where its folder holds something else, so that `resume` would be refused.

        Raises:
            RunFolderError: it does.
            ConfigError: the list of runs there is damaged.
        """
        if self.path is not None and not is_free(self.path):
            self._require_begun()
            self._require_same(SweepFolder(self.path))

    @property
    def is_begun(self) -> bool:
        """Whether its folder lists the runs, so that it can be continued."""
        return self.path is not None and is_file(self.path / PLAN)

    @property
    def is_done(self) -> bool:
        """Whether no run is left: all have records, intact or damaged, or can be taken over.

        Raises:
            GmcBenchError: the leaderboard that runs are taken from is not there, or is damaged.
        """
        return all(self._has_record(name) or self.will_take(name) for name in self.runs)

    def _has_record(self, name: str) -> bool:
        return self.path is not None and is_file(self.path / name / RECORD)

    @cached_property
    def reuse(self) -> Path | None:
        """Folder of the leaderboard that runs are taken from; of an opened sweep, as it was begun.

        Raises:
            ConfigError: the file that tells is damaged.
        """
        found = coerce(read_launch(self._place()).get(REUSE), str | None, REUSE)
        return None if found is None else Path(found)

    @cached_property
    def _known(self) -> KnownRuns | None:
        """What that leaderboard has; of an opened sweep, as long as a run may be taken from it.

        Raises:
            RunFolderError: it is not there any more.
            RecordError: it is damaged.
        """
        if self.reuse is None or not any(map(self._is_free, self.runs)):
            return None
        if not (self.reuse / LEDGER_NAME).is_file():
            raise RunFolderError(
                f"{self._place() / LAUNCH} names the leaderboard {self.reuse}, which is not there, "
                f"as the one that runs are taken from; put it back, or delete the line {REUSE!r} "
                f"with the first and the last line of that file to train all runs"
            )
        return KnownRuns(self.reuse)

    def overview(self) -> SweepOverview:
        """Return how far the runs are, also while another process runs them.

        Raises:
            RunFolderError: nothing was begun.
        """
        found = read_overview(self._place(), self.runs)
        if not self.is_begun:
            return replace(found, is_over=False)
        found = replace(found, states=dict(self._checked(found)))
        # What failed may be tried again, which only who drives the sweep knows.
        done = ("finished", "failed")
        names = [name for name, state in found.states.items() if state.phase not in done]
        if found.is_over and names:
            return found
        measured = Measured()
        measured.add_states(self.runs, found.states)
        left = time_left(names, self.runs, found.states, measured)
        return replace(found, time_left=left.seconds, is_lower_bound=left.is_lower_bound)

    def _checked(self, found: SweepOverview) -> Iterator[tuple[str, CellState]]:
        """Yield the states of runs by name, told by records where no state vouches for those."""
        folder = SweepFolder(found.path)
        for name, state in found.states.items():
            if state.phase == "finished" and not is_vouched_for(found.path, name):
                try:
                    record = folder.read_finished(name, self.runs[name])
                except GmcBenchError as error:
                    state = replace(state, phase="failed", reason=str(error), permanent=True)
                else:
                    state = state if record is None else state.with_record(record)
            yield name, state

    @cached_property
    def reused(self) -> "Mapping[str, StoredRecord]":
        """Records of a leaderboard that stand for runs, by name.

        Raises:
            RecordError: a file there is damaged.
        """
        return {} if self._known is None else self._known.find_all(self.runs)

    def will_take(self, name: str) -> bool:
        """Return whether a run will be taken from a leaderboard: one that was not begun here."""
        return name in self.reused and self._is_free(name)

    def _is_free(self, name: str) -> bool:
        """Return whether a run was not begun, or a process was killed while it took it over."""
        run = None if self.path is None else self.path / name
        if run is None or not (run / CONFIG).is_file():
            return True
        return (run / KEPT).is_file() and not (run / RECORD).is_file()

    def _take_over(self, folder: SweepFolder) -> None:
        """Make the folders of runs that a leaderboard has."""
        if self._known is None:
            return
        for name, stored in self.reused.items():
            if self.will_take(name):
                self._known.restore(stored, folder.path / name)
        taken = sum((folder.path / name / KEPT).is_file() for name in self.reused)
        text = f"{taken} of {len(self.runs)} runs are those of {self._known.root}"
        self._emit(Remark(text))

    def _write_launch(self, folder: SweepFolder, launched: Launched | None) -> None:
        """Write, for whoever goes on later, who runs it and what it takes over."""
        content = None if launched is None else launched.launch.content()
        if self.reuse is not None:
            before = read_launch(folder.path) if content is None else content
            content = {**before, REUSE: str(self.reuse)}
        if content is not None:
            write_launch(folder.path, content)

    @contextlib.contextmanager
    def locked(self, *, create: bool = False) -> Iterator[SweepFolder]:
        """Hold the folder for this process, also over several calls.

        Args:
            create: make it; it must be absent or empty.

        Raises:
            RunFolderError: it is in use, not empty, or not the folder of several runs.
            ConfigError: torchrun has started processes, which are there for one run.
        """
        require_one_run()
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
        if len({(item.method, item.suite) for item in self.runs.values()}) > 1:
            return f"sweep_{config.protocol.name}"
        suite = config.suite.rpartition("-v")[0]
        return (
            f"{load_method(config.method).id}_{suite}_{config.protocol.name}_"
            f"{config.morphologies}_seed{config.seed}"
        )

    def _require_begun(self) -> None:
        """Raise where a new sweep's folder holds something else than a sweep, or is a file."""
        path = self._place()
        if self.resolved and not self.is_begun and not is_file(path / CONFIG):
            require_unused(path)

    def _require_same(self, folder: SweepFolder) -> None:
        """Raise unless the folder lists the very runs of this sweep; it says with which threads."""
        found = read_runs(folder.plan)
        if found == self.runs:
            return  # the quick way, for thousands
        listed, wanted = (
            {name: config.run_digest for name, config in runs.items()}
            for runs in (found, self.runs)
        )
        if listed != wanted:
            raise RunFolderError(
                f"{folder.path} holds other runs; choose another 'out', or continue those with: "
                f"gmc-bench sweep --resume {shlex.quote(str(folder.path))} (in Python: Sweep.open)"
            )
        # Threads, devices and checkpoints are those that its workers read.
        if differing := _differing_machine(found, self.runs):
            text = f"{folder.path} was begun with {differing}, which stays as it is; begin a sweep"
            self._emit(Remark(f"{text} in another folder to change it"))
        self.runs = found

    def _require_devices(self, launched: Launched | None) -> None:
        """Raise where a launcher chooses the GPU of each run, and one that is left names its own.

        Raises:
            ConfigError: one does.
        """
        if launched is None or not launched.launch.elsewhere:
            return
        left = {
            config.device
            for name, config in self.runs.items()
            if not self._has_record(name) and not self.will_take(name)
        }
        for device in sorted(left):
            check_device(device, here=False)

    def _bodies_of(self, config: RunConfig) -> "MorphologySet":
        name = config.morphologies
        if name not in self._bodies:
            self._bodies[name] = load_morphologies(name)
        return self._bodies[name]

    def _visit_all(self, folder: SweepFolder, launched: Launched | None) -> SweepResult:
        if launched is not None:
            from gmc_bench.experiments.driver import Driver

            launcher, launch = launched
            driver = Driver(folder.path, self.runs, launcher, launch.retries, self._emit)
            return SweepResult(*driver.run())
        return SweepResult(*SequentialDriver(folder, self.runs, self._bodies_of, self._emit).run())


def _checked(config: RunConfig) -> tuple[object, ...]:
    """Return what networks, and whether they can be trained, depend on."""
    protocol = config.protocol
    network = (config.method, config.method_config, config.tokens, config.precision)
    bodies = (config.suite, config.task, config.morphologies)
    rollouts = (protocol.num_envs, protocol.rollout_length, config.processes, config.device)
    return network + bodies + rollouts


def _differing_machine(found: Mapping[str, RunConfig], given: Mapping[str, RunConfig]) -> str:
    """Return the machine settings of runs that are given otherwise, e.g. `threads 1 (not 2)`."""
    texts: dict[str, str] = {}
    for name, config in found.items():
        for item in MACHINE_SETTINGS:
            before, now = getattr(config, item), getattr(given[name], item)
            if before != now:
                shown = item.removesuffix("_s")
                texts.setdefault(item, f"{shown} {before or 'none'} (not {now or 'none'})")
    return ", ".join(texts.values())
