"""The scaling study at work: measures what is not measured yet, then writes tables and pictures."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gmc_bench.cli.output import note, say, table
from gmc_bench.cli.study_scaling import NAME, QUESTION, SETTINGS
from gmc_bench.core.errors import ConfigError
from gmc_bench.experiments.method import load_method
from gmc_bench.methods import MethodSpec
from gmc_bench.profiling import scaling, scaling_bodies
from gmc_bench.profiling.scaling_process import Limits, NotMeasured, Outcome, measure_apart
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.store import read_sealed, sealed, write_atomic
from gmc_bench.studies.scaling import AXES, QUANTITIES, Cell, Measurements
from gmc_bench.studies.scaling_figure import draw_scaling
from gmc_bench.studies.scaling_table import csv_page, exponent_table, markdown_page
from gmc_bench.training.run_folder import LockedFolder

TABLE, CELLS, RESULT, MEASURED = "table.md", "table.csv", "study.json", "cells"
TITLE = "Scaling"
_FIXED = ("preset", "seconds", "max_gib", "max_seconds")
"""What all cells of a folder have in common."""


class ScalingFolder(LockedFolder):
    """The folder of the study, locked while open."""

    marker = SETTINGS


@dataclass(frozen=True)
class Place:
    """Where a measurement belongs, and what is measured."""

    kind: str
    method: str
    """Id; empty for what has nothing to do with a method."""
    version: int
    """Of the method: another one is measured again."""
    size: int
    item: Any


@dataclass(frozen=True)
class Batch:
    """Measurements that one process may take one after the other."""

    measure: Callable[[Any], dict[str, float]]
    places: list[Place]


def plan(request: dict[str, Any]) -> list[Batch]:
    """Return everything that is asked for, in order.

    Raises:
        GmcBenchError: a method cannot be loaded.
    """
    methods = {name: load_method(name) for name in request["methods"]}
    found: list[Batch] = []
    for part in request["parts"]:
        if part == "bodies":
            found += _plan_bodies(request, methods)
            continue
        for name, method in methods.items():
            places = [
                Place(
                    kind,
                    method.id,
                    method.version,
                    size,
                    scaling.TokenItem(
                        kind=kind,
                        method=name,
                        preset=request["preset"],
                        tokens=size,
                        seconds=request["seconds"],
                    ),
                )
                for size in request["tokens"]
                for kind in scaling.KINDS[part]
            ]
            found.append(Batch(scaling.measure_tokens, places))
    return found


def _plan_bodies(request: dict[str, Any], methods: dict[str, MethodSpec]) -> list[Batch]:
    """Return the measurements over bodies, a process for each kind and method."""
    wanted: list[tuple[scaling_bodies.Kind, str]] = [("simulation", ""), ("table", "")]
    wanted += [("policy", name) for name in methods]
    wanted += [("compiler", next(iter(methods)))]
    found = []
    for kind, name in wanted:
        method = methods.get(name)
        own = (kind, method.id, method.version) if method else (kind, "", 0)
        places = [
            Place(
                *own,
                size,
                scaling_bodies.BodyItem(
                    kind=kind, method=name, preset=request["preset"], bodies=size
                ),
            )
            for size in request["bodies"]
        ]
        found.append(Batch(scaling_bodies.measure_bodies, places))
    return found


def preview(request: dict[str, Any]) -> None:
    """Show how much would be measured."""
    counts: dict[tuple[str, str], list[int]] = {}
    for batch in plan(request):
        for place in batch.places:
            counts.setdefault((place.method or "-", place.kind), []).append(place.size)
    rows = [(method, kind, " ".join(map(str, sizes))) for (method, kind), sizes in counts.items()]
    say(table(("method", "measurement", "sizes"), rows))


def read_request(path: Path) -> dict[str, Any]:
    """Return what the study of a folder was asked for.

    Raises:
        RecordError: its settings are damaged.
    """
    request: dict[str, Any] = read_sealed(path / SETTINGS)[0]["request"]
    return request


def run(request: dict[str, Any], path: Path) -> int:
    """Measure what a folder lacks, and write its tables and pictures.

    Args:
        request: what is asked for.
        path: a new folder, or one of an earlier study under the same conditions.

    Raises:
        ConfigError: the folder was measured under other conditions.
        RunFolderError: it is in use, or holds something else.
        GmcBenchError: a method cannot be loaded, or a file cannot be written or is damaged.
    """
    batches = plan(request)
    settings = {"schema_version": 1, "study": NAME, "request": request, "setting": _setting()}
    with ScalingFolder(path, create=not (path / SETTINGS).is_file()) as folder:
        if (path / SETTINGS).is_file():
            _require_same(read_sealed(path / SETTINGS)[0], settings, path)
        write_atomic(path / SETTINGS, sealed(settings))
        limits = Limits(int(request["max_gib"] * 2**30), request["max_seconds"])
        try:
            cells = Work(folder.path, limits).finish(batches)
        except KeyboardInterrupt:
            note(f"\nStopped. Continue with: gmc-bench study --resume {path}")
            raise
        _conclude(settings, Measurements(cells), path)
    return 0


def _setting() -> dict[str, Any]:
    return {
        "versions": collect_versions(),
        "hardware": collect_hardware(scaling.THREADS).model_dump(mode="json"),
        "act_batch": scaling.ACT_BATCH,
        "train_batch": scaling.TRAIN_BATCH,
        "tokens_of_bodies": scaling_bodies.TOKENS,
        "environments": scaling_bodies.NUM_ENVS,
    }


def _require_same(old: dict[str, Any], new: dict[str, Any], path: Path) -> None:
    """Raise unless cells measured now can stand beside those of a folder."""
    pairs = [(f"--{name.replace('_', '-')}", "request", name) for name in _FIXED]
    pairs += [(name, "setting", name) for name in new["setting"]]
    for shown, part, name in pairs:
        before, now = old[part].get(name), new[part][name]
        if before != now:
            raise ConfigError(
                f"{path} was measured with another {shown} ({before}, now {now}); choose another "
                f"--out, because one table shows one machine and one setting"
            )


class Work:
    """Measures cells and keeps each in a file as soon as it is there.

    Args:
        path: folder of the study.
        limits: of every measurement.
    """

    def __init__(self, path: Path, limits: Limits) -> None:
        self.path = path / MEASURED
        self.limits = limits
        self._refused: dict[tuple[str, str], Cell] = {}
        """The smallest cell without numbers, by kind and method."""

    def finish(self, batches: Sequence[Batch]) -> list[Cell]:
        """Return the cells of all batches, measuring those that are not there."""
        places = [place for batch in batches for place in batch.places]
        for place in places:
            self._read(place)  # what was refused earlier is known from the start
        with tqdm(total=len(places), unit="cell", desc=NAME) as bar:
            return [cell for batch in batches for cell in self._finish(batch, bar)]

    def _finish(self, batch: Batch, bar: Any) -> Iterator[Cell]:
        pending = list(batch.places)
        while pending:
            left = []
            for place in pending:
                cell = self._read(place) or self._beyond(place)
                if cell is None:
                    left.append(place)
                else:
                    bar.update()
                    yield cell
            if not left:
                return
            outcomes = measure_apart(batch.measure, [place.item for place in left], self.limits)
            with contextlib.closing(outcomes):
                for outcome in outcomes:
                    bar.update()
                    yield self._write(left.pop(0), outcome)
            pending = left  # the process has ended at what could not be measured

    def _beyond(self, place: Place) -> Cell | None:
        """Return a cell without numbers where a smaller one of its kind has none already."""
        smaller = self._refused.get((place.kind, place.method))
        if smaller is None or smaller.size >= place.size:
            return None
        reason = f"{smaller.reason} at {smaller.size:,}"
        return Cell(place.kind, place.method, place.size, reason=reason)

    def _read(self, place: Place) -> Cell | None:
        path = self._file(place)
        if not path.is_file():
            return None
        content, _ = read_sealed(path)
        if content["version"] != place.version:
            return None
        return self._note(Cell.from_dict(content))

    def _write(self, place: Place, outcome: Outcome) -> Cell:
        if isinstance(outcome, NotMeasured):
            cell = Cell(place.kind, place.method, place.size, reason=outcome.reason)
        else:
            cell = Cell(place.kind, place.method, place.size, outcome)
        content = {**cell.to_dict(), "version": place.version}
        write_atomic(self._file(place), sealed(content))
        return self._note(cell)

    def _note(self, cell: Cell) -> Cell:
        """Remember a cell without numbers if it is the smallest of its kind."""
        key = (cell.kind, cell.method)
        if cell.reason and (key not in self._refused or cell.size < self._refused[key].size):
            self._refused[key] = cell
        return cell

    def _file(self, place: Place) -> Path:
        return self.path / f"{place.kind}_{place.method or 'all'}_{place.size}.json"


def _conclude(settings: dict[str, Any], found: Measurements, path: Path) -> None:
    """Write tables, pictures and result, and show the exponents."""
    notes = _notes(settings)
    write_atomic(path / TABLE, markdown_page(found, TITLE, notes).encode())
    write_atomic(path / CELLS, csv_page(found).encode())
    result = {
        **settings,
        "cells": [cell.to_dict() for cell in found.cells],
        "exponents": [
            {"kind": q.kind, "key": q.key, "method": method, **asdict(exponent)}
            for q in QUANTITIES
            for method in found.methods(q)
            if (exponent := found.exponent(q, method)) is not None
        ],
    }
    write_atomic(path / RESULT, sealed(result))
    for axis in AXES:
        picture = draw_scaling(found, axis)
        if picture is not None:
            write_atomic(path / f"{axis}.png", picture)
            exponents = exponent_table(found, axis)
            write_atomic(path / f"exponents_{axis}.csv", exponents.to_csv().encode())
            say(f"Exponents over {axis}\n\n{table(exponents.headings, exponents.rows)}\n")
            say("\n".join(exponents.notes) + "\n")
    say(f"{QUESTION} {path / TABLE}")


def _notes(settings: dict[str, Any]) -> tuple[str, ...]:
    request, setting = settings["request"], settings["setting"]
    hardware, versions = setting["hardware"], setting["versions"]
    installed = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
    return (
        f"Presets `{request['preset']}`, one thread of {hardware['cpu']}; {installed}. Times are "
        f"medians of at least {scaling.MIN_REPEATS} repeats. A measurement that takes more than "
        f"{request['max_gib']:g} GiB of process memory or {request['max_seconds']:g} s has no "
        f"number.",
        f"Over tokens: random trees with exactly so many limbs. Acting: the actor for "
        f"{setting['act_batch']} bodies. Gradient step: actor and critic, forward and backward, "
        f"and the optimiser, {setting['train_batch']} transitions. Memory is the peak of live "
        f"tensors, without weights.",
        f"Over bodies: chains, stars and bipeds in {setting['environments']} environments for the "
        f"simulation; random trees of {setting['tokens_of_bodies']} limbs for tables and policies.",
    )
