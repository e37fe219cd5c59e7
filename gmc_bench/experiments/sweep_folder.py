"""Folder of a sweep: several runs side by side, and the file that lists them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gmc_bench.core.config import load_yaml, to_dict
from gmc_bench.core.errors import ConfigError, RunFolderError
from gmc_bench.experiments.method import load_method
from gmc_bench.experiments.run_folder import CONFIG, PLAN, LockedFolder, RunFolder
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import read_record, write_atomic
from gmc_bench.suites.schema import short_name
from gmc_bench.training.run_config import RunConfig, read_run_config, run_config_of

FORMAT = 1
"""Version of the layout of `plan.yaml`."""
_SHARED = ("method", "suite", "protocol", "morphologies", "seed")
"""Settings that the file states once where all runs have them in common."""


class SweepFolder(LockedFolder):
    """The folder of several runs, locked while open; see `LockedFolder`."""

    marker = PLAN

    @property
    def plan(self) -> Path:
        """List of the runs, YAML."""
        return self.path / PLAN

    def was_begun(self, name: str) -> bool:
        """Return whether a run's folder holds its settings."""
        return (self.path / name / CONFIG).is_file()

    def open_run(self, name: str, config: RunConfig) -> RunFolder:
        """Return the folder of a run, made if the run was never begun; it is not locked yet.

        Raises:
            RunFolderError: what lies there is not this run.
            StorageError: the folder cannot be created.
            ConfigError: the settings in it cannot be read.
        """
        folder = RunFolder(self.path / name, create=not self.was_begun(name))
        if folder.config.is_file():
            found = read_run_config(folder.config)
            if (found.identity(), found.seed) != (config.identity(), config.seed):
                raise RunFolderError(
                    f"{folder.config} has other settings than {self.plan} has for {name!r}; "
                    f"put them back, or delete the folder {folder.path} to start this task again"
                )
        return folder

    def read_finished(self, name: str, config: RunConfig) -> RunRecord | None:
        """Return the record of a run, `None` if the run is not finished.

        Raises:
            RunFolderError: what lies there is not this run.
            RecordError: the record is damaged.
            ConfigError: the settings of the run cannot be read.
        """
        if not self.was_begun(name):
            return None
        record = self.open_run(name, config).record
        return read_record(record) if record.exists() else None

    def write(self, runs: Mapping[str, RunConfig]) -> None:
        """Write the list of the runs.

        Raises:
            StorageError: it could not be written.
        """
        write_atomic(self.plan, runs_to_yaml(runs).encode())


class _PlainDumper(yaml.SafeDumper):
    """Writes equal values out again: a reference into another run's settings misleads readers."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def runs_to_yaml(runs: Mapping[str, RunConfig]) -> str:
    """Return runs by name as YAML that `read_runs` reads back."""
    listed = [{"name": name, "config": to_dict(config)} for name, config in runs.items()]
    content = {"format": FORMAT, **_shared(list(runs.values())), "runs": listed}
    return yaml.dump(content, Dumper=_PlainDumper, sort_keys=False)


def read_runs(path: Path) -> dict[str, RunConfig]:
    """Read the settings of the runs of a sweep, by name.

    Raises:
        ConfigError: the file is missing or was changed into something that lists no runs.
    """
    content = load_yaml(path)
    if content.get("format") != FORMAT:
        raise ConfigError(
            f"{path} has format {content.get('format')!r}, but this gmc-bench reads {FORMAT}; "
            f"restore the file, or continue with the gmc-bench that wrote it"
        )
    listed = content.get("runs")
    if not isinstance(listed, list) or not listed or not all(map(_is_run, listed)):
        raise ConfigError(
            f"{path} must list runs with 'name' and 'config' under 'runs'; restore the file"
        )
    runs = {
        item["name"]: run_config_of(item["config"], f"{path} ({item['name']})") for item in listed
    }
    if len(runs) < len(listed):
        raise ConfigError(f"{path} has two runs of one name; restore the file")
    stated = {name: content[name] for name in _SHARED if name in content}
    if stated != _shared(list(runs.values())):
        raise ConfigError(
            f"{path} contradicts itself: {', '.join(_SHARED)} must be those that its runs "
            f"share; restore the file"
        )
    return runs


def name_runs(configs: Sequence[RunConfig]) -> dict[str, RunConfig]:
    """Return runs by names that say what tells them apart: method, task, bodies, preset, seed.

    Raises:
        ConfigError: two of them differ in none of these.
    """
    tasks = {config.task for config in configs}
    distinct = len({short_name(task) for task in tasks}) == len(tasks)
    parts = [
        (
            load_method(config.method).id,
            short_name(config.task) if distinct else config.task,
            config.morphologies,
            config.protocol.preset,
            f"seed{config.seed}",
        )
        for config in configs
    ]
    differing = [len(set(column)) > 1 for column in zip(*parts, strict=True)]
    differing[1] |= not any(differing)  # one run alone is named by its task
    names = [
        "_".join(part for part, use in zip(row, differing, strict=True) if use) for row in parts
    ]
    runs = dict(zip(names, configs, strict=True))
    if len(runs) < len(configs):
        raise ConfigError(
            "two runs of one folder differ in neither method, task, bodies, preset nor seed; give "
            "each a name of its own"
        )
    return runs


def _shared(configs: Sequence[RunConfig]) -> dict[str, Any]:
    """Return what all runs have in common, for readers of the file."""
    found = [
        {name: getattr(config, name) for name in _SHARED} | {"protocol": config.protocol.name}
        for config in configs
    ]
    return {
        name: value
        for name, value in found[0].items()
        if all(other[name] == value for other in found)
    }


def _is_run(item: Any) -> bool:
    if not isinstance(item, dict) or set(item) != {"name", "config"}:
        return False
    name = item["name"]
    return (
        isinstance(item["config"], dict)
        and isinstance(name, str)
        and name not in (".", "..")
        and Path(name).name == name
    )
