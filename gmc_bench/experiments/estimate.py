"""Estimate of what a sweep takes, from nothing but runs that were measured."""

import json
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from gmc_bench.core.table import aligned
from gmc_bench.experiments.cell_state import RUNNING, STATES, CellState
from gmc_bench.experiments.eta import about, duration, planned
from gmc_bench.experiments.method import method_of
from gmc_bench.experiments.overview import describe_unofficial, named
from gmc_bench.suites.schema import short_name
from gmc_bench.training.run_config import RunConfig

_Key: TypeAlias = tuple[str, ...]
_NAMES = ("method", "preset", "protocol", "suite", "task")
"""Fields of a record that tell which runs are like it."""
_GIB = 2**30


@dataclass
class Measured:
    """Speed and memory of runs, by what they have in common with others.

    A run is taken to be as fast as the median of those of its method, preset and protocol on its
    task; where there are none, as those under other protocols, else on other suites and tasks.
    Speeds are per core: of each thread of each process.
    """

    _speeds: dict[_Key, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """By what they have in common, then by run."""
    _memory: dict[_Key, int] = field(default_factory=dict)
    _scoring: dict[_Key, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    _medians: dict[_Key, tuple[float | None, float | None]] = field(default_factory=dict)
    """Core seconds per control step, and seconds of scoring; forgotten when more is known."""

    def add_records(self, folder: Path) -> None:
        """Take note of the records below a folder; what cannot be read is passed over."""
        for path in folder.rglob("*.json"):
            if path.parent.name == STATES:
                continue
            try:
                content = json.loads(path.read_bytes())
                hardware = content["hardware"]
                cores = int(hardware["threads"]) * int(hardware.get("processes") or 1)
                speed = float(content["env_steps_per_s"]) / cores
                names = tuple(str(content[name]) for name in _NAMES)
            except (OSError, ValueError, LookupError, TypeError, ArithmeticError, RecursionError):
                continue
            if speed > 0:
                self._add_speed(str(path), names, speed)

    def add_states(self, runs: Mapping[str, RunConfig], states: Mapping[str, CellState]) -> None:
        """Add the speeds and memory that the states of a sweep's runs report."""
        for name, state in states.items():
            if state.phase != "to do":
                self.add_state(name, runs[name], state)

    def add_state(self, name: str, config: RunConfig, state: CellState) -> None:
        """Add what the state of one run reports now, in place of what it reported before."""
        names = _names(config)
        self._medians.clear()
        if state.env_steps_per_s:
            self._add_speed(name, names, state.env_steps_per_s / _cores(config))
        if state.scoring_s is not None:
            for key in _scoring_keys(names):
                self._scoring[key][name] = state.scoring_s
        if state.memory and state.phase not in RUNNING:  # of those, it may still grow
            for key in _keys(names):
                self._memory[key] = max(state.memory, self._memory.get(key, 0))

    def _add_speed(self, run: str, names: _Key, speed: float) -> None:
        self._medians.clear()
        for key in _keys(names):
            self._speeds[key][run] = speed

    def seconds(self, config: RunConfig) -> float | None:
        """Return the seconds from a run's start to its record, `None` if nothing is known.

        Where scoring was never measured, it is without that.
        """
        training = self.training(config)
        return None if training is None else training + (self.scoring(config) or 0.0)

    def training(self, config: RunConfig) -> float | None:
        """Return what training takes, seconds, `None` if nothing is known."""
        steps, (per_step, _) = planned(config), self._known(config)
        if not steps:
            return 0.0
        return None if per_step is None else steps * per_step / _cores(config)

    def scoring(self, config: RunConfig) -> float | None:
        """Return what scoring takes, seconds, `None` if that was never measured."""
        return self._known(config)[1]

    def _known(self, config: RunConfig) -> tuple[float | None, float | None]:
        names = _names(config)
        if names not in self._medians:
            speed = _median(self._speeds, _keys(names))
            per_step = None if speed is None else 1 / speed
            self._medians[names] = per_step, _median(self._scoring, _scoring_keys(names))
        return self._medians[names]

    def memory(self, config: RunConfig) -> int | None:
        """Return the bytes that a run takes at most, `None` if nothing is known."""
        keys = _keys(_names(config))
        return next((self._memory[key] for key in keys if key in self._memory), None)


def _names(config: RunConfig) -> _Key:
    """Return what records have under `_NAMES`."""
    protocol = config.protocol
    return method_of(config).id, protocol.preset, protocol.name, config.suite, config.task


def _keys(names: _Key) -> list[_Key]:
    """Return what runs may have in common, the closest first."""
    method, preset, _, suite, task = names
    return [names, (method, preset, suite, task), (method, preset, task), (method, preset)]


def _scoring_keys(names: _Key) -> list[_Key]:
    """Return what runs that take equally long to score may have in common, likewise."""
    return [names, names[:3]]  # the protocol says how many episodes there are


def _cores(config: RunConfig) -> int:
    return config.threads * config.processes


def _median(found: Mapping[_Key, Mapping[str, float]], keys: list[_Key]) -> float | None:
    values = next((found[key].values() for key in keys if key in found), None)
    return statistics.median(values) if values else None


class TimeLeft(NamedTuple):
    """How long a sweep takes from now on."""

    seconds: float | None
    """None if nothing is known."""
    is_lower_bound: bool = False
    """Scoring time is unknown and not included."""


def time_left(
    names: Collection[str],
    runs: Mapping[str, RunConfig],
    states: Mapping[str, CellState],
    measured: Measured,
) -> TimeLeft:
    """Return how long runs take, with as many at a time as run now.

    Args:
        names: of those that are not done; what a cluster's queue holds does not run.
        runs: settings by name.
        states: of each run.
        measured: what is known of runs like these.
    """
    left = [_left(runs[name], states[name], measured) for name in names]
    known = [seconds for seconds in left if seconds is not None]
    if len(known) < len(left):
        return TimeLeft(None)
    together = sum(states[name].phase in RUNNING for name in names)
    seconds = max([sum(known) / max(1, together), *known], default=0.0)
    return TimeLeft(seconds, any(measured.scoring(runs[name]) is None for name in names))


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
    rows = []
    times: dict[str, float | None] = {}
    memories: list[int | None] = []
    for key, names in groups.items():
        left = [name for name in names if states[name].phase != "finished"]
        # Runs of one group differ in settings and seeds; what was done of them counts.
        own = {name: _left(runs[name], states[name], measured) for name in left}
        known = [seconds for seconds in own.values() if seconds is not None]
        times |= own
        needs = {name: measured.memory(runs[name]) for name in names}  # their presets may differ
        memory = max(need or 0 for need in needs.values()) if all(needs.values()) else None
        memories += [needs[name] for name in left]
        rows.append(
            [
                *key,
                f"{len(names):,}",
                f"{len(names) - len(left):,}",
                f"{sum(_steps_left(runs[name], states[name]) for name in left):,}",
                duration(sum(known)) if len(known) == len(own) else "unknown",
                f"{memory / _GIB:.1f} GiB" if memory else "unknown",
            ]
        )
    headings = (
        "method", "suite", "task", "protocol", "bodies", "runs", "done", "env steps left",
        "time, one by one", "memory each",
    )  # fmt: skip
    is_lower_bound = any(measured.scoring(runs[name]) is None for name in times)
    lines = [aligned(headings, rows), ""]
    lines.append(_conclusion(len(runs), list(times.values()), jobs, is_lower_bound=is_lower_bound))
    largest = sorted((memory for memory in memories if memory), reverse=True)
    if jobs and largest and len(largest) == len(memories):
        together = min(jobs, len(largest))
        most = sum(largest[:together]) / _GIB
        lines.append(f"memory: at most {most:.1f} GiB for {together} runs at a time")
    finished = [name for name in runs if states[name].phase == "finished"]
    lines += [f"finished: {named(finished)}"] if finished else []
    lines += describe_unofficial(runs)
    return "\n".join(lines)


def _conclusion(
    runs: int, times: Sequence[float | None], jobs: int | None, *, is_lower_bound: bool
) -> str:
    known = [seconds for seconds in times if seconds is not None]
    if unknown := len(times) - len(known):
        return (
            f"{runs:,} runs; the time of {unknown:,} is unknown: no record of such a run was "
            f"found, and the first one that is run will tell"
        )
    text = f"{runs:,} runs; {about(sum(known), is_lower_bound=is_lower_bound)} one by one"
    if not jobs or not known:
        return text
    together = min(jobs, len(known))
    return f"{text}, {duration(max(sum(known) / together, *known))} with {together} at a time"


def _steps_left(config: RunConfig, state: CellState) -> int:
    return max(0, planned(config) - state.env_steps)


def _left(config: RunConfig, state: CellState, measured: Measured) -> float | None:
    """Return the seconds until a run has its record, `None` if nothing is known."""
    training = state.time_left()  # at its own speed
    if training is None:
        whole, steps = measured.training(config), planned(config)
        if whole is None:
            return None
        training = whole * _steps_left(config, state) / steps if steps else 0.0
    return training + (measured.scoring(config) or 0.0)


def measured_here(folders: Iterable[Path]) -> Measured:
    """Return what the records below folders tell; those that do not exist are passed over."""
    measured = Measured()
    for folder in folders:
        if folder.is_dir():
            measured.add_records(folder)
    return measured
