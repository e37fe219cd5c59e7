"""Measurements of studies: from finished runs to numbers, tables and pictures."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from gmc_bench.core.errors import ConfigError, GmcBenchError, UnknownNameError, did_you_mean
from gmc_bench.core.table import Table
from gmc_bench.evaluation.evaluate import EpisodeCounter, Scoring
from gmc_bench.evaluation.friction_options import FrictionOptions
from gmc_bench.evaluation.one_episode import WantedEpisode
from gmc_bench.experiments.devices import device_here
from gmc_bench.experiments.events import Listener, Remark, counter
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.friction import friction_setting, measure_run, study_numbers
from gmc_bench.experiments.resolve import threads_here
from gmc_bench.experiments.scoring import evaluation_seed
from gmc_bench.experiments.session import Session, limb_task, make_networks, torch_state
from gmc_bench.leaderboard.measured import is_measured_as_today
from gmc_bench.nn.tap import offers_representations
from gmc_bench.policies.policy import Policy
from gmc_bench.records.schema import RunRecord
from gmc_bench.studies import budget, figures, friction_table, generalisation, table
from gmc_bench.studies.gait import SETTLING, BrokenEpisodeError, Gait, gait_metrics, record_gait
from gmc_bench.studies.outcome import Outcome
from gmc_bench.studies.request import Request
from gmc_bench.studies.schema import Arm, Study
from gmc_bench.suites.schema import short_name
from gmc_bench.training.run_config import RunConfig

Draw = Callable[[Study, Sequence[Outcome]], bytes]
Tables = Mapping[str, Callable[[Study, Sequence[Outcome]], Table]]


@dataclass(frozen=True)
class FinishedRun:
    """A run of a study whose policy is there to be measured."""

    name: str
    arm: Arm
    experiment: Experiment
    record: RunRecord
    folder: Path
    """Of the study."""
    listener: Listener
    """Called with each event."""

    @cached_property
    def session(self) -> Session:
        """Settings and bodies, with the threads and the device that this machine has."""
        session = self.experiment.session
        threads, device = threads_here(session.config.threads), device_here(session.config.device)
        return replace(session, config=replace(session.config, threads=threads, device=device))

    @cached_property
    def policy(self) -> Policy:
        """The trained policy."""
        return self.experiment.policy

    def count(self, what: str, unit: str, total: int | None = None) -> Callable[..., None]:
        """Return a function that reports progress: how many more units are done."""
        return counter(self.listener, f"{what} of {self.name}", unit, total)


class Measurement:
    """What a study does with its finished runs; this one reads their records alone."""

    tables: ClassVar[Tables] = {"table": table.training_table}
    """By name of their files; the first is the main one."""
    figure: Draw | None = staticmethod(figures.draw_curves)
    """Picture of all outcomes."""
    keeps_numbers = False
    """Whether `measure` gives numbers of each run, kept in a file of its own."""

    def require(self, session: Session, request: Request) -> None:
        """Raise unless a run can be measured, before it is trained.

        Raises:
            ConfigError: it cannot.
        """

    def setting(self, config: RunConfig, request: Request) -> dict[str, Any]:
        """Return what the numbers depend on besides the policy and the software."""
        return {}

    def measure(self, run: FinishedRun, request: Request) -> dict[str, Any]:
        """Return the numbers of a policy."""
        return {}

    def compare(
        self, runs: Sequence[FinishedRun], request: Request
    ) -> tuple[dict[str, dict[str, Any]], list[Path]]:
        """Measure several policies together; return numbers by run, and pictures."""
        return {}, []


class Siblings(Measurement):
    """Returns under other orders of limbs' children."""

    tables: ClassVar[Tables] = {"table": table.sibling_table}
    figure: Draw | None = staticmethod(figures.draw_siblings)
    keeps_numbers = True

    def measure(self, run: FinishedRun, request: Request) -> dict[str, Any]:
        """Return what `score_sibling_orders` finds."""
        from gmc_bench.studies.siblings import count_episodes, score_sibling_orders

        config, task = run.session.config, run.session.task
        bodies = run.session.bodies.split("train")
        episodes = config.protocol.evaluation.episodes
        total = episodes * len(bodies) + count_episodes(run.policy, task, bodies)
        return score_sibling_orders(
            run.policy,
            task,
            bodies,
            episodes=episodes,
            seed=evaluation_seed(config.seed, "train", "siblings"),
            num_threads=config.threads,
            observers=(EpisodeCounter(run.count("sibling orders", "episode", total)),),
        )


class Representation(Measurement):
    """Linear probes of limbs' representations."""

    tables: ClassVar[Tables] = {"table": table.probe_table}
    figure: Draw | None = staticmethod(figures.draw_probes)
    keeps_numbers = True

    def require(self, session: Session, request: Request) -> None:
        """Check that the method shows representations.

        Raises:
            ConfigError: it does not, or there is one body only.
        """
        if len(session.bodies.split("train")) < 2:
            raise ConfigError(
                f"the study {request.study.id!r} asks which body a representation is of, but "
                f"{session.bodies.id} has one train body; choose other bodies with --morphologies"
            )
        if not offers_representations(make_networks(session).actor):
            raise ConfigError(
                f"the method {session.method.id!r} shows no representations of limbs, which the "
                f"study {request.study.id!r} is about; choose a method that has them (see "
                f"docs/add-your-method.md)"
            )

    def measure(self, run: FinishedRun, request: Request) -> dict[str, Any]:
        """Return what `probe` finds, and draw the principal components."""
        from gmc_bench.studies.representation import collect, plot_pca, probe

        config = run.session.config
        features = collect(
            run.policy,
            run.session.task,
            run.session.bodies.split("train"),
            seed=evaluation_seed(config.seed, "train", "representation"),
            num_threads=config.threads,
            on_progress=run.count("features", "step"),
        )
        plot_pca(features, run.folder / MEASURED / f"{run.name}.png")
        return asdict(probe(features, config.seed))


class Friction(Measurement):
    """Quadrupeds on three frictions."""

    tables: ClassVar[Tables] = {
        "table": friction_table.friction_table,
        **friction_table.FRICTION_TABLES,
    }
    figure: Draw | None = staticmethod(figures.draw_friction)
    keeps_numbers = True

    def require(self, session: Session, request: Request) -> None:
        """Raise unless the run is about quadrupeds that are available."""
        self.setting(session.config, request)

    def setting(self, config: RunConfig, request: Request) -> dict[str, Any]:
        """Return how the policy of a run is measured, see `friction_setting`."""
        return {"setting": friction_setting(config, request.friction)}

    def measure(self, run: FinishedRun, request: Request) -> dict[str, Any]:
        """Return what a policy does on every robot and friction, see `study_numbers`.

        What the record holds is not measured again, if its suite measures that today.
        """
        options, known = request.friction, run.record.friction
        usual = options == FrictionOptions() and is_measured_as_today(run.record)
        if known is not None and usual:
            results = [item.model_dump() for item in known]
        else:
            results = measure_run(run.session, run.policy, options, run.listener)
        return study_numbers(friction_setting(run.session.config, options), results)


class Budget(Measurement):
    """Agreement of rankings after trainings of several lengths, from records alone."""

    tables: ClassVar[Tables] = {
        "table": budget.agreement_table,
        "scores": budget.score_table,
    }
    figure: Draw | None = staticmethod(budget.draw_budgets)


class Generalisation(Measurement):
    """Growth of scores on unseen bodies with the number of train bodies, from records alone."""

    tables: ClassVar[Tables] = {
        "table": generalisation.growth_table,
        "scores": generalisation.score_table,
        "crossings": generalisation.crossing_table,
    }
    figure: Draw | None = staticmethod(generalisation.draw_growth)


class GaitComparison(Measurement):
    """How several policies move one body: numbers, a picture and videos."""

    tables: ClassVar[Tables] = {"table": table.gait_table}
    figure: Draw | None = None

    def require(self, session: Session, request: Request) -> None:
        """Check that there is a body of the name asked for, or scores that say which walks best.

        Raises:
            UnknownNameError: there is none.
            ConfigError: bodies do not consist of limbs, or nothing scores them.
        """
        limb_task(session)
        rules = session.config.protocol.evaluation
        is_scored = "train" in rules.splits and "deterministic" in rules.modes
        if request.body is None and not is_scored:
            raise ConfigError(
                "the body that walks best is found by mean actions on train bodies, which "
                "'evaluation.splits' and 'evaluation.modes' leave out; name one with --body"
            )
        names = [body.name for body in session.bodies.split("train")]
        if request.body is not None and request.body not in names:
            raise UnknownNameError(
                f"the train bodies of {session.bodies.id} have none named {request.body!r}"
                f"{did_you_mean(request.body, names)}"
            )

    def compare(
        self, runs: Sequence[FinishedRun], request: Request
    ) -> tuple[dict[str, dict[str, Any]], list[Path]]:
        """Record an episode of every run, and draw those of one task and seed side by side.

        Unless a body was asked for, the one on which all of these together do best is taken; then
        all of them are left out if one is not finished or its simulation breaks.
        """
        from gmc_bench.rendering.episode import EpisodeChoice, render_episode
        from gmc_bench.studies.gait_figure import plot_gait

        measured: dict[str, dict[str, Any]] = {}
        pictures: list[Path] = []
        groups: dict[tuple[str, int], list[FinishedRun]] = {}
        for run in runs:
            groups.setdefault((run.record.task, run.record.seed), []).append(run)
        for (task, seed), group in groups.items():
            listener = group[0].listener
            if request.body is None and len(group) < len(request.arms):
                listener(
                    Remark(
                        f"no gaits of {task}, seed {seed}: not all methods have finished, and the "
                        f"body is to suit them all; choose one with --body"
                    )
                )
                continue
            body = request.body or best_body([run.record for run in group])
            gaits = []
            for run in group:
                try:
                    gaits.append((run, _record(run, body)))
                except BrokenEpisodeError as error:
                    listener(Remark(f"no gait of {run.name}: {error}"))
            if request.body is None and len(gaits) < len(group):
                listener(Remark(f"no gaits of {task}, seed {seed}: {body} does not suit them all"))
            if not gaits or (request.body is None and len(gaits) < len(group)):
                continue
            picture = group[0].folder / f"gait_{short_name(task)}_seed{seed}.png"
            shown = [(run.record.method, gait) for run, gait in gaits]
            shortest = min(gait.length * gait.control_dt for _, gait in shown)
            try:
                plot_gait(shown, picture, start=SETTLING if shortest > 2 * SETTLING else 0.0)
                pictures.append(picture)
            except ConfigError as error:  # an episode was over at once
                listener(Remark(f"no picture {picture.name}: {error}"))
            for run, gait in gaits:
                measured[run.name] = {"body": body, **_numbers(gait)}
                try:
                    video = run.folder / f"{run.name}.mp4"
                    wanted = EpisodeChoice(body=body, split="train")
                    render_episode(run.experiment, wanted, video, listener=run.listener)
                except GmcBenchError as error:  # this machine may not be able to
                    run.listener(Remark(f"no video of {run.name}: {error}"))
        return measured, pictures


def best_body(records: Sequence[RunRecord]) -> str:
    """Return the train body with the largest sum of returns, so that no method is favoured."""
    total: dict[str, float] = {}
    for record in records:
        for item in record.returns:
            if (item.split, item.mode) == ("train", "deterministic"):
                total[item.body] = total.get(item.body, 0.0) + item.mean_return
    return max(total, key=lambda name: total[name])


def _record(run: FinishedRun, name: str) -> Gait:
    config, bodies = run.session.config, run.session.bodies.split("train")
    scoring = Scoring(
        task=limb_task(run.session),
        bodies=bodies,
        episodes=config.protocol.evaluation.episodes,
        seed=evaluation_seed(config.seed, "train", "deterministic"),
        num_threads=config.threads,
    )
    wanted = WantedEpisode(scoring=scoring, body=[body.name for body in bodies].index(name))
    with torch_state(run.session).in_use():  # as for the score
        return record_gait(run.policy, wanted, run.count("gait", "step"))


def _numbers(gait: Gait) -> dict[str, float | None]:
    names = ("speed", "stride_frequency", "regularity", "duty_factor", "phase_coherence")
    try:
        found = gait_metrics(gait)
    except ConfigError:  # it fell before it had settled
        return {"episode_return": gait.episode_return, **dict.fromkeys(names)}
    feet = [float(found.duty_factors[limb]) for limb in found.feet]
    values = (
        found.mean_speed,
        found.stride_frequency,
        found.regularity,
        sum(feet) / len(feet) if feet else math.nan,
        found.mean_phase_coherence,
    )
    return {
        "episode_return": gait.episode_return,
        **{
            name: float(value) if math.isfinite(value) else None
            for name, value in zip(names, values, strict=True)
        },
    }


MEASURED = "measured"
"""Folder of measurements inside a study's, one file per run."""
MEASUREMENTS: dict[str, Measurement] = {
    "training": Measurement(),
    "siblings": Siblings(),
    "representation": Representation(),
    "gait": GaitComparison(),
    "friction": Friction(),
    "budget": Budget(),
    "bodies": Generalisation(),
}
"""By what a study measures."""
