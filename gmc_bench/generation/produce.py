"""Making a set of a recipe: search, grow what was found, and store it with its scores."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gmc_bench.bodies.importer import check_free_id
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.store import data_dir, load_set, store_set
from gmc_bench.bodies.summary import describe_set, render_set
from gmc_bench.core.errors import MorphologySetError, StorageError
from gmc_bench.generation.descendants import source_of
from gmc_bench.generation.journal import Judged
from gmc_bench.generation.recipe import Recipe, grow_candidate
from gmc_bench.generation.released import Descent
from gmc_bench.generation.search import Found, search

SCORES = "scores.json"
"""File beside the bodies of a generated set: the recipe, and what the search found out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Product:
    """A set that was made."""

    bodies: MorphologySet
    found: Found
    folder: Path
    """Where it is stored."""

    @property
    def text(self) -> str:
        """What was found, for people."""
        turned_down = "  ".join(f"{fault}: {count}" for fault, count in self.found.faults.items())
        return (
            f"{render_set(describe_set(self.bodies))}\n"
            f"judged  {self.found.num_judged}\n"
            f"turned down  {turned_down or 'none'}\n\n"
            f"kept in  {self.folder}"
        )


def journal_path(recipe: Recipe) -> Path:
    """Return the file that keeps the verdicts of a recipe's candidates."""
    return data_dir() / "searches" / f"{recipe.digest[:16]}.jsonl"


def make_set(
    set_id: str, recipe: Recipe, workers: int, on_judged: Callable[[int], None] | None = None
) -> Product:
    """Search for the bodies of a recipe and store them as a set.

    A call that is interrupted goes on where it was when it is made again.

    Args:
        set_id: id of the set.
        recipe: the bodies.
        workers: processes.
        on_judged: see `search`.

    Returns:
        The set; the same for every number of processes.

    Raises:
        MorphologySetError: the id cannot be used, or the recipe is too hard.
        StorageError: something cannot be written, or another process makes the same set.
    """
    check_free_id(set_id)
    found = search(recipe, journal_path(recipe), workers, on_judged=on_judged)
    splits = {
        split: tuple(_grown(recipe, judged) for judged in members)
        for split, members in found.splits.items()
    }
    bodies = MorphologySet(
        id=set_id,
        splits=splits,
        source=(
            f"Grown by gmc-bench in the UNIMAL design space (Gupta et al. 2021, arXiv:2102.02202), "
            f"recipe {recipe.digest[:12]} with the seed {recipe.seed}."
        ),
        licence="same as gmc-bench",
        notes=(f"{found.num_judged} candidates were judged; {SCORES} has what was found out.",),
    )
    folder = store_set(bodies)
    _write_scores(folder / SCORES, recipe, bodies, found)
    return Product(bodies=bodies, found=found, folder=folder)


def prospects(set_id: str, recipe: Recipe, descent: Descent | None = None) -> list[str]:
    """Return what making a set would meet, one sentence each: another set, or a search begun.

    Args:
        set_id: id of the set.
        recipe: for `make_set`; of descendants it has the numbers of bodies.
        descent: for `make_descendants`.

    Raises:
        MorphologySetError: the id cannot be used.
    """
    check_free_id(set_id)
    found = []
    with suppress(MorphologySetError):  # there is none, or none that can be used
        if not _is_the_same(load_set(set_id), recipe, descent):
            found.append(f"{set_id!r} holds other bodies; the new ones replace them at the end.")
    if descent is None and journal_path(recipe).exists():
        found.append(f"Going on with the search in {journal_path(recipe)}.")
    return found


def _is_the_same(kept: MorphologySet, recipe: Recipe, descent: Descent | None) -> bool:
    """Return whether a set that is kept is the one that would be made."""
    if descent is None:
        return recipe.digest[:12] in kept.source
    sizes = [len(kept.split(split)) for split in ("train", "test")]
    return kept.source == source_of(descent) and sizes == [recipe.train, recipe.test]


def _grown(recipe: Recipe, judged: Judged) -> Morphology:
    body = grow_candidate(recipe, judged.index)
    if body is None or body.digest != judged.digest:
        raise MorphologySetError(
            f"candidate {judged.index} grew into another body than when it was judged; remove "
            f"{journal_path(recipe)} and search anew"
        )
    return body


def _write_scores(path: Path, recipe: Recipe, bodies: MorphologySet, found: Found) -> None:
    content: dict[str, Any] = {
        "recipe": asdict(recipe),
        "recipe_digest": recipe.digest,
        "num_judged": found.num_judged,
        "faults": found.faults,
        "splits": {
            split: [
                {"name": body.name, **asdict(judged)}
                for body, judged in zip(bodies.splits[split], members, strict=True)
            ]
            for split, members in found.splits.items()
        },
    }
    try:
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write the scores {path} ({error.strerror or error})") from error
