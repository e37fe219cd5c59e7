"""Scaling study: measures what is not measured yet, then writes tables and pictures."""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError, RecordError
from gmc_bench.core.table import aligned
from gmc_bench.experiments.events import FolderOpened, Listener, Progress
from gmc_bench.experiments.grid import listed
from gmc_bench.experiments.method import full_name, load_method
from gmc_bench.experiments.resolve import checkout
from gmc_bench.experiments.run_folder import LockedFolder
from gmc_bench.methods import METHODS, MethodSpec
from gmc_bench.profiling import scaling
from gmc_bench.profiling.process import Limits, MeasuredOrNot, NotMeasured, measure_in_process
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.kept import SCALING_SETTINGS, STUDY_FILE
from gmc_bench.records.store import read_sealed, sealed, write_atomic
from gmc_bench.studies.scaling import AXES, NAME, QUANTITIES, Measurements, ScalingCell
from gmc_bench.studies.scaling_figure import draw_scaling
from gmc_bench.studies.scaling_table import csv_page, exponent_table, markdown_page

TABLE, CELLS, RESULT, MEASURED = "table.md", "table.csv", STUDY_FILE, "cells"
PARTS = ("memory", "bodies", "time")
_FIXED = ("preset", "seconds", "max_gib", "max_seconds")
"""What all cells of a folder have in common."""


@dataclass(frozen=True, kw_only=True)
class ScalingRequest:
    """What is measured."""

    methods: Sequence[str]
    """Registered ids, or where to find them."""
    preset: str = "lite"
    tokens: Sequence[int] = (8, 16, 32, 64, 128, 256, 512, 1024)
    bodies: Sequence[int] = (1, 10, 100, 300, 1000, 3000, 10000)
    parts: Sequence[str] = PARTS
    """Among `PARTS`, in this order."""
    seconds: float = 0.5
    """s, spent on the repeats of each timing."""
    max_gib: float = 4.0
    """Limit of process memory, GiB, beyond which a measurement is abandoned."""
    max_seconds: float = 120.0
    """Limit of time, s, beyond which a measurement is abandoned."""

    @classmethod
    def make(cls, methods: Sequence[str] = (), parts: Sequence[str] = PARTS, **rest: Any) -> Self:
        """Return a request: methods by full name (none: all registered), parts in their order.

        Args:
            methods: registered ids, or where to find them.
            parts: among `PARTS`.
            **rest: other fields; `tokens` and `bodies` are numbers, or text `LOW..HIGH` for both
                ends and the powers of two, or 1, 3, 10, 30, ..., between them.

        Raises:
            ConfigError: there is no such part, a size is no number or of no part that is asked
                for, or two methods have one id.
            GmcBenchError: a method is not registered, or cannot be loaded.
        """
        methods, parts = listed(methods), listed(parts)
        for part in parts:
            if part not in PARTS:
                raise ConfigError(f"--part must be among {', '.join(PARTS)}, got {part!r}")
        for name, steps in (("tokens", _powers_of_two), ("bodies", _steps_of_three)):
            if name in rest:
                if not any((part == "bodies") == (name == "bodies") for part in parts):
                    raise ConfigError(
                        f"--{name} has no effect on --part {' '.join(parts)}; leave it out"
                    )
                rest[name] = sorted(
                    {size for text in listed(rest[name]) for size in _sizes(text, steps, name)}
                )
        # A reference with a budget of its own has the network of another method.
        every = [
            name
            for name, spec in METHODS.items()
            if isinstance(spec, MethodSpec) and spec.env_steps_per_body is None
        ]
        names = list(dict.fromkeys(map(full_name, methods))) or every
        counts = Counter(load_method(name).id for name in names)
        if repeated := [method for method, count in counts.items() if count > 1]:
            raise ConfigError(
                f"several methods have the id {repeated[0]!r}, by which cells are named; measure "
                f"one of them, or give the other another id"
            )
        return cls(methods=names, parts=[part for part in PARTS if part in parts], **rest)


def _powers_of_two(high: int) -> Iterable[int]:
    return (2**power for power in range(high.bit_length()))


def _steps_of_three(high: int) -> Iterable[int]:
    return (digit * 10**power for power in range(len(str(high))) for digit in (1, 3))


def _sizes(size: int | str, steps: Callable[[int], Iterable[int]], name: str) -> set[int]:
    """Return a number, or of `LOW..HIGH` both ends and the steps between.

    Raises:
        ConfigError: it is neither, or not positive.
    """
    ends = re.fullmatch(r"([0-9]{1,9})(?:\.\.([0-9]{1,9}))?", str(size))
    if ends is None:
        raise ConfigError(f"--{name} must be numbers like 64 or 8..1024, got {shown(size)}")
    low, high = int(ends[1]), int(ends[2] or ends[1])
    if not 1 <= low <= high:
        raise ConfigError(f"--{name} must be at least 1, the smaller number first, got {size!r}")
    return {low, high} | {step for step in steps(high) if low < step < high}


class ScalingFolder(LockedFolder):
    """The folder of the study, locked while open."""

    marker = SCALING_SETTINGS
    verb = "study"


@dataclass(frozen=True)
class Place:
    """Where a measurement belongs, and what is measured."""

    item: scaling.Item
    method: str = ""
    """Id; empty for what has nothing to do with a method."""
    version: int = 0
    """Of the method: another one is measured again."""

    @property
    def file(self) -> str:
        """Name of the file of its cell."""
        return f"{self.item.kind}_{self.method or 'all'}_{self.item.size}.json"


def plan(request: ScalingRequest) -> list[list[Place]]:
    """Return everything that is asked for, in order; each list may be measured in one process.

    Raises:
        GmcBenchError: a method cannot be loaded.
    """
    methods = {name: load_method(name) for name in request.methods}

    def places(kinds: Sequence[str], sizes: Sequence[int], name: str = "") -> list[Place]:
        own = (methods[name].id, methods[name].version) if name else ()
        rules = {"method": name, "preset": request.preset, "seconds": request.seconds}
        return [
            Place(scaling.Item(kind=kind, size=size, **rules), *own)  # type: ignore[arg-type]
            for size in sizes
            for kind in kinds
        ]

    found = []
    for part in request.parts:
        if part != "bodies":
            kinds = (f"act-{part}", f"train-{part}")
            found += [places(kinds, request.tokens, name) for name in methods]
            continue
        wanted = [("simulation", ""), ("table", ""), *(("policy", name) for name in methods)]
        wanted += [("compiler", next(iter(methods)))]
        found += [places((kind,), request.bodies, name) for kind, name in wanted]
    return found


def describe_request(request: ScalingRequest) -> str:
    """Return what is asked for as a table: a row for each method and measurement.

    Raises:
        GmcBenchError: a method cannot be loaded.
    """
    sizes: dict[tuple[str, str], list[str]] = {}
    for place in (place for batch in plan(request) for place in batch):
        sizes.setdefault((place.method or "-", place.item.kind), []).append(str(place.item.size))
    rows = [(*names, " ".join(found)) for names, found in sizes.items()]
    return aligned(("method", "measurement", "sizes"), rows)


def read_scaling_request(path: Path) -> ScalingRequest:
    """Return what the study of a folder was asked for.

    Raises:
        RecordError: its settings are damaged.
    """
    return ScalingRequest(**read_sealed(path / SCALING_SETTINGS)[0]["request"])


def run(request: ScalingRequest, path: Path, listener: Listener = lambda _: None) -> Measurements:
    """Measure what a folder lacks, and write its tables and pictures.

    Args:
        request: what is asked for.
        path: a new folder, or one of an earlier study under the same conditions.
        listener: called with each event.

    Raises:
        ConfigError: the folder was measured under other conditions.
        RunFolderError: it is in use, or holds something else.
        GmcBenchError: a method cannot be loaded, or a file cannot be written or is damaged.
    """
    batches = plan(request)
    git = checkout()
    settings = {
        "schema_version": 1, "study": NAME, "request": asdict(request), "setting": _setting(),
        "git_commit": git.commit, "git_dirty": git.dirty,
    }  # fmt: skip
    limits = Limits(request.max_gib * 2**30, request.max_seconds)
    with ScalingFolder(path, create=not (path / SCALING_SETTINGS).is_file()) as folder:
        work = Work(folder.path, limits, listener)
        if (path / SCALING_SETTINGS).is_file():
            old, _ = read_sealed(path / SCALING_SETTINGS)
            _require_same(old, settings, path)
            # No single commit made these numbers if there was another one before.
            if old.get("git_dirty") is not False or old["git_commit"] != git.commit:
                settings["git_dirty"] = True
        lacks = work.lacks(batches)
        if lacks:
            write_atomic(path / SCALING_SETTINGS, sealed(settings))
        listener(FolderOpened(path))
        found = Measurements(work.finish(batches))
        versions = {place.method: place.version for batch in batches for place in batch}
        result = _result(settings, found, versions)
        # Whoever looks at a finished study again has not made its numbers.
        if lacks or not _is_there(result, path):
            write_atomic(path / SCALING_SETTINGS, sealed(settings))
            write_atomic(path / RESULT, sealed(result))
        _show(settings, found, path)
    return found


def _is_there(result: dict[str, Any], path: Path) -> bool:
    """Return whether a folder has a result, sound and the same but for its commit."""
    try:
        found, _ = read_sealed(path / RESULT)
    except RecordError:  # there is none, or it is damaged
        return False
    plain = json.loads(json.dumps(result))
    commit = {name: found[name] for name in ("git_commit", "git_dirty") if name in found}
    return bool(found == plain | commit and len(commit) == 2)


def _setting() -> dict[str, Any]:
    return {
        "versions": collect_versions(),
        "hardware": collect_hardware(scaling.THREADS).model_dump(mode="json"),
        "act_batch": scaling.ACT_BATCH,
        "train_batch": scaling.TRAIN_BATCH,
        "tokens_of_bodies": scaling.TOKENS,
        "environments": scaling.NUM_ENVS,
    }


def _require_same(old: dict[str, Any], new: dict[str, Any], path: Path) -> None:
    """Raise unless cells measured now can stand beside those of a folder."""
    pairs = [(f"--{name.replace('_', '-')}", "request", name) for name in _FIXED]
    pairs += [(name, "setting", name) for name in new["setting"]]
    for what, part, name in pairs:
        before, now = old[part].get(name), new[part][name]
        if before != now:
            raise ConfigError(
                f"{path} was measured with another {what} ({before}, now {now}); choose another "
                f"--out, because one table shows one machine and one setting"
            )


class Work:
    """Measures cells and keeps each in a file as soon as it is there.

    Args:
        path: folder of the study.
        limits: of every measurement.
        listener: called with an event for every cell.
    """

    def __init__(self, path: Path, limits: Limits, listener: Listener) -> None:
        self.path = path / MEASURED
        self.limits = limits
        self._listener = listener
        self._refused: dict[tuple[str, str], ScalingCell] = {}
        """The smallest cell without numbers, by kind and method."""

    def lacks(self, batches: Sequence[Sequence[Place]]) -> bool:
        """Return whether something is left to measure."""
        places = [place for batch in batches for place in batch]
        there = {place for place in places if self._read(place) is not None}
        return any(place not in there and self._beyond(place) is None for place in places)

    def finish(self, batches: Sequence[Sequence[Place]]) -> list[ScalingCell]:
        """Return the cells of all batches, measuring those that are not there."""
        places = [place for batch in batches for place in batch]
        for place in places:
            self._read(place)  # what was refused earlier is known from the start
        cells: list[ScalingCell] = []
        for batch in batches:
            for cell in self._finish(batch):
                cells.append(cell)
                self._listener(Progress(NAME, len(cells), len(places), "cell"))
        return cells

    def _finish(self, pending: Sequence[Place]) -> Iterator[ScalingCell]:
        while pending:
            left = []
            for place in pending:
                cell = self._read(place) or self._beyond(place)
                if cell is None:
                    left.append(place)
                else:
                    yield cell
            if not left:
                return
            items = [place.item for place in left]
            outcomes = measure_in_process(scaling.measure, items, self.limits)
            with contextlib.closing(outcomes):
                for outcome in outcomes:
                    yield self._write(left.pop(0), outcome)
            pending = left  # the process has ended at what could not be measured

    def _beyond(self, place: Place) -> ScalingCell | None:
        """Return a cell without numbers where a smaller one of its kind has none already."""
        kind, size = place.item.kind, place.item.size
        smaller = self._refused.get((kind, place.method))
        if smaller is None or smaller.size >= size:
            return None
        return ScalingCell(kind, place.method, size, reason=f"{smaller.reason} at {smaller.size:,}")

    def _read(self, place: Place) -> ScalingCell | None:
        path = self.path / place.file
        if not path.is_file():
            return None
        content, _ = read_sealed(path)
        if content["version"] != place.version:
            return None
        return self._note(ScalingCell.from_dict(content))

    def _write(self, place: Place, outcome: MeasuredOrNot) -> ScalingCell:
        item = place.item
        if isinstance(outcome, NotMeasured):
            cell = ScalingCell(item.kind, place.method, item.size, reason=outcome.reason)
            if not outcome.lasting:  # tried again when the study is continued
                return self._note(cell)
        else:
            cell = ScalingCell(item.kind, place.method, item.size, outcome)
        content = {**cell.to_dict(), "version": place.version}
        write_atomic(self.path / place.file, sealed(content))
        return self._note(cell)

    def _note(self, cell: ScalingCell) -> ScalingCell:
        """Remember a cell without numbers if it is the smallest of its kind."""
        key = (cell.kind, cell.method)
        if cell.reason and (key not in self._refused or cell.size < self._refused[key].size):
            self._refused[key] = cell
        return cell


def _result(
    settings: dict[str, Any], found: Measurements, versions: Mapping[str, int]
) -> dict[str, Any]:
    """Return cells and exponents; `versions` has those of the methods."""
    return {
        **settings,
        "cells": [cell.to_dict() for cell in found.cells],
        "exponents": [
            {
                "kind": q.kind,
                "key": q.key,
                "method": method,
                "method_version": versions[method] or None,
                **asdict(exponent),
            }
            for q in QUANTITIES
            for method in found.methods(q)
            if (exponent := found.exponent(q, method)) is not None
        ],
    }


def _show(settings: dict[str, Any], found: Measurements, path: Path) -> None:
    """Write tables and pictures."""
    write_atomic(path / TABLE, markdown_page(found, _notes(settings)).encode())
    write_atomic(path / CELLS, csv_page(found).encode())
    for axis in AXES:
        picture = draw_scaling(found, axis)
        if picture is not None:
            write_atomic(path / f"{axis}.png", picture)
            exponents = exponent_table(found, axis).to_csv()
            write_atomic(path / f"exponents_{axis}.csv", exponents.encode())


def _notes(settings: dict[str, Any]) -> tuple[str, ...]:
    request, setting = settings["request"], settings["setting"]
    installed = ", ".join(f"{name} {v}" for name, v in sorted(setting["versions"].items()))
    return (
        f"Presets `{request['preset']}`, one thread of {setting['hardware']['cpu']}; {installed}. "
        f"Times are medians of at least {scaling.MIN_REPEATS} repeats. A measurement that takes "
        f"more than {request['max_gib']:g} GiB of process memory or {request['max_seconds']:g} s "
        f"has no number.",
        f"Over tokens: random trees with exactly so many limbs. Acting: the actor for "
        f"{setting['act_batch']} bodies. Gradient step: actor and critic, forward and backward, "
        f"and the optimiser, {setting['train_batch']} transitions. Memory is the peak of live "
        f"tensors, without weights.",
        f"Over bodies: chains, stars and bipeds in {setting['environments']} environments for the "
        f"simulation; random trees of {setting['tokens_of_bodies']} limbs for tables and policies.",
    )
