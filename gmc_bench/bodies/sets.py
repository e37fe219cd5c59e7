"""All morphology sets by name: those that packages offer, and those the user imported."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path

from gmc_bench.bodies.clearance import check_clearance
from gmc_bench.bodies.importer import PUBLISHED, check_free_id
from gmc_bench.bodies.mjcf import check_names, compile_body
from gmc_bench.bodies.mjcf_reader import MAX_LIMBS
from gmc_bench.bodies.registry import BODY_SETS, ROBOT_FILES, RobotFile, registered_sets
from gmc_bench.bodies.robot_import import read_robots
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.store import imported_sets, load_set, store_set
from gmc_bench.core.arguments import require_instance
from gmc_bench.core.errors import (
    GmcBenchError,
    MorphologySetError,
    PluginError,
    UnknownNameError,
    did_you_mean,
)
from gmc_bench.core.registry import failure_text

PREFERRED_SET = "unimals_100"
"""The published benchmark; used by default once it is imported."""
FALLBACK_SET = "gmc-unimal-mini-v2"
"""Used by default otherwise; needs no files."""


@dataclass(frozen=True, slots=True)
class SetInfo:
    """One line of the list of sets."""

    id: str
    status: str
    """`generated`, `built in`, `installed`, `robot`, `imported`, `not imported` or `broken`."""
    hint: str
    """How to obtain the set, or what is wrong with it; empty when it is at hand."""


def load_morphologies(set_id: str | None = None) -> MorphologySet:
    """Load a morphology set.

    Args:
        set_id: id of a set that a package offers, with or without its version, or of an imported
            set; None takes the default of `resolve_default`. `ID:N` (or `ID.firstN`, which is the
            id that records carry) keeps only the first N train bodies, and all test bodies;
            `ID:N@S` (or `ID.firstNfromS`) keeps N train bodies from the S-th on.
            `ID+VARIATION`, e.g. `unimals_100+damping-v1`, has variants of the train bodies as
            its test split; see `gmc_bench.bodies.variations`.

    Returns:
        The set, verified against its hash.

    Raises:
        UnknownNameError: no set or variation of this name is known.
        PluginError: the package that offers the set is broken.
        MorphologySetError: the set is known but not imported, is damaged, has fewer bodies, or
            cannot be varied.
    """
    if not isinstance(set_id, str | None):
        raise UnknownNameError(
            f"the name of a morphology set must be a string, got {_shown(set_id)}"
        )
    kept = _KEPT.get()
    if kept is None or set_id is None:
        return _load(set_id)
    if set_id not in kept:
        kept[set_id] = _load(set_id)
    return kept[set_id]


def _shown(value: object) -> str:
    text = repr(value)  # that of a whole set fills the screen
    return text if len(text) <= _MAX_SHOWN else f"a {type(value).__name__}"


_MAX_SHOWN = 100  # characters
_KEPT: ContextVar[dict[str, MorphologySet] | None] = ContextVar("kept sets", default=None)


@contextmanager
def loaded_once() -> Iterator[None]:
    """Let `load_morphologies` load and verify each set only once while this lasts."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def _load(set_id: str | None) -> MorphologySet:
    base, plus, variation = (set_id or "").rpartition("+")
    if plus:
        return _varied(base, variation)
    subset = _SUBSET.fullmatch(set_id) if set_id is not None else None
    if subset is not None:
        start = int(subset["start"] or 1)
        return _first_bodies(load_morphologies(subset["set"]), int(subset["count"]), start)
    resolved = resolve_set(set_id) if set_id is not None else resolve_default()[0]
    return build_set(resolved) if resolved in registered_sets() else load_set(resolved)


def build_set(set_id: str) -> MorphologySet:
    """Build a set that a package offers.

    Args:
        set_id: one of `registered_sets`.

    Raises:
        UnknownNameError: no package offers it.
        PluginError: it fails to load or to build, or is not what it should be.
        MorphologyError: a body cannot be used; one sentence says why.
    """
    if set_id in ROBOT_FILES.names():
        return _read_robot(set_id, ROBOT_FILES.get(set_id))
    offered = BODY_SETS.get(set_id)
    try:
        bodies = offered.build()
    except GmcBenchError:
        raise
    except (Exception, SystemExit) as error:  # building runs foreign code
        raise PluginError(
            f"the morphology set {set_id!r} could not be built: {failure_text(error)}"
        ) from error
    if not isinstance(bodies, MorphologySet) or bodies.id != set_id:
        found = repr(bodies.id) if isinstance(bodies, MorphologySet) else type(bodies).__name__
        raise PluginError(
            f"building the morphology set {set_id!r} gave {found}; expected a MorphologySet whose "
            f"id is the name of its entry point"
        )
    if set_id not in BODY_SETS.own_names():  # ours are known by their hashes
        check_bodies(bodies)
    return bodies


def save_set(bodies: MorphologySet) -> Path:
    """Keep a set that was made in Python under its id, in the user's data folder.

    Args:
        bodies: the set. Another one that was kept under this id stays there, but is not current.

    Returns:
        The folder that holds it.

    Raises:
        ConfigError: it is no set.
        MorphologySetError: the id cannot be used, or is that of another set; or a body is not made
            of limbs, has too many, or cannot be read back from a file.
        MorphologyError: a body cannot be used; one sentence says why.
        StorageError: the folder cannot be written.
    """
    fix = "make one: MorphologySet(id=..., splits=...)"
    require_instance(bodies, MorphologySet, "save_set", fix)
    check_free_id(bodies.id)
    for body in chain(*bodies.splits.values()):
        if not isinstance(body, Morphology):
            raise MorphologySetError(
                f"the set {bodies.id!r} holds {body.name!r}, which is not made of limbs, and only "
                f"such bodies are kept in files; offer the set as a BodySet of a package "
                f"(docs/add-your-bodies.md), or give it to gmc_bench.make_env itself"
            )
        if body.num_limbs > MAX_LIMBS:
            raise MorphologySetError(
                f"the set {bodies.id!r} holds {body.name!r} of {body.num_limbs} limbs, more than "
                f"the {MAX_LIMBS} that are read from a file; leave some out"
            )
    check_bodies(bodies)
    for body in chain(*bodies.splits.values()):
        assert isinstance(body, Morphology)
        compile_body(body)  # who loads it, maybe much later, could not mend it
    return store_set(bodies)


def check_bodies(bodies: MorphologySet) -> None:
    """Raise unless the bodies of a set that somebody made can be used.

    Raises:
        MorphologyError: one of limbs cannot; one sentence says why.
    """
    for body in chain(*bodies.splits.values()):
        if isinstance(body, Morphology):
            check_names(body)
            check_clearance(body)


@cache
def _read_robot(set_id: str, robot: RobotFile) -> MorphologySet:
    bodies, _ = read_robots(
        set_id,
        robot.path,
        keyframe=robot.keyframe,
        root=robot.root,
        armature=robot.armature,
    )
    return replace(bodies, source=robot.source or bodies.source, licence=robot.licence)


def load_limb_bodies(set_id: str | None = None) -> MorphologySet:
    """Load a set for what is about limbs, as `load_morphologies` does.

    Raises:
        MorphologySetError: its bodies are quadrupeds, which are described by actuators.
    """
    bodies = load_morphologies(set_id)
    if any(type(body) is not Morphology for body in bodies.split("train")):
        raise MorphologySetError(
            f"the set {bodies.id!r} holds quadrupeds, which this does not cover; choose a set of "
            f"limbs, e.g. {FALLBACK_SET} (docs/quadrupeds.md is about the quadrupeds)"
        )
    return bodies


def _varied(base: str, variation: str) -> MorphologySet:
    if "+" in base:
        raise MorphologySetError(
            f"the set {base!r} already holds variants, which cannot be varied again; vary "
            f"{base.partition('+')[0]!r} instead"
        )
    from gmc_bench.bodies.variations import build_variations

    return build_variations(load_limb_bodies(base), variation)


_SUBSET = re.compile(  # Python reads no endless numbers
    r"(?P<set>.+)(?::|\.first)(?P<count>[0-9]{1,9})(?:(?:@|from)(?P<start>[0-9]{1,9}))?"
)


def _first_bodies(bodies: MorphologySet, count: int, start: int) -> MorphologySet:
    train = bodies.split("train")
    if not (count >= 1 and start >= 1 and start + count - 1 <= len(train)):
        which = f"the first {count}" if start == 1 else f"{count} from number {start} on"
        raise MorphologySetError(
            f"the set {bodies.id!r} has {len(train)} train bodies, so {which} cannot be "
            f"taken; ask for 1 to {len(train)}"
        )
    which = f"first {count} train bodies" + (f" from number {start} on" if start > 1 else "")
    return replace(
        bodies,
        id=f"{bodies.id}.first{count}" + (f"from{start}" if start > 1 else ""),
        splits={**bodies.splits, "train": train[start - 1 : start - 1 + count]},
        source=f"The {which} of {bodies.id}. {bodies.source}",
    )


def resolve_set(name: str) -> str:
    """Return the full id of a set.

    Args:
        name: id, with or without the version of a set that a package offers.

    Returns:
        The id of a registered, imported or published set; the last may not be imported yet.

    Raises:
        UnknownNameError: nothing matches; the message names the closest.
    """
    files = {*imported_sets(), *PUBLISHED, *ROBOT_FILES.names()}
    if name in files:
        return name
    for registry in (BODY_SETS, ROBOT_FILES):
        with suppress(UnknownNameError):
            return registry.resolve(name)
    known = {*files, *registered_sets()}
    raise UnknownNameError(f"unknown morphology set {name!r}{did_you_mean(name, known)}")


def resolve_default(
    preferred: tuple[str, ...] = (PREFERRED_SET, FALLBACK_SET),
) -> tuple[str, str]:
    """Choose the set that is used when none is named.

    Args:
        preferred: of a suite, the best first.

    Returns:
        The id, and one sentence that says why.
    """
    if preferred != (PREFERRED_SET, FALLBACK_SET):
        known = {*imported_sets(), *registered_sets()}
        found = next((name for name in preferred if name in known), preferred[-1])
        return found, f"Using {found}, the suite's bodies."
    if PREFERRED_SET in imported_sets():
        return PREFERRED_SET, f"Using {PREFERRED_SET}, the published benchmark, which is imported."
    return FALLBACK_SET, (
        f"Using {FALLBACK_SET}, because {PREFERRED_SET} is not imported "
        f"(gmc-bench morphologies import {PREFERRED_SET} PATH)."
    )


def list_sets() -> list[SetInfo]:
    """Return every known set: offered by packages, imported and importable, each sorted by id."""
    imported = imported_sets()
    offered = [
        SetInfo(name, "broken", str(item))
        if isinstance(item, PluginError)
        else SetInfo(name, item.origin, "")
        for name, item in BODY_SETS.items()
    ]
    return [
        *sorted(offered, key=lambda info: _ORDER.index(info.status)),
        *(SetInfo(name, "robot", "") for name in ROBOT_FILES.names()),
        *(SetInfo(name, "imported", "") for name in imported),
        *(
            SetInfo(name, "not imported", f"gmc-bench morphologies import {name} PATH")
            for name in sorted(PUBLISHED)
            if name not in imported
        ),
    ]


_ORDER = ("generated", "built in", "installed", "broken")
