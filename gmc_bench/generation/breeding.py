"""Breeding: the bodies of the next generation."""

from collections.abc import Iterator

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import MorphologyError
from gmc_bench.generation.evolution import Evolution, Generation, Lineage
from gmc_bench.generation.judge import judge
from gmc_bench.generation.lineage import grow_lineage


def breed(settings: Evolution, last: Generation | None) -> tuple[dict[Lineage, Morphology], int]:
    """Return the next population: founders, or the survivors and as many children as are missing.

    Founders and children must have grown, be neither too light nor too heavy, survive random
    control in the simulation, and differ from all others; whether they can walk is for training to
    find out.

    Args:
        settings: of the evolution.
        last: the generation before; `None` begins.

    Returns:
        The bodies by lineage, and the number of births until then.
    """
    kept = last.survivors(settings) if last else ()
    births = last.births if last else 0
    bodies = {lineage: grow_lineage(settings.seed, lineage) for lineage in kept}
    digests = {body.digest for body in bodies.values()}
    for lineage in _offspring(kept, births):
        if len(bodies) == settings.population:
            break
        births = lineage[-1]
        try:
            body = grow_lineage(settings.seed, lineage)
        except MorphologyError:
            continue
        if body.digest in digests or judge(body, (settings.seed, births), gaits=False).fault:
            continue
        digests.add(body.digest)
        bodies[lineage] = body
    return bodies, births


def _offspring(parents: tuple[Lineage, ...], births: int) -> Iterator[Lineage]:
    """Yield lineages to come: children of each parent in turn, or founders without parents."""
    while True:
        births += 1
        yield (*parents[births % len(parents)], births) if parents else (births,)
