"""Lineages: bodies that descend from a random one by mutations, all of it following from seeds."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import MorphologyError
from gmc_bench.generation.bodies import Form, grow_draft
from gmc_bench.generation.evolution import Lineage
from gmc_bench.generation.grow import choice
from gmc_bench.generation.growing_body import GrowingBody
from gmc_bench.generation.grown_limbs import assemble
from gmc_bench.generation.mutation import mutate

VERSION = 1
"""Raised whenever a lineage ends in another body; released sets then need a new id."""

FOUNDER_LIMBS = range(3, 9)
"""Sizes of founders, the torso not counted; all equally often. Source: 2 to 8 in DERL."""


@lru_cache(maxsize=4096)
def descend(seed: int, lineage: Lineage) -> GrowingBody:
    """Return the body at the end of a lineage; it must not be changed.

    Args:
        seed: of the evolution.
        lineage: founder and children.

    Raises:
        MorphologyError: the founder did not grow, or a mutation found no room.
    """
    rng = np.random.default_rng([seed, *lineage])
    if len(lineage) > 1:
        return mutate(rng, descend(seed, lineage[:-1]))
    num_limbs = FOUNDER_LIMBS[int(rng.integers(len(FOUNDER_LIMBS)))]
    founder = grow_draft(rng, num_limbs, Form())
    if founder is None:
        raise MorphologyError(f"founder {lineage[0]} of the seed {seed} did not grow")
    return founder


def grow_lineage(seed: int, lineage: Lineage) -> Morphology:
    """Return the body of a lineage, named after it.

    Raises:
        MorphologyError: see `descend`.
    """
    return finished(descend(seed, lineage), lineage_name(lineage))


def grow_descendant(
    evolution: int, ancestors: Sequence[Lineage], seed: Sequence[int], mutations: int, name: str
) -> Morphology:
    """Return the body of a random ancestor after some mutations.

    Args:
        evolution: seed of the evolution that the ancestors come from.
        ancestors: one of them is drawn, all equally likely.
        seed: decides which one, and its mutations.
        mutations: how many.
        name: of the body.

    Raises:
        MorphologyError: a mutation found no room.
    """
    rng = np.random.default_rng([*seed])
    body = descend(evolution, choice(rng, ancestors))
    for _ in range(mutations):
        body = mutate(rng, body)
    return finished(body, name)


def lineage_name(lineage: Lineage) -> str:
    """Return the name of a body, e.g. `evolved-00012.31.240`."""
    founder, *children = lineage
    return ".".join([f"evolved-{founder:05d}", *map(str, children)])


def read_lineage(text: str) -> Lineage:
    """Return a lineage as released sets pin it, e.g. `12.31.240`."""
    return tuple(map(int, text.split(".")))


def finished(body: GrowingBody, name: str) -> Morphology:
    """Return a body that has grown."""
    return assemble(body.parts, body.torso_density, body.limb_density, name)
