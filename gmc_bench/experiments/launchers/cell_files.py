"""Files of a cell as one object, for machines that share no folder."""

from pathlib import Path
from typing import TypeAlias

from gmc_bench.experiments.cell_state import state_file
from gmc_bench.experiments.run_folder import CHECKPOINTS, CONFIG, LOCK, RECORD
from gmc_bench.records.store import write_atomic
from gmc_bench.training.checkpoint import drop_old, list_checkpoints, sync_folder

Files: TypeAlias = dict[str, bytes]
"""Contents by path, relative to the sweep's folder."""


def newest(sweep: Path, name: str) -> str:
    """Return a value that changes whenever a cell has written a checkpoint or its record."""
    found = list_checkpoints(sweep / name / CHECKPOINTS)
    return f"{found[-1].name if found else ''}{(sweep / name / RECORD).is_file()}"


def pack_state(sweep: Path, name: str) -> Files:
    """Return the file of a cell's state, if there is one."""
    path = state_file(sweep, name)
    return {path.relative_to(sweep).as_posix(): path.read_bytes()} if path.is_file() else {}


def pack(sweep: Path, name: str) -> Files:
    """Return everything that a cell needs to go on elsewhere, with its newest checkpoint only."""
    folder = sweep / name
    if not (folder / CONFIG).is_file():
        return pack_state(sweep, name)
    kept = list_checkpoints(folder / CHECKPOINTS)[-1:]
    files = pack_state(sweep, name)
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if not path.is_file() or path.name.startswith((".", LOCK)):
            continue
        if inside.parts[0] == CHECKPOINTS and path.parent not in kept:
            continue
        files[path.relative_to(sweep).as_posix()] = path.read_bytes()
    return files


def unpack(sweep: Path, files: Files) -> None:
    """Write files; a checkpoint whole or not at all, the record last, as the cell itself does.

    Raises:
        StorageError: one could not be written.
    """

    def order(path: str) -> tuple[bool, bool]:
        return path.endswith(f"/{RECORD}"), not path.endswith(f"/{CONFIG}")

    checkpoints = {str(Path(path).parent) for path in files if f"/{CHECKPOINTS}/" in path}
    for path in sorted(files, key=order):
        parent = str(Path(path).parent)
        if parent not in checkpoints:
            write_atomic(sweep / path, files[path])
    for parent in sorted(checkpoints):
        final = sweep / parent
        if final.is_dir():
            continue
        temporary = final.with_name(f".{final.name}.tmp")
        for path, data in files.items():
            if str(Path(path).parent) == parent:
                write_atomic(temporary / Path(path).name, data)
        sync_folder(temporary)
        temporary.rename(final)
        sync_folder(final.parent)
        drop_old(final.parent)  # a cell sends its newest every few seconds
