"""Display of experiments: listens to their events and shows them on stderr."""

import shlex
import sys
import time
from types import TracebackType
from typing import Any, Self

from gmc_bench.cli.output import note
from gmc_bench.core.table import number
from gmc_bench.experiments import events
from gmc_bench.experiments.eta import ETA, duration
from gmc_bench.experiments.method import method_of
from gmc_bench.experiments.overview import describe_runs
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.experiments.sweep_texts import LiveTable
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.summary import summary_line
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import protocol_digest
from gmc_bench.training.run_config import RunConfig

SWEEP_BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt}{postfix}"
"""Bar of one run in a sweep: omits the rate so that the overall ETA fits in 80 columns."""


class Display:
    """Shows what runs and sweeps tell; a context that ends what is being shown.

    Args:
        again: command that continues what is stopped; `{path}` is the folder, once there is one.
    """

    def __init__(self, again: str = "gmc-bench run --resume {path}") -> None:
        self._again = again
        self._path: Any = None
        self._eta: ETA | None = None
        self._names: list[str] = []
        self._began = 0.0
        self._bar: Any = None
        self._what = ""
        self.records: dict[str, RunRecord] = {}
        """Of a sweep, those that are there, by name."""
        self.failures: dict[str, str] = {}
        """Of a sweep, why others are not, by name."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        if isinstance(error, KeyboardInterrupt) and (self._path or "{path}" not in self._again):
            again = self._again.format(path=shlex.quote(str(self._path)))
            note(f"\nStopped. Continue with: {again}")

    def __call__(self, event: events.Event) -> None:
        """Show one event."""
        if self._eta is not None:
            self._eta(event)
        match event:
            case events.Remark():
                if self._bar is not None:
                    self._bar.clear()  # it is drawn again below
                note(event.text)
            case events.Progress():
                self._progress(event)
            case events.RunStarted() if self._eta is None:
                self._path = event.path
                if not event.resumed:
                    announce(event.config, event.env_steps)
                    note(f"run folder {event.path}")
            case events.FolderOpened():
                self._path = event.path
            case events.TrainingStarted():
                self._train(event)
            case events.IterationFinished():
                if self._eta is not None:
                    self._bar.set_description_str(self._eta.headline(), refresh=False)
                self._bar.set_postfix_str(f"return {number(event.mean_return)}", refresh=False)
                self._bar.update(event.env_steps - self._bar.n)
            case events.TrainingFinished():
                self._close()
            case _:
                self._sweep(event)

    def _progress(self, event: events.Progress) -> None:
        if self._bar is None or self._what != event.what:
            self._open(event.what, event.total, event.unit)
        self._bar.update(event.done - self._bar.n)
        if event.done == event.total:
            self._close()

    def _train(self, event: events.TrainingStarted) -> None:
        if event.env_steps:
            note(f"Continuing at {event.env_steps:,} of {event.env_steps_planned:,} env steps.")
        self._open(
            self._eta.headline() if self._eta else "train",
            event.env_steps_planned,
            "step",
            initial=event.env_steps,
            unit_scale=True,
            bar_format=SWEEP_BAR if self._eta else None,
        )

    def _open(self, what: str, total: int | None, unit: str, **options: Any) -> None:
        from tqdm import tqdm

        self._close()
        self._bar, self._what = tqdm(total=total, unit=unit, desc=what, **options), what

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _sweep(self, event: events.Event) -> None:
        match event:
            case events.SweepStarted():
                self._eta = ETA()
                self._eta(event)
                self._names, self._path = list(event.runs), event.path
                self.records |= event.records
                self.failures |= event.failures
                note(describe_runs(event.runs, event.states, self._eta))
                note(f"sweep folder {event.path}")
            case events.SweepRunStarted():
                self._began = time.perf_counter()
                note(f"\n{self._label(event.name)}")
            case events.SweepRunKept():
                label = self._label(event.name)
                note(f"\n{label} was finished before: {summary_line(event.record)}")
            case events.SweepRunFailed():
                self._failed(event)
            case events.SweepRunFinished() if self._eta is not None:
                self.records[event.name] = event.record
                took = duration(time.perf_counter() - self._began)
                label = self._label(event.name)
                note(f"{label} done in {took}: {summary_line(event.record)}")
                note(f"time left for all: {self._eta.time_left()}")

    def _failed(self, event: events.SweepRunFailed) -> None:
        self._close()
        before = "\n" if event.name in self.failures else ""  # nothing of it was shown yet
        self.failures[event.name] = event.reason
        if event.trace is not None:
            note(event.trace)
        note(f"{before}{self._label(event.name)} failed: {event.reason}")

    def _label(self, name: str) -> str:
        return f"run {self._names.index(name) + 1} of {len(self._names)} ({name})"


class SweepDisplay(Display):
    """Shows runs that a launcher runs as a live table, and what is measured on them afterwards.

    Args:
        again: see `Display`.
        sweep: the runs; they can be continued as soon as its folder lists them.
    """

    def __init__(self, again: str, sweep: Sweep) -> None:
        super().__init__(again)
        self._runs = sweep
        self._table = LiveTable(live=sys.stderr.isatty())

    def __exit__(self, *error: Any) -> None:
        self._path = self._runs.path if self._runs.is_begun else None
        super().__exit__(*error)

    def __call__(self, event: events.Event) -> None:
        """Show one event."""
        if self._bar is not None or isinstance(event, events.Progress):
            super().__call__(event)
            return
        for text in self._table(event):
            note(text)


def announce(config: RunConfig, env_steps: int) -> None:
    """Show what will be run."""
    method, suite, protocol = method_of(config), SUITES.get(config.suite), config.protocol
    digest = protocol_digest(protocol, method, suite, config.task)
    preset = protocol.preset if method.presets else "default"
    note(
        f"method {method.id} (preset {preset}), suite {config.suite}, "
        f"task {config.task}, protocol {protocol.name} ({digest[:12]}), "
        f"seed {config.seed}, {env_steps:,} env steps"
    )
    for reason in config.unofficial_reasons:
        note(f"unofficial: {reason}")
