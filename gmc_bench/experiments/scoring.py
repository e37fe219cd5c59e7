"""Scoring of a run's policy on the splits and modes of its protocol."""

import hashlib
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from gmc_bench.bodies.body import Body
from gmc_bench.bodies.kinship import geometry, limb_tree
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Mode, Split
from gmc_bench.evaluation.dropout import draw_silent_limbs
from gmc_bench.evaluation.evaluate import EpisodeCounter, EpisodeResult, Observer, Scoring
from gmc_bench.evaluation.loops import LoopMonitor, make_loop_monitor
from gmc_bench.experiments.events import Progress
from gmc_bench.experiments.session import Session, torch_state
from gmc_bench.policies.policy import Policy
from gmc_bench.records.schema import BodyReturns, Episode, LoopResiduals, RunRecord

EpisodeWatch = Callable[[str, Scoring], Observer | None]
"""Is told of each part of an evaluation before it is run, its split and its rules, and returns who
looks at its episodes; see `Experiment.watch`."""


def score(
    session: Session,
    policy: Policy,
    *,
    splits: tuple[Split, ...] | None = None,
    modes: tuple[Mode, ...] | None = None,
    episodes: int | None = None,
    sensor_dropout: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
    watch: EpisodeWatch | None = None,
) -> tuple[BodyReturns, ...]:
    """Evaluate a policy on the protocol's splits and modes.

    Args:
        session: the run.
        policy: who acts.
        splits: only these; default the protocol's. A method with separate weights per body is
            scored on the bodies it was trained on only.
        modes: only these; default the protocol's.
        episodes: per body and mode; default the protocol's.
        sensor_dropout: one limb of every body, drawn from the run's seed, shows only zeros.
        on_progress: gets the episodes done so far, at the start and whenever some have ended.
        watch: returns observers of the episodes, see `Experiment.watch`.

    Raises:
        ConfigError: a split was asked for whose bodies the method cannot control.
    """
    protocol = session.config.protocol.evaluation
    count = episodes or protocol.episodes
    chosen, ways = splits or protocol.splits, modes or protocol.modes
    if session.method.capabilities.per_body:
        if splits and "test" in splits:
            raise ConfigError(
                f"the method {session.method.id!r} has one policy for each training body and "
                f"cannot be scored on the split 'test'; use --split train"
            )
        chosen = ("train",)
    total = sum(len(session.bodies.split(split)) for split in chosen) * count * len(ways)
    # The last bits of a network's output depend on the threads; a later evaluation takes as many.
    own, done = torch_state(session), 0
    tell = None if on_progress is None else own.aside(on_progress)
    results: list[BodyReturns] = []

    def advance(ended: int) -> None:
        nonlocal done
        done += ended
        if tell is not None and total:
            tell(Progress("score", done, total, "episode"))

    with own.in_use():
        advance(0)
        for split in chosen:
            bodies = session.bodies.split(split)
            silent = draw_silent_limbs(bodies, session.config.seed) if sensor_dropout else None
            for mode in ways:
                monitor = make_loop_monitor(bodies)
                rules = replace(
                    scoring_of(session, split, mode), episodes=count, silent_limbs=silent
                )
                watcher = own.aside(watch)(split, rules) if watch is not None else None
                watching = (EpisodeCounter(advance), *filter(None, (monitor, watcher)))
                results += _body_returns(
                    session, rules, split, rules.run(policy, watching), monitor
                )
    return tuple(results)


def scoring_of(session: Session, split: Split, mode: Mode) -> Scoring:
    """Return what is run to score a policy on one split in one mode, by the run's protocol."""
    return Scoring(
        task=session.task,
        bodies=session.bodies.split(split),
        episodes=session.config.protocol.evaluation.episodes,
        mode=mode,
        seed=evaluation_seed(session.config.seed, split, mode),
        num_threads=session.config.threads,
    )


def _body_returns(
    session: Session,
    rules: Scoring,
    split: Split,
    found: list[list[EpisodeResult]],
    monitor: LoopMonitor | None,
) -> list[BodyReturns]:
    """Return what a record says of each body of a part of an evaluation."""
    seen = {body.digest for body in session.bodies.split("train")}
    return [
        BodyReturns(
            split=split,
            mode=rules.mode,
            body=body.name,
            body_digest=body.digest,
            seen_in_train=body.digest in seen,
            episodes=tuple(_episode(item) for item in items),
            loops=_loops(monitor, number),
            **stated_of_body(session, body),
        )
        for number, (body, items) in enumerate(zip(rules.bodies, found, strict=True))
    ]


def recorded_lengths(record: RunRecord, split: str, mode: str) -> list[int]:
    """Return the control steps of all episodes of a part of an evaluation, in its order."""
    parts = [item for item in record.returns if (item.split, item.mode) == (split, mode)]
    return [episode.length for item in parts for episode in item.episodes]


def evaluation_seed(seed: int, split: str, mode: str) -> int:
    """Return the seed of one part of an evaluation; parts share no random numbers."""
    text = f"{seed}/{split}/{mode}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4])


def _episode(result: EpisodeResult) -> Episode:
    return Episode(episode_return=result.episode_return, length=result.length, ended=result.ended)


def stated_of_body(session: Session, body: Body) -> dict[str, Any]:
    """Return what records state of a body beside its name and content.

    That is its number of limbs and what it shares with others; nothing of a quadruped.
    """
    limbs = body.num_limbs if session.task.parts == "limbs" else None
    if not isinstance(body, Morphology):
        return {"limbs": limbs, "tree": None, "geometry": None}
    return {"limbs": limbs, "tree": limb_tree(body), "geometry": geometry(body)}


def _loops(monitor: LoopMonitor | None, body: int) -> LoopResiduals | None:
    found = monitor.residual(body) if monitor else None
    return None if found is None else LoopResiduals(**asdict(found))
