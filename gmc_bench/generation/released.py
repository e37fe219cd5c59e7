"""Morphology sets that everyone can regenerate, bit for bit, from pinned seeds.

Seeds, the numbers of a recipe's candidates, or the lineages of an evolution are pinned rather than
searched for, because searches simulate chaotic motion and evolution trains: another processor may
judge a borderline body differently, but grows the same body from the same seed.
"""

import json
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from gmc_bench.bodies.registry import BodySet
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.store import data_dir, read_set, write_set
from gmc_bench.core.errors import (
    MorphologyError,
    MorphologySetError,
    UnknownNameError,
    did_you_mean,
)
from gmc_bench.generation.evolution import Lineage
from gmc_bench.generation.grow import grow_body
from gmc_bench.generation.lineage import VERSION as LINEAGE_VERSION
from gmc_bench.generation.lineage import grow_descendant, grow_lineage, read_lineage
from gmc_bench.generation.recipe import LARGE, LOOPED, UNIMAL, Recipe, grow_candidate

_LOG = logging.getLogger(__name__)

GENERATOR_VERSION = 1
"""Raised whenever `grow_seed` gives another body for any seed; released sets then need a new id."""

LIMB_COUNTS = range(4, 12)
"""Sizes of released bodies, the torso not counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Descent:
    """Bodies that descend from train bodies of a released set by mutations, by number."""

    base: str
    """Id of the set, whose bodies come from an evolution."""
    seed: int
    """Candidate k follows from this seed and k."""
    mutations: int = 3
    """Between an ancestor and a descendant."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedSet:
    """A set that is defined by its seeds."""

    id: str
    """Lower-case, with a version."""
    train_seeds: tuple[int | Lineage, ...]
    """For `grow_seed`, with a recipe or a descent the numbers of its candidates, with an evolution
    lineages."""
    test_seeds: tuple[int | Lineage, ...]
    digest: str
    """Hash of the set, see `MorphologySet.digest`."""
    recipe: Recipe | None = None
    """Whose candidates the bodies are."""
    evolution: int | None = None
    """Seed of the evolution from which the bodies come."""
    descent: Descent | None = None
    """How the bodies descend from those of another set."""

    @property
    def is_kept(self) -> bool:
        """Whether growing the set takes so long that it is kept on disk."""
        return any(item is not None for item in (self.recipe, self.evolution, self.descent))

    @property
    def source(self) -> str:
        """How the bodies came about, in a sentence, as records and tables state it."""
        if self.evolution is not None:
            how = f"pinned lineages of the evolution {self.evolution} by rules {LINEAGE_VERSION}"
        elif self.descent is not None:
            how = (
                f"train bodies of {self.descent.base} by {self.descent.mutations} mutations, seed "
                f"{self.descent.seed}, by rules {LINEAGE_VERSION}"
            )
        else:
            version = self.recipe.version if self.recipe else GENERATOR_VERSION
            how = f"pinned seeds by generator {version}"
        return (
            f"Grown from {how} of gmc-bench in the UNIMAL design space (Gupta et al. 2021, "
            f"arXiv:2102.02202)."
        )

    @property
    def lineages(self) -> tuple[Lineage, ...]:
        """Lineages of the train bodies; empty where they do not come from an evolution."""
        return tuple(seed for seed in self.train_seeds if isinstance(seed, tuple))

    def grow(self, seed: int | Lineage) -> Morphology | None:
        """Grow one body of the set; `None` where growth got stuck."""
        if isinstance(seed, tuple):
            return grow_lineage(self.evolution or 0, seed)
        if self.descent is not None:
            return grow_of_descent(self.descent, seed)
        return grow_candidate(self.recipe, seed) if self.recipe else grow_seed(seed)


_RECIPES = {"gmc-unimal-v1": UNIMAL, "gmc-large-v1": LARGE, "gmc-loops-v1": LOOPED}
_PINNED = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def _seeds(pins: list[int | str]) -> tuple[int | Lineage, ...]:
    return tuple(read_lineage(pin) if isinstance(pin, str) else pin for pin in pins)


RELEASED = {
    set_id: ReleasedSet(
        id=set_id,
        train_seeds=_seeds(pins["train"]),
        test_seeds=_seeds(pins["test"]),
        digest=pins["digest"],
        recipe=_RECIPES.get(set_id),
        evolution=pins.get("evolution"),
        descent=Descent(**pins["descent"]) if "descent" in pins else None,
    )
    for set_id, pins in _PINNED.items()
}
"""Released sets by id. An entry never changes; a correction gets a new id."""


def grow_seed(seed: int) -> Morphology:
    """Grow the body of one seed; the seed also decides its size, uniform over `LIMB_COUNTS`."""
    rng = np.random.default_rng(seed)
    num_limbs = LIMB_COUNTS[int(rng.integers(len(LIMB_COUNTS)))]
    return grow_body(rng, num_limbs, f"grown-{seed:05d}")


def ancestors(descent: Descent) -> tuple[int, tuple[Lineage, ...]]:
    """Return the seed of the evolution that the ancestors come from, and their lineages.

    Raises:
        UnknownNameError: there is no such set.
        MorphologySetError: its bodies do not come from an evolution.
    """
    if descent.base not in RELEASED:
        evolved = [item.id for item in RELEASED.values() if item.evolution is not None]
        hint = did_you_mean(descent.base, evolved)
        raise UnknownNameError(f"unknown released set {descent.base!r}{hint}")
    pinned = RELEASED[descent.base]
    if pinned.evolution is None:
        raise MorphologySetError(
            f"the bodies of {descent.base!r} have no lineages to go on from; give an evolved set, "
            f"e.g. gmc-unimal-v2"
        )
    return pinned.evolution, pinned.lineages


def grow_of_descent(descent: Descent, number: int) -> Morphology | None:
    """Grow the candidate of a number, from 1; `None` where a mutation found no room.

    Raises:
        UnknownNameError: see `ancestors`.
        MorphologySetError: likewise.
    """
    evolution, lineages = ancestors(descent)
    seed, name = (descent.seed, number), f"descended-{number:05d}"
    try:
        return grow_descendant(evolution, lineages, seed, descent.mutations, name)
    except MorphologyError:
        return None


@cache
def build_released(set_id: str) -> MorphologySet:
    """Grow a released set and verify it.

    Args:
        set_id: full id.

    Returns:
        The set; calls with the same id share it.

    Raises:
        UnknownNameError: no such set.
        MorphologySetError: what was grown is not what was released.
    """
    if set_id not in RELEASED:
        raise UnknownNameError(f"unknown morphology set {set_id!r}{did_you_mean(set_id, RELEASED)}")
    released = RELEASED[set_id]
    folder = data_dir() / "grown" / released.digest
    if released.is_kept:
        with suppress(MorphologySetError):  # it can always be grown again
            kept = read_set(folder, set_id, released.digest)
            # Earlier versions kept another sentence.
            return replace(kept, source=released.source)
    bodies = _assembled(released, _grow(released))
    if bodies is None or bodies.digest != released.digest:
        digest = bodies.digest[:12] if bodies else "nothing"
        raise MorphologySetError(
            f"the set {set_id!r} came out as {digest} instead of "
            f"{released.digest[:12]}; this numpy ({np.__version__}) draws other numbers than the "
            f"one it was released with, so install a version that pyproject.toml allows"
        )
    if released.is_kept:
        with suppress(OSError):  # which costs time and nothing else
            write_set(folder, bodies)
    return bodies


def _grow(released: ReleasedSet) -> dict[str, tuple[Morphology, ...]]:
    """Grow the bodies of a set; those that do not grow are left out."""
    if released.is_kept:
        _LOG.info("growing the bodies of %s, once on this machine", released.id)
    splits = {"train": released.train_seeds, "test": released.test_seeds}
    return {
        split: tuple(filter(None, map(released.grow, seeds))) for split, seeds in splits.items()
    }


def _assembled(
    released: ReleasedSet, splits: Mapping[str, tuple[Morphology, ...]]
) -> MorphologySet | None:
    """Return the set; `None` where bodies are missing."""
    if not all(splits.values()):
        return None
    return MorphologySet(
        id=released.id,
        splits=splits,
        source=released.source,
        licence="same as gmc-bench",
    )


(
    UNIMAL_MINI_V1,
    UNIMAL_V1,
    LARGE_V1,
    LOOPS_V1,
    SEARCH_V1,
    UNIMAL_MINI_V2,
    UNIMAL_V2,
    UNIMAL_1K_V1,
) = (BodySet(build=partial(build_released, set_id), origin="generated") for set_id in RELEASED)
