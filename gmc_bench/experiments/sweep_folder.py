"""Folder of a sweep: several runs side by side, and the file that lists them."""

import copy
import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gmc_bench.core.config import config_digest, load_yaml, sealed_yaml, shown, to_dict
from gmc_bench.core.errors import ConfigError, RunFolderError
from gmc_bench.experiments.method import method_labels, method_of
from gmc_bench.experiments.recorded import recorded_config
from gmc_bench.experiments.resolve import with_seed
from gmc_bench.experiments.run_folder import (
    CONFIG,
    LAUNCH,
    PAGE,
    PLAN,
    RECORD,
    LockedFolder,
    RunFolder,
    is_file,
)
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import read_record, write_atomic
from gmc_bench.suites.schema import short_name
from gmc_bench.training.run_config import RunConfig, read_run_config, run_config_of

FORMAT = 2
"""Version of the layout of `plan.yaml`; the one before is read too."""
_OBJECTS = ("method_config", "protocol", "tokens")
"""Settings that runs share as objects where they differ in their seeds alone."""
MAX_BYTES = 200
"""Of a run's name: file systems take 255, of which names of temporary files need some."""
_NAME = re.compile(r"(?![.-])[^/\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]+")
"""YAML does not keep the other characters, some of them only beside a space."""
_OWN = (PLAN, LAUNCH, PAGE)
"""Files of the sweep beside the folders of its runs."""
_SafeDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_SHARED = ("method", "suite", "protocol", "morphologies", "seed")
"""Settings that the file states once where all runs have them in common."""


class SweepFolder(LockedFolder):
    """The folder of several runs, locked while open; see `LockedFolder`."""

    marker = PLAN
    what = "the folder of several runs"
    maker = "sweep"

    def _why_not(self) -> str:
        if (self.path / CONFIG).is_file():
            return (
                f"{self.path} holds one run, several were expected; go on with it by: gmc-bench "
                f"run --resume {shlex.quote(str(self.path))}"
            )
        return super()._why_not()

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
            if found.run_digest != config.run_digest:
                raise RunFolderError(
                    f"{folder.config} has other settings than {self.plan} has for {name!r}; "
                    f"put them back, or delete the folder {folder.path} to start this run again"
                )
        return folder

    def read_finished(self, name: str, config: RunConfig) -> RunRecord | None:
        """Return the record of a run, `None` if the run is not finished.

        Raises:
            RunFolderError: what lies there is not this run or its record, or is a record without
                settings.
            RecordError: the record is damaged.
            ConfigError: the settings of the run, or those in its record, cannot be read.
        """
        record = self.path / name / RECORD
        if not self.was_begun(name):
            if is_file(record):
                raise RunFolderError(
                    f"{record.parent} holds {RECORD} but no {CONFIG}; put that back, or delete the "
                    f"folder to start this run again"
                )
            return None
        self.open_run(name, config)
        if not record.exists():
            return None
        found = read_record(record)
        if recorded_config(found).run_digest != config.run_digest:
            raise RunFolderError(
                f"{record} is of another run ({found.method}, {found.task}, seed {found.seed}); "
                f"put that of this one back, or delete the folder {record.parent} to start it again"
            )
        return found

    def write(self, runs: Mapping[str, RunConfig]) -> None:
        """Write the list of the runs.

        Raises:
            StorageError: it could not be written.
        """
        write_atomic(self.plan, sealed_yaml(runs_to_yaml(runs)).encode())


def runs_to_yaml(runs: Mapping[str, RunConfig]) -> str:
    """Return runs by name as YAML that `read_runs` reads back.

    What decides a run but for its seed stands there once however many runs share it: in full for
    the first, for others as what differs from that, by dotted name.
    """
    settings: dict[str, int] = {}
    changes: list[dict[str, Any]] = []
    lines: list[str] = []
    first: dict[str, Any] = {}
    known: dict[Any, int] = {}  # many runs share the very objects, which are slow to compare
    for name, config in runs.items():
        same = _settings(config)
        if same not in known:
            plain = to_dict(with_seed(config, config.protocol.seeds[0]))
            del plain["seed"]
            first = first or plain
            text = json.dumps(plain, sort_keys=True)
            if text not in settings:
                settings[text] = len(settings)
                changes.append(_differences(first, plain))
            known[same] = settings[text]
        line = {"name": name, "settings": known[same], "seed": config.seed}
        lines.append(f"- {json.dumps(line, ensure_ascii=False)}\n")
    content = {"format": FORMAT, **_shared(list(runs.values())), "settings": first}
    return "".join(
        [
            yaml.safe_dump(content, sort_keys=False),
            "changes:\n" if len(changes) > 1 else "changes: []\n",
            *(f"- {_in_one_line(item)}" for item in changes[1:]),
            "runs:\n",
            *lines,
        ]
    )


def _settings(config: RunConfig) -> tuple[Any, ...]:
    """Return what is the same, as long as they live, of runs that differ in their seeds alone."""
    return tuple(
        id(value) if item in _OBJECTS else value
        for item, value in vars(config).items()
        if item not in ("seed", "unofficial_reasons")
    )


def first_of_each(runs: Mapping[str, RunConfig]) -> list[str]:
    """Return the names of runs without those that would repeat an earlier one."""
    digests: dict[Any, str] = {}  # many runs share settings, which are slow to compare
    found: dict[tuple[str, int], str] = {}
    for name, config in runs.items():
        same = _settings(config)
        if same not in digests:
            digests[same] = config_digest(config.identity())
        found.setdefault((digests[same], config.seed), name)
    return list(found.values())


def _in_one_line(content: dict[str, Any]) -> str:
    # Not JSON, whose 1e-05 is a text in YAML.
    text: str = yaml.dump(content, Dumper=_SafeDumper, default_flow_style=True, width=10**9)
    return text


def _differences(first: dict[str, Any], other: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return what differs between the settings of two runs, by dotted name."""
    found: dict[str, Any] = {}
    for name, value in other.items():
        before = first.get(name)
        if _has_names(value) and isinstance(before, dict) and value.keys() == before.keys():
            found |= _differences(before, value, f"{prefix}{name}.")
        elif repr(value) != repr(before):  # 1 and true are two, in lists, too
            found[f"{prefix}{name}"] = value
    return found


def _has_names(value: Any) -> bool:
    """Return whether a value is a mapping whose keys can be parts of dotted names."""
    return isinstance(value, dict) and not any("." in key for key in value)


def _changed(first: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return the first run's settings with changes by dotted name."""
    plain = copy.deepcopy(first)
    for name, value in changes.items():
        *outer, last = name.split(".")
        place = plain
        for part in outer:
            place = place[part]
        place[last] = value
    return plain


def read_runs(path: Path) -> dict[str, RunConfig]:
    """Read the settings of the runs of a sweep, by name.

    Raises:
        ConfigError: the file is missing or was changed into something that lists no runs.
    """
    content = load_yaml(path)
    if content.get("format") not in (1, FORMAT):
        raise ConfigError(
            f"{path} has format {content.get('format')!r}, but this gmc-bench reads {FORMAT}; "
            f"restore the file, or continue with the gmc-bench that wrote it"
        )
    listed = content.get("runs")
    wanted = "'name' and 'config'" if content["format"] == 1 else "'name', 'settings' and 'seed'"
    if not isinstance(listed, list) or not listed or not all(map(_is_run, listed)):
        raise ConfigError(f"{path} must list runs with {wanted} under 'runs'; restore the file")
    try:
        read = _read_first_format if content["format"] == 1 else _read_format
        runs = read(content, listed, path)
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} must list runs with {wanted}; restore the file") from error
    if len(runs) < len(listed):
        raise ConfigError(f"{path} has two runs of one name; restore the file")
    stated = {name: content[name] for name in _SHARED if name in content}
    if stated != _shared(list(runs.values())):
        raise ConfigError(
            f"{path} contradicts itself: {', '.join(_SHARED)} must be those that its runs "
            f"share; restore the file"
        )
    return runs


def _read_first_format(
    content: dict[str, Any], listed: list[dict[str, Any]], path: Path
) -> dict[str, RunConfig]:
    """Read a list in which every run has all of its settings, as before there were grids."""
    return {
        item["name"]: run_config_of(item["config"], f"{path} ({item['name']})") for item in listed
    }


def _read_format(
    content: dict[str, Any], listed: list[dict[str, Any]], path: Path
) -> dict[str, RunConfig]:
    first = {**content["settings"], "seed": content["settings"]["protocol"]["seeds"][0]}
    distinct = [first, *(_changed(first, changes) for changes in content["changes"])]
    configs = [run_config_of(plain, f"{path} (settings)") for plain in distinct]
    return {item["name"]: with_seed(configs[item["settings"]], item["seed"]) for item in listed}


def name_runs(configs: Sequence[RunConfig]) -> dict[str, RunConfig]:
    """Return runs by names that say what tells them apart: method, task, bodies, preset, seed.

    Raises:
        ConfigError: two of them differ in none of these, or a name cannot be that of a folder.
    """
    methods = method_labels({config.method: method_of(config).id for config in configs})
    tasks = {config.task for config in configs}
    distinct = len({short_name(task) for task in tasks}) == len(tasks)
    parts = [
        (
            methods[config.method],
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
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(
            f"two runs would have the name {twice!r}: neither the method's id and file name, task, "
            f"bodies, preset nor seed tells them apart; give each a name of its own"
        )
    try:
        require_names(runs)
    except ConfigError as error:
        raise ConfigError(f"{error}; of runs in a mapping, the keys are the names") from None
    return runs


def require_names(names: Iterable[Any]) -> None:
    """Raise unless names of runs can be those of their folders, and of files made from them.

    Raises:
        ConfigError: one of them cannot.
    """
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or not _is_short(name):
            raise ConfigError(
                f"a run has the name of its folder: text without '/', line breaks and characters "
                f"that cannot be printed, that does not begin with '.' or '-', {MAX_BYTES} bytes "
                f"at most, got {shown(name)}"
            )
        if name.lower() in _OWN:  # also where file systems do not tell cases apart
            raise ConfigError(
                f"a run has the name of its folder, and {name!r} is a file of the sweep; give it "
                f"another name"
            )


def _is_short(name: str) -> bool:
    try:
        return len(name.encode()) <= MAX_BYTES
    except UnicodeEncodeError:  # no text
        return False


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
    if not isinstance(item, dict):
        return False
    if set(item) == {"name", "config"}:
        fits = isinstance(item["config"], dict)
    else:
        fits = set(item) == {"name", "settings", "seed"} and all(
            type(item[key]) is int and item[key] >= 0 for key in ("settings", "seed")
        )
    name = item.get("name")
    return fits and isinstance(name, str) and name not in (".", "..") and Path(name).name == name
