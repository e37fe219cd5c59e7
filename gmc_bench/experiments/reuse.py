"""Runs that a leaderboard has: taken into a folder with their records and weights, not repeated."""

from collections import defaultdict
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from gmc_bench.core.config import config_digest, definition_digest, sealed_yaml
from gmc_bench.core.errors import RecordError
from gmc_bench.experiments.method import method_of
from gmc_bench.experiments.recorded import recorded_config
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.records.ledger import LedgerEntry, read_ledger, require_listed
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import (
    LEDGER_NAME,
    RESULTS,
    StoredRecord,
    read_stored_record,
    sealed,
    write_atomic,
)
from gmc_bench.records.weights import KeptWeights, kept_in
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS
from gmc_bench.training.run_config import RunConfig


class KnownRuns:
    """The complete runs of a leaderboard whose weights it keeps.

    Args:
        root: the leaderboard's folder.

    Raises:
        RecordError: it has no ledger, or a damaged one.
    """

    def __init__(self, root: Path) -> None:
        if not (root / LEDGER_NAME).is_file():
            raise RecordError(
                f"{root} is no leaderboard (it has no {LEDGER_NAME}), so no run can be taken from "
                f"it; give the folder 'leaderboards' of a checkout"
            )
        ledger = read_ledger(root / LEDGER_NAME)
        self.root = root
        self._weights = kept_in(ledger, root)
        self._entries: dict[str, list[LedgerEntry]] = defaultdict(list)
        for entry in ledger.entries:
            if entry.kind == "record":
                self._entries[str(Path(entry.path).parent)].append(entry)

    def find(self, config: RunConfig) -> StoredRecord | None:
        """Return the record of a run with these settings and this seed, the latest if several.

        Method and engine have the installed versions, task and suite the installed definitions:
        anything else would be another measurement.

        Raises:
            RecordError: a file is not the one that the ledger lists.
        """
        method, digest = method_of(config), config_digest(config.identity())
        suite, task = SUITES.get(config.suite), TASKS.get(config.task)
        definitions = definition_digest(task), definition_digest(suite.only(config.task))
        here = (method.version, version("mujoco"), *definitions)
        folder = f"{RESULTS}/{config.suite}/{config.task}/{method.id}"
        for entry in reversed(self._entries.get(folder, [])):
            if f"-seed{config.seed}-" not in Path(entry.path).name:
                continue
            stored = read_stored_record(self.root / entry.path)
            require_listed(self.root / entry.path, entry.digest, stored.digest)
            record = stored.record
            kept = self._weights_of(record) is not None
            same = (record.config_digest, record.seed) == (digest, config.seed)
            rules = record.task_digest, record.suite_digest
            made = (record.method_version, record.versions["mujoco"], *rules)
            if record.status == "complete" and same and made == here and kept:
                return stored
        return None

    def find_all(self, runs: Mapping[str, RunConfig]) -> dict[str, StoredRecord]:
        """Return the records of those runs that are there, by name; see `find`."""
        found = {name: self.find(config) for name, config in runs.items()}
        return {name: stored for name, stored in found.items() if stored is not None}

    def restore(self, stored: StoredRecord, path: Path) -> None:
        """Make the folder of a finished run of one of these records, or finish making it.

        It holds settings, record and what acts of the weights, so that the run can be measured,
        played and compared like one that was made here; it has no critic and no checkpoints.

        Raises:
            CheckpointError: the weights are not those that were added.
            RunFolderError: something else lies there, or somebody uses it.
            StorageError: a file could not be written.
        """
        record, config = stored.record, recorded_config(stored.record)
        weights = self._weights_of(record)
        assert weights is not None  # `find` has looked
        data, whole = weights.read(), str(record.weights_digest)
        with RunFolder(path, create=not (path / RunFolder.marker).is_file()) as folder:
            kept = {"weights_digest": whole, "kept": weights.digest, "record": stored.digest}
            # First: it tells a run that is being taken over from one that was begun here.
            write_atomic(folder.kept, sealed(kept))
            write_atomic(folder.config, sealed_yaml(config.to_yaml()).encode())
            write_atomic(folder.policy, data)
            # Last: with its record, the run is finished.
            write_atomic(folder.record, Path(stored.path).read_bytes())

    def _weights_of(self, record: RunRecord) -> KeptWeights | None:
        return self._weights.get(str(record.weights_digest))
