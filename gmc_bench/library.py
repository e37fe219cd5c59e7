"""All morphology sets by name: generated ones, and those the user imported."""

import re
from dataclasses import dataclass, replace
from typing import Literal, cast

from gmc_bench.bodies.importer import PUBLISHED
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.store import imported_sets, load_set
from gmc_bench.core.errors import MorphologySetError, UnknownNameError, did_you_mean
from gmc_bench.generation.released import RELEASED, build_released, resolve_released
from gmc_bench.generation.variations import build_variations
from gmc_bench.robots import ROBOTS, Robot
from gmc_bench.robots.bodies import RobotBody

PREFERRED_SET = "unimals_100"
"""The published benchmark; used by default once it is imported."""
ROBOT_SETS: dict[str, tuple[Robot, ...]] = {"quadrupeds-v1": tuple(ROBOTS.values())}
"""Sets of quadrupeds by id."""
FALLBACK_SET = "gmc-unimal-mini-v1"
"""Used by default otherwise; needs no files."""


@dataclass(frozen=True, slots=True)
class SetInfo:
    """One line of the list of sets."""

    id: str
    status: Literal["generated", "built in", "imported", "not imported"]
    hint: str
    """How to obtain the set; empty when it is at hand."""


def load_morphologies(set_id: str | None = None) -> MorphologySet:
    """Load a morphology set.

    Args:
        set_id: id of a generated set, with or without its version, or of an imported set; None
            takes the default of `resolve_default`. `ID:N` (or `ID.firstN`, which is the id that
            records carry) keeps only the first N train bodies, and all test bodies.
            `ID+VARIATION`, e.g. `unimals_100+damping-v1`, has variants of the train bodies as
            its test split; see `gmc_bench.generation.variations`.

    Returns:
        The set, verified against its hash.

    Raises:
        UnknownNameError: no set or variation of this name is known.
        MorphologySetError: the set is known but not imported, is damaged, has fewer bodies, or
            cannot be varied.
    """
    base, plus, variation = (set_id or "").rpartition("+")
    if plus:
        return _varied(base, variation)
    subset = _SUBSET.fullmatch(set_id) if set_id is not None else None
    if subset is not None:
        return _first_bodies(load_morphologies(subset["set"]), int(subset["count"]))
    resolved = resolve_set(set_id) if set_id is not None else resolve_default()[0]
    if resolved in ROBOT_SETS:
        return _robots(resolved)
    return build_released(resolved) if resolved in RELEASED else load_set(resolved)


def load_limb_bodies(set_id: str | None = None) -> MorphologySet:
    """Load a set for what is about limbs, as `load_morphologies` does.

    Raises:
        MorphologySetError: its bodies are quadrupeds, which are described by actuators.
    """
    bodies = load_morphologies(set_id)
    if bodies.id in ROBOT_SETS:
        raise MorphologySetError(
            f"the set {bodies.id!r} holds quadrupeds, which this does not cover; choose a set of "
            f"limbs, e.g. {FALLBACK_SET} (docs/quadrupeds.md is about the quadrupeds)"
        )
    return bodies


def _robots(set_id: str) -> MorphologySet:
    # Quadrupeds are described by another type than limbs; what a set does with its bodies (names,
    # hashes, sizes) they have too.
    bodies = cast(tuple[Morphology, ...], tuple(map(RobotBody, ROBOT_SETS[set_id])))
    return MorphologySet(
        id=set_id,
        splits={"train": bodies, "test": bodies},
        source="Go1, Go2, ANYmal-B and ANYmal-C as their makers publish them, without meshes.",
        licence="BSD-3-Clause (the published descriptions)",
        notes=("Policies are trained and tested on the same robots.",),
    )


def _varied(base: str, variation: str) -> MorphologySet:
    if "+" in base:
        raise MorphologySetError(
            f"the set {base!r} already holds variants, which cannot be varied again; vary "
            f"{base.partition('+')[0]!r} instead"
        )
    return build_variations(load_limb_bodies(base), variation)


_SUBSET = re.compile(r"(?P<set>.+)(?::|\.first)(?P<count>[0-9]+)")


def _first_bodies(bodies: MorphologySet, count: int) -> MorphologySet:
    train = bodies.split("train")
    if not 1 <= count <= len(train):
        raise MorphologySetError(
            f"the set {bodies.id!r} has {len(train)} train bodies, so the first {count} cannot be "
            f"taken; ask for 1 to {len(train)}"
        )
    return replace(
        bodies,
        id=f"{bodies.id}.first{count}",
        splits={**bodies.splits, "train": train[:count]},
        source=f"The first {count} train bodies of {bodies.id}. {bodies.source}",
    )


def resolve_set(name: str) -> str:
    """Return the full id of a set.

    Args:
        name: id, with or without the version of a generated set.

    Returns:
        The id of a generated, imported or published set; the last may not be imported yet.

    Raises:
        UnknownNameError: nothing matches; the message names the closest.
    """
    files = {*imported_sets(), *PUBLISHED, *ROBOT_SETS}
    if name in files:
        return name
    if f"{name}-v1" in ROBOT_SETS:
        return f"{name}-v1"
    try:
        return resolve_released(name)
    except UnknownNameError:
        known = {*files, *RELEASED}
        raise UnknownNameError(
            f"unknown morphology set {name!r}{did_you_mean(name, known)}"
        ) from None


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
        known = {*imported_sets(), *RELEASED, *ROBOT_SETS}
        found = next((name for name in preferred if name in known), preferred[-1])
        return found, f"Using {found}, the suite's bodies."
    if PREFERRED_SET in imported_sets():
        return PREFERRED_SET, f"Using {PREFERRED_SET}, the published benchmark, which is imported."
    return FALLBACK_SET, (
        f"Using {FALLBACK_SET}, because {PREFERRED_SET} is not imported "
        f"(gmc-bench morphologies import {PREFERRED_SET} PATH)."
    )


def list_sets() -> list[SetInfo]:
    """Return every known set: generated, imported and importable, each group sorted by id."""
    imported = imported_sets()
    return [
        *(SetInfo(name, "generated", "") for name in sorted(RELEASED)),
        *(SetInfo(name, "built in", "") for name in ROBOT_SETS),
        *(SetInfo(name, "imported", "") for name in imported),
        *(
            SetInfo(name, "not imported", f"gmc-bench morphologies import {name} PATH")
            for name in sorted(PUBLISHED)
            if name not in imported
        ),
    ]
