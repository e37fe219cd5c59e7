"""Launch of a sweep's runs: by which launcher and with which options; kept in its folder."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import yaml

from gmc_bench.core.config import (
    coerce,
    fields_of,
    load_yaml,
    require_type,
    sealed_yaml,
    to_dict,
    type_hints,
    with_overrides,
)
from gmc_bench.core.errors import ConfigError, RunFolderError, did_you_mean
from gmc_bench.experiments.launchers import LAUNCHERS, Cell, Ended, Launcher
from gmc_bench.experiments.run_folder import LAUNCH
from gmc_bench.records.store import write_atomic


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Who runs a sweep, and how; what `Sweep.run` takes.

    Raises:
        ConfigError: a value does not fit its field.
    """

    launcher: str = "local"
    """Registered launcher."""
    retries: int = 1
    """How often a run that failed is tried again."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the launcher, by name."""

    def __post_init__(self) -> None:
        hints = type_hints(type(self))
        for name in ("launcher", "retries"):
            object.__setattr__(self, name, coerce(getattr(self, name), hints[name], name))
        if self.retries < 0:
            raise ConfigError(f"'retries' must not be negative, got {self.retries}")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Return what fields describe; what is no field is an option of the launcher.

        Args:
            content: values as files and command lines have them, some of them as text.

        Raises:
            ConfigError: a value does not fit, or the launcher has no such option.
        """
        if not isinstance(content, Mapping):
            raise ConfigError(
                f"'launch' must hold options, got {content!r}; write e.g. {{'launcher': 'local'}}"
            )
        own = {item.name for item in fields(cls)} - {"options"}
        given = {name: value for name, value in content.items() if name in own}
        options = {name: value for name, value in content.items() if name not in own}
        launch = cls(**given, options=options)
        defaults = LAUNCHERS.get(launch.launcher).options
        for name in options:
            if name not in fields_of(defaults):
                raise ConfigError(
                    f"the launcher {launch.launcher!r} has no option {name!r}"
                    f"{did_you_mean(str(name), fields_of(defaults))}"
                )
            if isinstance(getattr(defaults, name), tuple) and isinstance(options[name], str):
                # One entry, which may hold a comma: several are a list, or words on a command line.
                options[name] = [options[name]] if options[name] else []
        fitting = with_overrides(defaults, options)
        return replace(launch, options={name: getattr(fitting, name) for name in options})

    @property
    def elsewhere(self) -> bool:
        """Whether other machines run the cells."""
        return LAUNCHERS.get(self.launcher).elsewhere

    @property
    def jobs(self) -> int | None:
        """How many run at a time, if that was said."""
        jobs: int | None = self.options.get("jobs")
        return jobs

    def content(self) -> dict[str, Any]:
        """Return what `from_dict` takes, as plain values."""
        return {"launcher": self.launcher, "retries": self.retries, **to_dict(self)["options"]}


class Launched(NamedTuple):
    """A launcher that can run cells, and how it is used."""

    launcher: Launcher
    launch: Launch


class Idle(Launcher):
    """Stands in for a launcher when no run is left: it needs no cluster, nor its package."""

    def open(self, sweep: Path) -> None:
        """Do nothing."""

    def takes(self, cell: Cell, waiting: int) -> bool:
        """Refuse what was finished a moment ago.

        Raises:
            RunFolderError: always.
        """
        raise RunFolderError(
            f"the record of the run {cell.name!r} was taken away while the sweep was opened; "
            f"resume the sweep again"
        )

    def submit(self, cells: Sequence[Cell]) -> None:
        """Do nothing."""

    def poll(self) -> list[Ended]:
        """Return nothing."""
        return []

    def stop(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@contextmanager
def launching(
    launcher: str | None, retries: int, options: Mapping[str, Any], *, idle: bool = False
) -> Iterator[Launched | None]:
    """Prepare a sweep's launcher before there is a folder; yield `None` where none is named.

    Where no driver comes to use it, its resources are released here.

    Args:
        launcher: registered, see `Sweep.run`, as for the following.
        retries: likewise.
        options: likewise.
        idle: nothing is left to run.

    Raises:
        ConfigError: the launcher cannot be used, an option is not its own, or has another type.
    """
    if launcher is None:
        if options:
            raise ConfigError(
                f"{next(iter(options))!r} is an option of a launcher, but none is named; name one, "
                f"e.g. 'local'"
            )
        yield None
        return
    launch = Launch.from_dict({**options, "launcher": launcher, "retries": retries})
    spec = LAUNCHERS.get(launch.launcher)
    hints = {**type_hints(type(spec.options)), "retries": int}
    for name, value in {"retries": retries, **options}.items():
        require_type(value, hints[name], name)
    made = Idle() if idle else spec.make(launch.options)
    try:
        made.require()
        yield Launched(made, launch)
    except BaseException:
        made.close()
        raise


def write_launch(sweep: Path, content: Mapping[str, Any]) -> None:
    """Write how a sweep is launched, and what else its next driver must know.

    Raises:
        StorageError: the file cannot be written.
    """
    text = sealed_yaml(yaml.safe_dump(dict(content), sort_keys=False))
    write_atomic(sweep / LAUNCH, text.encode())


def read_launch(sweep: Path) -> dict[str, Any]:
    """Return how a sweep was launched last, as `Launch.from_dict` takes it; empty if never.

    Raises:
        ConfigError: the file is damaged.
    """
    path = sweep / LAUNCH
    if not path.is_file():
        return {}
    if not (content := load_yaml(path)):
        raise ConfigError(f"{path} is empty; delete it to say anew how the sweep is launched")
    return content
