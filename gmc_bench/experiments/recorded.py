"""A run of which only its record is here, and the weights that a leaderboard keeps of it."""

from functools import cached_property
from pathlib import Path
from typing import Self

from gmc_bench.core.errors import RunFolderError
from gmc_bench.experiments.resolve import threads_here
from gmc_bench.experiments.run_folder import RunFolder
from gmc_bench.records.ledger import require_registered
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import StoredRecord, read_stored_record
from gmc_bench.records.weights import KeptWeights, weights_of
from gmc_bench.training.run_config import RunConfig, run_config_of

MEDIA = Path("media")
"""Where pictures of recorded runs go that nobody names."""


def recorded_config(record: RunRecord) -> RunConfig:
    """Return the settings of a recorded run, for playing its policy on this machine.

    Raises:
        ConfigError: the record's settings are not those of a run.
    """
    here = {"threads": threads_here(record.hardware.threads), "device": "cpu"}
    return run_config_of({**record.config, "seed": record.seed, **here}, "the record's config")


class RecordedRun(RunFolder):
    """Reads a record and its kept weights like the folder of the run; nothing is written to it.

    Args:
        record: the record's file in a leaderboard.
    """

    def __init__(self, record: Path) -> None:
        self.path = MEDIA / record.stem
        self._record = record

    @cached_property
    def _stored(self) -> StoredRecord:
        stored = read_stored_record(self._record)
        require_registered(stored.record.config, self._record)
        return stored

    @cached_property
    def _weights(self) -> KeptWeights:
        return weights_of(self._record, self._stored)

    def __enter__(self) -> Self:
        raise RunFolderError(
            f"{self._record} is a record, but a run can be continued in its folder only; give the "
            f"folder, or start another run"
        )

    @property
    def record(self) -> Path:
        """The record, JSON."""
        return self._record

    @property
    def policy(self) -> Path:
        """Weights and observation statistics of what acts, safetensors."""
        return self._weights.path

    def read_config(self) -> RunConfig:
        """Return the settings that the record states."""
        return recorded_config(self._stored.record)

    def read_record(self) -> RunRecord:
        """Return the record, which is read once."""
        return self._stored.record

    def read_policy(self) -> bytes:
        """Return the content of the kept file.

        Raises:
            CheckpointError: none is kept, or it is not the one that was added.
            RecordError: the record or the ledger is damaged.
        """
        return self._weights.read()
