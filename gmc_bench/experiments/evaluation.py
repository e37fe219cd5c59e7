"""Evaluation of a run's policy after it: on other bodies, untrained or with sensor dropout."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.sets import check_bodies, load_morphologies
from gmc_bench.core.config import coerce_fields
from gmc_bench.core.errors import ConfigError, TokenOverflowError
from gmc_bench.core.types import Mode, Split
from gmc_bench.evaluation.dropout import draw_silent_limbs
from gmc_bench.experiments.devices import device_here, gpu_name
from gmc_bench.experiments.events import Event, Remark
from gmc_bench.experiments.resolve import checkout, threads_here
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.experiments.scoring import score
from gmc_bench.experiments.session import Session, limb_task, load_trained, untrained_policy
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.frames import episodes_frame
from gmc_bench.records.schema import BodyReturns

if TYPE_CHECKING:
    import pandas as pd


MAX_EPISODES = 1_000_000
"""Per body and mode."""


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """What is evaluated of a run's policy; the defaults are the protocol's.

    Raises:
        ConfigError: a value does not fit its field, or there is no episode, or too many.
    """

    bodies: str | MorphologySet | None = None
    """Set to score on instead of the run's, by its id or itself, without training or new
    observation statistics."""
    split: Split | None = None
    """Only this split; of other bodies, the test split if none is named."""
    mode: Mode | None = None
    """Only this way of choosing actions; by default those of the protocol, or both if it has none,
    as in a tuning's trials."""
    episodes: int | None = None
    """Per body and mode."""
    untrained: bool = False
    """Score the weights that training started from."""
    sensor_dropout: bool = False
    """One limb of every body, which follows from the run's seed, shows the policy only zeros."""

    def __post_init__(self) -> None:
        coerce_fields(self, names=("bodies",))
        if self.episodes is not None and self.episodes < 1:
            raise ConfigError(f"'episodes' must be at least 1, got {self.episodes}")
        if self.episodes is not None and self.episodes > MAX_EPISODES:
            raise ConfigError(f"'episodes' must be at most {MAX_EPISODES:,}, got {self.episodes}")


@dataclass(frozen=True)
class Evaluation:
    """Returns of a policy, and what was scored."""

    trained: Session
    """The run of the policy."""
    scored: Session
    """The same with the bodies it was scored on."""
    returns: tuple[BodyReturns, ...]
    """One per split, mode and body."""
    weights_digest: str | None
    """Of the record; none for an untrained policy or a run without one."""
    silent_limbs: dict[str, dict[str, str]] | None
    """With sensor dropout, the name of the limb that was not observed, by split and body."""

    def __repr__(self) -> str:
        return (
            f"<evaluation of {self.trained.method.id} trained on {self.trained.bodies.id}: "
            f"{len(self.returns)} body scores on {self.scored.bodies.id}>"
        )

    def to_pandas(self) -> "pd.DataFrame":
        """Return one row per episode."""
        return episodes_frame(self.returns)

    def to_dict(self) -> dict[str, Any]:
        """Return everything that says what was scored, and the returns, as plain values."""
        config, bodies = self.trained.config, self.scored.bodies
        git = checkout()
        return {
            "method": self.trained.method.id,
            "suite": config.suite,
            "task": config.task,
            "protocol": config.protocol.name,
            "seed": config.seed,
            "weights_digest": self.weights_digest,
            "trained_on": {"id": self.trained.bodies.id, "digest": self.trained.bodies.digest},
            "morphologies": {"id": bodies.id, "digest": bodies.digest},
            "episodes_per_body": len(self.returns[0].episodes),
            "silent_limbs": self.silent_limbs,
            "git_commit": git.commit,
            "git_dirty": git.dirty,
            "versions": collect_versions(),
            "hardware": collect_hardware(config.threads, gpu_name(config.device)).model_dump(),
            "returns": [item.model_dump() for item in self.returns],
        }


def evaluate_run(
    session: Session, folder: RunFolder, options: EvaluationOptions, emit: Callable[[Event], None]
) -> Evaluation:
    """Score the policy of a run again.

    Args:
        session: the run.
        folder: its folder.
        options: what is scored.
        emit: is told of progress, and what a reader must know.

    Raises:
        CheckpointError: the policy's file is missing, damaged, or of another method.
        GmcBenchError: the policy cannot be scored in this way.
    """
    trained = _on_this_machine(session, emit)
    scored, splits = trained, (options.split,) if options.split else None
    if options.sensor_dropout:
        limb_task(trained)  # a limb that is not seen has a name
    if options.bodies is not None:
        scored = _on_other_bodies(trained, options.bodies)
        emit(Remark(f"Scoring on {scored.bodies.id}; trained on {trained.bodies.id}."))
        splits = splits or ("test",)
    if options.untrained:
        digest, policy = None, untrained_policy(trained)
    else:
        record = folder.find_record()
        digest = None if record is None else record.weights_digest
        policy = load_trained(trained, folder)
    modes = (options.mode,) if options.mode else trained.config.protocol.evaluation.modes
    returns = score(
        scored,
        policy,
        splits=splits,
        modes=modes or get_args(Mode),
        episodes=options.episodes,
        sensor_dropout=options.sensor_dropout,
        on_progress=emit,
    )
    # The train split of another set may be unseen, which no record of a run could state.
    seen = {body.digest for body in trained.bodies.split("train")}
    marked = tuple(
        item.model_copy(update={"seen_in_train": item.body_digest in seen}) for item in returns
    )
    silent = _silent_limbs(scored, returns) if options.sensor_dropout else None
    return Evaluation(trained, scored, marked, digest, silent)


def _on_this_machine(session: Session, emit: Callable[[Event], None]) -> Session:
    """Return a run's session with no more threads than this machine has, on a device of its own."""
    config = session.config
    threads = threads_here(config.threads)
    if threads < config.threads:
        emit(
            Remark(
                f"Scoring on {threads} thread(s), the run had {config.threads}: the last bits may "
                f"differ."
            )
        )
    device = device_here(config.device)
    if device != config.device:
        emit(Remark(f"Scoring on {device}, the run had {config.device}: the last bits may differ."))
    return replace(session, config=replace(config, threads=threads, device=device))


def _on_other_bodies(trained: Session, wanted: str | MorphologySet) -> Session:
    """Return a run's session with another set of bodies.

    Raises:
        MorphologyError: a body of a set that was made in Python cannot be used.
        ConfigError: the method has separate weights per body.
        TokenOverflowError: a body does not fit the run's token layout.
    """
    if trained.method.capabilities.per_body:
        raise ConfigError(
            f"the method {trained.method.id!r} has one policy for each training body and cannot "
            f"be scored on other bodies; leave out --morphologies"
        )
    if isinstance(wanted, MorphologySet):
        check_bodies(wanted)
        bodies = wanted
    else:
        bodies = load_morphologies(wanted)
    spec = trained.spec
    if bodies.max_limbs > spec.max_limbs or bodies.joints_per_limb > spec.joints_per_limb:
        raise TokenOverflowError(
            f"the set {bodies.id!r} has bodies of up to {bodies.max_limbs} limbs with up to "
            f"{bodies.joints_per_limb} joints each, but the run's token layout has "
            f"{spec.max_limbs} slots with {spec.joints_per_limb}; choose a set of smaller bodies"
        )
    return replace(trained, bodies=bodies)


def _silent_limbs(session: Session, returns: tuple[BodyReturns, ...]) -> dict[str, dict[str, str]]:
    """Return by split and body the name of the limb that is not seen."""
    found: dict[str, dict[str, str]] = {}
    for split in dict.fromkeys(item.split for item in returns):
        bodies: tuple[Morphology, ...] = session.bodies.split(split)
        limbs = draw_silent_limbs(bodies, session.config.seed).tolist()
        found[split] = {
            body.name: body.limbs[limb].name for body, limb in zip(bodies, limbs, strict=True)
        }
    return found
