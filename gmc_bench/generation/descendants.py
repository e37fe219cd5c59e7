"""Making a set of descendants: mutated train bodies of a released set that came from an evolution.

Candidates are numbered and taken in the order of their numbers. Growing them is arithmetic; only
mass and ten seconds of random control, which every accepted body survives, are simulated.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gmc_bench.bodies.importer import check_free_id
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.store import store_set
from gmc_bench.bodies.summary import describe_set, render_set
from gmc_bench.core.errors import ConfigError
from gmc_bench.generation.judge import judge
from gmc_bench.generation.recipe import Recipe
from gmc_bench.generation.released import (
    RELEASED,
    Descent,
    ancestors,
    build_released,
    grow_of_descent,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Descendants:
    """A set that was made."""

    bodies: MorphologySet
    numbers: dict[str, tuple[int, ...]]
    """Of the candidates that were taken, by split."""
    folder: Path
    """Where it is stored."""

    @property
    def text(self) -> str:
        """What was made, for people."""
        last = max(number for numbers in self.numbers.values() for number in numbers)
        return (
            f"{render_set(describe_set(self.bodies))}\ncandidates  {last}\n\nkept in  {self.folder}"
        )


def plain_descent(base: str, recipe: Recipe) -> Descent:
    """Return the descent that a recipe with nothing but a seed and numbers of bodies asks for.

    Raises:
        ConfigError: the recipe asks for sizes or shapes, which descendants have from ancestors.
    """
    plain = Recipe(seed=recipe.seed, train=recipe.train, test=recipe.test, limbs=(5, 11))
    if recipe != plain:
        raise ConfigError(
            f"descendants of {base!r} have their limbs and loops from their ancestors; leave out "
            f"all but --train, --test and --seed"
        )
    return Descent(base=base, seed=recipe.seed)


def source_of(descent: Descent) -> str:
    """Return the source that a set of descendants states."""
    return (
        f"Descendants of train bodies of {descent.base} by {descent.mutations} mutations, "
        f"grown by gmc-bench with the seed {descent.seed}."
    )


def make_descendants(
    set_id: str,
    descent: Descent,
    train: int,
    test: int,
    on_found: Callable[[int], None] | None = None,
) -> Descendants:
    """Grow descendants and store them as a set.

    A candidate is left out where it did not grow, is too light or too heavy, does not survive
    random control, or equals an earlier one or a body of a released set. So no test body of another
    released set is among them. Released sets of the very same descent are exempt: their bodies are
    its first accepted candidates and are found again.

    Args:
        set_id: id of the set.
        descent: whose descendants.
        train: train bodies, the first that are accepted.
        test: test bodies, those that follow.
        on_found: is told how many bodies there are.

    Raises:
        UnknownNameError: there is no such set of ancestors.
        MorphologySetError: its bodies have no lineages, or the id cannot be used.
        ConfigError: a split would be empty.
        StorageError: the set cannot be stored.
    """
    if min(train, test) < 1:
        raise ConfigError(f"a set needs train and test bodies, got {train} and {test}")
    check_free_id(set_id)
    found = find_descendants(descent, train + test, on_found)
    bodies = MorphologySet(
        id=set_id,
        splits={
            "train": tuple(body for _, body in found[:train]),
            "test": tuple(body for _, body in found[train:]),
        },
        source=source_of(descent),
        licence="same as gmc-bench",
    )
    numbers = [number for number, _ in found]
    return Descendants(
        bodies=bodies,
        numbers={"train": tuple(numbers[:train]), "test": tuple(numbers[train:])},
        folder=store_set(bodies),
    )


def find_descendants(
    descent: Descent, wanted: int, on_found: Callable[[int], None] | None = None
) -> list[tuple[int, Morphology]]:
    """Return the first candidates that are accepted, with their numbers, see `make_descendants`."""
    ancestors(descent)  # known to be there before other sets are grown
    known = _known(descent)
    found: list[tuple[int, Morphology]] = []
    number = 0
    while len(found) < wanted:
        number += 1
        body = grow_of_descent(descent, number)
        if body is None or body.digest in known:
            continue
        if judge(body, (descent.seed, number), gaits=False).fault:
            continue
        known.add(body.digest)
        found.append((number, body))
        if on_found is not None:
            on_found(len(found))
    return found


def _known(descent: Descent) -> set[str]:
    """Return the content hashes of all released bodies but those of this very descent."""
    return {
        body.digest
        for name, item in RELEASED.items()
        if item.descent != descent
        for members in build_released(name).splits.values()
        for body in members
    }
