"""Lazy registries over entry points, such as those of methods, suites and tasks.

In-tree and third-party plug-ins are found in the same way, through the entry-point group of the
registry, so that this way is always tested by the package itself.
"""

import hashlib
import importlib
import importlib.abc
import importlib.util
import io
import logging
import re
import sys
import textwrap
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from gmc_bench.core.errors import PluginError, UnknownNameError, did_you_mean
from gmc_bench.core.escape import one_line

T = TypeVar("T")
_LOG = logging.getLogger(__name__)

_DISTRIBUTION = "gmc-bench"
_PRINTED = 500
"""Characters that are logged of what a plug-in prints."""
_SHOWN = 60
"""Limit on the characters that messages show of a value given in place of a name."""
_VERSIONED = re.compile(r"(?P<bare>.+)-v(?P<version>\d{1,9})")  # int() refuses very long texts
_CALLERS = sys.stdlib_module_names | {"gmc_bench", "numpy", "torch", "torch_geometric"}
"""Packages in which an error may surface whose cause is in the plug-in that called them."""


@dataclass(frozen=True)
class Origin:
    """Where an object was loaded from."""

    item: Any
    """The object; held, so that no other one gets its identity."""
    file: Path | None
    """File of its module, if that has one."""
    digest: str | None
    """SHA-256 of the text that was executed, for a file that is no module of a package."""


_ORIGINS: dict[int, Origin] = {}
"""By the identity of the object."""
_TEXTS: dict[tuple[Path, str], ModuleType] = {}
"""Files that were loaded, by path and SHA-256: each text of a file is a module of its own, since a
notebook changes files and runs them again in one process."""


def origin_of(item: Any) -> Origin | None:
    """Return where `load_target` found an object, most recently; `None` for any other object."""
    return _ORIGINS.get(id(item))


def share_origin(item: Any, copy: Any) -> None:
    """Let a copy of an object that `load_target` found count as found there, too."""
    if (origin := origin_of(item)) is not None:
        _ORIGINS[id(copy)] = replace(origin, item=copy)


def file_of(target: str) -> Path | None:
    """Return the file of a target `FILE.py:ATTRIBUTE`, absolute, without links; else `None`."""
    path, _, _ = target.rpartition(":")
    return Path(path).expanduser().resolve() if path.endswith(".py") else None


def lasting_target(target: str) -> str:
    """Return a target by which its object is found again from any working folder."""
    file = file_of(target)
    return target if file is None else f"{file}:{target.rpartition(':')[2]}"


def load_target(target: str, digest: str | None = None) -> Any:
    """Import `"package.module:ATTRIBUTE"` or `"path/to/FILE.py:ATTRIBUTE"`.

    A file that changed is loaded again.

    Args:
        target: where the object lives; a file path ends in `.py` before the colon.
        digest: SHA-256 of a file's text: if that was loaded before, it is taken, whatever the file
            holds by now.

    Returns:
        The object.

    Raises:
        PluginError: the module, file or attribute does not exist, or fails to import.
    """
    location, _, attribute = target.rpartition(":")
    if not location or not attribute:
        raise PluginError(
            f"{target!r} is not of the form 'MODULE:ATTRIBUTE' or 'FILE.py:ATTRIBUTE'"
        )
    try:
        module, found = _import(location, digest)
    except (PluginError, KeyboardInterrupt):
        raise
    except BaseException as error:  # importing runs foreign code
        raise PluginError(f"{location!r} could not be imported: {failure_text(error)}") from error
    try:
        item = getattr(module, attribute)
    except AttributeError:
        public = [name for name in vars(module) if not name.startswith("_")]
        raise PluginError(
            f"{location!r} has no {attribute!r}{did_you_mean(attribute, public)}"
        ) from None
    except (Exception, SystemExit) as error:  # it may make its attributes when asked for them
        raise PluginError(f"{target!r} could not be made: {failure_text(error)}") from error
    file = getattr(module, "__file__", None)
    _ORIGINS[id(item)] = Origin(item, None if file is None else Path(file), found)
    return item


def _import(location: str, digest: str | None) -> tuple[ModuleType, str | None]:
    """Import a module or a file; return it, and of a file the SHA-256 of what was executed."""
    with logged_prints(location):
        if location.endswith(".py"):
            return _import_file(location, digest)
        return importlib.import_module(location), None


@contextmanager
def logged_prints(who: str) -> Iterator[None]:
    """Log the beginning of what foreign code prints: it is no result of ours."""
    printed = io.StringIO()
    try:
        with redirect_stdout(printed):
            yield
    finally:
        if text := one_line(printed.getvalue()):
            _LOG.info("%s printed: %s", who, textwrap.shorten(text, _PRINTED, placeholder=" ..."))


class _TextLoader(importlib.abc.SourceLoader):
    """Executes the very bytes that were hashed: no later text of the file, and no `.pyc` of it.

    Python takes a `.pyc` for current by time in seconds and size, which two texts may share.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self._path = path
        self._data = data

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str | bytes) -> bytes:
        return self._data


def _import_file(location: str, digest: str | None) -> tuple[ModuleType, str]:
    path = Path(location).expanduser().resolve()
    if digest is not None and (path, digest) in _TEXTS:
        return _TEXTS[path, digest], digest
    if not path.is_file():
        raise PluginError(f"the file {location!r} does not exist; give a path to a .py file")
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if (path, digest) not in _TEXTS:
        _TEXTS[path, digest] = _execute(path, data, digest)
    return _TEXTS[path, digest], digest


def _execute(path: Path, data: bytes, digest: str) -> ModuleType:
    """Return the module that a file's text makes."""
    # Path and text are part of the name: two files called my_method.py must not replace each other,
    # nor a later text of a file the one that a run still has.
    place = hashlib.sha256(str(path).encode()).hexdigest()
    name = f"gmc_bench_plugin_{path.stem}_{place[:8]}_{digest[:8]}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_TextLoader(path, data))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        with importable(path.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


class _Beside(importlib.abc.MetaPathFinder):
    """Finds the modules in the folder of a plug-in's file, as Python does for a script."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self.aside: dict[str, ModuleType] = {}
        """Modules that it found, while their names stand for those of other folders."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if path is not None:
            return None  # part of a package, which knows its own places
        spec = PathFinder.find_spec(fullname, [self._folder])
        if spec is None:
            return None
        for finder in sys.meta_path:
            if not isinstance(finder, _Beside):
                other = finder.find_spec(fullname, None, target)
                # A folder of that name, with whatever in it, is no module to Python either.
                if other is not None and (other.loader is not None or spec.loader is None):
                    return None
        _OWNERS[fullname] = self
        return spec

    def put_back(self, root: str | None = None) -> None:
        """Put what is aside, or only a module and its parts, back into `sys.modules`."""
        for name in list(self.aside):
            if root in (None, _root(name)):
                sys.modules[name] = self.aside.pop(name)
                _OWNERS[_root(name)] = self


def _root(name: str) -> str:
    return name.partition(".")[0]


def _set_aside(finders: Sequence[_Beside]) -> dict[str, _Beside]:
    """Take what they found out of `sys.modules`; return whose it is by top-level name."""
    owners = {root: owner for root, owner in _OWNERS.items() if owner in finders}
    if not owners:
        return {}
    taken = {}
    for name in list(sys.modules):  # another thread may import
        if (owner := owners.get(_root(name))) is not None:
            owner.aside[name] = sys.modules.pop(name)
            taken[_root(name)] = owner
    return taken


_BESIDE: dict[Path, _Beside] = {}
_OWNERS: dict[str, _Beside] = {}
"""Whose module, or last attempt to import one, a top-level name in `sys.modules` stands for."""
_IMPORTING = threading.RLock()
"""Held while `sys.modules` has what lies beside one file in place of what lies beside others."""


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Let a plug-in import what lies beside its file, as Python does for a script.

    Modules of other packages come first: no file of the folder can take the place of one of theirs.
    Files of different folders have modules of their own, also where these share a name and where
    one loads the other; afterwards such a name stands for the module that was used last.

    Args:
        folder: of the file, absolute.
    """
    with _IMPORTING:
        own = _BESIDE.setdefault(folder, _Beside(folder))
        if own in sys.meta_path:
            yield
            return
        others = [item for item in _BESIDE.values() if item is not own]
        outer = [item for item in others if item in sys.meta_path]
        taken = _set_aside(others)
        own.put_back()
        sys.meta_path[:] = [own, *(item for item in sys.meta_path if item not in outer)]
        try:
            yield
        finally:
            sys.meta_path.remove(own)
            sys.meta_path[:0] = outer
            if outer:  # the outer plug-in goes on with its own
                _set_aside([own])
                for item in outer:
                    item.put_back()
            present = {_root(name) for name in list(sys.modules)}
            for root, item in taken.items():
                if root not in present:  # else another one stands there, with parts of its own
                    item.put_back(root)


def failure_text(error: BaseException) -> str:
    """Return what a plug-in raised in one line: its kind, its text and where it was raised."""
    return one_line(f"{type(error).__name__}: {error}") + raised_at(error)


def raised_at(error: BaseException) -> str:
    """Return where a plug-in raised an error, as ` [my_method.py:42]` to end a sentence with.

    That is the innermost frame outside the packages that plug-ins call; empty if there is none.
    """
    frames = [
        (frame, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _CALLERS
    ]
    if not frames:
        return ""
    frame, line = frames[-1]
    return f" [{Path(frame.f_code.co_filename).name}:{line}]"


def _is_location(name: str) -> bool:
    """Return whether a name is that of a Python file or module, and not of something in it."""
    if name.endswith(".py"):
        return True
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return False
    if len(parts) > 1:
        return True  # looking for a module inside a package would import the package
    if name == "__main__":  # whatever runs this process; nobody means that
        return False
    return importlib.util.find_spec(name) is not None


class Registry(Generic[T]):
    """Named plug-ins of one kind, loaded on first use.

    Args:
        kind: what a plug-in is called in messages, e.g. `"method"`.
        group: entry-point group that is scanned.
        base: class every plug-in must be an instance of.
        attribute: what modules call a plug-in, e.g. `"SPEC"`; default the kind in capitals.
        unlisted: name to `"module:attribute"` of what is found by name but not listed.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        base: type[T],
        attribute: str | None = None,
        unlisted: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self._group = group
        self._base = base
        self._attribute = attribute or kind.upper()
        self._unlisted = dict(unlisted or {})
        self._table: dict[str, T | EntryPoint] | None = None
        self._own: frozenset[str] | None = None

    def _scan(self) -> dict[str, T | EntryPoint]:
        if self._table is None:
            table: dict[str, T | EntryPoint] = {
                name: EntryPoint(name, target, self._group)
                for name, target in self._unlisted.items()
            }
            for point in entry_points(group=self._group):
                known = table.get(point.name)
                if isinstance(known, EntryPoint) and known.value != point.value:
                    raise PluginError(
                        f"two packages register the {self.kind} {point.name!r} "
                        f"({known.value} and {point.value}); uninstall one of them"
                    )
                table[point.name] = point
            self._table = table
        return self._table

    def names(self) -> list[str]:
        """Return all registered names but the unlisted ones, sorted."""
        return sorted(self._scan().keys() - self._unlisted.keys())

    def own_names(self) -> list[str]:
        """Return those of `names` that this package registers, whatever else is installed."""
        if self._own is None:
            points = entry_points(group=self._group)
            # A distribution parses its metadata whenever it is asked for its name.
            packages = {id(point.dist): point.dist for point in points if point.dist is not None}
            ours = {key for key, dist in packages.items() if dist.name == _DISTRIBUTION}
            self._own = frozenset(point.name for point in points if id(point.dist) in ours)
        return [name for name in self.names() if name in self._own]

    def resolve(self, name: str) -> str:
        """Return the registered name for `name`, completing a missing version suffix.

        Raises:
            UnknownNameError: nothing matches; the message names the closest.
        """
        self._require_text(name)
        table = self._scan()
        if name in table:
            return name
        matches = [match for key in table if (match := _VERSIONED.fullmatch(key))]
        versions = [match for match in matches if match["bare"] == name]
        if versions:
            return max(versions, key=lambda match: int(match["version"])).string
        if (latest := self.latest(name)) != name:
            raise UnknownNameError(
                f"the {self.kind} {name!r} is no longer here, {latest!r} took its place; use "
                f"that, or the version of gmc-bench that has {name!r}"
            )
        known = {match["bare"] for match in matches} | set(table)
        raise UnknownNameError(f"unknown {self.kind} {name!r}{did_you_mean(name, known)}")

    def _require_text(self, name: object) -> None:
        if not isinstance(name, str):
            text = repr(name)
            given = text if len(text) <= _SHOWN else f"a {type(name).__name__}"
            raise UnknownNameError(f"the name of a {self.kind} must be a string, got {given}")

    def latest(self, name: str) -> str:
        """Return the latest version of a name that is not registered, else the name itself."""
        asked = _VERSIONED.fullmatch(name)
        if asked is None or name in self._scan():
            return name
        try:
            latest = _VERSIONED.fullmatch(self.resolve(asked["bare"]))
        except UnknownNameError:
            return name
        later = latest is not None and int(latest["version"]) > int(asked["version"])
        return latest[0] if latest is not None and later else name

    def replaced(self, name: str) -> bool:
        """Say whether a name is not registered, but a later version of it is."""
        return self.latest(name) != name

    def get(self, name: str) -> T:
        """Load and return one plug-in.

        Raises:
            UnknownNameError: the name is not registered.
            PluginError: it is registered but fails to load, or has the wrong type or another id.
        """
        table = self._scan()
        key = self.resolve(name)
        item = table[key]
        if isinstance(item, EntryPoint):
            target = item.value
            item = self.check(load_target(target), target)
            # Results state the id, by which everything later looks for what made them.
            if (own := getattr(item, "id", key)) != key:
                raise PluginError(
                    f"{target} is registered as {key!r}, but its id is {own!r}; give the entry "
                    f"point and the {self.kind} the same name"
                )
            table[key] = item
        return item

    def check(self, item: Any, origin: str) -> T:
        """Return `item` if it is a valid plug-in, else raise PluginError naming `origin`."""
        if not isinstance(item, self._base):
            raise PluginError(
                f"{origin} is a {type(item).__name__}, "
                f"but a {self.kind} must be a {self._base.__name__}"
            )
        return item

    def load(self, name: str, digest: str | None = None) -> T:
        """Return a plug-in by registered name, or by `FILE.py:SPEC` or `MODULE:SPEC`.

        Args:
            name: of it.
            digest: of the file's text, see `load_target`.

        Raises:
            UnknownNameError: the name is not registered.
            PluginError: the plug-in fails to load or has the wrong type.
        """
        self._require_text(name)
        if ":" in name:
            return self.check(load_target(name, digest), name)
        try:
            return self.get(name)
        except UnknownNameError:
            if not _is_location(name):
                raise
        raise UnknownNameError(
            f"{name!r} is not a registered {self.kind}; for the one that it defines give "
            f"{name}:{self._attribute}"
        )

    def taken(self, name: str, item: T) -> bool:
        """Return whether a name is registered, and for something else than `item`."""
        if name not in self._scan():
            return False
        try:
            return self.get(name) is not item
        except PluginError:
            return True

    def items(self) -> Iterator[tuple[str, T | PluginError]]:
        """Yield every name with its plug-in, or with the error that kept it from loading."""
        for name in self.names():
            try:
                yield name, self.get(name)
            except PluginError as error:
                yield name, error

    @contextmanager
    def temporarily(self, name: str, item: T) -> Iterator[None]:
        """Register `item` for the duration of a `with` block (for tests and notebooks)."""
        self.add(name, item)
        try:
            yield
        finally:
            del self._scan()[name]

    def add(self, name: str, item: T) -> None:
        """Register `item` in this process.

        Raises:
            PluginError: the name is taken, or the item has the wrong type.
        """
        table = self._scan()
        if name in table:
            raise PluginError(
                f"the {self.kind} {name!r} is already registered; choose another name"
            )
        table[name] = self.check(item, name)
