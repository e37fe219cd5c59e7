"""The quadrupeds as a set of bodies."""

from typing import cast

from gmc_bench.bodies.registry import BodySet
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.robots import ROBOTS
from gmc_bench.robots.bodies import RobotBody


def _quadrupeds() -> MorphologySet:
    # Quadrupeds are described by another type than limbs; what a set does with its bodies (names,
    # hashes, sizes) they have too.
    bodies = cast(tuple[Morphology, ...], tuple(map(RobotBody, ROBOTS.values())))
    return MorphologySet(
        id="quadrupeds-v1",
        splits={"train": bodies, "test": bodies},
        source="Go1, Go2, ANYmal-B and ANYmal-C as their makers publish them, without meshes.",
        licence="BSD-3-Clause (the published descriptions)",
        notes=("Policies are trained and tested on the same robots.",),
    )


QUADRUPEDS_V1 = BodySet(build=_quadrupeds, origin="built in")
