"""Imported morphology sets in the user's data folder.

Layout: `<base>/morphologies/<set id>/<set digest>/` with `manifest.json` and one MJCF file per
body; the file `current` beside the digests names the one in use. A set appears by one rename, so
a reader finds a whole set or none.
"""

import hashlib
import json
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import platformdirs

from gmc_bench.bodies.mjcf import emit_mjcf, parse_mjcf
from gmc_bench.bodies.mjcf_reader import own_slots
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.core.config import json_digest
from gmc_bench.core.errors import GmcBenchError, MorphologyError, MorphologySetError, StorageError
from gmc_bench.core.files import listed_file, read_limited

DATA_VARIABLE = "GMC_BENCH_DATA"
"""Environment variable that moves the base folder."""

_FORMAT = 1
_MANIFEST = "manifest.json"
_CURRENT = "current"
_CHECK, _FILE = "check", "sha256"
"""SHA-256 of the rest of the manifest, and of a body's file; sets that were stored before there
were these have none."""
_SLOTS = "slots"
"""Joint slots that a body's file does not tell, by the joints' names; only where there are any."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
_SET_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def data_dir() -> Path:
    """Return the base folder of the user's data; it need not exist."""
    return Path(os.environ.get(DATA_VARIABLE) or platformdirs.user_data_dir("gmc-bench"))


def check_set_id(set_id: str) -> None:
    """Refuse ids that cannot be a folder name on every system.

    Raises:
        MorphologySetError: the id has other characters than `a-z 0-9 _ -`, or is too long.
    """
    if not _SET_ID.fullmatch(set_id):
        raise MorphologySetError(
            f"{set_id!r} cannot be the id of a set; use 1 to 64 of the characters a-z, 0-9, _ and -"
        )


def store_set(bodies: MorphologySet) -> Path:
    """Store a set and make it the current one under its id.

    Storing the same set again changes nothing; a damaged copy of it is replaced.

    Args:
        bodies: the set.

    Returns:
        The folder that holds it.

    Raises:
        MorphologySetError: the id cannot be used, or a body cannot be read back from a file.
        StorageError: the folder cannot be written; what was stored before is untouched.
    """
    check_set_id(bodies.id)
    home = _home(bodies.id)
    folder = home / bodies.digest
    try:
        write_set(folder, bodies)
        _write_current(home, bodies.digest)
    except OSError as error:
        raise StorageError(
            f"cannot store the set {bodies.id!r} in {home} ({error.strerror or error}); free space "
            f"or permissions there, or set {DATA_VARIABLE} to another folder"
        ) from error
    return folder


def write_set(folder: Path, bodies: MorphologySet) -> None:
    """Write a set into a folder of its own, unless it is there.

    Raises:
        MorphologySetError: it has a body that cannot be read back from a file.
        OSError: the folder cannot be written.
    """
    with suppress(MorphologySetError):
        if read_set(folder, bodies.id, bodies.digest) == bodies:
            return
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Hidden and on the same file system, so that renames out of it are atomic.
    with tempfile.TemporaryDirectory(
        prefix=".import-", dir=folder.parent, ignore_cleanup_errors=True
    ) as workspace:
        draft = Path(workspace) / "new"
        draft.mkdir()
        _write_files(draft, bodies)
        _require_readable(draft, bodies)
        if folder.exists():  # damaged, or its notes changed
            folder.rename(Path(workspace) / "old")
        draft.rename(folder)


def load_set(set_id: str) -> MorphologySet:
    """Load an imported set and verify it.

    Args:
        set_id: the id it was imported under.

    Returns:
        The set, bodies in the order of the import.

    Raises:
        MorphologySetError: the set is not imported, or its files are not what was imported.
    """
    check_set_id(set_id)
    home = _home(set_id)
    try:
        digest = (home / _CURRENT).read_text(encoding="ascii").strip()
        if not _DIGEST.fullmatch(digest):
            raise ValueError(f"{_CURRENT} names no set")
    except (FileNotFoundError, NotADirectoryError):
        raise MorphologySetError(
            f"the set {set_id!r} is not imported; run "
            f"'gmc-bench morphologies import {set_id} PATH' with the folder that holds its "
            f"train and test bodies"
        ) from None
    except (OSError, ValueError) as error:  # a text that is not ASCII is a ValueError too
        raise _damaged(set_id, home, error) from error
    return read_set(home / digest, set_id, digest)


def imported_sets() -> list[str]:
    """Return the ids of all imported sets, sorted."""
    return sorted(path.parent.name for path in (data_dir() / "morphologies").glob(f"*/{_CURRENT}"))


def _home(set_id: str) -> Path:
    return data_dir() / "morphologies" / set_id


def _damaged(set_id: str, folder: Path, reason: object) -> MorphologySetError:
    return MorphologySetError(
        f"the imported set {set_id!r} in {folder} is damaged ({reason}); re-import it with "
        f"'gmc-bench morphologies import {set_id} PATH'"
    )


def read_set(folder: Path, set_id: str, digest: str) -> MorphologySet:
    """Read a set that `write_set` wrote, and verify it.

    Raises:
        MorphologySetError: the set is not there, or its files are not what was written.
    """
    try:
        manifest = json.loads(read_limited(listed_file(folder, _MANIFEST, ".json")))
        if manifest["format"] != _FORMAT:
            raise ValueError(f"format {manifest['format']}, expected {_FORMAT}")
        if _CHECK in manifest and manifest.pop(_CHECK) != json_digest(manifest):
            raise ValueError(f"{_MANIFEST} was changed")
        bodies = MorphologySet(
            id=manifest["id"],
            splits={
                split: tuple(_read_body(folder, row) for row in rows)
                for split, rows in manifest["splits"].items()
            },
            source=manifest["source"],
            licence=manifest["licence"],
            notes=tuple(manifest["notes"]),
        )
    except (
        OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError,
        GmcBenchError,
    ) as error:  # fmt: skip
        raise _damaged(set_id, folder, f"{type(error).__name__}: {error}") from error
    if bodies.digest != digest or bodies.id != set_id:
        raise _damaged(set_id, folder, "its content does not match its hash")
    return bodies


def _read_body(folder: Path, row: dict[str, Any]) -> Morphology:
    path = listed_file(folder, row["file"], ".xml")
    # The body's own hash rounds numbers; sets that were stored before there was this one lack it.
    data = read_limited(path)
    if row.get(_FILE, found := hashlib.sha256(data).hexdigest()) != found:
        raise MorphologyError(f"{path.name} was changed")
    body = parse_mjcf(data.decode(), row["name"], row.get(_SLOTS))
    if body.digest != row["digest"]:
        raise MorphologyError(f"body {row['name']!r} does not match its hash")
    pairs = tuple((int(first), int(second)) for first, second in row["symmetric_limbs"])
    return replace(body, symmetric_limbs=pairs)


def _write_files(folder: Path, bodies: MorphologySet) -> None:
    splits: dict[str, list[dict[str, Any]]] = {}
    for split in bodies.splits:
        splits[split] = []
        for index, body in enumerate(bodies.split(split)):
            # Numbered, because body names may repeat between splits and hold any character.
            file = f"{split}-{index:04d}.xml"
            data = emit_mjcf(body).encode()
            (folder / file).write_bytes(data)
            splits[split].append({
                "name": body.name, "file": file, _FILE: hashlib.sha256(data).hexdigest(),
                "digest": body.digest, "symmetric_limbs": body.symmetric_limbs,
                **({_SLOTS: slots} if (slots := own_slots(body)) else {}),
            })  # fmt: skip
    manifest = {
        "format": _FORMAT,
        "id": bodies.id,
        "digest": bodies.digest,
        "source": bodies.source,
        "licence": bodies.licence,
        "notes": bodies.notes,
        "splits": splits,
    }
    manifest[_CHECK] = json_digest(manifest)
    text = json.dumps(manifest, indent=1, ensure_ascii=False)
    (folder / _MANIFEST).write_text(text + "\n", encoding="utf-8")


def _require_readable(folder: Path, bodies: MorphologySet) -> None:
    """Refuse a set that could not be loaded: later, its files would look damaged.

    Raises:
        MorphologySetError: what was written is read as something else, or not at all.
        OSError: it cannot be read just now.
    """
    try:
        read_set(folder, bodies.id, bodies.digest)
    except MorphologySetError as error:
        if isinstance(error.__cause__, OSError):
            raise error.__cause__ from None
        reason = error.__cause__ or "the bodies come out as others"
        raise MorphologySetError(
            f"the set {bodies.id!r} cannot be stored, because it cannot be read back from files "
            f"({reason}); change what they cannot hold"
        ) from error


def _write_current(home: Path, digest: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".current-", dir=home) as workspace:
        draft = Path(workspace) / _CURRENT
        draft.write_text(digest + "\n", encoding="ascii")
        draft.replace(home / _CURRENT)
