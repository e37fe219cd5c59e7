"""TensorBoard events of a run, written by the training thread itself.

torch's `SummaryWriter` writes in a thread of its own, where a full disk ends in a traceback that
nobody can catch; here it is an error like any other.
"""

import contextlib
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from tensorboard.backend.event_processing.event_file_loader import (  # type: ignore[import-untyped]
    LegacyEventFileLoader,
)
from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # type: ignore[import-untyped]
from tensorboard.compat.proto.summary_pb2 import Summary  # type: ignore[import-untyped]
from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped]

from gmc_bench.core.errors import StorageError

_PREFIX = "events.out.tfevents."
_APART_S = 1e-3
"""Seconds between the names of two event files of a clock that went back."""


class EventLog:
    """An open event file.

    Args:
        folder: where it goes; made if missing.
        first_step: env steps already done. TensorBoard drops what other files of the folder hold
            beyond it: such steps were logged before a stop and are run again.

    Raises:
        StorageError: the file cannot be created.
    """

    def __init__(self, folder: Path, first_step: int) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{_PREFIX}{_time_of_next(folder):.6f}.{socket.gethostname()}.{os.getpid()}"
            self._file = (folder / name).open("xb")
        except OSError as error:
            raise self._failed(error) from error
        self._records = RecordWriter(self._file)
        self._add(step=first_step, file_version="brain.Event:2")
        # TensorBoard drops what is at or beyond the step of this event.
        self._add(step=first_step + 1, session_log=SessionLog(status=SessionLog.START))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, scalars: Mapping[str, float | None], step: int) -> None:
        """Write numbers by tag.

        Args:
            scalars: tag to value; `None` is left out.
            step: env steps.

        Raises:
            StorageError: the disk is full or cannot be written.
        """
        values = [
            Summary.Value(tag=tag, simple_value=value)
            for tag, value in scalars.items()
            if value is not None
        ]
        self._add(step=step, summary=Summary(value=values))

    def _add(self, **content: Any) -> None:
        event = Event(wall_time=time.time(), **content)
        try:
            self._records.write(event.SerializeToString())
            self._records.flush()
        except OSError as error:
            with contextlib.suppress(OSError):  # closing tries to write the rest once more
                self._file.close()
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(
            f"cannot write training curves to {self._folder}: {error.strerror}; free some space, "
            f"then continue with --resume (checkpoints are intact)"
        )


def _time_of_next(folder: Path) -> float:
    """Return the time in the name of the next event file, by which readers order files.

    That is now, unless the clock went back since the latest one was begun.
    """
    times = [time.time()]
    for path in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(ValueError):  # somebody else's
            times.append(float(".".join(path.name.removeprefix(_PREFIX).split(".")[:2])) + _APART_S)
    return max(times)


def read_scalars(
    folder: Path, after: int, up_to: int
) -> Iterator[tuple[int, dict[str, float | None]]]:
    """Yield the numbers of training that event files hold, in order of their steps.

    A step that was run again, after a stop, was logged again and counts once.

    Args:
        folder: of the event files.
        after: env steps up to which, inclusive, numbers are left out.
        up_to: env steps up to which, inclusive, they are wanted.

    Yields:
        Env steps, and number by tag, rounded to float32.
    """
    if after >= up_to:
        return
    found: dict[int, dict[str, float | None]] = {}
    for path in sorted(folder.glob(f"{_PREFIX}*")):  # by the time in their names
        for event in LegacyEventFileLoader(str(path)).Load():
            if after < event.step <= up_to and event.summary.value:
                found[event.step] = {item.tag: item.simple_value for item in event.summary.value}
    yield from sorted(found.items())
