"""Specification of an experiment: what was asked for, before any name is looked up."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from gmc_bench.core.config import (
    coerce,
    coerce_name,
    config_digest,
    fields_of,
    load_yaml,
    plain_scalar,
    shown,
    to_dict,
    type_hints,
)
from gmc_bench.core.errors import ConfigError, reject_unknown
from gmc_bench.core.frozen import frozen
from gmc_bench.core.precision import Precision, check_precision

GROUPS = {"model": "the method's settings", "tokens": "how bodies are shown"}
"""First parts of the names of settings that are not the protocol's."""
NAMES = ("task", "protocol", "preset", "bodies")
"""Fields that hold a name or `None`; the texts `none` and `null` are names, too, and unknown."""
MACHINE = ("device", "threads", "processes", "checkpoint_interval", "track")
"""Fields that do not decide the numbers of a run."""


@dataclass(frozen=True, kw_only=True)
class ExperimentSpec:
    """One run, as it is asked for: a method on a task of a suite under a protocol.

    What is left out follows from the rest when the names are looked up, see
    `gmc_bench.experiments.resolve`.

    Raises:
        ConfigError: a value does not fit its field.
    """

    method: str
    """Registered id, `FILE.py:SPEC` or `MODULE:SPEC`."""
    suite: str
    """Suite, with or without its version."""
    task: str | None = None
    """Task, with or without suite and version; may be left out where the suite has one."""
    protocol: str | None = None
    """`smoke`, `lite`, `standard` or `paper`; by default the suite's."""
    preset: str | None = None
    """Variant of the method; by default the protocol's."""
    seed: int | None = None
    """Seed of every random stream; by default the protocol's first."""
    bodies: str | None = None
    """Body set, or the first N bodies of one as `SET:N`; by default the suite's."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Changes by dotted name: of the protocol (`ppo.lr`), of the method (`model.width`) and of how
    bodies are shown (`tokens.order`). Nested mappings will do as well; a setting that is a mapping
    itself cannot be changed. What is kept is a copy, which cannot be changed in place."""
    untrained: bool = False
    """Train nothing: score the weights that training would start from, as a reference."""
    precision: Precision = "float32"
    """Number format of the networks' matrix products."""
    device: str = "cpu"
    """Where the networks run."""
    threads: int | None = None
    """Threads of simulation and networks, of each process; by default one per core."""
    processes: int | None = None
    """Processes that share the environments; by default as many as torchrun has started, or one."""
    checkpoint_interval: float = 10.0
    """Seconds between checkpoints."""
    track: str | None = None
    """Tracker that the run's numbers are also sent to, `NAME` or `NAME:PROJECT`; see
    `gmc_bench.trackers`."""

    def __post_init__(self) -> None:
        hints = type_hints(type(self))
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "bodies":
                require_set_id(value)
            convert = coerce_name if item.name in NAMES else coerce
            value = (
                frozen(flatten(value))
                if item.name == "settings"
                else convert(value, hints[item.name], item.name)
            )
            object.__setattr__(self, item.name, value)
        check_precision(self.precision, self.device)

    def __hash__(self) -> int:
        return hash(self.digest)

    @property
    def digest(self) -> str:
        """SHA-256 of everything that decides the numbers, 64 hex digits.

        Device, threads, checkpoints and tracker do not count, nor does the order of settings. What
        is left out counts as left out, so that two specifications with different digests may
        resolve to the same run.
        """
        plain = self.to_dict()
        if not self.untrained:  # as of all specifications before there were others
            del plain["untrained"]
        return config_digest({name: plain[name] for name in plain if name not in MACHINE})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values that `from_dict` reads back."""
        return to_dict(self)

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return the specification that `to_dict` describes; fields may be left out.

        Raises:
            ConfigError: a field is unknown, or a value does not fit.
        """
        if not isinstance(content, Mapping):
            raise ConfigError(f"an experiment is a mapping of its fields, got {content!r}")
        reject_unknown(content, fields_of(cls), "an experiment")
        for name in ("method", "suite"):
            if name not in content:
                raise ConfigError(f"an experiment needs a {name}, got {dict(content)!r}; add one")
        return cls(**content)

    def with_seed(self, seed: int) -> Self:
        """Return the specification with another seed; quick, for thousands of them.

        Raises:
            ConfigError: it is no integer.
        """
        found = copy.copy(self)
        object.__setattr__(found, "seed", coerce(seed, int, "seed"))
        return found

    def replace(self, **changes: Any) -> Self:
        """Return the specification with other values of some fields.

        Raises:
            ConfigError: a field is unknown, or a value does not fit.
        """
        reject_unknown(changes, fields_of(self), "an experiment")
        return replace(self, **changes)


def require_set_id(value: Any) -> None:
    """Raise if a set of bodies was given itself: other processes find it by its id alone.

    Raises:
        ConfigError: it was.
    """
    if hasattr(value, "splits") and hasattr(value, "id"):
        raise ConfigError(
            f"'bodies' must be the id of a set, got the set {value.id!r} itself; keep it with "
            f"gmc_bench.bodies.sets.save_set, and give its id (docs/python-api.md)"
        )


def require_specs(found: Any) -> list[ExperimentSpec]:
    """Return specifications; anything else is a mistake of whoever writes Python.

    Raises:
        ConfigError: it is a single specification, or something else.
    """
    specs = list(found) if isinstance(found, Iterable) and not isinstance(found, str) else [found]
    wrong = [spec for spec in specs if not isinstance(spec, ExperimentSpec)]
    if wrong or not isinstance(found, Iterable):
        raise ConfigError(
            f"several ExperimentSpec(...) were expected, got {shown((wrong or specs)[0])}; give a "
            f"list of them"
        )
    return specs


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings of a YAML file, as `ExperimentSpec.settings` takes them.

    Raises:
        ConfigError: the file cannot be read, or holds no mapping where one is expected.
    """
    content = load_yaml(path)
    for name, what in GROUPS.items():
        if not isinstance(content.get(name, {}), dict):
            raise ConfigError(f"{name!r} in {path} must hold {what}, got {content[name]!r}")
    return flatten(content)


def flatten(
    content: Mapping[str, Any], prefix: str = "", *, what: str = "settings"
) -> dict[str, Any]:
    """Return nested settings by dotted name, sorted, in values that JSON and YAML have.

    An empty mapping below a group is kept as a value, so that it is refused where none fits.

    Args:
        content: the settings.
        prefix: put before each name.
        what: the field that holds them, for messages.

    Raises:
        ConfigError: the content is no mapping, or a setting is given more than once.
    """
    if not isinstance(content, Mapping):
        raise ConfigError(
            f"{what!r} must map names to values, got {content!r}; write e.g. "
            f"{{'ppo.lr': {'[1e-4, 3e-4]' if what == 'vary' else '1e-4'}}}"
        )
    flat: dict[str, Any] = {}
    for key, value in content.items():
        name = prefix + str(key).replace("-", "_")
        if not isinstance(value, Mapping):
            items = {name: _plain(value)}
        elif value or "." not in name:
            items = flatten(value, f"{name}.")
        else:  # an empty group changes nothing, but this may be the value of a setting
            items = {name: {}}
        for dotted, item in items.items():
            if dotted in flat:
                raise ConfigError(f"{dotted!r} is given more than once; keep one of them")
            flat[dotted] = item
    return dict(sorted(flat.items()))


def _plain(value: Any) -> Any:
    value = plain_scalar(value)
    if callable(listed := getattr(value, "tolist", None)):  # arrays of numpy and torch
        value = listed()
    if isinstance(value, (list, tuple, range)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ConfigError(
        f"a setting must be a number, a text, true, false, none or a list of these, got {value!r}"
    )
