"""From the finished runs of a study to its measurements, table and pictures."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.cli import study_friction
from gmc_bench.cli.output import note, say
from gmc_bench.cli.output import table as aligned
from gmc_bench.cli.study_plan import PlannedArm, Request
from gmc_bench.core.errors import ConfigError, UnknownNameError, did_you_mean
from gmc_bench.core.table import Table
from gmc_bench.evaluation.evaluate import EpisodeCounter
from gmc_bench.evaluation.friction_options import FrictionOptions
from gmc_bench.experiments import session as sessions
from gmc_bench.experiments.resolve import threads_here
from gmc_bench.experiments.scoring import evaluation_seed
from gmc_bench.experiments.session import Session
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.nn.tap import offers_representations
from gmc_bench.policies.policy import Policy
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import read_sealed, record_digest, sealed, write_atomic
from gmc_bench.studies.figures import FIGURES
from gmc_bench.studies.friction_table import FRICTION_TABLES, friction_table
from gmc_bench.studies.outcome import Outcome
from gmc_bench.studies.schema import Study
from gmc_bench.studies.table import TABLES
from gmc_bench.training.run_config import read_run_config
from gmc_bench.training.run_folder import RunFolder

TABLE, CELLS, PICTURE, RESULT = "table.md", "table.csv", "figure.png", "study.json"
MEASURED = "measured"
"""Folder of measurements, one file per run."""
_TABLES = {**TABLES, "friction": friction_table}


@dataclass(frozen=True)
class FinishedRun:
    """A run whose policy is there to be measured."""

    planned: PlannedArm
    folder: RunFolder
    record: RunRecord
    study_folder: Path
    friction: FrictionOptions = field(default_factory=FrictionOptions)

    @property
    def name(self) -> str:
        """Of the run, inside the study."""
        return self.planned.name

    def load(self) -> tuple[Session, Policy]:
        """Return the run's session and policy."""
        config = read_run_config(self.folder.config)
        session = sessions.open_session(replace(config, threads=threads_here(config.threads)))
        return session, sessions.load_trained(session, self.folder, self.record.weights_digest)


def require_measurable(
    request: Request, planned: Sequence[PlannedArm], bodies: MorphologySet
) -> None:
    """Raise unless every run of a study can be trained and then measured.

    Raises:
        ConfigError: a method shows no limb representations where they are asked for, or a study of
            quadrupeds is to run on something else.
        UnknownNameError: there is no body of the name asked for.
        PluginError: a network cannot be built.
    """
    names = [body.name for body in bodies.split("train")]
    if request.body is not None and request.body not in names:
        raise UnknownNameError(
            f"the train bodies of {bodies.id} have none named {request.body!r}"
            f"{did_you_mean(request.body, names)}"
        )
    for item in planned:
        session = sessions.open_session(item.config, bodies)
        sessions.check_method(session)
        if request.study.measure == "friction":
            study_friction.friction_setting(item.config, request.friction)
        if request.study.measure == "representation" and not offers_representations(
            sessions.make_policy(session).actor
        ):
            raise ConfigError(
                f"the method {session.method.id!r} shows no representations of limbs, which the "
                f"study {request.study.id!r} is about; choose a method that has them (see "
                f"docs/add-your-method.md)"
            )


def measure(study: Study, run: FinishedRun) -> dict[str, Any]:
    """Return what a study measures on a policy, from its file if that is there.

    A measurement counts only for the very run and the very software it was made with.

    Args:
        study: says what is measured.
        run: whose policy.

    Raises:
        RecordError: a stored measurement was changed.
        StorageError: it cannot be written.
    """
    made_with = {
        "study": study.id,
        "record_digest": record_digest(run.record),
        "weights_digest": run.record.weights_digest,
        "versions": collect_versions(),
    }
    if study.measure == "friction":
        made_with["setting"] = study_friction.friction_setting(run.planned.config, run.friction)
    path = run.study_folder / MEASURED / f"{run.name}.json"
    if path.exists():
        content, _ = read_sealed(path)
        if {name: content.get(name) for name in made_with} == made_with:
            found: dict[str, Any] = content["measured"]
            return found
    note(f"\nmeasuring {run.name}")
    session, policy = run.load()
    if study.measure == "friction":
        numbers = study_friction.measure(session, policy, run.friction)
    else:
        numbers = _MEASURES[study.measure](session, policy, path.with_suffix(".png"))
    content = {
        **made_with,
        "measured": numbers,
        "hardware": collect_hardware(session.config.threads).model_dump(),
    }
    write_atomic(path, sealed(content))
    return numbers


def _measure_siblings(session: Session, policy: Policy, _: Path) -> dict[str, Any]:
    from gmc_bench.studies.siblings import count_episodes, score_sibling_orders

    bodies = session.bodies.split("train")
    episodes = session.config.protocol.evaluation.episodes
    total = episodes * len(bodies) + count_episodes(policy, session.task, bodies)
    with tqdm(total=total, unit="episode", desc="sibling orders") as bar:
        return score_sibling_orders(
            policy,
            session.task,
            bodies,
            episodes=episodes,
            seed=evaluation_seed(session.config.seed, "train", "siblings"),
            num_threads=session.config.threads,
            observers=(EpisodeCounter(bar.update),),
        )


def _measure_representation(session: Session, policy: Policy, picture: Path) -> dict[str, Any]:
    from gmc_bench.studies.representation import collect, plot_pca, probe

    bodies = session.bodies.split("train")
    with tqdm(unit="step", desc="features") as bar:
        features = collect(
            policy,
            session.task,
            bodies,
            seed=evaluation_seed(session.config.seed, "train", "representation"),
            num_threads=session.config.threads,
            on_progress=lambda done: _advance(bar, done),
        )
    plot_pca(features, picture)
    return asdict(probe(features, session.config.seed))


def _advance(bar: Any, done: int) -> None:
    bar.update(done)


_MEASURES = {
    "siblings": _measure_siblings,
    "representation": _measure_representation,
}
_MEASURED = (*_MEASURES, "friction")


def conclude(study: Study, outcomes: Sequence[Outcome], folder: Path) -> Table:
    """Write a study's table, picture and result, and show the table.

    Args:
        study: the study.
        outcomes: of all its runs, also those that are not finished.
        folder: where the files go.

    Raises:
        StorageError: a file cannot be written.
    """
    table = _TABLES[study.measure](study, outcomes)
    write_atomic(folder / TABLE, table.to_markdown().encode())
    write_atomic(folder / CELLS, table.to_csv().encode())
    if study.measure == "friction":
        for name, make in FRICTION_TABLES.items():
            other = make(study, outcomes)
            write_atomic(folder / f"{name}.md", other.to_markdown().encode())
            write_atomic(folder / f"{name}.csv", other.to_csv().encode())
    write_atomic(folder / PICTURE, FIGURES[study.measure](study, outcomes))
    write_atomic(folder / RESULT, sealed(_result(study, outcomes)))
    _show(study, table, folder)
    return table


def _result(study: Study, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return everything behind a table: which runs, and what was measured on them."""
    return {
        "schema_version": 1,
        "study": study.id,
        "status": "complete" if all(item.record for item in outcomes) else "incomplete",
        "runs": [
            {
                "arm": item.arm.name,
                "task": item.task,
                "seed": item.seed,
                "record_digest": record_digest(item.record) if item.record else None,
                "measured": item.measured,
            }
            for item in outcomes
        ],
        "versions": collect_versions(),
    }


def _show(study: Study, table: Table, folder: Path) -> None:
    say()
    say(f"{study.title}: {study.question}")
    say()
    say(aligned(table.headings, [list(row) for row in table.rows]))
    say()
    for text in table.notes[1:]:
        say(text)
    say(f"table    {folder / TABLE}, {folder / CELLS}")
    say(f"picture  {folder / PICTURE}")


def finish(
    request: Request,
    planned: Sequence[PlannedArm],
    records: Mapping[str, RunRecord],
    sweep: Sweep,
) -> None:
    """Measure the finished runs of a study, and write and show what came out.

    Args:
        request: what was asked for.
        planned: all its runs.
        records: of the finished ones, by name.
        sweep: the runs.

    Raises:
        GmcBenchError: a policy cannot be measured.
        StorageError: a file cannot be written.
    """
    study, folder = request.study, sweep.path
    assert folder is not None
    finished = {
        item.name: FinishedRun(
            item, sweep[item.name].folder, records[item.name], folder, request.friction
        )
        for item in planned
        if item.name in records
    }
    if study.measure == "gait":
        from gmc_bench.cli.study_gait import compare_gaits

        compare_gaits(request, list(finished.values()), folder)
        return
    outcomes = []
    for item in planned:
        run = finished.get(item.name)
        measured = measure(study, run) if run and study.measure in _MEASURED else {}
        record = run.record if run else None
        outcomes.append(Outcome(item.arm, item.task, item.seed, record, measured))
    conclude(study, outcomes, folder)
