"""Body sets that settings may be searched on: those that no table scores."""

import json
from functools import cache
from pathlib import Path

from gmc_bench.bodies.importer import PUBLISHED
from gmc_bench.bodies.registry import BODY_SETS
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.errors import GmcBenchError, MorphologySetError, PluginError
from gmc_bench.generation.heldout import HELD_OUT
from gmc_bench.suites import SUITES, Suite

SEARCH_SET = "gmc-search-v1"
"""Set that settings are searched on unless another is named."""
_SHORT = 16
"""Hex digits of a body's content hash that tell bodies apart."""


def scored_sets() -> list[str]:
    """Return the ids of all sets whose scores tables may hold.

    These are the suites' sets, the published ones, the held-out ones (which exist once they are
    revealed), and all that this package offers but the one to search on.
    """
    suites = [suite for _, suite in SUITES.items() if isinstance(suite, Suite)]
    named = {name for suite in suites for name in suite.default_morphologies}
    ours = {
        name
        for name, item in BODY_SETS.items()
        if not isinstance(item, PluginError) and item.origin != "installed"
    }
    return sorted((named | set(PUBLISHED) | set(HELD_OUT) | ours) - {SEARCH_SET})


def require_search_set(bodies: MorphologySet) -> None:
    """Raise unless no table scores any body of a set.

    Bodies are compared by content with those of every scored set, whatever the sets are called.

    Raises:
        MorphologySetError: a table scores the set, or a body that it trains on.
    """
    scored = scored_sets()
    base = bodies.id.partition("+")[0].partition(".first")[0]
    hint = f"search on bodies that no table scores, e.g. {SEARCH_SET}, or on a set of your own"
    if base in scored or "+" in bodies.id:
        raise MorphologySetError(f"{bodies.id} is a set that tables score; {hint}")
    found = {body.digest[:_SHORT]: body.name for body in bodies.split("train")}
    for name in scored:
        if both := found.keys() & _digests(name):
            raise MorphologySetError(
                f"{bodies.id} holds {found[min(both)]!r}, which is a body of {name}, a set that "
                f"tables score; {hint}"
            )


@cache
def _digests(name: str) -> frozenset[str]:
    """Return the beginnings of the content hashes of a scored set's bodies, train and test."""
    listed = _listed().get(name)
    if listed is not None:
        return frozenset(listed)
    try:
        splits = load_morphologies(name).splits
    except GmcBenchError:
        return frozenset()  # not imported here: nothing of it can be trained on either
    return frozenset(body.digest[:_SHORT] for split in splits.values() for body in split)


@cache
def _listed() -> dict[str, list[str]]:
    """Return what `_digests` would find, by set: growing and reading all sets takes a minute."""
    file = Path(__file__).with_name("scored_bodies.json")
    content: dict[str, list[str]] = json.loads(file.read_text(encoding="utf-8"))
    return content
