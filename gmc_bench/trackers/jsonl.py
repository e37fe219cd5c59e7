"""JSON lines: a file in the run's folder that needs no package, one object per line."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmc_bench.trackers.tracker import Connection, TrackedRun, Tracker

NAME = "track.jsonl"


class JsonLines(Connection):
    """Lines at the end of a file; `event` says what each of them is.

    Args:
        run: what is tracked.
    """

    def __init__(self, run: TrackedRun) -> None:
        path = run.folder / NAME
        self.place = str(path)
        _end_last_line(path)
        self._file = path.open("a", encoding="utf-8")
        self._write({"event": "started", "name": run.name, "settings": dict(run.settings)})

    def write(self, scalars: Mapping[str, float], env_steps: int) -> None:
        """Write one line of numbers."""
        self._write({"event": "iteration", "env_steps": env_steps, **scalars})

    def finish(self, scores: Mapping[str, float], facts: Mapping[str, str], env_steps: int) -> None:
        """Write one line of scores."""
        self._write({"event": "finished", "env_steps": env_steps, **scores, **facts})

    def close(self, *, finished: bool) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, content: dict[str, Any]) -> None:
        self._file.write(json.dumps(content, allow_nan=False) + "\n")
        self._file.flush()


def _end_last_line(path: Path) -> None:
    """Take away half a line that a killed process left behind."""
    if not path.exists():
        return
    with path.open("r+b") as file:
        kept = file.read().rpartition(b"\n")
        file.truncate(len(kept[0]) + len(kept[1]))


TRACKER = Tracker(
    id="jsonl",
    title="JSON lines",
    connect=JsonLines,
    has_projects=False,
)
