"""Runs the episodes of a record again from its weights."""

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from gmc_bench.cli import plan
from gmc_bench.cli import session as sessions
from gmc_bench.errors import CheckpointError
from gmc_bench.leaderboard.board import ranked_part
from gmc_bench.leaderboard.submission import POLICY
from gmc_bench.leaderboard.verification import compare, comparison_for
from gmc_bench.results.environment import collect_hardware, collect_versions, git_state
from gmc_bench.results.schema import RunRecord
from gmc_bench.results.store import StoredRecord
from gmc_bench.results.verification import Verification
from gmc_bench.training.run_config import RunConfig, run_config_of


def find_policy(record: RunRecord, folders: Sequence[Path]) -> Path | None:
    """Return the policy file with a record's weights below some folders, or `None`."""
    for path in _policies(folders):
        if hashlib.sha256(path.read_bytes()).hexdigest() == record.weights_digest:
            return path
    return None


def _policies(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if folder.is_dir():
            yield from sorted(folder.rglob(POLICY))


def config_of(record: RunRecord) -> RunConfig:
    """Return the settings a record was made with, on as many threads if this machine has them."""
    threads = min(record.hardware.threads, plan.check_threads(None))
    return run_config_of(
        {**record.config, "seed": record.seed, "threads": threads}, "the record's config"
    )


def verify(stored: StoredRecord, policy: Path, *, ranked_only: bool = False) -> Verification:
    """Run a record's episodes again and compare.

    Args:
        stored: the record.
        policy: file of its weights.
        ranked_only: run only the split and mode that the place in a table depends on.

    Raises:
        CheckpointError: the file does not hold the record's weights.
        ConfigError: the body set is not here, or is another one.
    """
    record = stored.record
    data = policy.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != record.weights_digest:
        raise CheckpointError(
            f"{policy} has the digest {digest[:12]}, but {stored.path} was made with the weights "
            f"{str(record.weights_digest)[:12]}; give the run folder of that record with --runs"
        )
    session = sessions.open_session(config_of(record))
    model, normalizer = sessions.load_policy(session, data, policy)
    chosen = [ranked_part(record)] if ranked_only else None
    wanted = [
        item for item in record.returns if chosen is None or (item.split, item.mode) in chosen
    ]
    found = sessions.score(
        session,
        model,
        normalizer,
        splits=tuple(dict.fromkeys(item.split for item in wanted)),
        modes=tuple(dict.fromkeys(item.mode for item in wanted)),
    )
    hardware, versions = collect_hardware(session.config.threads), collect_versions()
    comparison = comparison_for(record, hardware, versions)
    parts, difference = compare(wanted, found, comparison)
    git = git_state(Path(__file__).parents[2])
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
