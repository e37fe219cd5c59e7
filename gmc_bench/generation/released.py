"""Morphology sets that everyone can regenerate, bit for bit, from pinned seeds.

Seeds, or the numbers of a recipe's candidates, are pinned rather than searched for, because the
search simulates chaotic motion: another processor may judge a borderline body differently, but
grows the same body from the same seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from tqdm import tqdm

from gmc_bench.bodies.registry import BodySet
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.core.errors import MorphologySetError, UnknownNameError, did_you_mean
from gmc_bench.generation import pinned
from gmc_bench.generation.cache import keep_grown, load_grown
from gmc_bench.generation.grow import grow_body
from gmc_bench.generation.recipe import LARGE, LOOPED, UNIMAL, Recipe, grow_candidate

GENERATOR_VERSION = 1
"""Raised whenever `grow_seed` gives another body for any seed; released sets then need a new id."""

LIMB_COUNTS = range(4, 12)
"""Sizes of released bodies, the torso not counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleasedSet:
    """A set that is defined by its seeds."""

    id: str
    """Lower-case, with a version."""
    generator_version: int
    """`GENERATOR_VERSION`, or with a recipe the `VERSION` of recipes."""
    train_seeds: tuple[int, ...]
    """For `grow_seed`, or with a recipe the numbers of its candidates."""
    test_seeds: tuple[int, ...]
    digest: str
    """Hash of the set, see `MorphologySet.digest`."""
    recipe: Recipe | None = None
    """Whose candidates the bodies are."""


_MINI_V1_TRAIN = (
    2, 107, 109, 113, 194, 319, 324, 379, 491, 561, 621, 628, 727, 798, 819, 915, 987, 1109,
    1122, 1276,
)  # fmt: skip
_MINI_V1_TEST = (
    1, 104, 129, 183, 191, 243, 286, 295, 393, 489, 537, 616, 676, 787, 844, 847, 1059, 1117,
    1198, 2208,
)  # fmt: skip
_MINI_V1 = ReleasedSet(
    id="gmc-unimal-mini-v1",
    generator_version=1,
    train_seeds=_MINI_V1_TRAIN,
    test_seeds=_MINI_V1_TEST,
    digest="36f923e99112e4c4d201766ca61d38b5ea7d85f78bbce600b5399bf98afc345e",
)

_FOUND = tuple(
    ReleasedSet(
        id=set_id,
        generator_version=1,
        train_seeds=pins.train,
        test_seeds=pins.test,
        digest=pins.digest,
        recipe=recipe,
    )
    for set_id, recipe, pins in (
        ("gmc-unimal-v1", UNIMAL, pinned.UNIMAL_V1),
        ("gmc-large-v1", LARGE, pinned.LARGE_V1),
        ("gmc-loops-v1", LOOPED, pinned.LOOPS_V1),
    )
)

RELEASED = {released.id: released for released in (_MINI_V1, *_FOUND)}
"""Released sets by id. An entry never changes; a correction gets a new id."""


def grow_seed(seed: int) -> Morphology:
    """Grow the body of one seed; the seed also decides its size, uniform over `LIMB_COUNTS`."""
    rng = np.random.default_rng(seed)
    num_limbs = LIMB_COUNTS[int(rng.integers(len(LIMB_COUNTS)))]
    return grow_body(rng, num_limbs, f"grown-{seed:05d}")


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
    bodies = _assembled(released, load_grown(released.digest) if released.recipe else None)
    if bodies is None or bodies.digest != released.digest:
        grown = _grow(released)
        bodies = _assembled(released, grown)
        if bodies is not None and bodies.digest == released.digest and released.recipe:
            keep_grown(released.digest, grown)
    if bodies is None or bodies.digest != released.digest:
        digest = bodies.digest[:12] if bodies else "nothing"
        raise MorphologySetError(
            f"the set {set_id!r} came out as {digest} instead of "
            f"{released.digest[:12]}; this numpy ({np.__version__}) draws other numbers than the "
            f"one it was released with, so install a version that pyproject.toml allows"
        )
    return bodies


def _grow(released: ReleasedSet) -> dict[str, tuple[Morphology, ...]]:
    """Grow the bodies of a set; those that do not grow are left out."""
    splits = {"train": released.train_seeds, "test": released.test_seeds}
    if released.recipe is None:
        return {split: tuple(map(grow_seed, seeds)) for split, seeds in splits.items()}
    total = sum(map(len, splits.values()))
    with tqdm(total=total, desc=f"growing {released.id}", leave=False, disable=None) as bar:
        grown: dict[str, tuple[Morphology, ...]] = {}
        for split, seeds in splits.items():
            bodies = []
            for seed in seeds:
                bodies.append(grow_candidate(released.recipe, seed))
                bar.update()
            grown[split] = tuple(body for body in bodies if body is not None)
    return grown


def _assembled(
    released: ReleasedSet, splits: Mapping[str, tuple[Morphology, ...]] | None
) -> MorphologySet | None:
    """Return the set; `None` where bodies are missing."""
    if not splits or not all(splits.values()):
        return None
    return MorphologySet(
        id=released.id,
        splits=splits,
        source=(
            f"Grown from pinned seeds by generator {released.generator_version} of gmc-bench in "
            f"the UNIMAL design space (Gupta et al. 2021, arXiv:2102.02202)."
        ),
        licence="same as gmc-bench",
    )


UNIMAL_MINI_V1, UNIMAL_V1, LARGE_V1, LOOPS_V1 = (
    BodySet(build=partial(build_released, set_id), origin="generated") for set_id in RELEASED
)
