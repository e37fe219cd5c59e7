"""Collect a model and the files it refers to, from its own folder and nowhere else."""

import html
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from xml.sax.saxutils import quoteattr

from gmc_bench.bodies.mesh_formats import readable, stl_name
from gmc_bench.core.errors import MorphologyError

SUFFIXES = (".xml", ".mjcf", ".urdf")
"""What robot files are called."""

_MAX_TEXT = 1 << 23  # bytes of one XML file
_MAX_TOTAL = 1 << 26  # bytes of all files of a model
_MAX_FILES = 500
_MAX_FOLDERS = 16
_VALUE = r"""\s*=\s*(?:"([^"]*)"|'([^']*)')"""
_FILE = re.compile(rf"\bfile[a-z]*{_VALUE}")
_MESH = re.compile(rf"<mesh\b[^<]*?\bfilename{_VALUE}")
"""All that URDF refers to for the engine; what else names files is for other programs."""
_FOLDER = re.compile(rf"\b(?:meshdir|texturedir|assetdir){_VALUE}")
_INCLUDE = re.compile(rf"<include\b[^<>]*?\bfile{_VALUE}")
_MODEL = re.compile(rf"<model\b[^<>]*?\bfile{_VALUE}")
_OUTWARD = re.compile(r"/|\.\.(/|$)|[A-Za-z]:")
"""How a path starts that is absolute or leads out of the folder it is relative to."""
_VISUAL = re.compile(r"<visual(?=[\s/>])")
_TEXTS = (".xml", ".mjcf")
_SCHEME = re.compile(r"(package|file|model)://", re.IGNORECASE)
ROBOT_FOLDERS = ("urdf", "mjcf", "xml", "robots")
"""Where packages keep their robot files."""

_PACKAGE = "package.xml"
"""What marks the folder of a ROS package."""
_PACKAGE_LEVELS = 4  # folders between a robot file and its package
_MESH_FOLDERS = ("meshes", "assets")
_MAX_REFERENCE = 1024  # characters of a file's name with its folders
UNREADABLE = (".dae", ".fbx", ".glb", ".gltf", ".material", ".ply", ".so", ".world", ".yaml")
"""Suffixes of what robot files refer to for other programs; the engine cannot use it."""
_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ")
"""How files of zip, gzip, bzip2 and xz begin."""


@dataclass(frozen=True)
class ModelFiles:
    """A model in memory."""

    name: str
    """The file's stem."""
    text: str
    urdf: bool
    root: Path
    """The folder outside of which nothing was read."""
    files: dict[str, bytes] = field(default_factory=dict)
    """What it refers to, by the last part of its path; of a URDF, in `text`, too, all but the first
    of several of one name have got other names. Meshes that are still to be converted have the
    names in `text` that they will have then, see `stl_name`."""
    missing: tuple[str, ...] = ()
    """What it refers to that is not there, or that the engine cannot read."""


def collect_files(path: Path, root: Path | None = None) -> ModelFiles:
    """Read a model and what it includes or refers to.

    Files that do not exist are left to the engine to complain about.

    Args:
        path: a MJCF or URDF file.
        root: the folder outside of which nothing is read; None takes that of the package which the
            model lies in, see `package_around`. A link to the model counts as the model.

    Returns:
        The model, named like the file or the link to it.

    Raises:
        MorphologyError: a file cannot be read, is no regular file or too large, the model or what
            it refers to is outside of `root`, or the model is a template or archive.
    """
    name = clean_name(path.stem)
    if root is not None and not root.is_dir():
        raise MorphologyError(f"{root} is no folder; expected the one that holds the robot's files")
    try:
        path = path.resolve(strict=True)
        root = package_around(path.parent) if root is None else root.resolve(strict=True)
        if not path.is_relative_to(root):
            raise MorphologyError(
                f"{name!r} leads to {path}, which is outside of {root}; put the robot's own file "
                f"there"
            )
        data = _read(path, _MAX_TEXT)
    except OSError as error:
        raise MorphologyError(f"cannot read {path} ({error.strerror})") from error
    except RuntimeError as error:
        raise MorphologyError(f"cannot read {path} (its links lead in a circle)") from error
    shown = clean_name(path.name)
    text = _decode(data, shown)
    urdf = root_tag(text) == "robot"  # many models keep URDF in a file called `.xml`
    bare = _without(text, "<!--", "-->")
    if urdf and "<xacro:" in bare:
        raise MorphologyError(
            f"{shown} is a xacro template; expand it with 'xacro {shown} > robot.urdf' and import "
            f"that"
        )
    collector = _Collector(root, PurePosixPath(path.parent.relative_to(root)), shown, urdf)
    # The engine leaves visual shapes of URDF out unless told otherwise, so their meshes, which are
    # often called like those for contacts, need not be read.
    keeps = re.search(r"discardvisual\s*=\s*[\"']false", bare)
    collector.scan(_without_visual_shapes(bare) if urdf and not keeps else bare)
    if urdf:  # a comment may look like a reference
        text = collector.rename_in(bare)
    missing = tuple(map(_forward, collector.missing))
    return ModelFiles(name, text, urdf, root, collector.files, missing)


def package_around(folder: Path) -> Path:
    """Return the folder of the package whose robot files a folder has, or the folder itself.

    Their meshes lie elsewhere in the package. It has a `package.xml` (ROS), or holds one of the
    folders `urdf`, `mjcf`, `xml` and `robots` beside `meshes` or `assets`. It is never the root of
    the file system, the home folder or the folder for temporary files, whose other files are not
    the robot's.
    """
    common = {Path(folder.anchor), Path(tempfile.gettempdir()), Path(os.path.expanduser("~"))}  # noqa: PTH111
    common = {place.resolve() for place in common}
    for place in (folder, *folder.parents[:_PACKAGE_LEVELS]):
        if place in common:
            return folder
        if (place / _PACKAGE).is_file():
            return place
    above = folder.parent
    has_package = (
        folder.name in ROBOT_FOLDERS
        and above not in common
        and any((above / name).is_dir() for name in _MESH_FOLDERS)
    )
    return above if has_package else folder


def robots_among(files: Sequence[Path]) -> list[Path]:
    """Return those of some files that may be robots: their root element is that of MJCF or URDF.

    So may files that cannot be read or have no root element, for which reading them as a robot
    then gives the reason. Files without bodies of their own that another robot includes are parts.
    """
    found = {file: _text_if_readable(file) for file in files}
    texts = {
        file: _without(text or "", "<!--", "-->")
        for file, text in found.items()
        if text is None or root_tag(text) in ("", "mujoco", "robot")
    }
    included = {
        os.path.normpath(os.path.join(file.parent, name))  # noqa: PTH118
        for file, text in texts.items()
        for name in _values(_INCLUDE, text)
    }
    return [
        file
        for file, text in texts.items()
        if "<worldbody" in text or os.path.normpath(file) not in included
    ]


def _text_if_readable(path: Path) -> str | None:
    try:
        return _decode(_read(path.resolve(strict=True), _MAX_TEXT), path.name)
    except (OSError, RuntimeError, MorphologyError):
        return None


@dataclass
class _Model:
    """A model, or one that is attached to it: its includes count as parts of it."""

    home: PurePosixPath
    folders: list[str] = field(default_factory=list)
    """Where it keeps meshes and textures, relative to `home`."""


class _Collector:
    """Follows references from one text to the next."""

    def __init__(self, root: Path, home: PurePosixPath, model: str, urdf: bool) -> None:
        self._root = root
        self._home = home
        self._model = model
        self._urdf = urdf
        self._total = 0
        self._seen: dict[str, str] = {}
        self._stems: set[str] = set()
        self._renamed: dict[str, str] = {}
        self._num_names = 0
        self._num_folders = 0
        self.files: dict[str, bytes] = {}
        self.missing: list[str] = []

    def scan(self, text: str) -> None:
        """Collect what the model's text, without comments, refers to.

        Raises:
            MorphologyError: the model refers to too many files or folders, or to one outside.
        """
        waiting = [(text, self._home, _Model(self._home))]
        others: list[tuple[str, PurePosixPath, _Model]] = []
        while waiting:
            text, place, model = waiting.pop()
            names = self._references(text, model)
            attached = set(_values(_MODEL, text))
            for name in names:
                if not name.lower().endswith(_TEXTS):
                    others.append((name, place, model))
                    continue
                for found, data in self._find(name, place, model):
                    inner = _without(_decode(data, clean_name(str(found))), "<!--", "-->")
                    of = _Model(found.parent) if name in attached else model
                    waiting.append((inner, found.parent, of))
        # Any text of a model may name its folders, also the last.
        for name, place, model in others:
            turned = self._urdf and readable(name)
            if name.lower().endswith(UNREADABLE) and not turned:
                self.missing.append(name)
            else:
                list(self._find(name, place, model))

    def rename_in(self, text: str) -> str:
        """Return the text of a URDF with the names that files have got."""

        def renamed(match: re.Match[str]) -> str:
            group = 1 if match[1] is not None else 2
            new = self._renamed.get(html.unescape(match[group]))
            before = match[0][: match.start(group) - match.start() - 1]  # without the quote
            return match[0] if new is None else f"{before}{quoteattr(new)}"

        return _MESH.sub(renamed, text) if self._renamed else text

    def _references(self, text: str, model: _Model) -> list[str]:
        """Return the files that a text of a model names, and note the folders."""
        folders = sorted(set(map(_forward, _values(_FOLDER, text))) - set(model.folders))
        model.folders += folders
        names = list(dict.fromkeys(_values(_MESH if self._urdf else _FILE, text)))
        self._num_folders += len(folders)
        self._num_names += len(names)
        if self._num_names > _MAX_FILES or self._num_folders > _MAX_FOLDERS:
            raise MorphologyError(
                f"{self._model} refers to more than {_MAX_FILES} files, or {_MAX_FOLDERS} "
                f"folders of them; remove what is not needed"
            )
        return names

    def _find(
        self, name: str, place: PurePosixPath, model: _Model
    ) -> Iterator[tuple[PurePosixPath, bytes]]:
        """Yield what was not read before of the files that a reference may mean."""
        whole = name
        scheme = _SCHEME.match(name)
        name = _forward(name[scheme.end() :] if scheme else name)
        if scheme and scheme[1].lower() == "package":
            name = name.lstrip("/")  # some write `package:///`
        if not name or "\0" in name:
            return
        if len(name) > _MAX_REFERENCE:
            self.missing.append(whole)
            return
        if re.match(r"/|[A-Za-z]:", name):
            raise self._outside(name)
        places = [os.path.join(model.home, folder) for folder in model.folders]  # noqa: PTH118
        if name.lower().endswith(_TEXTS):  # the engine does not look there for texts
            places = [path for path in places if not _OUTWARD.match(os.path.normpath(path))]
        homes = [str(model.home)]
        if scheme:  # packages lie anywhere below the root; other names start where the model is
            inside = map(os.path.normpath, model.folders)
            places += [folder for folder in inside if not _OUTWARD.match(folder)]
            homes.append(".")
        # The engine ignores the package; so the file may stand at any end of its path.
        parts = PurePosixPath(name).parts
        tails = ["/".join(parts[i:]) for i in range(len(parts))] if scheme else [name]
        for tail in tails:
            for folder in dict.fromkeys([*places, str(place), *homes]):
                joined = os.path.normpath(os.path.join(folder, tail))  # noqa: PTH118
                if joined in self._seen:
                    self._note_name(whole, self._seen[joined], joined)
                    return
                data = self._read_inside(joined, name)
                if data is not None:
                    self._seen[joined] = self._keep(PurePosixPath(joined).name, data)
                    self._note_name(whole, self._seen[joined], joined)
                    yield PurePosixPath(joined), data
                    return
        self.missing.append(whole)

    def _keep(self, name: str, data: bytes) -> str:
        """Keep a file, and return under which name."""
        # The engine's file system in memory knows files by their last name alone.
        if self.files.get(name) == data:
            return name
        if self._urdf:
            return self._keep_apart(PurePosixPath(name), data)
        if name in self.files:
            raise MorphologyError(
                f"{self._model} refers to two different files called {name!r}; rename one of them"
            )
        self.files[name] = data
        return name

    def _keep_apart(self, path: PurePosixPath, data: bytes) -> str:
        """Keep a file of a URDF under a name of its own.

        The engine calls a mesh by its file's name without suffix, and ignores case in names.
        """
        kept, number = path.name, 1
        while (stem := PurePosixPath(_engine_name(kept)).stem.lower()) in self._stems:
            number += 1
            kept = f"{path.stem}~{number}{path.suffix}"
        self._stems.add(stem)
        self.files[kept] = data
        return kept

    def _note_name(self, reference: str, kept: str, joined: str) -> None:
        name = _engine_name(kept) if self._urdf else kept
        if name != PurePosixPath(joined).name:
            self._renamed[reference] = name

    def _read_inside(self, joined: str, name: str) -> bytes | None:
        if _OUTWARD.match(joined):
            raise self._outside(joined)
        try:
            place = (self._root / joined).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            return None
        if not place.is_relative_to(self._root):
            raise self._outside(name)
        if not place.is_file():
            return None
        try:
            data = _read(place, _MAX_TOTAL - self._total)
        except OSError as error:
            raise MorphologyError(f"cannot read {place} ({error.strerror})") from error
        self._total += len(data)
        return data

    def _outside(self, name: str) -> MorphologyError:
        return MorphologyError(
            f"{self._model} refers to {clean_name(name)!r}, which is outside its folder; put all "
            f"files of the robot into one folder, or name a folder above with --root"
        )


def _forward(path: str) -> str:
    """Return a path as the engine reads it, to which a backslash separates folders, too."""
    return path.replace("\\", "/")


def _engine_name(name: str) -> str:
    """Return what the engine calls a file of a URDF."""
    return stl_name(name) if readable(name) else name


def _without(text: str, opening: str, closing: str) -> str:
    parts = []
    start = 0
    while (place := text.find(opening, start)) >= 0:
        parts.append(text[start:place])
        end = text.find(closing, place + len(opening))
        start = len(text) if end < 0 else end + len(closing)
    return "".join([*parts, text[start:]])


def _without_visual_shapes(text: str) -> str:
    parts = []
    start = 0
    while opening := _VISUAL.search(text, start):
        parts.append(text[start : opening.start()])
        end = text.find(">", opening.end())
        if end >= 0 and text[end - 1] != "/":  # else the element holds nothing
            closing = text.find("</visual", end)
            end = text.find(">", closing) if closing >= 0 else -1
        start = len(text) if end < 0 else end + 1
    return "".join([*parts, text[start:]])


def clean_name(text: str) -> str:
    """Return a name without control characters, at most 64 long."""
    return "".join(c if c.isprintable() else "_" for c in text)[:64]


def root_tag(text: str) -> str:
    """Return the name of an XML document's root element; empty if there is none."""
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
    if data.startswith(_ARCHIVES):
        raise MorphologyError(f"{name} is an archive; unpack it and give what is in it")
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
