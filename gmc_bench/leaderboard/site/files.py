"""The site's folder: which files are ours, writing them, and removing those of an earlier build."""

import json
from collections.abc import Mapping
from pathlib import Path, PurePath, PurePosixPath

from gmc_bench.core.errors import StorageError
from gmc_bench.records.store import canonical_json, write_atomic

MANIFEST = "site-manifest.json"
"""Lists every file that a build wrote, so that a later one may replace or remove it."""


def write_site(out: Path, files: Mapping[str, bytes]) -> list[Path]:
    """Write all files of a site and remove those of an earlier build that are gone.

    Files that no build wrote are never changed. A file that is already as it should be is not
    written again.

    Args:
        out: the site's folder; made when missing.
        files: path below it, with `/`, to content.

    Returns:
        The files, sorted, with the manifest.

    Raises:
        StorageError: a file of somebody else is in the way, or a file could not be written or
            removed.
    """
    owned = _read_manifest(out)
    for name, data in files.items():
        path = out / name
        if (path.exists() or path.is_symlink()) and name not in owned and not _holds(path, data):
            raise StorageError(
                f"{path} is in the way: it was not written by this site; move it away or choose "
                "an empty folder"
            )
    # Before the files: a build that stops half-way must know its own files next time.
    write_atomic(out / MANIFEST, _manifest(owned | set(files)))
    for name, data in files.items():
        if not _holds(out / name, data):
            write_atomic(out / name, data)
    for name in sorted(owned - set(files)):
        remove_outdated(out, PurePath(name))
    write_atomic(out / MANIFEST, _manifest(set(files)))
    return sorted([*(out / name for name in files), out / MANIFEST])


def _manifest(names: set[str]) -> bytes:
    return canonical_json({"files": sorted(names), "generator": "gmc-bench leaderboard site"})


def _read_manifest(out: Path) -> set[str]:
    path = out / MANIFEST
    if not path.exists():
        return set()
    try:
        content = json.loads(path.read_bytes())
        names = set(content["files"])
        if all(isinstance(name, str) and _is_inside(name) for name in names):
            return names
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise StorageError(
        f"{path} does not list the files of a site; delete the folder {out} or choose another one"
    )


def _is_inside(name: str) -> bool:
    # The manifest decides what is deleted, so it must not be able to name a file elsewhere.
    path = PurePosixPath(name)
    return (
        bool(path.parts)
        and not path.is_absolute()
        and ".." not in path.parts
        and "\\" not in name
        and "\0" not in name
    )


def _holds(path: Path, data: bytes) -> bool:
    try:
        return not path.is_symlink() and path.read_bytes() == data
    except OSError:  # missing, or a folder
        return False


def remove_outdated(root: Path, file: PurePath) -> None:
    """Remove a file below a folder, and the folders inside it that this leaves empty.

    Args:
        root: the folder.
        file: relative to it; left alone where a link leads out of the folder.

    Raises:
        StorageError: it could not be removed.
    """
    path = root / file
    try:
        if not path.resolve().is_relative_to(root.resolve()):  # a folder became a link
            return
        path.unlink(missing_ok=True)
        for folder in path.parents:
            if folder == root or not folder.is_dir() or any(folder.iterdir()):
                break
            folder.rmdir()
    except OSError as error:
        raise StorageError(
            f"cannot remove the outdated file {path}: {error.strerror}; remove it by hand"
        ) from error
