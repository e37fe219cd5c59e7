"""Experiment: one run in a folder of its own, from its specification to its record."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from gmc_bench.core.arguments import as_path, require_instance
from gmc_bench.core.config import sealed_yaml
from gmc_bench.core.errors import CheckpointError, ConfigError, RunFolderError, reject_unknown
from gmc_bench.experiments.devices import device_here
from gmc_bench.experiments.events import Listener, Listeners, Remark, RunStarted
from gmc_bench.experiments.launch import check_processes, dismiss, under_torchrun
from gmc_bench.experiments.method import check_shares, require_same_text
from gmc_bench.experiments.recorded import RecordedRun
from gmc_bench.experiments.resolve import (
    Resolved,
    another_commit,
    resolve,
    run_name,
    threads_here,
)
from gmc_bench.experiments.run_folder import RunFolder, is_file, is_free, new_folder
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.records.store import read_record, write_atomic
from gmc_bench.records.weights import find_record, weights_of
from gmc_bench.training.run_config import RunConfig

if TYPE_CHECKING:
    import torch

    from gmc_bench.bodies.schema import MorphologySet
    from gmc_bench.core.types import Mode, Split
    from gmc_bench.experiments.evaluation import Evaluation
    from gmc_bench.experiments.scoring import EpisodeWatch
    from gmc_bench.experiments.session import Session
    from gmc_bench.policies.policy import Policy
    from gmc_bench.records.schema import RunRecord

RUNS = Path("runs")
"""Where folders go that nobody names."""


class Experiment:
    """One run in a folder of its own.

    ```python
    record = Experiment(method="recmorph", suite="unimal", task="ft", protocol="smoke").run()
    ```

    Args:
        spec: what to run; or its fields as keywords.
        out: the run's folder; by default a new one under `runs/`.
        on_event: is told what happens, see `gmc_bench.experiments.events`.
        fields: of `ExperimentSpec`, in place of `spec` or to change it.

    Raises:
        ConfigError: a field is missing, unknown or does not fit.
    """

    def __init__(
        self,
        spec: ExperimentSpec | None = None,
        *,
        out: Path | str | None = None,
        on_event: Listener | None = None,
        **fields: Any,
    ) -> None:
        if not isinstance(spec, ExperimentSpec | None):
            raise ConfigError(
                f"an experiment needs an ExperimentSpec, got {spec!r}; give its fields as keywords "
                f"otherwise, method=... and suite=..."
            )
        self.spec: ExperimentSpec | None = (
            ExperimentSpec.from_dict(fields) if spec is None else spec.replace(**fields)
        )
        """What was asked for; none if the experiment was opened from its folder."""
        self.path = None if out is None else as_path(out, "the folder of a run")
        """The run's folder; none as long as none was named or made."""
        self._emit = Listeners(on_event)
        self._bodies: MorphologySet | None = None
        self._watch: EpisodeWatch | None = None

    def __repr__(self) -> str:
        place = "" if self.path is None else f" in {self.path}"
        if self.spec is None:
            return f"<experiment{place}>"
        parts = (self.spec.suite, self.spec.task, self.spec.protocol)
        where = ", ".join(part for part in parts if part is not None)
        return f"<experiment: {self.spec.method} on {where}{place}>"

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        bodies: "MorphologySet | None" = None,
        on_event: Listener | None = None,
    ) -> Self:
        """Return the experiment that a run folder holds, finished or not, or a record tells of.

        Args:
            path: the folder; or the file of a record in a leaderboard that keeps its weights, or
                the first digits of that record's digest.
            bodies: its body set, if that is at hand; otherwise it is loaded when needed.
            on_event: is told what happens.

        Raises:
            RunFolderError: it is not a run folder.
            ConfigError: `path` is no path, or `bodies` no body set.
        """
        if bodies is not None:
            from gmc_bench.bodies.schema import MorphologySet

            fix = "leave it out, or load one with load_morphologies(NAME)"
            require_instance(bodies, MorphologySet, "opening a run", fix)
        experiment = cls.__new__(cls)
        experiment.spec, experiment._bodies, experiment._watch = None, bodies, None
        experiment.path = found = find_record(as_path(path, "a run or a record"))
        if not is_file(found):
            experiment.path = RunFolder(found).path
        experiment._emit = Listeners(on_event)
        return experiment

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell a function of what happens from now on; return one that ends that."""
        return self._emit.subscribe(listener)

    def watch(self, watch: "EpisodeWatch | None") -> None:
        """Set who observes the episodes in which the run is scored; the scores stay the same."""
        self._watch = watch

    @cached_property
    def resolved(self) -> Resolved:
        """The specification with its names looked up.

        Raises:
            GmcBenchError: a name is unknown, or a setting does not fit.
        """
        if self.spec is None:
            raise ConfigError(
                f"{self.path} holds the settings of a run, not what was asked for; use 'config'"
            )
        return resolve(self.spec)

    @cached_property
    def config(self) -> RunConfig:
        """The resolved settings of the run.

        Raises:
            GmcBenchError: they cannot be resolved or read.
        """
        if self.spec is None:
            return self.folder.read_config()
        return self.resolved.config

    @cached_property
    def session(self) -> "Session":
        """The run with method, task and bodies loaded.

        Raises:
            GmcBenchError: the body set or the method is not here, or not the one the run had.
        """
        from gmc_bench.experiments.session import open_session

        return open_session(
            self.config, self._bodies if self.spec is None else self.resolved.bodies
        )

    @property
    def folder(self) -> RunFolder:
        """The run's folder.

        Raises:
            RunFolderError: nothing was begun.
        """
        if self.path is None:
            raise RunFolderError("the experiment has no folder yet; run it first, or name one")
        return self._recorded if self.path.is_file() else RunFolder(self.path)

    @cached_property
    def _recorded(self) -> RecordedRun:
        assert self.path is not None
        return RecordedRun(self.path)

    def check(self) -> None:
        """Check whether it can be run here: bodies, method, its trials, its networks.

        Raises:
            GmcBenchError: it cannot.
        """
        from gmc_bench.experiments.session import check_networks

        check_networks(self.session)

    def run(self) -> "RunRecord":
        """Run from the start to the record, in a new folder.

        Raises:
            GmcBenchError: the experiment cannot be run, or not finished.
        """
        if self.spec is None:
            raise RunFolderError(f"{self.path} already holds a run; use resume")
        self.check()  # before a folder is made that nobody could use
        self.path = self.path or new_folder(RUNS, run_name(self.config, self.session.method))
        with RunFolder(self.path, create=True) as folder:
            write_atomic(folder.config, sealed_yaml(self.config.to_yaml()).encode())
            return self._finish(folder, resumed=False)

    def resume(self, processes: int | None = None) -> "RunRecord":
        """Finish what lies in the folder, or start it; a finished run is left as it is.

        Args:
            processes: that share the environments from now on; by default as many as torchrun has
                started, or as before. With another number the last bits change, as the record
                says; likewise on a machine with fewer cores than the run had threads.

        Raises:
            RunFolderError: the folder is in use, or holds something else.
            ConfigError: so many processes cannot share it.
            GmcBenchError: the experiment cannot be run, or not finished.
        """
        if processes is not None:
            check_processes(processes)  # also where nothing is left to run
        if self.spec is not None and (self.path is None or is_free(self.path)):
            if processes is not None:
                self._use_processes(processes)
            return self.run()
        with self.folder as folder:
            self._require_same(folder)
            if folder.record.exists():
                dismiss()
                return read_record(folder.record)
            self._set(replace(self.config, threads=threads_here(self.config.threads)))
            self._use_processes(processes)
            return self._finish(folder, resumed=True)

    def _set(self, config: RunConfig) -> None:
        """Take other settings; the session is made anew from them."""
        self.config = config
        self.__dict__.pop("session", None)

    def _use_processes(self, count: int | None) -> None:
        """Let the run have another number of processes, unless nobody asks for one."""
        if count is not None or under_torchrun():
            self._set(replace(self.config, processes=check_processes(count)))
        check_shares(self.config, self.session.method)

    def _require_same(self, folder: RunFolder) -> None:
        """Raise unless the folder's run is the one that is asked for."""
        found = folder.read_config()
        digest = found.method_source_digest
        if replace(self.config, method_source_digest=digest).run_digest == found.run_digest:
            # Nothing else differs, if that does.
            require_same_text(self.config.method, self.config.method_source_digest, digest)
        if found.run_digest != self.config.run_digest:
            raise RunFolderError(
                f"{folder.path} holds a run with other settings; choose another 'out', or continue "
                f"it with Experiment.open"
            )
        self._set(found)  # threads and checkpoints are those of the folder

    def _finish(self, folder: RunFolder, *, resumed: bool) -> "RunRecord":
        from gmc_bench.experiments.execution import execute

        self._emit(RunStarted(folder.path, self.config, self.session.env_steps, resumed))
        if resumed and (text := another_commit([self.config])):
            self._emit(Remark(text))
        return execute(self.session, folder, self._emit, self._watch)

    def evaluate(
        self,
        *,
        bodies: "str | MorphologySet | None" = None,
        split: "Split | None" = None,
        mode: "Mode | None" = None,
        episodes: int | None = None,
        untrained: bool = False,
        sensor_dropout: bool = False,
    ) -> "Evaluation":
        """Score the policy again, also on other bodies; the defaults are the protocol's.

        Args:
            bodies: set to score on, e.g. `gmc-unimal-mini+damping-v1` or the set itself, without
                training or new observation statistics; of other bodies, the test split if none is
                named.
            split: only this one.
            mode: only this way of choosing actions.
            episodes: per body and mode.
            untrained: score the weights that training started from.
            sensor_dropout: the policy observes only zeros of one limb of every body, which is drawn
                from the run's seed.

        Raises:
            CheckpointError: the run is not finished, or its policy is damaged.
            GmcBenchError: the policy cannot be scored in this way.
        """
        folder = self.folder  # first, because loading the rest takes seconds
        from gmc_bench.experiments.evaluation import EvaluationOptions, evaluate_run

        options = EvaluationOptions(
            bodies=bodies,
            split=split,
            mode=mode,
            episodes=episodes,
            untrained=untrained,
            sensor_dropout=sensor_dropout,
        )
        return evaluate_run(self.session, folder, options, self._emit)

    @property
    def policy(self) -> "Policy":
        """The trained policy, ready to act.

        Raises:
            CheckpointError: the run is not finished, or its policy is damaged.
        """
        return self.load_policy()

    def load_policy(self, device: "str | torch.device | None" = None) -> "Policy":
        """Return the trained policy.

        Args:
            device: where its networks shall run; by default where they were trained, or on the CPU
                of a machine that has no such device.

        Raises:
            CheckpointError: the run is not finished, or its policy is damaged.
        """
        folder = self.folder
        from gmc_bench.experiments.session import load_trained

        session = self.session
        device = str(device or device_here(session.config.device))
        session = replace(session, config=replace(session.config, device=device))
        return load_trained(session, folder)

    @property
    def record(self) -> "RunRecord":
        """The record of the finished run.

        Raises:
            RecordError: there is none yet, or it is damaged.
        """
        return self.folder.read_record()


def evaluate(path: Path | str, **options: Any) -> "Evaluation":
    """Score the policy of a finished run again; see `Experiment.evaluate`.

    Args:
        path: the run's folder.
        options: as there.

    Raises:
        ConfigError: there is no such option.
        GmcBenchError: see there.
    """
    known = list(inspect.signature(Experiment.evaluate).parameters)[1:]
    reject_unknown(options, known, "an evaluation")
    return Experiment.open(path).evaluate(**options)


def load_policy(path: Path | str, device: "str | torch.device" = "cpu") -> "Policy":
    """Return a trained policy.

    Its method is found by the name that it was saved with: of a method file of one's own, the file,
    which must lie where it lay. `Policy.load(path, method=...)` takes the method itself instead.

    Args:
        path: the folder of a finished run, or a file that `Policy.save` wrote; or a record in a
            leaderboard that keeps its weights, by its file or the first digits of its digest. For
            these, the bodies of the run need not be here.
        device: where its networks shall run.

    Raises:
        CheckpointError: there is no policy, or it is damaged.
        RunFolderError: the folder is not that of a run.
        ConfigError: torch has no such device here, or networks do not run on it.
    """
    device = str(device)
    path = find_record(as_path(path, "a run, a policy or a record"))
    if path.suffix == ".json":
        kept = weights_of(path)
        kept.read()  # it is the one that was added
        path = kept.path
    if path.suffix == ".safetensors":
        from gmc_bench.policies.policy import Policy

        return Policy.load(path, device=device)
    if is_file(path) and path.suffix:
        raise CheckpointError(
            f"a policy is the folder of a run, NAME.safetensors of Policy.save or NAME.json of a "
            f"leaderboard, got the file {path}; give one of these"
        )
    return Experiment.open(path).load_policy(device)
