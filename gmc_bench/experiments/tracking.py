"""Tracking of a run: passes its events on to a tracker, which can neither stop nor change it."""

import contextlib
import math
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from types import TracebackType
from typing import Self

from gmc_bench.core.config import to_dict
from gmc_bench.core.errors import GmcBenchError
from gmc_bench.experiments.events import (
    Event,
    IterationFinished,
    Listener,
    Listeners,
    RecordWritten,
    Remark,
    TrainingStarted,
)
from gmc_bench.experiments.resolve import run_name
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.experiments.session import Session
from gmc_bench.experiments.spec import flatten
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import record_digest, sealed, unsealed, write_atomic
from gmc_bench.trackers import Connection, TrackedRun, Tracker
from gmc_bench.trackers.choice import choose_tracker
from gmc_bench.training.log import read_scalars

STATE = "state.json"
PATIENCE_S = 60.0
"""Seconds that a finished run waits for its tracker."""
STOPPED_PATIENCE_S = 15.0
"""Seconds that a run waits that is being stopped; schedulers give it thirty."""
MAX_REASON = 300
"""Letters of a tracker's complaint that are shown: some add pages of SQL."""


@contextlib.contextmanager
def tracked(session: Session, folder: RunFolder, emit: Listener) -> Iterator[Listener]:
    """Provide a listener that passes events on, also to the run's tracker if it has one.

    Args:
        session: the run.
        folder: its folder, locked.
        emit: is told what happens, also of what becomes of the tracker.
    """
    track = session.config.track
    if track is None:
        yield emit
        return
    try:
        tracker, project = choose_tracker(track)
        state = read_tracking_state(folder.tracking / STATE, track)
        state.write(folder.tracking / STATE)  # before anybody hears of the id
        run = TrackedRun(
            name=run_name(session.config, session.method),
            project=project,
            settings=flatten(to_dict(session.config)),
            folder=folder.tracking,
            id=state.id,
        )
    except GmcBenchError as error:  # of a run that goes on, maybe on another machine
        emit(Remark(f"The run goes on without its tracker: {error}"))
        yield emit
        return
    with Tracking(tracker, run, state, folder.logs, emit) as tracking:
        yield Listeners(emit, tracking)


@dataclass(frozen=True)
class TrackingState:
    """What a run's folder keeps of its tracking, so that a resumed run goes on in the same one."""

    track: str
    """Tracker and project."""
    id: str
    """Id of the run at the tracker."""
    env_steps: int = 0
    """Control steps up to which numbers were sent."""

    def write(self, path: Path) -> None:
        """Write it as JSON.

        Raises:
            StorageError: it could not be written.
        """
        write_atomic(path, sealed(asdict(self)))


def read_tracking_state(path: Path, track: str) -> TrackingState:
    """Return how far a run is tracked; a new state if not at all, or elsewhere."""
    new = TrackingState(track, id=uuid.uuid4().hex[:12])
    try:
        state = TrackingState(**unsealed(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return new
    return state if state.track == track else new


class Tracking:
    """A listener that hands events to a tracker in a thread of its own.

    A tracker may be slow, fail or never answer; the run waits for it at the end only, and not for
    long. Numbers are noted as sent before they are, so that none is sent twice. What a stopped run
    did not come to send is sent when it goes on, from its TensorBoard events.

    Args:
        tracker: what to connect to.
        run: description of the run, which is sent first.
        state: how far the run is tracked.
        logs: folder of the run's TensorBoard events.
        emit: is told of the tracker's success or failure, in the thread of the run.
    """

    def __init__(
        self, tracker: Tracker, run: TrackedRun, state: TrackingState, logs: Path, emit: Listener
    ) -> None:
        self._tracker, self._run, self._state = tracker, run, state
        self._logs, self._emit = logs, emit
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._remarks: SimpleQueue[str] = SimpleQueue()
        self._thread = Thread(target=self._work, name=f"tracker-{tracker.id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._events.put(None)
        patience = PATIENCE_S if error is None else STOPPED_PATIENCE_S
        self._thread.join(patience)
        self._tell()
        if self._thread.is_alive():
            self._emit(
                Remark(
                    f"{self._tracker.title} has not taken everything after {patience:g} s; the run "
                    f"waits no longer."
                )
            )

    def __call__(self, event: Event) -> None:
        """Pass on what is tracked."""
        self._tell()
        if self._thread.is_alive():
            self._events.put(event)

    def _tell(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                self._emit(Remark(self._remarks.get_nowait()))

    def _work(self) -> None:
        """Connect, send and close; the thread is alive as long."""
        try:
            connection = self._tracker.connect(self._run)
            self._remarks.put(f"{self._tracker.title} tracks this run: {connection.place}")
            finished = False
            while (event := self._events.get()) is not None:
                self._send(connection, event)
                finished |= isinstance(event, RecordWritten)
            connection.close(finished=finished)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code, not worth a run
            reason = " ".join(str(error).split())[:MAX_REASON] or type(error).__name__
            self._remarks.put(
                f"{self._tracker.title} does not track this run any longer, which goes on without "
                f"it: {reason}"
            )

    def _send(self, connection: Connection, event: Event) -> None:
        match event:
            case TrainingStarted():
                sent = self._state.env_steps
                for env_steps, scalars in read_scalars(self._logs, sent, event.env_steps):
                    self._write(connection, scalars, env_steps)
            case IterationFinished() if event.env_steps > self._state.env_steps:
                self._write(connection, event.scalars, event.env_steps)
            case RecordWritten():
                record = event.record
                connection.finish(scores_of(record), facts_of(record), record.env_steps)

    def _write(
        self, connection: Connection, scalars: Mapping[str, float | None], env_steps: int
    ) -> None:
        self._state = replace(self._state, env_steps=env_steps)
        self._state.write(self._run.folder / STATE)
        connection.write(_finite(scalars), env_steps)


def scores_of(record: RunRecord) -> dict[str, float]:
    """Return what a tracker shows of a record in numbers, by tag; what is missing is left out."""
    scores = {
        f"score/{split}_{mode}": record.score(split, mode)
        for split in ("train", "test")
        for mode in ("deterministic", "stochastic")
    }
    scores["score/training_return"] = record.training_return
    scores["time/training_s"] = record.wall_clock_s.total
    return _finite(scores)


def facts_of(record: RunRecord) -> dict[str, str]:
    """Return what a tracker shows of a record in words: which one it is, and what it is worth."""
    return {
        "record_digest": record_digest(record),
        "config_digest": record.config_digest,
        "weights_digest": record.weights_digest or "",
        "official": "yes" if record.official else "; ".join(record.unofficial_reasons),
    }


def _finite(scalars: Mapping[str, float | None]) -> dict[str, float]:
    return {tag: v for tag, v in scalars.items() if v is not None and math.isfinite(v)}
