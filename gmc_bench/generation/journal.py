"""The verdicts of a search on disk, so that it can go on after an interruption of any kind."""

import fcntl
import json
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gmc_bench.core.errors import StorageError
from gmc_bench.generation.judge import Verdict
from gmc_bench.generation.recipe import Recipe


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What is known of one candidate."""

    index: int
    digest: str
    """Of the body; empty where none grew."""
    verdict: Verdict


class Journal:
    """Verdicts on disk, one line each after a line that names the recipe.

    One process at a time can have a journal open.

    Args:
        path: the file; made if missing.
        recipe: of the search.

    Raises:
        StorageError: another search has the file open, or it belongs to another recipe.
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.judged: dict[int, Judged] = {}
        """Verdicts by the number of the candidate."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a+b")
        try:
            self._lock(path)
            self._read(path, json.dumps({"recipe": recipe.digest}))
        except BaseException:
            self._file.close()
            raise

    def _lock(self, path: Path) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StorageError(
                f"another process searches for these bodies (it has {path} open); wait for it or "
                f"stop it"
            ) from error

    def _read(self, path: Path, header: str) -> None:
        """Read the verdicts and cut off what a killed search left half written.

        Raises:
            StorageError: the file is another one, and stays as it is.
        """
        self._file.seek(0)
        content = self._file.read()
        *lines, rest = content.split(b"\n")
        first = header.encode()
        begun = first.startswith(rest.rstrip(b"\0"))  # zeros: the power failed
        fits = lines[0] == first if lines else begun
        if not fits:
            raise StorageError(
                f"the file {path} is not the journal of this search; remove it to search anew"
            )
        self._file.truncate(len(content) - len(rest))
        if not lines:
            self._write(header)
        for judged in map(read_line, lines[1:]):
            if judged is not None:
                self.judged[judged.index] = judged

    def add(self, judged: Judged) -> None:
        """Keep a verdict."""
        self._write(write_line(judged))
        self.judged[judged.index] = judged

    def _write(self, line: str) -> None:
        self._file.write(line.encode() + b"\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def write_line(judged: Judged) -> str:
    """Return the line of a verdict, with a checksum."""
    row = asdict(judged)
    return json.dumps({**row, "check": _checksum(row)})


def read_line(line: bytes) -> Judged | None:
    """Return the verdict of a line; `None` for a damaged line, whose candidate is judged again."""
    try:
        row = json.loads(line)
        if row.pop("check") != _checksum(row):
            return None
        return Judged(index=row["index"], digest=row["digest"], verdict=Verdict(**row["verdict"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _checksum(row: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(row).encode())
