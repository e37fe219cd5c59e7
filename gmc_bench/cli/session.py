"""One run from start to record: train, score, write down, show."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from gmc_bench.cli.output import note, number, say, table
from gmc_bench.cli.plan import protocol_digest, token_spec
from gmc_bench.config import config_digest
from gmc_bench.envs.normalization import TokenNormalizer
from gmc_bench.errors import CheckpointError, ConfigError
from gmc_bench.evaluation.evaluate import EpisodeResult, evaluate_policy
from gmc_bench.evaluation.policy_file import policy_tensors
from gmc_bench.library import load_morphologies
from gmc_bench.methods import METHODS, MethodSpec
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.morphology.schema import MorphologySet
from gmc_bench.results.curve import plot_learning_curve
from gmc_bench.results.environment import collect_hardware, collect_versions, git_state
from gmc_bench.results.schema import (
    BodyReturns,
    CurvePoint,
    Episode,
    Morphologies,
    RunRecord,
    WallClock,
)
from gmc_bench.results.store import write_atomic, write_record
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS, Task
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.checkpoint import encode_tensors
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.run_folder import RunFolder
from gmc_bench.training.trainer import Progress, Trainer


@dataclass(frozen=True)
class Session:
    """Everything a run needs, resolved."""

    config: RunConfig
    method: MethodSpec
    task: Task
    bodies: MorphologySet
    spec: TokenSpec


def open_session(config: RunConfig, bodies: MorphologySet | None = None) -> Session:
    """Resolve the names in a run's settings.

    Args:
        config: the settings.
        bodies: the body set, if it is at hand; otherwise it is loaded and checked.

    Raises:
        ConfigError: the body set is not the one the run used.
    """
    bodies = bodies or load_morphologies(config.morphologies)
    if bodies.digest != config.morphologies_digest:
        raise ConfigError(
            f"the body set {config.morphologies!r} has changed since the run was started "
            f"(hash {bodies.digest[:12]}, expected {config.morphologies_digest[:12]}); import the "
            f"version the run used"
        )
    suite = SUITES.get(config.suite)
    return Session(
        config,
        METHODS.load(config.method),
        TASKS.get(config.task),
        bodies,
        token_spec(suite, bodies),
    )


def check_method(session: Session) -> None:
    """Build the method's networks once, so that a broken method is refused before it starts.

    Raises:
        PluginError: the networks cannot be built or do not map tokens to numbers of the right
            shape.
    """
    settings = session.method.make_config(changes=session.config.method_config)
    ActorCritic(session.method, settings, session.spec, session.config.protocol.action_std)


def execute(session: Session, folder: RunFolder) -> RunRecord:
    """Train what is left to train, score the policy, write the record and show the result."""
    trainer = Trainer(
        session.config,
        session.method,
        session.task,
        session.bodies.split("train"),
        session.spec,
        folder,
    )
    _train(trainer)
    policy = encode_tensors(policy_tensors(trainer.model, trainer.normalizer))
    write_atomic(folder.policy, policy)
    returns = score(session, trainer.model, trainer.normalizer)
    record = make_record(session, trainer, returns, hashlib.sha256(policy).hexdigest())
    write_record(folder.record, record)
    title = (
        f"{session.method.title or session.method.id} - {session.task.title}, seed {record.seed}"
    )
    plot_learning_curve(record.learning_curve, folder.curve, title)
    show(record, folder)
    return record


def _train(trainer: Trainer) -> None:
    total, start = trainer.env_steps_planned, trainer.env_steps
    if start:
        note(f"Continuing at {start:,} of {total:,} env steps.")
    with tqdm(total=total, initial=start, unit="step", unit_scale=True, desc="train") as bar:

        def advance(progress: Progress) -> None:
            bar.set_postfix_str(f"return {number(progress.mean_return)}", refresh=False)
            bar.update(progress.env_steps - bar.n)

        trainer.train(advance)


def score(
    session: Session,
    model: ActorCritic,
    normalizer: TokenNormalizer,
    *,
    splits: tuple[str, ...] | None = None,
    episodes: int | None = None,
) -> tuple[BodyReturns, ...]:
    """Evaluate a policy on the protocol's splits and modes.

    Args:
        session: the run.
        model: its policy.
        normalizer: its observation statistics.
        splits: only these; default the protocol's.
        episodes: per body and mode; default the protocol's.
    """
    # The last bits of a network's output depend on it, so a later evaluation takes as many.
    torch.set_num_threads(session.config.threads)
    rules = session.config.protocol.evaluation
    count = episodes or rules.episodes
    chosen = splits or rules.splits
    total = sum(len(session.bodies.split(split)) for split in chosen) * count * len(rules.modes)
    seen = {body.digest for body in session.bodies.split("train")}
    results: list[BodyReturns] = []
    with tqdm(total=total, unit="episode", desc="score") as bar:

        def advance(done: int) -> None:
            bar.update(done)

        for split in chosen:
            bodies = session.bodies.split(split)
            for mode in rules.modes:
                found = evaluate_policy(
                    model,
                    normalizer,
                    session.task,
                    bodies,
                    episodes=count,
                    mode=mode,
                    seed=evaluation_seed(session.config.seed, split, mode),
                    num_threads=session.config.threads,
                    device=session.config.device,
                    on_progress=advance,
                )
                results += [
                    BodyReturns(
                        split=split,  # type: ignore[arg-type]
                        mode=mode,
                        body=body.name,
                        body_digest=body.digest,
                        seen_in_train=body.digest in seen,
                        episodes=tuple(_episode(item) for item in items),
                    )
                    for body, items in zip(bodies, found, strict=True)
                ]
    return tuple(results)


def evaluation_seed(seed: int, split: str, mode: str) -> int:
    """Return the seed of one part of an evaluation; parts share no random numbers."""
    text = f"{seed}/{split}/{mode}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4])


def _episode(result: EpisodeResult) -> Episode:
    return Episode(episode_return=result.episode_return, length=result.length, ended=result.ended)


def make_record(
    session: Session, trainer: Trainer, returns: tuple[BodyReturns, ...], weights_digest: str
) -> RunRecord:
    """Return the record of a finished run."""
    config, timers = session.config, trainer.timers
    parts = {name: round(getattr(timers, name), 3) for name in ("simulation", "policy", "update")}
    total = round(timers.total, 3)
    other = round(max(0.0, total - sum(parts.values())), 3)
    git = git_state(Path(__file__).parents[2])
    gpu = torch.cuda.get_device_name(config.device) if config.device.startswith("cuda") else None
    identity = config.identity()
    return RunRecord(
        status="complete",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        method=session.method.id,
        method_version=session.method.version,
        preset=config.protocol.preset,
        parameters=trainer.model.num_parameters(),
        suite=config.suite,
        task=config.task,
        protocol=config.protocol.name,
        protocol_digest=protocol_digest(config.protocol),
        protocol_seeds=config.protocol.seeds,
        morphologies=Morphologies(
            id=session.bodies.id,
            digest=session.bodies.digest,
            source=session.bodies.source,
            licence=session.bodies.licence,
            num_train=len(session.bodies.split("train")),
            num_test=len(session.bodies.split("test")),
        ),
        seed=config.seed,
        env_steps=trainer.env_steps,
        env_steps_planned=trainer.env_steps_planned,
        config=identity,
        config_digest=config_digest(identity),
        returns=returns,
        learning_curve=tuple(CurvePoint(**point) for point in trainer.curve),
        training_return=trainer.tracker.mean_return(complete=True),
        diverged_episodes=trainer.collector.diverged_episodes,
        wall_clock_s=WallClock(total=total, **parts, other=other),
        env_steps_per_s=trainer.env_steps / total,
        hardware=collect_hardware(config.threads, gpu),
        versions=collect_versions(),
        weights_digest=weights_digest,
        git_commit=git.commit,
        git_dirty=git.dirty,
        official=not config.unofficial_reasons,
        unofficial_reasons=config.unofficial_reasons,
    )


def summarize(returns: Sequence[BodyReturns]) -> list[list[str]]:
    """Return the rows of the summary table, one per split and mode (see `HEADINGS`)."""
    rows = []
    for split in ("train", "test"):
        for mode in ("deterministic", "stochastic"):
            items = [item for item in returns if (item.split, item.mode) == (split, mode)]
            rows += [_summary_row(f"{split}, {mode}", items)] if items else []
            unseen = [item for item in items if not item.seen_in_train]
            if split == "test" and 0 < len(unseen) < len(items):
                rows.append(_summary_row(f"{split}, {mode}, unseen bodies", unseen))
    return rows


def _summary_row(label: str, items: list[BodyReturns]) -> list[str]:
    means = [item.mean_return for item in items]
    episodes = [episode for item in items for episode in item.episodes]
    length = sum(episode.length for episode in episodes) / len(episodes)
    fell = sum(episode.ended != "time_limit" for episode in episodes) / len(episodes)
    return [
        label,
        str(len(items)),
        number(sum(means) / len(means)),
        number(min(means)),
        number(max(means)),
        number(length, 0),
        f"{100 * fell:.0f} %",
    ]


HEADINGS = ("bodies", "n", "return", "worst", "best", "length", "ended early")


def show(record: RunRecord, folder: RunFolder) -> None:
    """Print the result of a run."""
    say()
    say(
        f"{record.method} on {record.task} ({record.morphologies.id}), protocol {record.protocol}, "
        f"seed {record.seed}: {record.env_steps:,} env steps in {record.wall_clock_s.total:,.0f} s "
        f"({record.env_steps_per_s:,.0f}/s), {record.parameters:,} parameters"
    )
    say(f"training return {number(record.training_return)}")
    say()
    say(table(HEADINGS, summarize(record.returns)))
    say()
    for reason in record.unofficial_reasons:
        say(f"unofficial: {reason}")
    if record.diverged_episodes:
        say(f"diverged training episodes: {record.diverged_episodes}")
    say(f"record          {folder.record}")
    say(f"learning curve  {folder.curve}")


def load_trained(
    session: Session, folder: RunFolder, expected_digest: str | None
) -> tuple[ActorCritic, TokenNormalizer]:
    """Load the final policy of a run.

    Raises:
        CheckpointError: the file is missing, damaged, or of another method.
    """
    from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
    from gmc_bench.evaluation.policy_file import load_policy_tensors
    from gmc_bench.training.checkpoint import decode_tensors

    config = session.config
    try:
        data = folder.policy.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{folder.policy} cannot be read; finish the run with: gmc-bench run --resume "
            f"{folder.path}"
        ) from error
    if expected_digest is not None and hashlib.sha256(data).hexdigest() != expected_digest:
        raise CheckpointError(
            f"{folder.policy} is damaged (its digest is not the one in the record); delete it and "
            f"{folder.record.name}, then run: gmc-bench run --resume {folder.path}"
        )
    settings: Any = session.method.make_config(changes=config.method_config)
    model = ActorCritic(session.method, settings, session.spec, config.protocol.action_std)
    train = session.bodies.split("train")
    env = MorphologyVectorEnv(session.task, train, 1, token_spec=session.spec, num_threads=1)
    normalizer = TokenNormalizer(env.table, config.protocol.normalization)
    tensors = decode_tensors(data, folder.policy)
    load_policy_tensors(tensors, model, normalizer, str(folder.policy))
    return model.to(config.device), normalizer
