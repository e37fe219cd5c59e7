"""What a run shows and stores when it is done."""

from collections.abc import Sequence
from datetime import UTC, datetime

import torch

from gmc_bench.cli.output import number, say, table
from gmc_bench.cli.plan import checkout, protocol_digest
from gmc_bench.cli.session import Session
from gmc_bench.core.config import config_digest, definition_digest
from gmc_bench.records.breakdown import by_limbs, by_loops, scored
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.parts import Split
from gmc_bench.records.schema import (
    BodyReturns,
    CurvePoint,
    Morphologies,
    RunRecord,
    WallClock,
)
from gmc_bench.suites import SUITES
from gmc_bench.training.run_folder import RunFolder
from gmc_bench.training.trainer import Trainer

HEADINGS = ("bodies", "n", "return", "worst", "best", "length", "ended early")
"""Columns of `summarize`: bodies counted, returns over bodies, mean length, share of failures."""
_SPLITS: tuple[Split, ...] = ("train", "test")


def make_record(
    session: Session, trainer: Trainer, returns: tuple[BodyReturns, ...], weights_digest: str
) -> RunRecord:
    """Return the record of a finished run."""
    config, timers = session.config, trainer.timers
    parts = {name: round(getattr(timers, name), 3) for name in ("simulation", "policy", "update")}
    total = round(timers.total, 3)
    other = round(max(0.0, total - sum(parts.values())), 3)
    git = checkout()
    # Another commit than at the start: no single commit made these numbers.
    moved = config.git_commit is not None and config.git_commit != git.commit
    gpu = torch.cuda.get_device_name(config.device) if config.device.startswith("cuda") else None
    identity, suite = config.identity(), SUITES.get(config.suite)
    return RunRecord(
        status="complete",
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        method=session.method.id,
        method_version=session.method.version,
        preset=config.protocol.preset,
        controller="single_robot" if session.method.capabilities.per_body else "shared",
        parameters=trainer.model.num_parameters(),
        suite=config.suite,
        suite_digest=definition_digest(suite.only(config.task)),
        task=config.task,
        task_digest=definition_digest(session.task),
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
        seed=config.seed,
        env_steps=trainer.env_steps,
        env_steps_planned=trainer.env_steps_planned,
        config=identity,
        config_digest=config_digest(identity),
        returns=returns,
        learning_curve=tuple(CurvePoint(**point) for point in trainer.curve),
        training_return=trainer.tracker.mean_return(complete=True),
        diverged_episodes=trainer.collector.diverged_episodes,
        loops_opened=trainer.collector.loops_opened,
        wall_clock_s=WallClock(total=total, **parts, other=other),
        env_steps_per_s=trainer.env_steps / total,
        hardware=collect_hardware(config.threads, gpu),
        versions=collect_versions(),
        weights_digest=weights_digest,
        git_commit=git.commit,
        git_dirty=None if git.commit is None else bool(git.dirty or moved),
        official=not config.unofficial_reasons,
        unofficial_reasons=config.unofficial_reasons,
    )


def summarize(returns: Sequence[BodyReturns]) -> list[list[str]]:
    """Return the rows of the summary table, one per split and mode (see `HEADINGS`)."""
    rows = []
    for split in _SPLITS:
        for mode in ("deterministic", "stochastic"):
            items = [item for item in returns if (item.split, item.mode) == (split, mode)]
            rows += [_summary_row(f"{split}, {mode}", items)] if items else []
            unseen = [item for item in items if not item.seen_in_train]
            if split == "test" and 0 < len(unseen) < len(items):
                rows.append(_summary_row(f"{split}, {mode}, unseen bodies", unseen))
    for split in _SPLITS:
        parts = by_limbs(scored(returns, split)) | by_loops(scored(returns, split))
        rows += [_summary_row(f"{split}, {label}", items) for label, items in parts.items()]
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
    if record.loops_opened:
        say(f"closed loops came open in training: {record.loops_opened} times")
    say(f"record          {folder.record}")
    say(f"learning curve  {folder.curve}")
