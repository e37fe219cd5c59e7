"""The folder of several runs that are done one after the other, and the plan that it holds."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gmc_bench.core.config import load_yaml, to_dict
from gmc_bench.core.errors import ConfigError, RunFolderError
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import read_record, write_atomic
from gmc_bench.training.run_config import RunConfig, read_run_config, run_config_of
from gmc_bench.training.run_folder import CONFIG, PLAN, LockedFolder, RunFolder

FORMAT = 1
"""Version of the layout of `plan.yaml`."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a plan."""

    name: str
    """Its folder inside the plan's."""
    config: RunConfig
    """Its resolved settings."""

    @property
    def env_steps(self) -> int:
        """Control steps of the whole run."""
        return self.config.protocol.num_iterations * self.config.protocol.steps_per_iteration


@dataclass(frozen=True)
class Plan:
    """Runs that are done one after the other, e.g. of one method on the tasks of a suite."""

    runs: tuple[PlannedRun, ...]

    def to_yaml(self) -> str:
        """Return the plan as YAML that `read_plan` reads back."""
        runs = [{"name": run.name, "config": to_dict(run.config)} for run in self.runs]
        content = {"format": FORMAT, **_shared(self.runs), "runs": runs}
        return yaml.dump(content, Dumper=_PlainDumper, sort_keys=False)


class _PlainDumper(yaml.SafeDumper):
    """Writes equal values out again: a reference into another task's settings misleads readers."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def make_plan(configs: Sequence[RunConfig]) -> Plan:
    """Return the plan of some runs; each is named by the shortest name of its task."""
    tasks = [config.task for config in configs]
    short = [task.rpartition("-v")[0].partition("-")[2] for task in tasks]
    names = short if all(short) and len(set(short)) == len(short) else tasks
    return Plan(tuple(PlannedRun(*item) for item in zip(names, configs, strict=True)))


def read_plan(path: Path) -> Plan:
    """Read a plan.

    Raises:
        ConfigError: it is missing or was changed into something that is not a plan.
    """
    content = load_yaml(path)
    if content.get("format") != FORMAT:
        raise ConfigError(
            f"{path} has format {content.get('format')!r}, but this gmc-bench reads {FORMAT}; "
            f"restore the file, or continue with the gmc-bench that wrote it"
        )
    runs = content.get("runs")
    if not isinstance(runs, list) or not runs or not all(map(_is_run, runs)):
        raise ConfigError(
            f"{path} must list runs with 'name' and 'config' under 'runs'; restore the file"
        )
    if len({item["name"] for item in runs}) < len(runs):
        raise ConfigError(f"{path} has two runs of one name; restore the file")
    plan = Plan(
        tuple(
            PlannedRun(item["name"], run_config_of(item["config"], f"{path} ({item['name']})"))
            for item in runs
        )
    )
    stated = {name: content[name] for name in _SUMMARY if name in content}
    if stated != _shared(plan.runs):
        raise ConfigError(
            f"{path} contradicts itself: {', '.join(_SUMMARY)} must be those that its runs "
            f"share; restore the file"
        )
    return plan


_SUMMARY = ("method", "suite", "protocol", "morphologies", "seed")


def _shared(runs: Sequence[PlannedRun]) -> dict[str, Any]:
    """Return what all runs of a plan share, for readers of the file."""
    found = [
        {
            **{name: getattr(run.config, name) for name in _SUMMARY},
            "protocol": run.config.protocol.name,
        }
        for run in runs
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


class PlanFolder(LockedFolder):
    """The folder of several runs, locked while open; see `LockedFolder`."""

    marker = PLAN

    @property
    def plan(self) -> Path:
        """The plan, YAML."""
        return self.path / PLAN

    def was_begun(self, run: PlannedRun) -> bool:
        """Return whether a run's folder holds its settings."""
        return (self.path / run.name / CONFIG).is_file()

    def open_run(self, run: PlannedRun) -> RunFolder:
        """Return the folder of a run, made if the run was never begun; it is not locked yet.

        Raises:
            RunFolderError: what lies there is not this run.
            StorageError: the folder cannot be created.
            ConfigError: the settings in it cannot be read.
        """
        folder = RunFolder(self.path / run.name, create=not self.was_begun(run))
        if folder.config.is_file():
            found = read_run_config(folder.config)
            if (found.identity(), found.seed) != (run.config.identity(), run.config.seed):
                raise RunFolderError(
                    f"{folder.config} has other settings than {self.plan} has for {run.name!r}; "
                    f"put them back, or delete the folder {folder.path} to start this task again"
                )
        return folder

    def read_finished(self, run: PlannedRun) -> RunRecord | None:
        """Return the record of a run, `None` if the run is not finished.

        Raises:
            RunFolderError: what lies there is not this run.
            RecordError: the record is damaged.
            ConfigError: the settings of the run cannot be read.
        """
        if not self.was_begun(run):
            return None
        record = self.open_run(run).record
        return read_record(record) if record.exists() else None

    def write(self, plan: Plan) -> None:
        """Write the plan.

        Raises:
            StorageError: it could not be written.
        """
        write_atomic(self.plan, plan.to_yaml().encode())
