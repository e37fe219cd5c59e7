"""Runs of a sweep in this process, one after another."""

import gc
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.core.errors import ConfigError, GmcBenchError, StorageError
from gmc_bench.experiments.cell import execute_run
from gmc_bench.experiments.cell_state import Phase
from gmc_bench.experiments.events import (
    Listener,
    RunStoppedError,
    SweepFinished,
    SweepRunFailed,
    SweepRunFinished,
    SweepRunKept,
    SweepRunStarted,
    SweepStarted,
)
from gmc_bench.experiments.sweep_folder import SweepFolder
from gmc_bench.records.schema import RunRecord
from gmc_bench.training.run_config import RunConfig


@dataclass
class SequentialDriver:
    """Runs a sweep in this process, run by run; `Driver` does so with a launcher."""

    folder: SweepFolder
    runs: Mapping[str, RunConfig]
    """Settings by name, in order."""
    bodies_of: Callable[[RunConfig], MorphologySet]
    emit: Listener
    _records: dict[str, RunRecord] = field(init=False, default_factory=dict)
    """Of the finished ones, by name."""
    _failures: dict[str, str] = field(init=False, default_factory=dict)
    """Why others failed, by name."""

    def run(self) -> tuple[dict[str, RunRecord], dict[str, str]]:
        """Run everything that is not finished.

        Returns:
            The records of what is finished, and the reasons of what failed.

        Raises:
            ConfigError: the settings of a run do not fit, and those of others may not either.
            StorageError: nothing can be written any more; an `OSError` likewise.
            RunStoppedError: a listener ended a run.
        """
        states = {name: self._look_at(name, config) for name, config in self.runs.items()}
        found = dict(self._records), dict(self._failures)
        self.emit(SweepStarted(self.folder.path, dict(self.runs), states, *found))
        for name in self.runs:
            self._visit(name)
        self.emit(SweepFinished(self._records, self._failures))
        return self._records, self._failures

    def _look_at(self, name: str, config: RunConfig) -> Phase:
        """Return how far a run is, see `SweepStarted.states`; note its record or its failure."""
        try:
            record = self.folder.read_finished(name, config)
        except GmcBenchError as error:
            self._failures[name] = str(error)
            return "failed"
        if record is None:
            return "stopped" if self.folder.was_begun(name) else "to do"
        self._records[name] = record
        return "finished"

    def _visit(self, name: str) -> None:
        """Run one of the runs, unless it is finished or has failed."""
        if name in self._failures:
            self.emit(SweepRunFailed(name, self._failures[name]))
            return
        if name in self._records:
            self.emit(SweepRunKept(name, self._records[name]))
            return
        self.emit(SweepRunStarted(name))
        try:
            config = self.runs[name]
            record = execute_run(self.folder, name, config, self.bodies_of(config), self.emit)
        except (ConfigError, StorageError, OSError):
            raise  # the other runs would meet the same
        except RunStoppedError:
            raise  # no failure: this run goes on when the sweep does, and so do the others
        except Exception as error:  # noqa: BLE001 - the other runs can go on all the same
            expected = isinstance(error, GmcBenchError)
            reason = str(error) if expected else f"{type(error).__name__}: {error}"
            self._failures[name] = reason
            trace = None if expected else traceback.format_exc().rstrip()
            self.emit(SweepRunFailed(name, reason, trace))
        else:
            self._records[name] = record
            self.emit(SweepRunFinished(name, record))
        # Networks and environments refer to each other; left alone, those of dozens of runs would
        # stay until the collector looks at old objects.
        gc.collect()
