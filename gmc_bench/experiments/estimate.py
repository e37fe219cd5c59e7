"""Estimate of what a sweep takes, from nothing but runs that were measured."""

import json
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from gmc_bench.core.table import aligned
from gmc_bench.experiments.cell_state import STATES, CellState
from gmc_bench.experiments.eta import duration, planned
from gmc_bench.experiments.method import method_of
from gmc_bench.suites.schema import short_name
from gmc_bench.training.run_config import RunConfig

_Key: TypeAlias = tuple[str, ...]
_GIB = 2**30


@dataclass
class Measured:
    """Speed and memory of runs, by what they have in common with others.

    A run is taken to be as fast as the median of those of its method on its task; where there are
    none, as those of its method, else as all. Speeds are per thread.
    """

    _speeds: dict[_Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    _memory: dict[_Key, int] = field(default_factory=dict)
    _scoring: dict[_Key, list[float]] = field(default_factory=lambda: defaultdict(list))
    _medians: dict[_Key, tuple[float | None, float]] = field(default_factory=dict)
    """Seconds per control step and thread, and of scoring; forgotten when more is known."""

    def add_records(self, folder: Path) -> None:
        """Take note of the records below a folder; what cannot be read is passed over."""
        for path in folder.rglob("*.json"):
            if path.parent.name == STATES:
                continue
            try:
                content = json.loads(path.read_bytes())
                threads = int(content["hardware"]["threads"])
                speed = float(content["env_steps_per_s"]) / threads
                names = str(content["method"]), str(content["suite"]), str(content["task"])
            except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
                continue
            if speed > 0:
                self._add_speed(names, speed)

    def add_states(self, runs: Mapping[str, RunConfig], states: Mapping[str, CellState]) -> None:
        """Take note of what runs of a sweep tell."""
        for name, state in states.items():
            if state.phase != "to do":
                self.add_state(runs[name], state)

    def add_state(self, config: RunConfig, state: CellState) -> None:
        """Take note of what one run of a sweep tells."""
        names = method_of(config).id, config.suite, config.task
        self._medians.clear()
        if state.env_steps_per_s:
            self._add_speed(names, state.env_steps_per_s / config.threads)
        for key in _keys(names):
            if state.memory:
                self._memory[key] = max(state.memory, self._memory.get(key, 0))
            if state.scoring_s is not None:
                self._scoring[key].append(state.scoring_s)

    def _add_speed(self, names: _Key, speed: float) -> None:
        self._medians.clear()
        for key in _keys(names):
            self._speeds[key].append(speed)

    def seconds(self, config: RunConfig) -> float | None:
        """Return what a run takes from its start to its record, `None` if nothing is known."""
        steps = planned(config)
        names = method_of(config).id, config.suite, config.task
        if names not in self._medians:
            self._medians[names] = self._median(names)
        per_step, scoring = self._medians[names]
        if steps and per_step is None:
            return None
        return (steps * per_step / config.threads if per_step else 0.0) + scoring

    def _median(self, names: _Key) -> tuple[float | None, float]:
        keys = _keys(names)
        speeds = next((self._speeds[key] for key in keys if key in self._speeds), None)
        scoring = next((self._scoring[key] for key in keys if key in self._scoring), [0.0])
        return 1 / statistics.median(speeds) if speeds else None, statistics.median(scoring)

    def memory(self, config: RunConfig) -> int | None:
        """Return the bytes that a run takes at most, `None` if nothing is known."""
        keys = _keys((method_of(config).id, config.suite, config.task))
        return next((self._memory[key] for key in keys if key in self._memory), None)


def _keys(names: _Key) -> list[_Key]:
    """Return what runs may have in common, the closest first."""
    method, suite, task = names
    return [(method, suite, task), (method, task), (method,), ()]


def describe_plan(
    runs: Mapping[str, RunConfig],
    states: Mapping[str, CellState],
    measured: Measured,
    jobs: int | None = None,
) -> str:
    """Return a sweep before it runs as text: its runs by method and task, hours and memory.

    Args:
        runs: settings by name.
        states: of each run.
        measured: what is known of runs like these.
        jobs: runs at a time, if that is known.
    """
    groups: dict[_Key, list[str]] = defaultdict(list)
    for name, config in runs.items():
        method = method_of(config).id
        where = config.suite, short_name(config.task), config.protocol.name, config.morphologies
        groups[(method, *where)].append(name)
    rows, hours, unknown, biggest = [], 0.0, 0, 0
    for key, names in groups.items():
        left = [name for name in names if states[name].phase != "finished"]
        # Runs of one group differ in settings and seeds; what was done of them counts.
        times = [_left(runs[name], states[name], measured) for name in left]
        known = [time for time in times if time is not None]
        unknown += len(times) - len(known)
        hours += sum(known) / 3600
        memory = measured.memory(runs[names[0]])
        biggest = max(biggest, memory or 0)
        rows.append(
            [
                *key,
                f"{len(names):,}",
                f"{len(names) - len(left):,}",
                f"{sum(planned(runs[name]) for name in left):,}",
                duration(sum(known)) if len(known) == len(times) else "unknown",
                f"{memory / _GIB:.1f} GiB" if memory else "unknown",
            ]
        )
    headings = (
        "method", "suite", "task", "protocol", "bodies", "runs", "done", "env steps left",
        "time, one by one", "memory each",
    )  # fmt: skip
    lines = [aligned(headings, rows), ""]
    lines.append(_conclusion(len(runs), hours, unknown, jobs))
    if biggest and jobs:
        lines.append(f"memory: at most {jobs * biggest / _GIB:.1f} GiB for {jobs} runs at a time")
    lines += _unofficial(runs.values())
    return "\n".join(lines)


def _conclusion(runs: int, hours: float, unknown: int, jobs: int | None) -> str:
    if unknown:
        return (
            f"{runs:,} runs; the time of {unknown:,} is unknown: no record of such a run was "
            f"found, and the first one that is run will tell"
        )
    together = f", {duration(hours * 3600 / jobs)} with {jobs} at a time" if jobs else ""
    return f"{runs:,} runs; about {duration(hours * 3600)} one by one{together}"


def _left(config: RunConfig, state: CellState, measured: Measured) -> float | None:
    seconds = measured.seconds(config)
    steps = planned(config)
    if seconds is None or not steps or not state.env_steps:
        return seconds
    return seconds * max(0.0, 1 - state.env_steps / steps)


def _unofficial(configs: Iterable[RunConfig]) -> list[str]:
    found: dict[str, int] = defaultdict(int)
    total = 0
    for config in configs:
        total += 1
        for reason in config.unofficial_reasons:
            found[reason] += 1
    return [
        f"unofficial: {reason}" + ("" if count == total else f" ({count:,} runs)")
        for reason, count in found.items()
    ]


def measured_here(folders: Iterable[Any]) -> Measured:
    """Return what the records below folders tell; those that do not exist are passed over."""
    measured = Measured()
    for folder in map(Path, folders):
        if folder.is_dir():
            measured.add_records(folder)
    return measured
