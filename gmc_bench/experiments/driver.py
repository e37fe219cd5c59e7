"""Driver of a sweep: gives its runs to a launcher, settles what became of them, tries again."""

import contextlib
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from gmc_bench.core.errors import GmcBenchError, StorageError
from gmc_bench.experiments.cell_state import (
    RUNNING,
    CellState,
    SweepOverview,
    read_state,
    write_state,
)
from gmc_bench.experiments.estimate import Measured, time_left
from gmc_bench.experiments.events import (
    Listener,
    Remark,
    SweepFinished,
    SweepMoved,
    SweepRunFailed,
    SweepRunFinished,
    SweepStarted,
)
from gmc_bench.experiments.launchers import Cell, Ended, Launcher
from gmc_bench.experiments.lease import is_alive
from gmc_bench.experiments.run_folder import PAGE, RECORD
from gmc_bench.experiments.sweep_folder import SweepFolder
from gmc_bench.experiments.sweep_page import write_page
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import read_record
from gmc_bench.training.run_config import RunConfig

POLL_S = 0.1
REPORT_S = 1.0
"""Seconds between two readings of the states of what runs."""
PAGE_S = 5.0
LOST_LIMIT = 20
"""How often a run may be taken away (nodes lost, jobs preempted) before that counts as failing."""


class StoredRecords(Mapping[str, RunRecord]):
    """Records of runs by name, each read from its file when it is asked for.

    Args:
        files: the files by name.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = files

    def __getitem__(self, name: str) -> RunRecord:
        return read_record(self._files[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


@dataclass
class Driver:
    """What a launcher is to run, what it runs, and what became of the rest."""

    path: Path
    """Folder of the sweep, held."""
    runs: Mapping[str, RunConfig]
    launcher: Launcher
    retries: int
    """How often a run that failed is tried again."""
    emit: Listener
    states: dict[str, CellState] = field(init=False, default_factory=dict)
    failures: dict[str, str] = field(init=False, default_factory=dict)
    """Why runs failed for good, by name."""
    _todo: deque[str] = field(init=False, default_factory=deque)
    _given: dict[str, CellState] = field(init=False, default_factory=dict)
    """Cells that the launcher has, with what was known of them before."""
    _ended: deque[Ended] = field(init=False, default_factory=deque)
    """Those of them that the launcher has no more, and that are to be settled."""
    _tries: dict[str, int] = field(init=False, default_factory=dict)
    _lost: dict[str, int] = field(init=False, default_factory=dict)
    _waits: set[str] = field(init=False, default_factory=set)
    _unwritten: set[str] = field(init=False, default_factory=set)
    """Runs that failed while their folders seemed held, so that their files do not say so yet."""
    _lacks: set[str] = field(init=False, default_factory=set)
    """What was said to be missing."""
    _finished: dict[str, Path] = field(init=False, default_factory=dict)
    _measured: Measured = field(init=False, default_factory=Measured)
    _reported: float = field(init=False, default=0.0)
    _drawn: float = field(init=False, default=0.0)

    def run(self) -> tuple[StoredRecords, dict[str, str]]:
        """Run everything that is not finished.

        Returns:
            The records of what is finished, and the reasons of what failed.

        Raises:
            GmcBenchError: the launcher cannot run anything.
            KeyboardInterrupt: it was interrupted; what was running has written checkpoints.
        """
        for name in self.runs:
            self._look_at(name)
        # What was begun goes on first: it is closest to its end.
        self._todo = deque(sorted(self._todo, key=lambda name: not self.states[name].env_steps))
        self._measured.add_states(self.runs, self.states)
        records = StoredRecords(self._finished)
        phases = {name: state.phase for name, state in self.states.items()}
        self.launcher.open(self.path)  # before anybody is told of a start
        try:
            self._check_room(map(self._cell, self._todo))
        except BaseException:
            self.launcher.close()
            raise
        self.emit(SweepStarted(self.path, dict(self.runs), phases, records, dict(self.failures)))
        for name, reason in self.failures.items():
            self.emit(SweepRunFailed(name, reason))
        try:
            while self._todo or self._given:
                self._submit()
                self._advance()
        except BaseException:
            self._stop()
            raise
        finally:
            self.launcher.close()
            self._report(is_over=True)
        self.emit(SweepFinished(records, self.failures))
        return records, self.failures

    def _look_at(self, name: str) -> None:
        """Take note of a run before any begins: it is finished, cannot go on, or is to do."""
        state = self.states[name] = read_state(self.path, name)
        if self._read_finished(name) is None:
            if name not in self.failures:
                self._todo.append(name)
        elif state.phase != "finished":  # its record was damaged, and somebody has put it back
            self.states[name] = replace(state, phase="finished", reason="", permanent=False)
            write_state(self.path, name, self.states[name])

    def _read_finished(self, name: str) -> RunRecord | None:
        """Return the record of a run, none if it is not finished or has failed for good.

        The latter is what lies there and is damaged, or another run's.
        """
        try:
            record = self._folder.read_finished(name, self.runs[name])
        except GmcBenchError as error:
            self.failures[name] = str(error)
            self._note_failure(name, str(error), permanent=True)
            return None
        if record is not None:
            self._finished[name] = self.path / name / RECORD
        return record

    @cached_property
    def _folder(self) -> SweepFolder:
        return SweepFolder(self.path)

    def _submit(self) -> None:
        batch: list[Cell] = []
        while self._todo:
            cell = self._cell(self._todo[0])
            if not self.launcher.takes(cell, len(batch)):
                break
            batch.append(cell)
            self._todo.popleft()
        if batch:
            self._check_room(batch)  # by now, more may be known of the memory that runs take
            before = {cell.name: read_state(self.path, cell.name) for cell in batch}
            self.launcher.submit(batch)
            self._unwritten -= set(before)
            self._given |= before  # not earlier: nobody would report the end of what never began
            for name in before:
                self.states[name] = replace(self.states[name], phase="waiting")

    def _check_room(self, cells: Iterable[Cell]) -> None:
        """Say once of what is not there that cells need.

        Raises:
            ConfigError: it will never be there.
        """
        lack = self.launcher.lack(list(cells))
        if lack and lack not in self._lacks:
            self._lacks.add(lack)
            self.emit(Remark(lack))

    def _cell(self, name: str) -> Cell:
        config = self.runs[name]
        gpus = config.processes * int(config.device.startswith("cuda"))
        threads = config.threads * config.processes
        memory = self._measured.memory(config)
        return Cell(name, threads, gpus=gpus, processes=config.processes, memory=memory)

    def _advance(self) -> None:
        """Wait a moment; settle what has ended, look at what runs."""
        self._ended.extend(self.launcher.poll())
        while self._ended:
            self._settle(self._ended[0])
            self._ended.popleft()
        if time.monotonic() - self._reported >= REPORT_S:
            self._report()
        time.sleep(POLL_S)

    def _settle(self, ended: Ended) -> None:
        name = ended.name
        before = self._given.pop(name)
        state = self.states[name] = read_state(self.path, name)
        self._measured.add_state(name, self.runs[name], state)
        if (record := self._read_finished(name)) is not None:
            self.emit(SweepRunFinished(name, record))
            return
        if name in self.failures:
            self.emit(SweepRunFailed(name, self.failures[name]))
            return
        if ended.held and is_alive(self.path / name):
            if name not in self._waits:
                self._waits.add(name)
                self.emit(Remark(f"waiting for another process, which holds the run {name}"))
            self._todo.append(name)
            return
        spoke = state.phase in ("failed", "stopped") and state != before
        if ended.lost or (spoke and state.phase == "stopped" and not ended.why):
            self._lost[name] = self._lost.get(name, 0) + 1
            if self._lost[name] <= LOST_LIMIT:
                self._todo.append(name)
                return
        silent = f"its process {ended.why or 'ended without a word'}"
        reason = state.reason if spoke and state.reason else silent
        self._fail(name, reason, permanent=spoke and state.permanent)

    def _fail(self, name: str, reason: str, *, permanent: bool) -> None:
        self._note_failure(name, reason, permanent=permanent)
        self._tries[name] = self._tries.get(name, 0) + 1
        if not permanent and self._tries[name] <= self.retries:
            self._todo.append(name)
            return
        self.failures[name] = reason
        self.emit(SweepRunFailed(name, reason))

    def _note_failure(self, name: str, reason: str, *, permanent: bool) -> None:
        there = self.states[name]
        self.states[name] = replace(there, phase="failed", reason=reason, permanent=permanent)
        self._unwritten.add(name)
        self._write_failures()

    def _write_failures(self) -> None:
        """Write the states of runs that failed, unless another process holds their folders.

        Of a process of another machine, it is known only after a while that it has ended.
        """
        for name in tuple(self._unwritten):
            if read_state(self.path, name).phase not in RUNNING:
                write_state(self.path, name, self.states[name])
                self._unwritten.remove(name)

    def _stop(self) -> None:
        """Let everything that runs end at its next checkpoint; a second interruption kills."""
        self._todo.clear()
        self.launcher.stop()
        while self._given:
            # First what was not settled before, which the launcher will not report again.
            self._ended.extend(self.launcher.poll())
            while self._ended:
                name = self._ended.popleft().name
                self._given.pop(name, None)
                self.states[name] = read_state(self.path, name)
            if time.monotonic() - self._reported >= REPORT_S:
                self._report()
            time.sleep(POLL_S)

    def _report(self, *, is_over: bool = False) -> None:
        self._reported = time.monotonic()
        for name in self._given:
            state = read_state(self.path, name, launched=not is_over)
            running = state.phase in RUNNING or state.phase == "finished"
            as_it_is = running or is_over  # then, nothing waits any more
            self.states[name] = state if as_it_is else replace(state, phase="waiting")
            if running:
                self._measured.add_state(name, self.runs[name], state)
        with contextlib.suppress(StorageError):  # what is written next tells of a full disk
            self._write_failures()
        left = time_left((*self._given, *self._todo), self.runs, self.states, self._measured)
        overview = SweepOverview(self.path, self.states, left.seconds, left.is_lower_bound, is_over)
        self.emit(SweepMoved(overview))
        if is_over or self._reported - self._drawn >= PAGE_S:
            self._drawn = self._reported
            # A page that is out of date harms nobody; states and records tell of a full disk.
            with contextlib.suppress(StorageError):
                write_page(self.path / PAGE, overview)
