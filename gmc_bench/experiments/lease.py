"""Lease: one holder at a time of a folder that machines share, also without working file locks.

`flock` settles who may write among the processes of one machine, and on file systems that pass it
on (NFS from Linux 2.6.12, Lustre with `-o flock`) among machines. Others keep it to the machine,
or have none. A lease is a file beside the lock that needs only what every shared file system has:
creation that fails if the file is there, and a modification time. Its holder touches it every few
seconds (the heartbeat); whoever finds it untouched for long takes it over. A holder of this machine
that lost the lock is gone, so that its lease is taken over at once.
"""

import contextlib
import json
import math
import os
import socket
import threading
import time
import uuid
from pathlib import Path
from typing import Self

from gmc_bench.core.errors import RunFolderError, StorageError

NAME = ".lease"
TAKING = ".lease.taking.tmp"
"""File of the one process that may remove an expired lease."""
TOUCH_S = 5.0
"""Seconds between two heartbeats of a holder."""
WAIT_S = 0.01
"""Seconds between two tries while another process removes an expired lease."""
TIMEOUT_S = 60.0
"""Seconds without a heartbeat after which a lease expires; many times `TOUCH_S`, because file
systems delay modification times and machines stall."""


class FolderInUseError(RunFolderError):
    """Another process writes to a folder."""


class LeaseLostError(RunFolderError):
    """Another process took a folder over, because its holder sent no heartbeat."""


class Lease:
    """The right to write to a folder, held while open; open it holding the folder's `flock`.

    Args:
        folder: what it is about.

    Raises:
        FolderInUseError: another machine holds it.
        StorageError: it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.locked = True
        """Whether the `flock` is held; not on file systems without locks."""
        self._token = f"{machine()}:{os.getpid()}:{uuid.uuid4().hex}"
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        try:
            while not self._create():
                self._end_void()
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error
        self._thread = threading.Thread(target=self._stay, name="lease", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(OSError):
            if self.is_held():
                self.path.unlink()

    def is_held(self) -> bool:
        """Return whether nobody took it over.

        Raises:
            OSError: the file cannot be read, which says nothing about who holds it.
        """
        return _read(self.path).get("token") == self._token

    def require(self) -> None:
        """Raise if it was held and somebody took it over.

        Raises:
            LeaseLostError: somebody did.
        """
        with contextlib.suppress(OSError):  # what is written next tells whether the disk works
            if self._thread is not None and not self.is_held():
                raise LeaseLostError(
                    f"the run folder {self.path.parent} was taken over by {_holder(self.path)} "
                    f"after {TIMEOUT_S:.0f} s without a sign of life from here; the run goes on "
                    f"there"
                )

    def _create(self) -> bool:
        content = {
            "token": self._token,
            "machine": machine(),
            "node": socket.gethostname(),
            "pid": os.getpid(),
            "pids": _pid_namespace(),
        }
        # A link to a whole file: no reader sees half of it, and only one of several can be made.
        mine = self.path.with_name(f"{NAME}.{uuid.uuid4().hex}.tmp")
        try:
            mine.write_text(json.dumps(content), encoding="utf-8")
            try:
                os.link(mine, self.path)
            except FileExistsError:
                return False
            except OSError:  # a file system without links
                try:
                    with self.path.open("x", encoding="utf-8") as file:
                        json.dump(content, file)
                except FileExistsError:
                    return False
            return True
        finally:
            mine.unlink(missing_ok=True)

    def _end_void(self) -> None:
        """Remove the lease of a holder that is gone.

        Raises:
            FolderInUseError: it is not gone.
        """
        taking = self.path.with_name(TAKING)
        try:
            taking.open("x").close()
        except FileExistsError:  # another one is about to
            if abs(_age(taking)) > TIMEOUT_S:  # was about to, and is gone
                taking.unlink(missing_ok=True)
            time.sleep(WAIT_S)
            return
        try:
            found = _read(self.path)  # while nobody else removes one
            if not self._is_gone(found) and is_alive(self.path.parent):
                raise FolderInUseError(
                    f"the run folder {self.path.parent} is in use by another process"
                    f"{holder(self.path.parent)}; wait for it or stop it"
                )
            away = self.path.with_name(f"{NAME}.{uuid.uuid4().hex}.tmp")
            with contextlib.suppress(FileNotFoundError):  # given back
                self.path.rename(away)
                if _read(away).get("token") != found.get("token"):  # given back, and taken anew
                    with contextlib.suppress(OSError):
                        os.link(away, self.path)
                away.unlink(missing_ok=True)
        finally:
            taking.unlink(missing_ok=True)

    def _is_gone(self, found: dict[str, object]) -> bool:
        """Return whether a holder is known to be gone, without waiting for heartbeats."""
        return (self.locked and found.get("machine") == machine()) or _has_ended(found)

    def _stay(self) -> None:
        while not self._ended.wait(TOUCH_S):
            # To the end: a file server may fail for a moment, and whoever looks for expired leases
            # may move this one away and back.
            with contextlib.suppress(OSError):
                if self.is_held():
                    os.utime(self.path)


def is_alive(folder: Path) -> bool:
    """Return whether the holder of a folder's lease has recently sent a heartbeat.

    Both times are those of the file system where it can be written to, so that clocks may differ
    between machines; a heartbeat far in the future is from before a clock was set back. A process
    of this machine that has ended is known to be gone at once.
    """
    if abs(_age(folder / NAME)) >= TIMEOUT_S:
        return False
    try:
        return not _has_ended(_read(folder / NAME))
    except OSError:  # says nothing about who holds it
        return True


def holder(folder: Path) -> str:
    """Return who holds a folder's lease, as ` (process 7 on node)`; empty where nobody is known."""
    return f" ({_holder(folder / NAME)})" if is_alive(folder) else ""


def _has_ended(found: dict[str, object]) -> bool:
    """Return whether the holder that a lease names is a process of this machine that has ended."""
    if (found.get("machine"), found.get("pids")) != (machine(), _pid_namespace()):
        return False
    try:
        os.kill(int(str(found.get("pid"))), 0)
    except (ValueError, ProcessLookupError):
        return True
    except OSError:  # another user's
        return False
    return False


def _age(path: Path) -> float:
    """Return the seconds since a file was touched, infinite without one."""
    probe = path.with_name(f"{NAME}.{uuid.uuid4().hex}.tmp")
    try:
        touched = path.stat().st_mtime
        try:
            probe.touch()
            now = probe.stat().st_mtime
        except OSError:  # a reader of a folder that is not theirs, with another clock
            return max(0.0, time.time() - touched)
        return now - touched
    except OSError:
        return math.inf
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)


def machine() -> str:
    """Return an id of this machine since its last boot."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return f"{socket.gethostname()}-{uuid.getnode():x}"


def _pid_namespace() -> str:
    """Return the id of this process's PID namespace; containers have their own."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _read(path: Path) -> dict[str, object]:
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _holder(path: Path) -> str:
    found: dict[str, object] = {}
    with contextlib.suppress(OSError):
        found = _read(path)
    return f"process {found.get('pid', '?')} on {found.get('node', 'another machine')}"
