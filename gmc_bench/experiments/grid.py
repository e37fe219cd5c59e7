"""Grid: methods x suites x tasks x settings x seeds, as named specifications."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypeAlias

from gmc_bench.core.config import coerce, coerce_name, plain_scalar, type_hints
from gmc_bench.core.errors import ConfigError, GmcBenchError, reject_unknown
from gmc_bench.core.precision import Precision
from gmc_bench.experiments.method import load_method, method_labels
from gmc_bench.experiments.resolve import choose
from gmc_bench.experiments.spec import MACHINE, NAMES, ExperimentSpec, flatten, require_set_id
from gmc_bench.suites import SUITES
from gmc_bench.suites.choice import Choice
from gmc_bench.suites.schema import short_name

VARIED = ("protocol", "preset", "bodies", "untrained", "precision")
"""Fields of a specification that `Grid.vary` takes beside settings."""
FIELDS = {
    name: several
    for several in ("methods", "suites", "tasks", "seeds")
    for name in (several, several.removesuffix("s"))
}
"""Fields that are no settings, by the names that they may be given by."""
MAX_NAME = 120
"""Bytes of a run's name, which is that of its folder, without a number behind it."""
_ODD = re.compile(r"[^A-Za-z0-9._=+-]+")
_NO_WORD = re.compile(r"[^\w.=+-]+")
_FIRST = ".-"
"""Characters that a name does not begin with."""
_Cell: TypeAlias = tuple[int, tuple[str, ...], ExperimentSpec]
"""Place of a run's seed among the seeds, parts of its name, and its specification."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Runs as a product; what `ExperimentSpec` has holds for all of them.

    Raises:
        ConfigError: a value does not fit its field.
    """

    methods: tuple[str, ...]
    """Registered ids, `FILE.py:SPEC` or `MODULE:SPEC`."""
    suites: tuple[str, ...]
    """Suites, with or without their version."""
    tasks: tuple[str, ...] = ()
    """Tasks; of each suite, those that it has. By default all of every suite."""
    seeds: tuple[int, ...] = ()
    """Seeds; by default all that the protocol asks for."""
    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Lists of values by dotted name of a setting (`ppo.lr`, `model.width`, `tokens.order`), or
    for `protocol`, `preset`, `bodies`, `untrained` and `precision`."""
    protocol: str | None = None
    """As in `ExperimentSpec`, and so are the following."""
    preset: str | None = None
    """Variant of the methods."""
    bodies: str | None = None
    """Body set."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Changes by dotted name, the same in all runs."""
    untrained: bool = False
    """Train nothing."""
    precision: Precision = "float32"
    """Of the networks' matrix products."""
    device: str = "cpu"
    """Where the networks run."""
    threads: int = 1
    """Threads of each run; one each makes most of a machine that several share."""
    processes: int = 1
    """That share the environments of each run."""
    checkpoint_interval: float = 10.0
    """Seconds between checkpoints."""
    track: str | None = None
    """Tracker that the runs' numbers are also sent to."""

    def __post_init__(self) -> None:
        require_set_id(self.bodies)
        hints = type_hints(type(self))
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name in ("settings", "vary"):
                value = flatten(value, what=item.name)
            elif item.name in ("methods", "suites", "tasks", "seeds"):
                # What is named twice is run once.
                found = coerce(listed(value), hints[item.name], item.name)
                value = tuple(dict.fromkeys(found))
            else:
                convert = coerce_name if item.name in NAMES else coerce
                value = convert(value, hints[item.name], item.name)
            object.__setattr__(self, item.name, value)
        for name in ("methods", "suites"):
            if not getattr(self, name):
                raise ConfigError(f"a sweep needs {name}, got none; give at least one")
        for name, values in self.vary.items():
            if name in FIELDS:
                field_name = FIELDS[name]
                raise ConfigError(
                    f"'vary' gives values of settings, and {name!r} is none; use {field_name}=, or "
                    f"'{field_name}:' in a file"
                )
            if name in MACHINE:
                raise ConfigError(
                    f"{name!r} says how runs are run and cannot be varied, got {values!r} for it; "
                    f"give one value for all, or begin a sweep for each"
                )
            if not isinstance(values, list) or not values:
                raise ConfigError(f"'vary' must give a list of values for {name!r}, got {values!r}")
            twice = name in VARIED and getattr(self, name) != _DEFAULTS[name]
            if twice or name in self.settings:
                raise ConfigError(f"{name!r} is both set and varied; keep one of them")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the grid that fields describe, as a YAML file has them.

        Raises:
            ConfigError: a field is missing or unknown, or a value does not fit.
        """
        reject_unknown(content, [item.name for item in fields(cls)], "a sweep")
        for name in ("methods", "suites"):
            if name not in content:
                raise ConfigError(f"a sweep needs {name}, got none; give at least one")
        return cls(**content)

    def specs(self) -> dict[str, ExperimentSpec]:
        """Return all runs by names that say what tells them apart.

        All runs with one seed come before those with the next, so that a sweep that is stopped has
        compared all methods.

        Raises:
            GmcBenchError: a name is unknown.
        """
        cells = sorted(self._cells(), key=lambda cell: cell[0])
        columns = zip(*(labels for _, labels, _ in cells), strict=True)
        differing = [len(set(column)) > 1 for column in columns]
        differing[2] |= not any(differing)  # one run alone is named by its task
        names: dict[str, ExperimentSpec] = {}
        repeats: Counter[str] = Counter()
        for _, labels, spec in cells:
            used = [label for label, use in zip(labels, differing, strict=True) if use]
            name = base = _joined(used)
            while name in names:  # two values that only odd characters tell apart
                repeats[base] += 1
                name = f"{base}_{repeats[base] + 1}"
            names[name] = spec
        return names

    def _cells(self) -> Iterator[_Cell]:
        shared = {item: getattr(self, item) for item in _SHARED}
        known = method_labels({name: load_method(name).id for name in self.methods})
        for suite, method in itertools.product(self._suites(), self.methods):
            for values in itertools.product(*map(_distinct, self.vary.values())):
                varied = dict(zip(self.vary, values, strict=True))
                own = {name: varied.pop(name) for name in VARIED if name in varied}
                spec = ExperimentSpec(
                    method=method,
                    suite=suite,
                    settings={**self.settings, **varied},
                    **{**shared, **own},
                )
                labels = tuple(_label(name, value) for name, value in (own | varied).items())
                choice = choose(spec)
                for task in self._tasks(suite):
                    parts = (suite, known[method], short_name(task), *labels)
                    yield from self._seeds(spec.replace(task=task), choice, parts)

    def _seeds(
        self, spec: ExperimentSpec, choice: Choice, parts: tuple[str, ...]
    ) -> Iterator[_Cell]:
        # A reference with weights for every body may have fewer, on however many bodies.
        seeds = self.seeds or choice.rules(str(spec.task), num_train=1).seeds
        for place, seed in enumerate(seeds):
            yield place, (*parts, f"seed{seed}"), spec.with_seed(seed)

    def _suites(self) -> list[str]:
        return list(dict.fromkeys(SUITES.resolve(name) for name in self.suites))

    def _tasks(self, suite: str) -> list[str]:
        """Return the tasks of the grid that a suite has.

        Raises:
            ConfigError: it has none of them, or no suite has one.
        """
        if not self.tasks:
            return list(SUITES.get(suite).tasks)
        found = {name: {item: _task(item, name) for item in self._suites()} for name in self.tasks}
        for name, of_suite in found.items():
            if not any(of_suite.values()):
                SUITES.get(suite).task(name)  # its error says which there are
        tasks = [task for name in self.tasks if (task := found[name][suite]) is not None]
        if not tasks:
            known = ", ".join(map(short_name, SUITES.get(suite).tasks))
            raise ConfigError(
                f"the suite {suite!r} has none of the tasks {', '.join(self.tasks)}; its tasks: "
                f"{known}"
            )
        return list(dict.fromkeys(tasks))


_OF_SPEC = {item.name for item in fields(ExperimentSpec)} - {"settings"}
_SHARED = tuple(item.name for item in fields(Grid) if item.name in _OF_SPEC)
_DEFAULTS = {item.name: item.default for item in fields(Grid)}


def _task(suite: str, name: str) -> str | None:
    try:
        return SUITES.get(suite).task(name)
    except GmcBenchError:
        return None


def listed(value: Any) -> list[Any]:
    """Return what a list or one value holds; a file has either."""
    value = plain_scalar(value)
    if value is None:
        return []
    several = isinstance(value, Iterable) and not isinstance(value, (str, Mapping))
    return list(value) if several else [value]


def _joined(labels: Sequence[str]) -> str:
    """Return the name of a run from what tells it apart from others."""
    name = "_".join(_ODD.sub("-", label) for label in labels)
    if name.startswith(tuple(_FIRST)):
        # As that of a file in another script. Letters of all scripts stay here alone, so that runs
        # on disk keep their names.
        name = "_".join(_NO_WORD.sub("-", label) for label in labels).lstrip(_FIRST) or "run"
    return name.encode()[:MAX_NAME].decode(errors="ignore")


def _distinct(values: Sequence[Any]) -> list[Any]:
    """Return values without repetitions, in order; 1 and true are two."""
    return list({json.dumps(value): value for value in values}.values())


def _label(name: str, value: Any) -> str:
    if name in ("protocol", "preset", "bodies"):
        return str(value)
    text = "-".join(map(str, value)) if isinstance(value, list) else str(value)
    return f"{name.rpartition('.')[2]}={text}"
