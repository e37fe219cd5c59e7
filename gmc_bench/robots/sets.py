"""The quadrupeds as a set of bodies."""

from gmc_bench.bodies.registry import BodySet
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.robots import ROBOTS


def _quadrupeds() -> MorphologySet:
    bodies = tuple(ROBOTS.values())
    return MorphologySet(
        id="quadrupeds-v1",
        splits={"train": bodies, "test": bodies},
        source="Go1, Go2, ANYmal-B and ANYmal-C as their makers publish them, without meshes.",
        licence="BSD-3-Clause (the published descriptions)",
        notes=("Policies are trained and tested on the same robots.",),
    )


QUADRUPEDS_V1 = BodySet(build=_quadrupeds, origin="built in")
