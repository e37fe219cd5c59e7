"""Tuning: the same number of trials over the same ranges for every method, in one folder."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import yaml

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.arguments import as_path, require_instance
from gmc_bench.core.config import (
    coerce_fields,
    config_digest,
    fields_of,
    leaves,
    load_yaml,
    sealed_yaml,
    to_dict,
)
from gmc_bench.core.errors import ConfigError, RunFolderError, TrainingDivergedError, reject_unknown
from gmc_bench.experiments.devices import check_device, device_here, gpu_name
from gmc_bench.experiments.events import (
    CheckpointWritten,
    Event,
    FolderOpened,
    Listener,
    Listeners,
    RecordWritten,
    Remark,
    RunStarted,
    TrainingFinished,
)
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.method import executed_digest, full_name, require_same_text
from gmc_bench.experiments.resolve import (
    check_threads,
    checkout,
    choose,
    choose_task,
    resolve,
    threads_here,
)
from gmc_bench.experiments.run_folder import LockedFolder, is_file, new_folder
from gmc_bench.experiments.search_sets import SEARCH_SET, require_search_set
from gmc_bench.experiments.spec import NAMES, ExperimentSpec, flatten
from gmc_bench.experiments.trial_settings import DIGITS, SPREAD, draw
from gmc_bench.experiments.trials import (
    DIVERGED,
    RETURN,
    TuningResult,
    TuningTrial,
    best_of,
    read_diverged,
    read_result,
    read_return,
)
from gmc_bench.methods.tuning import FORMAT, Range, ranges_of, tuning_key
from gmc_bench.records.environment import collect_hardware, collect_versions, merged_versions
from gmc_bench.records.store import sealed, write_atomic
from gmc_bench.suites.choice import Choice
from gmc_bench.suites.protocol import Protocol
from gmc_bench.tasks import TASKS

if TYPE_CHECKING:
    from gmc_bench.bodies.schema import MorphologySet

FOLDER = Path("tuning")
"""Where folders go that nobody names."""
TRIALS = 8
"""Trials of every method, the protocol's own values among them."""
ENV_STEPS = 300_000
"""Control steps of a trial's run."""
SEEDS = (1001,)
"""Seeds of a trial's runs: none that a protocol has."""
TRAIN_ONLY: Mapping[str, Any] = {
    "evaluation.modes": [],
    "evaluation.splits": ["train"],
    "return_window": 0.1,
}
"""Settings of runs that are judged by their training: nothing is scored, so no test body is met. A
short run needs a wider window for some episodes of every body."""
_PINNED = ("method_version", "method_source_digest")
"""What `tuning.yaml` says of the method beside its name; older ones do not."""
_OF_WRITER = ("versions", "hardware", "git_commit", "created")
"""What `tuning.json` says of whoever wrote it."""
_OF_RUNS = (RunStarted, CheckpointWritten, TrainingFinished, RecordWritten)
"""Events of a trial's runs that are not passed on."""


@dataclass(frozen=True, kw_only=True)
class TuningSpec:
    """What a method is tuned for, and how thoroughly.

    Raises:
        ConfigError: a value does not fit its field, there is no trial or no seed, or seeds repeat.
    """

    method: str
    """Registered id, `FILE.py:SPEC` or `MODULE:SPEC`."""
    suite: str = "unimal"
    task: str | None = "ft"
    protocol: str | None = None
    """Whose rules the trials follow but for their budget; by default the suite's."""
    bodies: str = SEARCH_SET
    """Body set that no table scores; `SET:N` for its first N train bodies."""
    env_steps: int = ENV_STEPS
    trials: int = TRIALS
    seeds: tuple[int, ...] = SEEDS
    """Seeds of every trial's runs; a trial counts with their mean."""
    sampler_seed: int = 0
    """Of the values drawn; the same for all methods that shall have the same chance."""
    device: str = "cpu"
    threads: int | None = None
    settings: Mapping[str, Any] | None = None
    """Changes of the protocol or of the method that hold in every trial, by dotted name."""

    def __post_init__(self) -> None:
        if self.settings is not None:
            object.__setattr__(self, "settings", flatten(self.settings))
        coerce_fields(self, names=NAMES)
        most = 2**32  # each trial adds its number to the sampler's seed, and optuna takes 32 bits
        seeds_differ = self.seeds and len(set(self.seeds)) == len(self.seeds)
        if not (1 <= self.trials <= most and seeds_differ):
            raise ConfigError(
                f"tuning needs 1 to {most:,} trials and different seeds, got {self.trials:,} and "
                f"{self.seeds}"
            )
        largest = most - self.trials
        if not 0 <= self.sampler_seed <= largest:
            raise ConfigError(
                f"'sampler_seed' must be from 0 to {largest} for {self.trials} trials, got "
                f"{self.sampler_seed}"
            )


def _read_marker(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what `tuning.yaml` says: the fields of a `TuningSpec`, and what it pins."""
    content = load_yaml(path)
    return content, {name: content.pop(name) for name in _PINNED if name in content}


class TuningFolder(LockedFolder):
    """The folder of a method's trials, locked while open; see `LockedFolder`."""

    marker = "tuning.yaml"
    verb = "tune"

    @property
    def result(self) -> Path:
        """Everything about the search, JSON; there once all trials are done."""
        return self.path / "tuning.json"


class Tuning:
    """Trials of one method in a folder of their own.

    ```python
    result = Tuning(method="recmorph", bodies="my-search-set", trials=8).run()
    print(result.best.settings, result.best.value)
    ```

    The first trial has the values that the method would have without tuning. The next `SPREAD`
    are spread evenly over the ranges, the same for all methods; each one after follows from the
    values and returns before it (tree-structured Parzen estimator, see optuna). What a trial tries
    depends on these and on the sampler's seed alone, so a search that was stopped goes on as if it
    had not been.

    Args:
        spec: what to tune; or its fields as keywords.
        out: the folder; by default a new one under `tuning/`.
        on_event: is told what happens.
        fields: of `TuningSpec`, in place of `spec` or to change it.

    Raises:
        GmcBenchError: a name is unknown, or the bodies are scored by a table.
    """

    def __init__(
        self,
        spec: TuningSpec | None = None,
        *,
        out: Path | str | None = None,
        on_event: Listener | None = None,
        **fields: Any,
    ) -> None:
        reject_unknown(fields, fields_of(TuningSpec), "a tuning")
        if spec is not None:
            fix = "give its fields as keywords otherwise, method=..."
            require_instance(spec, TuningSpec, "a tuning", fix)
        if spec is None and "method" not in fields:
            raise ConfigError("a tuning needs a method, got none; name one")
        self.spec = TuningSpec(**fields) if spec is None else replace(spec, **fields)
        self.path = None if out is None else as_path(out, "the folder of a tuning")
        """The folder; none as long as none was named or made."""
        self._emit = Listeners(on_event)

    @classmethod
    def open(cls, path: Path | str, *, on_event: Listener | None = None) -> Self:
        """Return the tuning that a folder holds, finished or not.

        Raises:
            RunFolderError: it holds none.
            ConfigError: its settings cannot be read.
        """
        folder = TuningFolder(as_path(path, "the folder of a tuning"))
        marker = folder.path / folder.marker
        try:
            content, _ = _read_marker(marker)
            spec = TuningSpec(**content | {"seeds": tuple(content["seeds"])})
        except (KeyError, TypeError) as error:
            raise ConfigError(
                f"{marker} is not what a tuning was asked for ({error}); restore it"
            ) from error
        return cls(spec, out=path, on_event=on_event)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a function of what happens from now on; return one that ends that."""
        return self._emit.subscribe(listener)

    @cached_property
    def bodies(self) -> "MorphologySet":
        """What trials train on.

        Raises:
            MorphologySetError: the set cannot be had here.
        """
        return load_morphologies(self.spec.bodies)

    @cached_property
    def choice(self) -> Choice:
        """Method, suite and protocol."""
        return choose(self._base())

    @cached_property
    def task(self) -> str:
        """Full id of the task."""
        return choose_task(self._base(), self.choice.suite)

    @cached_property
    def ranges(self) -> dict[str, Range]:
        """What is tuned, by dotted name, and in which range."""
        return ranges_of(self.choice.method_config)

    @property
    def rules(self) -> Protocol:
        """The protocol that the method would have on the task without tuning."""
        return self.choice.before_tuning.rules(self.task)

    @property
    def first(self) -> dict[str, float]:
        """Settings of the first trial: those that the method would have without tuning."""
        groups = {"ppo": self.rules.ppo, "model": self.choice.before_tuning.settings(self.task)}
        found = {
            f"{group}.{name}": value
            for group, settings in groups.items()
            for name, value, _ in leaves(settings)
        }
        return {name: float(found[name]) for name in self.ranges if found[name] is not None}

    def place(self) -> Path:
        """Return the folder, chosen now if none was named."""
        if self.path is None:
            choice = self.choice
            name = f"{choice.method.id}_{self.task.rpartition('-v')[0]}_{choice.protocol.name}"
            self.path = new_folder(FOLDER, name)
        return self.path

    def run(self) -> TuningResult:
        """Run all trials, in a new folder.

        Raises:
            GmcBenchError: a trial cannot be run.
        """
        check_threads(self.spec.threads)
        check_device(self.spec.device)
        self._require_sense()  # before a folder is made that nobody could use
        with TuningFolder(self.place(), create=True) as folder:
            content = self._asked | self._method
            text = sealed_yaml(yaml.safe_dump(content, sort_keys=False))
            write_atomic(folder.path / folder.marker, text.encode())
            return self._finish(folder)

    def resume(self) -> TuningResult:
        """Go on: finished trials are kept, a begun one goes on from its checkpoint.

        On a machine with fewer cores than threads were asked for, runs take those there are, and
        those that are yet to begin the CPU where it does not have the device.

        Raises:
            RunFolderError: the folder is in use, or holds something else.
            GmcBenchError: a trial cannot be run.
        """
        if self.path is None or not is_file(self.path / TuningFolder.marker):
            return self.run()
        self._require_sense()
        with TuningFolder(self.path) as folder:
            content, pinned = _read_marker(folder.path / folder.marker)
            if content | {"method": full_name(content["method"])} != self._asked:
                raise RunFolderError(
                    f"{folder.path} holds trials of another tuning; choose another 'out', or "
                    f"continue them with Tuning.open"
                )
            self._require_same_method(pinned)
            return self._finish(folder)

    @property
    def _asked(self) -> dict[str, Any]:
        """What was asked for; the method by the name that finds it from any working folder."""
        return _plain(self.spec) | {"method": full_name(self.spec.method)}

    @cached_property
    def _method(self) -> dict[str, Any]:
        """Version of the method, and of a method given as a file the hash of its text."""
        method = self.choice.method
        digest = executed_digest(self.choice.method_name, method)
        found = {"method_version": method.version, "method_source_digest": digest}
        return {name: value for name, value in found.items() if value is not None}

    def _require_same_method(self, pinned: Mapping[str, Any]) -> None:
        """Raise if the method is another one than when the search began, as far as is known."""
        name, found = self.choice.method_name, self._method
        if "method_source_digest" in pinned:
            expected = pinned["method_source_digest"]
            require_same_text(name, found.get("method_source_digest"), expected, "tuning")
        version = pinned.get("method_version", found["method_version"])
        if version != found["method_version"]:
            raise ConfigError(
                f"the method {name} has version {found['method_version']}, but the tuning was "
                f"started with version {version}; install that one, or start another tuning"
            )

    def _require_sense(self) -> None:
        """Raise unless there is something to tune, and the bodies are some to search on."""
        method = self.choice.method
        if not method.trainable:
            raise ConfigError(
                f"the method {method.id!r} trains nothing, so it has nothing to tune; tune a "
                f"method that is trained"
            )
        if method.capabilities.per_body:
            raise ConfigError(
                f"the method {method.id!r} has separate weights per body: a reference with rules "
                f"of its own, which are not tuned; tune a method that shares its weights"
            )
        own = {"env_steps", *TRAIN_ONLY, *self.ranges}
        if foreign := sorted(own & set(self.spec.settings or {})):
            raise ConfigError(
                f"'settings' of a tuning must not hold {foreign[0]!r}, which trials set "
                f"themselves; leave it out"
            )
        require_search_set(self.bodies)
        for seed in self.spec.seeds:
            resolve(self._spec_of(self.first, seed))  # whether such a run can be made

    def _finish(self, folder: TuningFolder) -> TuningResult:
        self._emit(FolderOpened(folder.path))
        self._warn_of_short_runs()
        trials: list[TuningTrial] = []
        versions: list[Mapping[str, str]] = []
        for number in range(self.spec.trials):
            settings = self.first
            if number > 0:
                settings = draw(self.ranges, number, trials, self.spec.sampler_seed)
            self._emit(Remark(f"trial {number + 1} of {self.spec.trials}: {_shown(settings)}"))
            runs = {seed: self._run(folder, number, settings, seed) for seed in self.spec.seeds}
            trial = TuningTrial(
                number,
                settings,
                {seed: run.returned for seed, run in runs.items()},
                round(sum(run.core_seconds for run in runs.values()), 1),
            )
            versions += [run.versions for run in runs.values()]
            trials.append(trial)
            value = "none" if trial.value is None else f"{trial.value:,.1f}"
            self._emit(Remark(f"training return {value}"))
        key = tuning_key(self.choice.suite.id, self.task, self.choice.protocol.name)
        content = self._content(trials, versions)
        if (before := _written(folder.result, key, content)) is not None:
            return TuningResult(key, tuple(trials), before)
        text = json.dumps({"format": FORMAT, "searches": {key: content}}, indent=1)
        write_atomic(folder.result, f"{text}\n".encode())
        return TuningResult(key, tuple(trials), content)

    def _warn_of_short_runs(self) -> None:
        """Warn before the trials, not after them, if runs may be too short to be judged."""
        num_envs = resolve(self._spec_of(self.first, self.spec.seeds[0])).config.protocol.num_envs
        steps, horizon = self.spec.env_steps // num_envs, TASKS.get(self.task).horizon
        if steps < horizon:
            self._emit(
                Remark(
                    f"each of {num_envs} environments makes {steps} steps, but an episode on "
                    f"{self.task} has up to {horizon}: only those that end early will count, and "
                    f"trials without any have no return; raise the env steps to "
                    f"{horizon * num_envs:,} or more"
                )
            )

    def _run(
        self, folder: TuningFolder, number: int, settings: Mapping[str, float], seed: int
    ) -> "_Run":
        """Return what came of one run, made now or before.

        One that diverges has no return. It would diverge again, so it is not repeated.
        """
        path = folder.path / f"trial-{number + 1:03d}" / f"seed-{seed}"
        judged, diverged = path / RETURN, path / DIVERGED

        def judge(event: Event) -> None:
            if isinstance(event, TrainingFinished):  # the record comes after it
                write_atomic(judged, sealed({"training_return": event.mean_return}))

        experiment = Experiment(self._spec_of(settings, seed), out=path, on_event=self._tell)
        experiment.subscribe(judge)
        config, expected = experiment.config, self._method.get("method_source_digest")
        # Each run reads the file again, which may have changed since the search began.
        require_same_text(config.method, config.method_source_digest, expected, "tuning")
        if is_file(diverged):
            return _Run(None, read_diverged(diverged, config.run_digest), {})
        begun = time.process_time()
        try:
            record = experiment.resume()
        except TrainingDivergedError as error:
            seconds = round(time.process_time() - begun, 1)
            found = {"reason": str(error), "core_seconds": seconds, "run": config.run_digest}
            write_atomic(diverged, sealed(found))
            self._emit(Remark(f"seed {seed}: {error}"))
            return _Run(None, seconds, collect_versions())
        return _Run(read_return(judged), record.core_seconds, record.versions)

    def _tell(self, event: Event) -> None:
        """Pass on events of a trial's run, but for those that show that it is a run."""
        if not isinstance(event, _OF_RUNS):
            self._emit(event)

    def _base(self) -> ExperimentSpec:
        spec = self.spec
        return ExperimentSpec(
            method=spec.method, suite=spec.suite, task=spec.task, protocol=spec.protocol
        )

    @property
    def _threads(self) -> int | None:
        """Threads of a trial's run: as many as were asked for, if this machine has them."""
        return None if self.spec.threads is None else threads_here(self.spec.threads)

    def _spec_of(self, settings: Mapping[str, float], seed: int) -> ExperimentSpec:
        """Return the run of one seed under some settings; tuned ones that are none are left out."""
        changes = {**(self.spec.settings or {}), "env_steps": self.spec.env_steps, **TRAIN_ONLY}
        return self._base().replace(
            task=self.task,
            seed=seed,
            bodies=self.spec.bodies,
            # None, or the values that the method was tuned to before would take their place.
            settings={**changes, **dict.fromkeys(self.ranges), **settings},
            threads=self._threads,
            device=device_here(self.spec.device),
            checkpoint_interval=60.0,
        )

    def _content(
        self, trials: Sequence[TuningTrial], versions: Sequence[Mapping[str, str]]
    ) -> dict[str, Any]:
        choice, spec, best = self.choice, self.spec, best_of(trials)
        device = device_here(spec.device)
        hardware = collect_hardware(check_threads(self._threads), gpu_name(device))
        return {
            "method": choice.method.id,
            **self._method,
            "preset": choice.protocol.preset,
            "bodies": {"id": self.bodies.id, "digest": self.bodies.digest,
                       "train": len(self.bodies.split("train"))},
            "env_steps": spec.env_steps,
            "seeds": list(spec.seeds),
            "settings": dict(spec.settings or {}),
            "rules_digest": rules_digest(choice.suite.protocol(choice.protocol.name, self.task)),
            "ranges": {name: asdict(item) for name, item in self.ranges.items()},
            "sampler": {"name": "spread, then TPE", "seed": spec.sampler_seed, "spread": SPREAD},
            "trials": [
                {**asdict(trial), "returns": {str(k): v for k, v in trial.returns.items()},
                 "value": trial.value}
                for trial in trials
            ],
            "best": best.number,
            "kept": best.settings,
            "versions": {**merged_versions(versions), "optuna": version("optuna")},
            "hardware": hardware.model_dump(mode="json"),
            "git_commit": checkout().commit,
            "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }  # fmt: skip


class _Run(NamedTuple):
    """What came of a run of a trial."""

    returned: float | None
    """Training return."""
    core_seconds: float
    versions: Mapping[str, str]
    """Of the software that made it; empty where that is not known."""


def _written(path: Path, key: str, content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a file says of these very trials, made by whoever wrote it; `None` if nothing."""
    try:
        found_key, found = read_result(path)
    except RunFolderError:  # there is none, or it is damaged
        return None
    wanted = json.loads(json.dumps(content))
    same = all(found.get(name) == wanted[name] for name in wanted if name not in _OF_WRITER)
    return found if same and found_key == key else None


def rules_digest(protocol: Protocol) -> str:
    """Return the hash of the rules that trials follow: all but name, budget, scores and seeds."""
    plain = to_dict(protocol)
    for name in ("name", "env_steps", "evaluation", "seeds", "return_window"):
        del plain[name]
    return config_digest(plain)


def _shown(settings: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.{DIGITS}g}" for name, value in settings.items())


def _plain(spec: TuningSpec) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(asdict(spec)))
    return plain
