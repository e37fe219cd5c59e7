"""Checkpoints: safetensors and JSON, written atomically, checked by digest, never pickled."""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gmc_bench.core.config import json_digest, shown
from gmc_bench.core.errors import CheckpointError, StorageError
from gmc_bench.core.files import listed_file, read_limited
from gmc_bench.core.types import Array
from gmc_bench.policies.tensors import DamagedFileError, decode_tensors, encode_tensors
from gmc_bench.records.parts import require_shallow

SCHEMA_VERSION = 4
MANIFEST = "checkpoint.json"
KEEP = 2
"""Checkpoints kept; the older one is there in case the newer is damaged."""

_SEPARATOR = "/"
"""Between the names of nested groups, in files."""


@dataclass(frozen=True)
class Checkpoint:
    """A moment of a run, between two iterations.

    Args:
        run: digest of the run's settings; a checkpoint continues only that run.
        iteration: iterations done.
        state: of the trainer: groups of arrays and JSON values by name, nested.
    """

    run: str
    iteration: int
    state: dict[str, Any]


def write_checkpoint(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint next to the earlier ones, then drop the oldest.

    The checkpoint appears under its name only when it is complete and on disk.

    Args:
        folder: the run's folder of checkpoints.
        checkpoint: what to write.

    Returns:
        Its folder.

    Raises:
        StorageError: the disk is full or cannot be written; earlier checkpoints are intact.
    """
    final = folder / f"{checkpoint.iteration:08d}"
    temporary = folder / f".{final.name}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for unfinished in folder.glob(".*.tmp"):  # of a process that was killed while writing
            shutil.rmtree(unfinished, ignore_errors=True)
        temporary.mkdir()
        digests, plain = {}, {}
        for stem, group in checkpoint.state.items():
            tensors, plain[stem] = _split(group)
            if not tensors:
                continue
            data = encode_tensors(tensors)
            digests[f"{stem}.safetensors"] = hashlib.sha256(data).hexdigest()
            _write(temporary / f"{stem}.safetensors", data)
        manifest = {
            "schema_version": SCHEMA_VERSION,
            "run": checkpoint.run,
            "iteration": checkpoint.iteration,
            "files": digests,
            "state": plain,
        }
        manifest["digest"] = _digest(manifest)
        _write(temporary / MANIFEST, json.dumps(manifest, indent=1).encode())
        if final.exists():
            shutil.rmtree(final)
        sync_folder(temporary)
        temporary.rename(final)
        sync_folder(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise StorageError(
            f"cannot write a checkpoint to {folder}: {error.strerror}; free some space, then "
            f"continue with --resume (earlier checkpoints are intact)"
        ) from error
    drop_old(folder)
    return final


def drop_old(folder: Path) -> None:
    """Delete the checkpoints of a run but the newest."""
    for old in list_checkpoints(folder)[:-KEEP]:
        shutil.rmtree(old, ignore_errors=True)


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the complete checkpoints of a run, oldest first."""
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.name.isdigit() and path.is_dir())


def read_latest(folder: Path, run: str) -> Checkpoint | None:
    """Read the newest checkpoint of a run, or return `None` when there is none yet.

    Args:
        folder: the run's folder of checkpoints.
        run: digest of the run's settings.

    Raises:
        CheckpointError: it is damaged or belongs to a run with other settings.
    """
    found = list_checkpoints(folder)
    if not found:
        return None
    try:
        return read_checkpoint(found[-1], run)
    except DamagedFileError as error:
        fallback = f"resume from {found[-2].name}" if len(found) > 1 else "start the run again"
        raise CheckpointError(f"{error}; delete the folder {found[-1]} to {fallback}") from error


def read_checkpoint(path: Path, run: str) -> Checkpoint:
    """Read one checkpoint.

    Args:
        path: its folder.
        run: digest of the settings of the run that will continue.

    Raises:
        CheckpointError: a file is missing or changed, the settings differ, or there is too little
            memory.
    """
    try:
        manifest = json.loads(read_limited(listed_file(path, MANIFEST, ".json")))
        require_shallow(manifest)
        if not isinstance(manifest, dict) or _digest(manifest) != manifest.get("digest"):
            raise DamagedFileError(f"the checkpoint {path} is damaged: {MANIFEST} was changed")
        if (layout := manifest.get("schema_version")) != SCHEMA_VERSION:
            raise CheckpointError(
                f"the checkpoint {path} has layout {shown(layout)}, but this version "
                f"of gmc-bench reads layout {SCHEMA_VERSION}"
            )
        if manifest["run"] != run:
            raise CheckpointError(
                f"the checkpoint {path} belongs to a run with other settings; put back the "
                f"configuration it was made with, or start a new run"
            )
        state = manifest["state"]
        for name, expected in manifest["files"].items():
            data = listed_file(path, name, ".safetensors").read_bytes()
            if hashlib.sha256(data).hexdigest() != expected:
                raise DamagedFileError(f"the checkpoint {path} is damaged: {name} was changed")
            group = state.setdefault(name.removesuffix(".safetensors"), {})
            _join(group, decode_tensors(data, path / name))
        return Checkpoint(manifest["run"], manifest["iteration"], state)
    except OSError as error:
        raise DamagedFileError(
            f"the checkpoint {path} is damaged: {Path(str(error.filename)).name} cannot be read"
        ) from error
    except MemoryError as error:
        raise CheckpointError(
            f"there is too little memory to read the checkpoint {path}; it stays as it is: free "
            f"some, or allow more (ulimit -v), then go on: a run with --resume, an evolution with "
            f"the same command"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedFileError(
            f"the checkpoint {path} is damaged: {MANIFEST} is not what was written ({error})"
        ) from error


def _digest(manifest: dict[str, Any]) -> str:
    content = {name: value for name, value in manifest.items() if name != "digest"}
    return json_digest(content)


def _split(group: dict[str, Any], prefix: str = "") -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays of nested groups by their full names, and everything else, nested."""
    tensors: dict[str, Array] = {}
    plain: dict[str, Any] = {}
    for name, value in group.items():
        if isinstance(value, np.ndarray):
            tensors[prefix + name] = value
        elif isinstance(value, dict):
            inner, plain[name] = _split(value, f"{prefix}{name}{_SEPARATOR}")
            tensors |= inner
        else:
            plain[name] = value
    return tensors, plain


def _join(group: dict[str, Any], tensors: dict[str, Array]) -> None:
    """Put arrays back into nested groups, all of which are there; other separators are of names.

    Raises:
        TypeError: something else is where a group was.
    """
    for name, value in tensors.items():
        place, last = group, name
        while _SEPARATOR in last:
            head, _, rest = last.partition(_SEPARATOR)
            inner = place.get(head, value)
            if isinstance(inner, np.ndarray):
                break
            if not isinstance(inner, dict):
                raise TypeError(f"{head!r} is no group")
            place, last = inner, rest
        place[last] = value


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until a folder's entries are on disk, which its files being there does not imply.

    Raises:
        OSError: it cannot be opened or written.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
