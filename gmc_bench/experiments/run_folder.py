"""A run's folder: one writer at a time, files written whole or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import os
import shlex
from pathlib import Path
from typing import IO, ClassVar, Self

from gmc_bench.core.errors import CheckpointError, RecordError, RunFolderError, StorageError
from gmc_bench.experiments.lease import NAME as LEASE
from gmc_bench.experiments.lease import FolderInUseError, Lease, holder
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import POLICY_NAME, RECORD_NAME, make_folder, read_record, read_sealed
from gmc_bench.training.run_config import RunConfig, read_run_config

CONFIG = "config.yaml"
RECORD = RECORD_NAME
POLICY = POLICY_NAME
KEPT = "kept.json"
CURVE = "learning_curve.png"
CHECKPOINTS = "checkpoints"
LOGS = "tensorboard"
TRACKING = "tracking"
PLAN = "plan.yaml"
"""Marks the folder of several runs; see `gmc_bench.experiments.sweep_folder`."""
LAUNCH = "launch.yaml"
"""How a sweep is run; see `gmc_bench.experiments.sweep_launch`."""
PAGE = "sweep.html"
"""Shows in a browser how far a sweep is; see `gmc_bench.experiments.sweep_page`."""
LOCK = ".lock"
LEFTOVER = ".*.tmp"
"""Files that were being written when their process was killed."""
_GOES_ON = {
    "study.yaml": "study",
    "scaling.json": "study",
    "tuning.yaml": "tune",
    LAUNCH: "sweep",
    PLAN: "run",
    CONFIG: "run",
}
"""Verb that goes on with what a file of this name is part of; the first that is there decides."""
_BEFORE_MARKER = ("study.yaml", LAUNCH, KEPT)
"""Files that are written before the one that marks a folder, so that none of them is missing where
something can be continued. Where they are alone with a lock, a process was killed in between."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
"""What file systems answer that have no locks; there the lease alone decides."""


def require_unused(path: Path, *, resumes: bool = True) -> None:
    """Check that something can be begun in a folder.

    Args:
        path: the folder, which need not exist.
        resumes: what is to be begun can be continued, so that whoever asks for it may have meant
            to go on with what lies there.

    Raises:
        RunFolderError: something else is there.
    """
    if not is_free(path):
        if path.is_file():
            raise RunFolderError(f"{path} is a file; choose another folder for --out")
        where = shlex.quote(str(path))
        there = (made_by for name, made_by in _GOES_ON.items() if is_file(path / name))
        verb = next(there, None) if resumes else None
        go_on = f", or continue what is in it with: gmc-bench {verb} --resume {where}"
        raise RunFolderError(
            f"{path} already exists and is not empty; choose another --out{go_on if verb else ''}"
        )


class LockedFolder:
    """A folder that one process at a time writes to, locked while open; see `lease`.

    Args:
        path: the folder.
        create: make it; it must be absent or empty. A folder also counts as empty with leftovers of
            a process that was killed before it wrote the marker; they are removed. Otherwise the
            folder must hold the marker.

    Raises:
        RunFolderError: it is in use, not empty, or not such a folder.
        StorageError: it cannot be created.
    """

    marker: ClassVar[str]
    """File without which nothing was started in the folder."""
    verb: ClassVar[str] = "run"
    """What starts it, and goes on in it with `--resume`: `gmc-bench VERB`."""

    what: ClassVar[str] = ""
    """What it is called; by default a folder of the verb."""
    maker: ClassVar[str] = ""
    """The verb that names such folders; by default `verb`."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        self._create = create
        self._lock: IO[str] | None = None
        self._holder = 0  # number of the process that locked it
        self.lease = Lease(path)
        """Beside the lock, for file systems that machines share."""
        if create:
            require_unused(self.path)
            make_folder(self.path)
        elif not is_file(path / self.marker):
            raise RunFolderError(self._why_not())

    def _why_not(self) -> str:
        if (self.path / LOCK).is_file() and is_unused(self.path):
            return (
                f"{self.path} holds no run yet (it was stopped before it had written its "
                f"{self.marker}); give the command that started it again, with --out "
                f"{shlex.quote(str(self.path))}"
            )
        return (
            f"{self.path} is not {self.what or f'a {self.verb} folder'} (it has no "
            f"{self.marker}); give the folder that 'gmc-bench {self.maker or self.verb}' printed"
        )

    def __enter__(self) -> Self:
        self._holder = os.getpid()
        try:
            self._lock = (self.path / LOCK).open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderInUseError(
                f"the run folder {self.path} is in use by another process"
                f"{holder(self.path)}; wait for it or stop it"
            ) from error
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise StorageError(f"cannot lock {self.path}: {error.strerror}") from error
            self.lease.locked = False
        try:
            self.lease.__enter__()
            if self._create:
                try:
                    # Again: another process may have come first.
                    require_unused(self.path)
                except RunFolderError:
                    self.lease.__exit__()
                    raise
        except BaseException:
            self._unlock()
            raise
        if self._create:
            left = (self.path / name for name in _BEFORE_MARKER)
            for path in (*self.path.glob(LEFTOVER), *left):
                path.unlink(missing_ok=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_holder():
            self.lease.__exit__(*error)
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            if self._is_holder():
                # Closing alone would leave it to processes that were forked meanwhile.
                with contextlib.suppress(OSError):  # a file system without locks
                    fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._lock.close()
            self._lock = None

    def _is_holder(self) -> bool:
        """Return whether this is the process that locked it, not one that was forked meanwhile."""
        return self._holder == os.getpid()


class RunFolder(LockedFolder):
    """The folder of one run, locked while open; see `LockedFolder`."""

    marker = CONFIG

    def _why_not(self) -> str:
        if not (self.path / PLAN).is_file():
            return super()._why_not()
        names = ", ".join(sorted(path.parent.name for path in self.path.glob(f"*/{CONFIG}")))
        return (
            f"{self.path} holds several runs, one was expected; give the folder of one of them "
            f"below it ({names or 'none was begun'})"
        )

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

    def read_config(self) -> RunConfig:
        """Return the resolved settings.

        Raises:
            ConfigError: they cannot be read.
        """
        return read_run_config(self.config)

    def read_record(self) -> RunRecord:
        """Return the finished run's record.

        Raises:
            RecordError: there is none yet, or it is damaged.
        """
        if not is_file(self.record):
            raise RecordError(
                f"the run in {self.path} is not finished (it has no {self.record.name}); finish it "
                f"with: {self._again}"
            )
        return read_record(self.record)

    def find_record(self) -> RunRecord | None:
        """Return the record; `None` of a run that is not finished.

        Raises:
            RecordError: it is damaged.
        """
        return self.read_record() if self.record.exists() else None

    def read_policy(self) -> bytes:
        """Return the content of the final policy's file.

        Raises:
            CheckpointError: the file is missing or damaged.
            RecordError: the run's record is damaged.
        """
        record = self.find_record()
        try:
            data = self.policy.read_bytes()
        except OSError as error:
            # A run that has its record is not resumed.
            first = "finish" if record is None else f"delete {self.record.name}, then finish"
            raise CheckpointError(
                f"{self.policy} cannot be read; {first} the run with: {self._again}"
            ) from error
        if record is not None and not self._belongs(data, record):
            raise CheckpointError(
                f"{self.policy} is damaged (its digest is not the one in the record); delete it "
                f"and {self.record.name}, then run: {self._again}"
            )
        return data

    @property
    def _again(self) -> str:
        """The command that goes on with the run."""
        return f"gmc-bench run --resume {shlex.quote(str(self.path))}"

    def _belongs(self, data: bytes, record: RunRecord) -> bool:
        """Return whether a file is the record's policy, or what a leaderboard keeps of it."""
        found = hashlib.sha256(data).hexdigest()
        if found == record.weights_digest or not self.kept.is_file():
            return found == record.weights_digest
        content, _ = read_sealed(self.kept)
        return (content.get("weights_digest"), content.get("kept")) == (
            record.weights_digest,
            found,
        )

    @property
    def kept(self) -> Path:
        """Description of `policy` where the run was taken from a leaderboard, JSON."""
        return self.path / KEPT

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

    @property
    def tracking(self) -> Path:
        """Folder of the run's tracker: what it keeps here, and how far it has come."""
        return self.path / TRACKING


def is_free(path: Path) -> bool:
    """Return whether something can be begun in a folder: it is absent, or unused.

    Raises:
        RunFolderError: the system does not let us look.
    """
    try:
        return not path.exists() or is_unused(path)
    except OSError as error:  # another user's, or a name that is too long for a file system
        raise RunFolderError(
            f"cannot look into {path}: {error.strerror}; choose another folder"
        ) from error


def is_file(path: Path) -> bool:
    """Return whether there is a file.

    Raises:
        RunFolderError: the system does not let us look.
    """
    try:
        return path.is_file()
    except OSError as error:
        raise RunFolderError(
            f"cannot look for {path.name} in {path.parent}: {error.strerror}; give a folder that "
            f"you may read"
        ) from error


def is_unused(path: Path) -> bool:
    """Return whether a folder is empty but for what a killed process may leave at its start."""
    if not path.is_dir():
        return False
    items = list(path.iterdir())
    was_locked = any(item.name == LOCK for item in items)
    return all(
        item.name in (LOCK, LEASE)
        or item.match(LEFTOVER)
        or (was_locked and item.name in _BEFORE_MARKER)
        for item in items
    )


def new_folder(base: Path, name: str) -> Path:
    """Return `base/name`, or the first of `base/name-2`, `-3`, ... that does not exist yet."""
    path = base / name
    number = 2
    while path.exists():
        path = base / f"{name}-{number}"
        number += 1
    return path
