"""Collect a model and the files it refers to, from its own folder and nowhere else."""

import html
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from gmc_bench.errors import MorphologyError

SUFFIXES = (".xml", ".mjcf", ".urdf")
"""What robot files are called."""

_MAX_TEXT = 1 << 23  # bytes of one XML file
_MAX_TOTAL = 1 << 26  # bytes of all files of a model
_MAX_FILES = 500
_MAX_FOLDERS = 16
_VALUE = r"""\s*=\s*(?:"([^"]*)"|'([^']*)')"""
_FILE = re.compile(rf"\bfile[a-z]*{_VALUE}")
_FOLDER = re.compile(rf"\b(?:meshdir|texturedir|assetdir){_VALUE}")
_SCHEME = re.compile(r"(package|file|model)://", re.IGNORECASE)


@dataclass(frozen=True)
class ModelFiles:
    """A model in memory."""

    name: str
    """The file's stem."""
    text: str
    urdf: bool
    files: dict[str, bytes] = field(default_factory=dict)
    """What it refers to, by the last part of its path."""


def collect_files(path: Path) -> ModelFiles:
    """Read a model and what it includes or refers to.

    Files that do not exist are left to the engine to complain about.

    Args:
        path: a MJCF or URDF file.

    Returns:
        The model; every file lies in the model's folder or below.

    Raises:
        MorphologyError: a file cannot be read, is no regular file or too large, or the model refers
            to something outside its folder.
    """
    try:
        path = path.resolve(strict=True)
        data = _read(path, _MAX_TEXT)
    except OSError as error:
        raise MorphologyError(f"cannot read {path} ({error.strerror})") from error
    text = _decode(data, path.name)
    collector = _Collector(path.parent, path.name)
    collector.scan(text, PurePosixPath("."))
    # The root element decides; many models keep URDF in a file called `.xml`.
    return ModelFiles(path.stem, text, _root_tag(text) == "robot", collector.files)


class _Collector:
    """Follows references from one text to the next."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder = folder
        self._model = model
        self._total = 0
        self._folders: list[str] = []
        self._seen: set[str] = set()
        self._num_names = 0
        self.files: dict[str, bytes] = {}

    def scan(self, text: str, place: PurePosixPath) -> None:
        """Collect what a text in the sub-folder `place` refers to."""
        waiting = [(text, place)]
        while waiting:
            text, place = waiting.pop()
            self._folders += sorted(set(_values(_FOLDER, text)) - set(self._folders))
            names = dict.fromkeys(_values(_FILE, text))
            self._num_names += len(names)
            if self._num_names > _MAX_FILES or len(self._folders) > _MAX_FOLDERS:
                raise MorphologyError(
                    f"{self._model} refers to more than {_MAX_FILES} files, or {_MAX_FOLDERS} "
                    f"folders of them; remove what is not needed"
                )
            for name in names:
                for found, data in self._find(name, place):
                    if found.suffix.lower() in (".xml", ".mjcf"):
                        waiting.append((_decode(data, str(found)), found.parent))

    def _find(self, name: str, place: PurePosixPath) -> Iterator[tuple[PurePosixPath, bytes]]:
        """Yield what was not read before of the files that a reference may mean."""
        scheme = _SCHEME.match(name)
        name = name[scheme.end() :] if scheme else name
        if not name or "\0" in name:
            return
        # The engine ignores the package; so the file may stand at any end of its path.
        parts = PurePosixPath(name).parts
        tails = ["/".join(parts[i:]) for i in range(len(parts))] if scheme else [name]
        for tail in tails:
            for folder in dict.fromkeys([*self._folders, str(place), ""]):
                joined = os.path.normpath(os.path.join(folder, tail))  # noqa: PTH118
                if joined in self._seen:
                    return
                data = self._read_inside(joined, name)
                if data is not None:
                    self._seen.add(joined)
                    self._keep(PurePosixPath(joined).name, data)
                    yield PurePosixPath(joined), data
                    return

    def _keep(self, name: str, data: bytes) -> None:
        # The engine's file system in memory knows files by their last name alone.
        if self.files.setdefault(name, data) != data:
            raise MorphologyError(
                f"{self._model} refers to two different files called {name!r}; rename one of them"
            )

    def _read_inside(self, joined: str, name: str) -> bytes | None:
        outside = MorphologyError(
            f"{self._model} refers to {name!r}, which is outside its folder; put all files of the "
            f"robot into one folder"
        )
        if re.match(r"/|\\|\.\.(/|\\|$)|[A-Za-z]:", joined):
            raise outside
        try:
            place = (self._folder / joined).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            return None
        if not place.is_relative_to(self._folder):
            raise outside
        if not place.is_file():
            return None
        try:
            data = _read(place, _MAX_TOTAL - self._total)
        except OSError as error:
            raise MorphologyError(f"cannot read {place} ({error.strerror})") from error
        self._total += len(data)
        return data


def _root_tag(text: str) -> str:
    place = text.find("<")
    while place >= 0:
        for opening, closing in (("<!--", "-->"), ("<?", "?>")):
            if text.startswith(opening, place):
                end = text.find(closing, place + len(opening))
                place = text.find("<", end) if end >= 0 else -1
                break
        else:
            tag = re.compile(r"\w+").match(text, place + 1)
            return tag[0] if tag else ""
    return ""


def _values(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for match in pattern.finditer(text):
        yield html.unescape(match[1] if match[1] is not None else match[2])


def _read(path: Path, limit: int) -> bytes:
    # Links were followed before; not blocking, because a named pipe would never answer.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise MorphologyError(f"{path} is not a regular file; expected a robot's file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise MorphologyError(
            f"{path} is too large: the files of a robot may have {_MAX_TOTAL >> 20} MiB together, "
            f"and an XML file {_MAX_TEXT >> 20} MiB"
        )
    return data


def _decode(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MorphologyError(f"{name} is not UTF-8 text; convert it") from error
    # Entities could expand to gigabytes; no robot description needs a document type.
    if re.search(r"<!(DOCTYPE|ENTITY)", text, re.IGNORECASE):
        raise MorphologyError(
            f"{name} declares a document type or entities; remove the <!DOCTYPE ...> part"
        )
    return text
