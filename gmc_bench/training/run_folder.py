"""A run's folder: one writer at a time, files written whole or not at all."""

import fcntl
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from gmc_bench.errors import RunFolderError, StorageError

CONFIG = "config.yaml"
RECORD = "record.json"
POLICY = "policy.safetensors"
CURVE = "learning_curve.png"
CHECKPOINTS = "checkpoints"
LOGS = "tensorboard"


class RunFolder:
    """The folder of one run, locked while open.

    Args:
        path: the folder.
        create: make it; it must be absent or empty. Otherwise it must hold a run.

    Raises:
        RunFolderError: it is in use, not empty, or not a run folder.
        StorageError: it cannot be created.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self._lock: IO[str] | None = None
        if create:
            self._create()
        elif not (path / CONFIG).is_file():
            raise RunFolderError(
                f"{path} is not a run folder (it has no {CONFIG}); give the folder that "
                f"'gmc-bench run' printed"
            )

    def _create(self) -> None:
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise RunFolderError(
                f"{self.path} already exists and is not empty; choose another --out, or continue "
                f"the run in it with: gmc-bench run --resume {self.path}"
            )
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"cannot create {self.path}: {error.strerror}") from error

    def __enter__(self) -> Self:
        try:
            self._lock = (self.path / ".lock").open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunFolderError(
                f"the run folder {self.path} is in use by another process; wait for it or stop it"
            ) from error
        except OSError as error:
            raise StorageError(f"cannot lock {self.path}: {error.strerror}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            self._lock.close()  # also releases the lock
            self._lock = None

    @property
    def config(self) -> Path:
        """Resolved settings, YAML."""
        return self.path / CONFIG

    @property
    def record(self) -> Path:
        """The finished run's record, JSON."""
        return self.path / RECORD

    @property
    def policy(self) -> Path:
        """Final weights and observation statistics, safetensors."""
        return self.path / POLICY

    @property
    def curve(self) -> Path:
        """Learning curve, PNG."""
        return self.path / CURVE

    @property
    def checkpoints(self) -> Path:
        """Folder of checkpoints."""
        return self.path / CHECKPOINTS

    @property
    def logs(self) -> Path:
        """Folder of TensorBoard events."""
        return self.path / LOGS


def new_folder(base: Path, name: str) -> Path:
    """Return `base/name`, or the first of `base/name-2`, `-3`, ... that does not exist yet."""
    path = base / name
    number = 2
    while path.exists():
        path = base / f"{name}-{number}"
        number += 1
    return path
