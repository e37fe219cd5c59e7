"""Record of a finished run: its settings, returns, learning curve, times and origin."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gmc_bench.core.config import config_digest, definition_digest
from gmc_bench.experiments.devices import gpu_name
from gmc_bench.experiments.resolve import checkout
from gmc_bench.experiments.session import Session
from gmc_bench.policies.policy import Policy
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.schema import (
    CHANGED,
    RESIZED,
    STATED_VERSIONS,
    BodyReturns,
    CurvePoint,
    FrictionResult,
    Morphologies,
    RunRecord,
    WallClock,
)
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import protocol_digest, tuning_of_run
from gmc_bench.training.trainer import Trainer


def make_record(
    session: Session,
    policy: Policy,
    trainer: Trainer | None,
    returns: tuple[BodyReturns, ...],
    *,
    weights_digest: str,
    friction: tuple[FrictionResult, ...] | None = None,
) -> RunRecord:
    """Return the record of a finished run.

    Args:
        session: the run.
        policy: who was scored.
        trainer: what trained it; none where nothing was trained.
        returns: of the policy.
        weights_digest: SHA-256 of the policy's file.
        friction: what it does on frictions, where the suite asks for it.
    """
    config, git = session.config, checkout()
    # Another commit than at the start: no single commit made these numbers.
    moved = config.git_commit is not None and config.git_commit != git.commit
    identity, suite = config.identity(), SUITES.get(config.suite)
    changes = {} if trainer is None else changes_of(trainer.made_with)
    reasons = (
        *config.unofficial_reasons,
        *(CHANGED.format(what=name) for name in changes if name in STATED_VERSIONS),
    )
    return RunRecord(
        status="complete",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        method=session.method.id,
        method_version=session.method.version,
        preset=config.protocol.preset,
        controller="single_robot" if session.method.capabilities.per_body else "shared",
        parameters=policy.model.num_parameters(),
        untrained=True if trainer is None else None,
        suite=config.suite,
        suite_digest=definition_digest(suite.only(config.task)),
        task=config.task,
        task_digest=session.task.digest,
        protocol=config.protocol.name,
        protocol_digest=protocol_digest(config.protocol, session.method, suite, config.task),
        protocol_seeds=config.protocol.seeds,
        morphologies=Morphologies(
            id=session.bodies.id,
            digest=session.bodies.digest,
            source=session.bodies.source,
            licence=session.bodies.licence,
            num_train=len(session.bodies.split("train")),
            num_test=len(session.bodies.split("test")),
        ),
        metres_per_return=session.task.metres_per_return,
        seed=config.seed,
        config=identity,
        config_digest=config_digest(identity),
        returns=returns,
        **_training_fields(trainer),
        friction=friction,
        tuning=tuning_of_run(
            session.method, suite, config.task, config.protocol, config.method_config
        ),
        hardware=collect_hardware(config.threads, gpu_name(config.device), config.processes),
        versions=collect_versions(),
        weights_digest=weights_digest,
        remarks=_remarks(trainer, changes),
        git_commit=git.commit,
        git_dirty=None if git.commit is None else bool(git.dirty or moved),
        official=not reasons,
        unofficial_reasons=reasons,
    )


def changes_of(made_with: Sequence[Sequence[Any]]) -> dict[str, list[tuple[int, str]]]:
    """Return what changed while a run was under way: (iteration, value) since when, by name.

    Args:
        made_with: of a trainer. What is not always stated, as by an older version, is left out.
    """
    found: dict[str, list[tuple[int, str]]] = {}
    for name in made_with[0][1]:
        if all(name in stated for _, stated in made_with):
            values = [(since, stated[name]) for since, stated in made_with]
            found[name] = [
                item for at, item in enumerate(values) if at == 0 or item[1] != values[at - 1][1]
            ]
    return {name: values for name, values in found.items() if len(values) > 1}


def _remarks(
    trainer: Trainer | None, changes: Mapping[str, Sequence[tuple[int, str]]]
) -> tuple[str, ...] | None:
    """Return what a reader should know about how a run was made, if there is anything."""
    found = []
    for what in ("processes", "threads"):
        counts = [] if trainer is None else getattr(trainer, what)
        if len(counts) > 1:
            parts = ", ".join(f"{count} from iteration {start + 1}" for start, count in counts)
            found.append(f"{RESIZED.format(what=what)}: {parts}")
    for name, values in changes.items():
        assert trainer is not None
        parts = ", ".join(
            f"{value} from iteration {since + 1}" if since < trainer.iteration
            else f"{value} in scoring"
            for since, value in values
        )  # fmt: skip
        found.append(f"{CHANGED.format(what=name)}: {parts}")
    return tuple(found) or None


def _training_fields(trainer: Trainer | None) -> dict[str, Any]:
    """Return what a record says about training."""
    if trainer is None:
        nothing = WallClock(total=0.0, simulation=0.0, policy=0.0, update=0.0, other=0.0)
        return {
            **dict.fromkeys(("env_steps", "env_steps_planned", "diverged_episodes"), 0),
            "learning_curve": (),
            "training_return": None,
            "wall_clock_s": nothing,
            "env_steps_per_s": 0.0,
        }
    timers = trainer.timers
    parts = {name: round(getattr(timers, name), 3) for name in ("simulation", "policy", "update")}
    total = round(timers.total, 3)
    other = round(max(0.0, total - sum(parts.values())), 3)
    return {
        "env_steps": trainer.env_steps,
        "env_steps_planned": trainer.env_steps_planned,
        "learning_curve": tuple(CurvePoint(**point) for point in trainer.curve),
        "training_return": trainer.tracker.mean_return(complete=True),
        "diverged_episodes": trainer.collector.diverged_episodes,
        "loops_opened": trainer.collector.loops_opened,
        "wall_clock_s": WallClock(total=total, **parts, other=other),
        "env_steps_per_s": trainer.env_steps / total,
    }
