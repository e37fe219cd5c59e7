"""Verification of records: their episodes, run again from the weights and compared."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from gmc_bench.core.config import definition_digest
from gmc_bench.core.errors import CheckpointError, ConfigError, RecordError
from gmc_bench.experiments import resolve
from gmc_bench.experiments import session as sessions
from gmc_bench.experiments.events import Progress
from gmc_bench.experiments.scoring import score
from gmc_bench.leaderboard.board import ranked_part
from gmc_bench.leaderboard.submission import POLICY
from gmc_bench.leaderboard.verification import compare, comparison_for
from gmc_bench.records.environment import collect_hardware, collect_versions
from gmc_bench.records.store import StoredRecord
from gmc_bench.records.verification import Verification
from gmc_bench.suites import SUITES
from gmc_bench.suites.method_rules import protocol_digest
from gmc_bench.training.run_config import run_config_of


def find_weights(stored: StoredRecord, folders: Sequence[Path], given: Path | None = None) -> Path:
    """Return the policy file with a record's weights.

    Args:
        stored: the record.
        folders: where to look.
        given: the run folder or file that was named, if one was; the weights in a run folder count
            whatever they are, so that what was swapped inside it is noticed.

    Raises:
        CheckpointError: there is none.
    """
    if given is not None and (given / POLICY).is_file():
        return given / POLICY
    if given is not None:
        folders = [given if given.is_dir() else given.parent, *folders]
    for path in _policies(folders):
        try:
            state = path.stat()
            digest = _digest(path, state.st_mtime_ns, state.st_size)
        except OSError:  # a folder of that name, or a file of somebody else
            continue
        if digest == stored.record.weights_digest:
            return path
    raise CheckpointError(
        f"no {POLICY} with the weights {str(stored.record.weights_digest)[:12]} of {stored.path} "
        f"is below {', '.join(map(str, folders))}; give the run's folder with --runs"
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
    suite = SUITES.get(config.suite)
    per_body = session.method.capabilities.per_body
    stated: dict[str, tuple[object, object]] = {
        "method": (record.method, session.method.id),
        "controller": (record.controller, "single_robot" if per_body else "shared"),
        "suite": (record.suite, config.suite),
        "task": (record.task, config.task),
        "protocol": (record.protocol, config.protocol.name),
        "preset": (record.preset, config.protocol.preset),
        "protocol_seeds": (record.protocol_seeds, config.protocol.seeds),
        "morphologies.id": (record.morphologies.id, config.morphologies),
        "morphologies.digest": (record.morphologies.digest, config.morphologies_digest),
        "morphologies.num_train": (
            record.morphologies.num_train,
            len(session.bodies.split("train")),
        ),
        "morphologies.num_test": (record.morphologies.num_test, len(session.bodies.split("test"))),
    }
    for name, (found, expected) in stated.items():
        if found != expected:
            raise RecordError(
                f"{stored.path} states {name} {found!r}, but its settings are those of a run with "
                f"{expected!r}; it does not describe the run that was made"
            )
    if record.method_version != session.method.version:
        raise ConfigError(
            f"{stored.path} is of version {record.method_version} of the method {record.method}, "
            f"version {session.method.version} is installed; verify it with gmc-bench "
            f"{record.versions['gmc-bench']}"
        )
    here = {"protocol": protocol_digest(config.protocol, session.method, suite, config.task)}
    there = {"protocol": record.protocol_digest}
    if record.task_digest is not None:  # older records do not state it
        here["task"], there["task"] = definition_digest(session.task), record.task_digest
    for name, digest in there.items():
        if digest != here[name]:
            raise ConfigError(
                f"the {name} of {stored.path} is another one here (hash {here[name][:12]}, "
                f"expected {digest[:12]}); verify it with gmc-bench {record.versions['gmc-bench']}"
            )


def verify(
    stored: StoredRecord,
    policy: Path,
    *,
    ranked_only: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Verification:
    """Run a record's episodes again and compare.

    Args:
        stored: the record.
        policy: file of its weights.
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
    try:
        data = policy.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"cannot read {policy}: {error.strerror}; give a run folder that you may read"
        ) from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != record.weights_digest:
        raise CheckpointError(
            f"{policy} has the digest {digest[:12]}, but {stored.path} was made with the weights "
            f"{str(record.weights_digest)[:12]}; restore the file"
        )
    threads = resolve.threads_here(record.hardware.threads)
    config = {**record.config, "seed": record.seed, "threads": threads, "device": "cpu"}
    session = sessions.open_session(run_config_of(config, "the record's config"))
    _require_agreement(stored, session)
    trained = sessions.load_policy(session, data, policy)
    if trained.model.num_parameters() != record.parameters:
        raise RecordError(
            f"{stored.path} states {record.parameters} parameters, but its weights are "
            f"{trained.model.num_parameters()}; it does not describe the run that was made"
        )
    chosen = [ranked_part(record)] if ranked_only else None
    wanted = [
        item for item in record.returns if chosen is None or (item.split, item.mode) in chosen
    ]
    if not wanted:
        raise RecordError(
            f"{stored.path} holds no episodes that could be run again; give the record of a "
            f"finished run"
        )
    found = score(
        session,
        trained,
        splits=tuple(dict.fromkeys(item.split for item in wanted)),
        modes=tuple(dict.fromkeys(item.mode for item in wanted)),
        on_progress=on_progress,
    )
    hardware, versions = collect_hardware(session.config.threads), collect_versions()
    comparison = comparison_for(record, hardware, versions)
    parts, difference = compare(wanted, found, comparison)
    git = resolve.checkout()
    return Verification(
        record_digest=stored.digest,
        weights_digest=digest,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        comparison=comparison,
        parts=parts,
        first_difference=difference,
        passed=all(part.passed for part in parts),
        hardware=hardware,
        versions=versions,
        git_commit=git.commit,
        git_dirty=git.dirty,
    )
