"""A body that is being grown, together with all poses in which its limbs must stay clear."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gmc_bench.bodies.collision import touches
from gmc_bench.generation.grown_limbs import TORSO, GrownLimb, make_limb
from gmc_bench.generation.sweep import PoseSweep, start_sweep


@dataclass(slots=True)
class GrowingBody:
    """Parts that are clear of each other."""

    torso_density: float
    """kg/m^3."""
    limb_density: float
    """Of all limbs, kg/m^3."""
    parts: list[GrownLimb] = field(default_factory=list)
    """In the order of their growth."""
    sweep: PoseSweep = field(default_factory=start_sweep)
    """Their poses; part k is its limb k + 1."""

    def add(
        self, new: Sequence[GrownLimb], rng: np.random.Generator, closes: Sequence[int] = ()
    ) -> bool:
        """Add parts that belong together, unless one of them touches another limb in some pose.

        Args:
            new: the parts; that those at one site do not touch at the start has been checked.
            rng: draws their angles in the random poses.
            closes: for bridges, the number of the part at the other end of each.

        Returns:
            Whether they were added.
        """
        sweep = self.sweep
        known = [*self.parts]
        for index, part in enumerate(new):
            limb = make_limb(part, len(known), part.site.parent + 1, self.limb_density)
            siblings = [number + 1 for number, other in enumerate(known) if _meet(other, part)]
            grown = sweep.with_limb(limb, rng, siblings, closes[index] + 1 if closes else None)
            if grown is None:
                return False
            sweep, known = grown, [*known, part]
        self.sweep, self.parts = sweep, known
        return True


def _meet(first: GrownLimb, second: GrownLimb) -> bool:
    """Return whether two parts may touch, because they do so where they are hinged."""
    if first.site != second.site:
        return False
    # Hinges at one site of a limb are at one point; those of the torso are spread around it.
    return first.site.parent != TORSO or touches(first.shape, second.shape)
