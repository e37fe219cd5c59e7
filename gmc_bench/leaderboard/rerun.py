"""Verification of records: their episodes, run again from the weights and compared."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.config import to_dict
from gmc_bench.core.errors import (
    CheckpointError,
    ConfigError,
    GmcBenchError,
    MorphologySetError,
    RecordError,
    UnknownNameError,
)
from gmc_bench.core.types import Array
from gmc_bench.experiments import resolve
from gmc_bench.experiments import session as sessions
from gmc_bench.experiments.events import Progress
from gmc_bench.experiments.friction import num_friction_results, suite_friction
from gmc_bench.experiments.recorded import recorded_config
from gmc_bench.experiments.scoring import score, stated_of_body
from gmc_bench.leaderboard.board import Board, ranked_part
from gmc_bench.leaderboard.submission import POLICY, read_finished_run
from gmc_bench.leaderboard.today import is_replaced
from gmc_bench.leaderboard.verification import (
    compare,
    compare_friction,
    comparison_for,
)
from gmc_bench.methods.tuning import tuning_key
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.ledger import leaderboard_of, require_registered
from gmc_bench.records.store import StoredRecord, read_stored_record
from gmc_bench.records.verification import Exactness, Verification
from gmc_bench.records.weights import LEADERBOARD, MAX_MIB, KeptWeights, find_record
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import protocol_digest, unlike_tuning
from gmc_bench.tasks.spec import DIVERGED, TIME_LIMIT

FIRST_WEIGHTS_SHARE, FIRST_WEIGHTS_GAP = 1e-4, 1e-5
"""By how much initial weights may differ on another machine: a share, and an amount. A step of
training moves them by more."""


class WeightsMissingError(CheckpointError):
    """Nobody has a record's weights here."""


def acting_weights(folder: Path, stored: StoredRecord) -> bytes:
    """Return what a leaderboard keeps of a run's weights: actor and statistics, described.

    Raises:
        CheckpointError: the run's file is missing, damaged, or of another method.
        RecordError: the record contradicts its own settings or body set, so that nobody could
            verify it; or it says that nothing was trained, and something was.
        GmcBenchError: the method, the suite or the body set is not here.
    """
    session = sessions.open_session(recorded_config(stored.record))
    _require_agreement(stored, session)
    data = KeptWeights(folder / POLICY, str(stored.record.weights_digest)).read()
    policy = sessions.policy_of_bytes(session, data, folder / POLICY)
    _require_its_size(stored, policy.model.num_parameters())
    hardware = collect_hardware(session.config.threads)
    comparison = comparison_for(stored.record, hardware, collect_versions())
    _require_first_weights(stored, session, policy.tensors(), comparison)
    return policy.actor_bytes()


def find_weights(
    stored: StoredRecord, board: Board | None, folders: Sequence[Path], given: Path | None = None
) -> KeptWeights:
    """Return a file with a record's weights: the one that the leaderboard keeps, or a run's.

    Args:
        stored: the record.
        board: a leaderboard that may keep them.
        folders: where to look otherwise.
        given: the run folder or file that was named, if one was; the weights in a run folder count
            whatever they are, so that what was swapped inside it is noticed.

    Raises:
        WeightsMissingError: there is none.
    """
    expected = str(stored.record.weights_digest)
    if given is not None and (given / POLICY).is_file():
        return KeptWeights(given / POLICY, expected)
    if board is not None and expected in board.weights:
        return board.weights[expected]
    if given is not None:
        folders = [given if given.is_dir() else given.parent, *folders]
    for path in _policies(folders):
        try:
            state = path.stat()
            digest = _digest(path, state.st_mtime_ns, state.st_size)
        except OSError:  # a folder of that name, or a file of somebody else
            continue
        if digest == expected:
            return KeptWeights(path, expected)
    raise WeightsMissingError(
        f"no {POLICY} with the weights {expected[:12]} of {stored.path} is below "
        f"{', '.join(map(str, folders))}; give the run's folder with --runs"
    )


@cache
def _digest(path: Path, modified: int, size: int) -> str:
    # Of many records to verify, each looks through the same files.
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _policies(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_dir():
            yield from sorted(folder.rglob(POLICY))


def _require_agreement(stored: StoredRecord, session: sessions.Session) -> None:
    """Raise unless a record's place in the tables is that of the run its settings describe.

    Tables are made from a record's own fields, its episodes are run again from `config`.
    """
    record, config = stored.record, session.config
    per_body = session.method.capabilities.per_body
    stated: dict[str, tuple[object, object]] = {
        "method": (record.method, session.method.id),
        "controller": (record.controller, "single_robot" if per_body else "shared"),
        "suite": (record.suite, config.suite),
        "task": (record.task, config.task),
        "protocol": (record.protocol, config.protocol.name),
        "preset": (record.preset, config.protocol.preset),
        "untrained": (bool(record.untrained), config.untrained),
        "protocol_seeds": (record.protocol_seeds, config.protocol.seeds),
        "morphologies.id": (record.morphologies.id, config.morphologies),
        "morphologies.digest": (record.morphologies.digest, config.morphologies_digest),
        "morphologies.num_train": (
            record.morphologies.num_train,
            len(session.bodies.split("train")),
        ),
        "morphologies.num_test": (record.morphologies.num_test, len(session.bodies.split("test"))),
    }
    if record.metres_per_return is not None:  # older records do not state it
        stated["metres_per_return"] = (record.metres_per_return, session.task.metres_per_return)
    for name, (found, expected) in stated.items():
        if found != expected:
            raise RecordError(
                f"{stored.path} states {name} {found!r}, but its settings are those of a run with "
                f"{expected!r}; it does not describe the run that was made"
            )
    _require_its_bodies(stored, session)
    _require_its_task(stored, session)
    _require_its_frictions(stored, session)
    _require_its_rules(stored, session)


def _require_its_bodies(stored: StoredRecord, session: sessions.Session) -> None:
    """Raise unless everything that a record scores is a body of its set, in its split, as it is."""
    there = {
        (split, body.name): (body.digest, stated_of_body(session, body))
        for split in ("train", "test")
        for body in session.bodies.split(split)
    }
    for item in stored.record.returns:
        digest, stated = there.get((item.split, item.body), ("", {}))
        if digest != item.body_digest:
            raise RecordError(
                f"{stored.path} scores a {item.split} body {item.body!r} that the set "
                f"{session.bodies.id} does not have; it does not describe the run that was made"
            )
        for name, value in stated.items():
            found = getattr(item, name)
            if found not in (None, value):  # older records do not state it
                raise RecordError(
                    f"{stored.path} states {name} {found!r} of the {item.split} body "
                    f"{item.body!r}, which has {value!r}; it does not describe the run that was "
                    f"made"
                )


def _require_its_task(stored: StoredRecord, session: sessions.Session) -> None:
    """Raise unless a record's episodes are as long, and ended, as episodes of its task can."""
    task = session.task
    known = {*task.termination_names, TIME_LIMIT, DIVERGED}
    for item in stored.record.returns:
        for episode in item.episodes:
            if episode.ended not in known or episode.length > task.horizon:
                raise RecordError(
                    f"{stored.path} has an episode of the {item.split} body {item.body!r} of "
                    f"{episode.length} control steps that ended by {episode.ended!r}, but those of "
                    f"{task.id} have at most {task.horizon} and end by "
                    f"{', '.join(sorted(known))}; it does not describe the run that was made"
                )


def _require_its_frictions(stored: StoredRecord, session: sessions.Session) -> None:
    """Raise unless a record has as many results on friction as its suite measures, if any."""
    results, expected = stored.record.friction, num_friction_results(session)
    if results is not None and len(results) != expected:
        raise RecordError(
            f"{stored.path} has {len(results)} results on friction, which are not the {expected} "
            f"that its suite measures; it does not describe the run that was made"
        )


def _require_its_rules(stored: StoredRecord, session: sessions.Session) -> None:
    """Raise unless method, tuning, protocol and task are here what they were for the record."""
    record, config, method = stored.record, session.config, session.method
    suite = SUITES.get(config.suite)
    if record.method_version != method.version:
        raise ConfigError(
            f"{stored.path} is of version {record.method_version} of the method {record.method}, "
            f"version {method.version} is installed; verify it with gmc-bench "
            f"{record.versions['gmc-bench']}"
        )
    if record.tuning is not None:  # what it kept then, whatever it keeps now
        kept = record.tuning.settings
        instead = unlike_tuning(kept, to_dict(config.protocol), config.method_config)
        for name, value in instead.items():
            raise RecordError(
                f"{stored.path} states that {name} was tuned to {kept[name]:g}, but its settings "
                f"have {value!r}; it does not describe the run that was made"
            )
        key = tuning_key(suite.id, config.task, config.protocol.name)
        method = replace(method, tuned={key: record.tuning.settings})
    here = {"protocol": protocol_digest(config.protocol, method, suite, config.task)}
    there = {"protocol": record.protocol_digest}
    if record.task_digest is not None:  # older records do not state it
        here["task"], there["task"] = session.task.digest, record.task_digest
    for name, digest in there.items():
        if digest != here[name]:
            raise ConfigError(
                f"the {name} of {stored.path} is another one here (hash {here[name][:12]}, "
                f"expected {digest[:12]}); verify it with gmc-bench {record.versions['gmc-bench']}"
            )


def _require_its_size(stored: StoredRecord, parameters: int) -> None:
    """Raise unless a record states as many parameters as its policy has."""
    if parameters != stored.record.parameters:
        raise RecordError(
            f"{stored.path} states {stored.record.parameters} parameters, but its weights are "
            f"{parameters}; it does not describe the run that was made"
        )


def _require_first_weights(
    stored: StoredRecord,
    session: sessions.Session,
    tensors: Mapping[str, Array],
    comparison: Exactness,
) -> None:
    """Raise unless the policy of an untrained record is the one that training starts from.

    On another engine or hardware class, the last bits of initial weights and statistics may differ.

    Args:
        stored: the record; one of a training passes.
        session: its run.
        tensors: weights and statistics of its policy, by name.
        comparison: how equal they must be.
    """
    if not stored.record.untrained:
        return
    first = sessions.untrained_policy(session)
    if comparison == "exact":
        same = hashlib.sha256(first.to_bytes()).hexdigest() == stored.record.weights_digest
    else:
        expected = first.tensors()
        same = all(
            np.allclose(value, expected[name], rtol=FIRST_WEIGHTS_SHARE, atol=FIRST_WEIGHTS_GAP)
            for name, value in tensors.items()
        )
    if not same:
        raise RecordError(
            f"{stored.path} says that nothing was trained, but its weights "
            f"{str(stored.record.weights_digest)[:12]} are not the first ones of its seed; it does "
            f"not describe the run that was made"
        )


def verify(
    stored: StoredRecord,
    weights: KeptWeights,
    *,
    ranked_only: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Verification:
    """Run a record's episodes again, measure its frictions again, and compare.

    Args:
        stored: the record.
        weights: file of its weights: all of them, or only what acts (see `acting_weights`).
        ranked_only: run only the split and mode that the place in a table depends on.
        on_progress: gets the episodes done so far.

    Raises:
        CheckpointError: the file cannot be read or does not hold the record's weights.
        ConfigError: the record's settings are not those of a run, or the method's version, the body
            set, the task or the protocol is another one here.
        MorphologySetError: the body set is not here.
        RecordError: the record contradicts its own settings, weights or body set.
        UnknownNameError: the method, the suite or the body set is not known here.
    """
    record = stored.record
    data = weights.read()
    session = sessions.open_session(recorded_config(record))
    _require_agreement(stored, session)
    trained = sessions.policy_of_bytes(session, data, weights.path)
    _require_its_size(stored, trained.model.num_parameters())
    chosen = [ranked_part(record)] if ranked_only else None
    wanted = [
        item for item in record.returns if chosen is None or (item.split, item.mode) in chosen
    ]
    if not wanted:
        raise RecordError(
            f"{stored.path} holds no episodes that could be run again; give the record of a "
            f"finished run"
        )
    hardware, versions = collect_hardware(session.config.threads), collect_versions()
    comparison = comparison_for(record, hardware, versions)
    _require_first_weights(stored, session, trained.tensors(), comparison)
    found = score(
        session,
        trained,
        splits=tuple(dict.fromkeys(item.split for item in wanted)),
        modes=tuple(dict.fromkeys(item.mode for item in wanted)),
        on_progress=on_progress,
    )
    parts, difference = compare(wanted, found, comparison)
    friction = None
    if record.friction is not None and not ranked_only:
        again = suite_friction(session, trained, on_progress or _nobody)
        friction = compare_friction(record.friction, again or (), comparison)
    git = resolve.checkout(besides=[LEADERBOARD.name])  # where verifications are written
    return Verification(
        record_digest=stored.digest,
        weights_digest=weights.digest,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        comparison=comparison,
        parts=parts,
        first_difference=difference,
        friction=friction,
        passed=all(part.passed for part in parts) and (friction is None or friction.passed),
        hardware=hardware,
        versions=versions,
        git_commit=git.commit,
        git_dirty=git.dirty,
    )


def _nobody(_event: object) -> None:
    """Ignore an event."""


class VerificationOutcome(NamedTuple):
    """What came of one record, or why nothing came of several."""

    kind: Literal["verified", "failed", "not verified", "skipped"]
    records: int
    text: str
    """What happened, in one line."""
    verification: Verification | None = None


def verify_all(
    board: Board,
    folders: Sequence[Path],
    *,
    jobs: int = 1,
    ranked_only: bool = False,
    unverified: bool = False,
    sample: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Iterator[VerificationOutcome]:
    """Verify every record of a board whose weights and bodies are here.

    Args:
        board: the records.
        folders: where weights are looked for that the leaderboard does not keep.
        jobs: processes; with more than one, records come in the order in which they are done.
        ranked_only: see `verify`.
        unverified: only records that are not verified yet.
        sample: only so many of those that are left, drawn anew each time: whole records, because
            the last bits of an episode depend on which others are played beside it.
        on_progress: gets the episodes of a record done so far, of several processes the records.

    Yields:
        What is skipped, by reason; then an outcome per record. One record that cannot be verified
        does not stop the others.
    """
    known = board.verified if unverified else frozenset()
    left = [item for item in board.records if item.digest not in known]
    chosen: list[tuple[StoredRecord, KeptWeights]] = []
    reasons: Counter[str] = Counter()
    sets = {item.record.morphologies.id for item in left}
    bodies = {set_id: _bodies_missing(set_id) for set_id in sets}
    for stored in left:
        missing = bodies[stored.record.morphologies.id]
        if is_replaced(stored.record):
            reasons["their suite or task has a later version here, with other episodes"] += 1
            continue
        try:
            weights = find_weights(stored, board, folders)
        except WeightsMissingError as error:
            if not board.length:
                yield VerificationOutcome("not verified", 1, f"{stored.path}: {error}")
                continue
            missing = (
                f"their weights are neither kept here (they are older than kept weights, or "
                f"references of more than {MAX_MIB} MiB) nor below {', '.join(map(str, folders))}"
            )
        if missing is None:
            chosen.append((stored, weights))
        else:
            reasons[missing] += 1
    if sample is not None and sample < len(chosen):
        reasons["they are not in the sample"] = len(chosen) - sample
        picked = np.random.default_rng().choice(len(chosen), sample, replace=False)
        chosen = [chosen[place] for place in sorted(picked)]
    for reason, count in reasons.items():
        yield VerificationOutcome("skipped", count, f"{count} of {len(left)} records: {reason}")
    if jobs == 1:
        yield from (_outcome(*item, ranked_only, on_progress) for item in chosen)
    else:
        yield from _in_processes(jobs, chosen, ranked_only, on_progress)


def verify_one(
    named: Path,
    board: Board,
    folders: Sequence[Path],
    root: Path,
    *,
    ranked_only: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> VerificationOutcome:
    """Verify one record.

    Args:
        named: its file, first digits of its digest, or its run folder.
        board: a leaderboard, which may keep its weights; it may be empty.
        folders: where weights are looked for otherwise.
        root: the leaderboard's folder.
        ranked_only: see `verify`.
        on_progress: see `verify`.

    Returns:
        The outcome.

    Raises:
        GmcBenchError: see `verify`.
    """
    path = find_record(named, root)
    stored = read_finished_run(path) if path.is_dir() else read_stored_record(path)
    if path.is_file() and leaderboard_of(path) is not None:
        require_registered(stored.record.config, path)  # also where no line lists it
    weights = find_weights(stored, board, folders, path)
    found = verify(stored, weights, ranked_only=ranked_only, on_progress=on_progress)
    return _as_outcome(stored, found)


def _bodies_missing(set_id: str) -> str | None:
    try:
        load_morphologies(set_id)
    except (MorphologySetError, UnknownNameError) as error:
        return str(error)
    return None


def _outcome(
    stored: StoredRecord,
    weights: KeptWeights,
    ranked_only: bool,
    on_progress: Callable[[Progress], None] | None = None,
) -> VerificationOutcome:
    try:
        found = verify(stored, weights, ranked_only=ranked_only, on_progress=on_progress)
    except GmcBenchError as error:
        return VerificationOutcome("not verified", 1, f"{stored.path}: {error}")
    return _as_outcome(stored, found)


def _in_processes(
    jobs: int,
    chosen: Sequence[tuple[StoredRecord, KeptWeights]],
    ranked_only: bool,
    on_progress: Callable[[Progress], None] | None,
) -> Iterator[VerificationOutcome]:
    """Yield the outcome of each record when it is there, from so many processes."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(_outcome, *item, ranked_only): item[0].path for item in chosen}
        try:
            for done, future in enumerate(as_completed(waiting), 1):
                try:
                    yield future.result()
                except BrokenProcessPool:
                    why = "a process ended, perhaps for lack of memory; give fewer --jobs"
                    yield VerificationOutcome("not verified", 1, f"{waiting[future]}: {why}")
                if on_progress is not None:
                    on_progress(Progress("verify", done, len(waiting), "record"))
        finally:
            pool.shutdown(cancel_futures=True)


def _as_outcome(stored: StoredRecord, found: Verification) -> VerificationOutcome:
    kind: Literal["verified", "failed"] = "verified" if found.passed else "failed"
    return VerificationOutcome(kind, 1, f"{stored.path}: {found.outcome}", found)
