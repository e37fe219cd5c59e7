"""The rules that a run must satisfy to enter a leaderboard, each with a name.

All runs of one submission are checked before anything is written.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gmc_bench.core.errors import GmcBenchError, RecordError
from gmc_bench.leaderboard.aggregate import RowKey, comparison_key, row_key
from gmc_bench.leaderboard.board import Board, ranked_part, read_board
from gmc_bench.leaderboard.measured import is_measured_by
from gmc_bench.leaderboard.signing import missing_signature
from gmc_bench.records.ledger import BEGINNING, append
from gmc_bench.records.schema import Controller, Mode, RunRecord, Split, TunedSettings
from gmc_bench.records.seeds import absent_seeds
from gmc_bench.records.signature import SUFFIX, signature_file
from gmc_bench.records.store import (
    LEDGER_NAME,
    POLICY_NAME,
    RECORD_NAME,
    RESULTS,
    StoredRecord,
    read_stored_record,
    write_atomic,
)
from gmc_bench.records.weights import MAX_MIB, weights_name
from gmc_bench.suites.measured import FrictionMeasurement

POLICY = POLICY_NAME

RULES = {
    "complete": "all planned steps were trained and every body was scored in every episode",
    "official": "nothing that the protocol fixes was changed",
    "registered-method": "the method is registered, in the installed version, not a file",
    "clean-commit": "the run was made from a clone without changes that its commit does not hold",
    "not-in-future": "the record was made before it is added; clocks may differ by a day",
    "current-rules": "task and protocol are those of the installed version",
    "weights": "the run folder holds the weights that the record was made with, and the "
    f"leaderboard can keep what acts of them, at most {MAX_MIB} MiB",
    "signature": "a signature beside the record is by a key in the leaderboard's list of signers; "
    "where that asks for signatures, there is one",
    "duplicate": "no record of this method, settings and seed, or of these weights, is there yet",
    "tuned-once": "tuned runs of one version of a method on one board share their tuned values",
    "missing-seeds": "seeds come in order: together with what is there, none before it is missing",
}
"""Name of each rule and what it asks for."""


_CLOCKS = timedelta(days=1)
"""By how much the clocks of two machines may differ."""
_ABSENT = object()


class SubmissionError(GmcBenchError):
    """A run does not satisfy a rule of the leaderboard; nothing was written."""


@dataclass(frozen=True)
class Rules:
    """What the installed version asks of a record's method, suite, task, protocol and bodies.

    A record states itself that it is official; these are the numbers that say whether it can be.
    """

    task: str
    """Digest of the task."""
    protocol: str
    """Digest of the protocol."""
    suite: str
    """Digest of the suite, with this task alone."""
    method_version: int
    controller: Controller
    config: Mapping[str, Any]
    """Settings of an official run, as its record has them."""
    seeds: tuple[int, ...]
    env_steps: int
    """Control steps in whole iterations."""
    steps_per_iteration: int
    """Control steps between two points of the learning curve."""
    episodes: int
    """Per body and mode."""
    parts: tuple[tuple[Split, Mode], ...]
    """What is scored."""
    friction: FrictionMeasurement | None
    """What is measured on frictions, if anything."""
    tuning: TunedSettings | None = None
    """The method's tuned values, with its trials, if the run has them."""


@dataclass(frozen=True)
class Submission:
    """A finished run and the installed rules that it is measured against."""

    folder: Path
    stored: StoredRecord
    rules: Rules | None
    """`None` where method, suite, task or protocol is not installed."""
    weights: Callable[[], bytes]
    """Returns what the leaderboard keeps of the weights; asked for once the rules are met."""

    @property
    def record(self) -> RunRecord:
        """The run's record."""
        return self.stored.record


def read_finished_run(folder: Path) -> StoredRecord:
    """Read the record of a run folder.

    Raises:
        RecordError: the folder has no valid record, or holds several runs.
    """
    if not (folder / RECORD_NAME).is_file():
        names = sorted(path.parent.name for path in folder.glob(f"*/{RECORD_NAME}"))
        if names:
            raise RecordError(
                f"{folder} holds several runs, one was expected; give the folders of those below "
                f"it that are finished ({', '.join(names)})"
            )
        begun = f", or finish it with: gmc-bench run --resume {folder}" if folder.is_dir() else ""
        raise RecordError(
            f"{folder} is not the folder of a finished run (it has no {RECORD_NAME}); give the "
            f"folder that 'gmc-bench run' printed{begun}"
        )
    return read_stored_record(folder / RECORD_NAME)


def add(submissions: Sequence[Submission], root: Path) -> list[Path]:
    """Copy runs' records and weights into a leaderboard and list them in its ledger.

    Args:
        submissions: the runs.
        root: the leaderboard; made if it does not exist.

    Returns:
        The records written.

    Raises:
        SubmissionError: a rule is broken, the first one that is; nothing was written.
        GmcBenchError: weights cannot be read; nothing was written.
        RecordError: the leaderboard is damaged, or the folder holds records but no ledger.
        StorageError: a file could not be written.
    """
    board = read_board(root) if root.exists() else Board((), (), (), 0, BEGINNING)
    require_ledger(board, root)
    problem = next(_violations(submissions, board, root), None)
    if problem is not None:
        raise SubmissionError(problem)
    # By name: all seeds of no action at all have the same weights.
    contents = {weights_name(str(item.record.weights_digest)): _kept(item) for item in submissions}
    written = []
    for item in submissions:
        weights = weights_name(str(item.record.weights_digest))
        if (content := contents.pop(weights, None)) is not None:
            _keep(root, weights, content, board)
        name = _file_name(item.record, item.stored.digest)
        # First the file: without its line it is refused, a line without its file is damage.
        write_atomic(root / name, (item.folder / RECORD_NAME).read_bytes())
        append(root / LEDGER_NAME, "record", name, item.stored.digest)
        signature = signature_file(item.folder / RECORD_NAME)
        if signature.is_file():
            data, signed = signature.read_bytes(), f"{name}{SUFFIX}"
            write_atomic(root / signed, data)
            append(root / LEDGER_NAME, "signature", signed, hashlib.sha256(data).hexdigest())
        written.append(root / name)
    return written


def require_ledger(board: Board, root: Path) -> None:
    """Raise if a folder holds records but no ledger.

    Args:
        board: what was read of the folder.
        root: the folder.

    Raises:
        RecordError: it does.
    """
    if board.records and not board.length:
        raise RecordError(
            f"{root} holds records that no ledger lists ({board.records[0].path} is one), so it is "
            f"no leaderboard; restore its {LEDGER_NAME}, or give a new folder with --records"
        )


def require_rules(board: Board) -> None:
    """Raise if a leaderboard holds what `add` would refuse whatever is installed.

    So a record that was copied into it, with a line for the ledger, satisfies the same rules.
    Those that need its run folder, or the rules of the day on which it was added, are left out.
    The order in which records came does not matter here.

    Raises:
        SubmissionError: a record breaks a rule.
    """
    there: dict[object, str] = {}
    for path, record, _ in board.records:
        for rule, problem in _broken_by(record):
            raise SubmissionError(_refusal_of(path, rule, problem))
        keys: list[object] = [_place(record)]
        if not record.untrained:  # see `_violations`
            keys.append(record.weights_digest)
        for key in keys:
            if (twin := there.setdefault(key, path)) != path:
                problem = f"{twin} is of the same run, or has the same weights"
                raise SubmissionError(_refusal_of(path, "duplicate", problem))
        kept = board.weights.get(str(record.weights_digest))
        if kept is not None and kept.path.stat().st_size > MAX_MIB * 2**20:
            problem = f"{kept.path} is larger"
            raise SubmissionError(_refusal_of(path, "weights", problem))
    records = [(path, record) for path, record, _ in board.records]
    for path, rule, problem in (*_tuned_twice(records), *_left_out(records, records)):
        raise SubmissionError(_refusal_of(path, rule, problem))


def _kept(item: Submission) -> bytes | None:
    """Return the weights to keep; `None` for a reference whose separate weights are too large."""
    content = item.weights()
    if len(content) <= MAX_MIB * 2**20:
        return content
    if item.record.controller == "single_robot":  # it has no place that somebody could doubt
        return None
    size = f"{len(content) / 2**20:.1f} MiB"
    raise SubmissionError(_refusal(item, "weights", f"what acts of its weights takes {size}"))


def _keep(root: Path, name: str, content: bytes, board: Board) -> None:
    # Kept are those of an earlier attempt that came that far, or of no action at all on another
    # task, described as its observations are; replays show whether they are the record's.
    if (root / name) in {kept.path for kept in board.weights.values()}:
        return
    write_atomic(root / name, content)
    append(root / LEDGER_NAME, "weights", name, hashlib.sha256(content).hexdigest())


def _violations(submissions: Sequence[Submission], board: Board, root: Path) -> Iterator[str]:
    for item in submissions:
        for rule, problem in _broken_alone(item):
            yield _refusal(item, rule, problem)
        unsigned = missing_signature(item.folder / RECORD_NAME, root)
        if unsigned:
            yield _refusal(item, "signature", unsigned)
    there = {_place(stored.record): stored.path for stored in board.records}
    weights = {stored.record.weights_digest: stored.path for stored in board.records}
    for item in submissions:
        place = _place(item.record)
        if place in there:
            yield _refusal(item, "duplicate", f"{there[place]} is of the same method and seed")
        # One training under several seeds would look like several. Initial weights follow from the
        # seed, and there are none of no action at all.
        if item.record.weights_digest in weights and not item.record.untrained:
            twin = weights[item.record.weights_digest]
            yield _refusal(item, "duplicate", f"{twin} has the same weights")
        there[place] = weights[item.record.weights_digest] = str(item.folder)
    old = [(path, record) for path, record, _ in board.records]
    new = [(str(item.folder), item.record) for item in submissions]
    for path, rule, problem in (*_tuned_twice([*old, *new]), *_left_out(new, [*old, *new])):
        yield f"{_refusal_of(path, rule, problem)}; nothing was added"


_Listed = Sequence[tuple[str, RunRecord]]
"""Records and where they are, in the order in which they came."""
_Broken = Iterator[tuple[str, str, str]]
"""Where a record is that breaks a rule, the rule, and how."""


def _tuned_twice(records: _Listed) -> _Broken:
    """Find tuned records with other values than earlier ones of their method's version.

    The method would have two ranked rows, of which the better one would count.
    """
    first: dict[object, tuple[str, RunRecord]] = {}
    for path, record in records:
        if record.tuning is None or record.untrained:
            continue
        row = (comparison_key(record), record.method, record.method_version, record.preset)
        earlier, other = first.setdefault(row, (path, record))
        if row_key(other) != row_key(record):
            problem = (
                f"{earlier} of version {record.method_version} has other ones; raise the "
                f"method's version with what it is tuned to"
            )
            yield path, "tuned-once", problem


def _left_out(records: _Listed, there: _Listed) -> _Broken:
    """Find records before whose seed one is missing.

    In order, so that nobody chooses among seeds; a row is ranked once all are there.
    """
    seeds: dict[object, set[int]] = {}
    for _, record in there:
        key, row, seed = _place(record)
        seeds.setdefault((key, row), set()).add(seed)
    for path, record in records:
        key, row, seed = _place(record)
        absent = absent_seeds(record.protocol_seeds, seeds[key, row])
        missing = ", ".join(str(other) for other in absent if other < seed)
        if missing:
            yield (
                path,
                "missing-seeds",
                f"no run for seed {missing}; add it before or with this one",
            )


def _broken_alone(item: Submission) -> Iterator[tuple[str, str]]:
    record = item.record
    yield from _broken_by(record)
    if record.config.get("method_source_digest") is not None:
        yield "registered-method", f"the method was given as {record.config.get('method')}"
    if item.rules is None or (record.task_digest, record.protocol_digest) != (
        item.rules.task,
        item.rules.protocol,
    ):
        yield "current-rules", _what_changed(record, item.rules)
    else:
        yield from _unlike_official(record, item.rules)
    if _digest_of(item.folder / POLICY) != record.weights_digest:
        yield "weights", f"{item.folder / POLICY} is missing or has another digest"


def _broken_by(record: RunRecord) -> Iterator[tuple[str, str]]:
    """Find what a record breaks by what it says itself."""
    if record.status != "complete":
        yield "complete", f"{record.env_steps} of {record.env_steps_planned} steps were trained"
    elif record.score(*ranked_part(record)) is None:
        yield "complete", f"not every {ranked_part(record)[0]} body was scored"
    if not record.official:
        yield "official", "; ".join(record.unofficial_reasons)
    if record.git_commit is None:
        yield "clean-commit", "it states no commit; run again in a clone, with git installed"
    elif record.git_dirty:
        why = f"the checkout differed from commit {record.git_commit}, or was at another before"
        yield "clean-commit", why
    now = datetime.now(UTC)
    if datetime.fromisoformat(record.created) - now > _CLOCKS:
        yield (
            "not-in-future",
            f"it says {record.created}, and here it is {now:%Y-%m-%dT%H:%M:%SZ}; set the clock "
            f"that is wrong, and run again if that was the run's",
        )


def _unlike_official(record: RunRecord, rules: Rules) -> Iterator[tuple[str, str]]:
    """Find what a record that calls itself official would have different if it were."""
    if record.method_version != rules.method_version:
        yield (
            "registered-method",
            f"version {record.method_version} of it was run, {rules.method_version} is installed",
        )
    if record.controller != rules.controller:
        yield "registered-method", f"it is {rules.controller}, the record says {record.controller}"
    stated = {
        "suite_digest": (record.suite_digest, rules.suite),
        "protocol_seeds": (record.protocol_seeds, rules.seeds),
        "tuning": (record.tuning, rules.tuning),
        "env_steps": (record.env_steps, rules.env_steps),
        "env_steps_planned": (record.env_steps_planned, rules.env_steps),
    }
    names = [name for name, (found, expected) in stated.items() if found != expected]
    names += [f"config.{name}" for name in _different(record.config, rules.config)]
    if names:
        yield "official", f"{', '.join(names)} differ from an official run's"
    else:
        step = rules.steps_per_iteration
        points = [point.env_steps for point in record.learning_curve]
        if points != list(range(step, rules.env_steps + 1, step)):
            yield (
                "official",
                f"its learning curve has {len(points)} points; an official run has one every "
                f"{step} env steps",
            )
    yield from (("complete", problem) for problem in _unlike_scored(record, rules))
    yield from (("complete", problem) for problem in _unlike_measured(record, rules))


def _unlike_scored(record: RunRecord, rules: Rules) -> Iterator[str]:
    bodies = {"train": record.morphologies.num_train, "test": record.morphologies.num_test}
    trained = {item.body_digest for item in record.returns if item.split == "train"}
    for split, mode in rules.parts:
        items = [item for item in record.returns if (item.split, item.mode) == (split, mode)]
        if len(items) != bodies[split]:
            yield f"{len(items)} of {bodies[split]} bodies were scored in {split}, {mode}"
        for item in items:
            if len(item.episodes) != rules.episodes:
                yield (
                    f"{len(item.episodes)} of {rules.episodes} episodes of {split} body "
                    f"{item.body!r} are there"
                )
            if item.seen_in_train != (item.body_digest in trained):
                yield f"seen_in_train of {split} body {item.body!r} contradicts its body_digest"


def _unlike_measured(record: RunRecord, rules: Rules) -> Iterator[str]:
    """Find what a record measured on frictions otherwise than its suite does, or did not."""
    robots = {item.body: item.body_digest for item in record.returns if item.split == "train"}
    stated = {(item.robot, item.friction, item.direction): item for item in record.friction or ()}
    if rules.friction is None:
        if stated:
            yield "it states frictions, which its suite does not measure in this protocol"
        return
    expected = {
        (robot, friction, direction)
        for friction, direction, _ in rules.friction.conditions
        for robot in robots
    }
    if absent := len(expected - stated.keys()):
        yield f"{absent} of {len(expected)} results on friction are missing"
    for item in stated.values():
        known = item.robot_digest == robots.get(item.robot)
        if not (known and is_measured_by(item, rules.friction)):
            yield f"{item.robot} on friction {item.friction!r} was measured in another way"


def _different(found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """Name the settings, with dots, that are not equal."""
    for name in sorted({*found, *expected}):
        old, new = found.get(name, _ABSENT), expected.get(name, _ABSENT)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from (f"{name}.{inner}" for inner in _different(old, new))
        elif old != new:
            yield name


def _what_changed(record: RunRecord, rules: Rules | None) -> str:
    if rules is None:
        return (
            f"the method {record.method}, {record.task} or protocol {record.protocol} of "
            f"{record.suite} is not installed"
        )
    pairs = {
        "task": (record.task_digest, rules.task),
        "protocol": (record.protocol_digest, rules.protocol),
    }
    names = [name for name, (found, expected) in pairs.items() if found != expected]
    return f"the installed version has another {' and another '.join(names)}; run again"


def _refusal(item: Submission, rule: str, problem: str) -> str:
    return f"{_refusal_of(item.folder, rule, problem)}; nothing was added"


def _refusal_of(path: Path | str, rule: str, problem: str) -> str:
    return f"{path} is refused by the rule '{rule}' ({RULES[rule]}): {problem}"


def _place(record: RunRecord) -> tuple[object, RowKey, int]:
    return comparison_key(record), row_key(record), record.seed


def _digest_of(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None


def _file_name(record: RunRecord, digest: str) -> str:
    name = f"{record.protocol}-{record.morphologies.id}-seed{record.seed}-{digest[:16]}.json"
    return f"{RESULTS}/{record.suite}/{record.task}/{record.method}/{name}"
