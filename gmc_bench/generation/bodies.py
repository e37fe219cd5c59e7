"""Growing bodies whose limbs stay clear of each other when they move, of any size.

Source:
    Limbs grow as in `gmc_bench.generation.grow`. Differs: the limbs of a body must not touch
    anywhere in the ranges of their joints either; bodies may be asymmetric and their limbs of other
    sizes; large bodies grow from small ones and keep their height.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gmc_bench.bodies import design
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.errors import MorphologyError
from gmc_bench.generation.grow import choice, draw_growth, draw_hinges
from gmc_bench.generation.growing_body import GrowingBody
from gmc_bench.generation.grown_limbs import Closure, assemble, is_free, lowest_point, place
from gmc_bench.generation.loops import add_bridges, join_tips

LARGE = 12
"""Bodies of so many limbs or more, torso not counted, grow from a small one and keep its height."""
BASE_LIMBS = range(4, 9)
"""Limbs of those small bodies."""
RISE = 0.1
"""How much higher than its base a large body may stand, m."""

_ATTEMPTS = 300  # draws per growth; DERL has 50, but no joint ranges to keep clear
_HINGE_DRAWS = 8  # per limb that fits where it is; narrow ranges fit more often
_TRIES = 30  # bodies begun before giving up


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """What bodies are grown, apart from their number of limbs."""

    symmetric: bool = True
    """Whether bodies are their own mirror images about the xz plane."""
    size: tuple[float, float] = (1.0, 1.0)
    """Range of the factor that scales the height and the radius of each limb or pair."""

    def __post_init__(self) -> None:
        smallest, largest = self.size
        object.__setattr__(self, "size", (float(smallest), float(largest)))  # as recipes hash them


def grow_clear_body(
    rng: np.random.Generator,
    num_limbs: int,
    name: str,
    form: Form | None = None,
    *,
    loops: int = 0,
    tries: int = _TRIES,
) -> Morphology:
    """Grow one random body without self-collision.

    No two limbs touch in the start pose, in random poses, or while one joint moves through its
    range, see `PoseSweep`. Three kinds of pairs do not count. Parent and child. Limbs that grow at
    one site of a limb: their hinges are at one point, so that they meet there in most poses, as in
    the published bodies. And the two limbs of a pair on the torso if they touch at the start. In
    the start pose only the two limbs of a pair grown at one site may touch.

    Args:
        rng: the only source of randomness; equal generators give equal bodies.
        num_limbs: limbs to grow, the torso not counted; at least 1.
        name: the body's name.
        form: symmetry and sizes; the published bodies' by default.
        loops: closed loops; bridge limbs close them and count as limbs, or, where no bridge fits,
            tips of limbs are joined.
        tries: bodies to begin, for each way of closing loops.

    Returns:
        A body with `num_limbs + 1` limbs.

    Raises:
        MorphologyError: no such body was found.
    """
    form = form or Form()
    if num_limbs < 1:
        raise MorphologyError(f"cannot grow a body with {num_limbs} limbs; ask for at least 1")
    for bridged in (True, False) if loops else (False,):
        close: _Close = add_bridges if bridged else join_tips
        for _ in range(tries):
            draft = grow_draft(rng, num_limbs - bridged * loops, form)
            closures = close(rng, draft, loops) if draft else None
            if draft and closures is not None:
                return assemble(
                    draft.parts, draft.torso_density, draft.limb_density, name, closures
                )
    raise MorphologyError(
        f"found no body with {num_limbs} limbs and {loops} loops in {tries} tries; ask for "
        f"fewer limbs or loops, or try another seed"
    )


_Close = Callable[[np.random.Generator, GrowingBody, int], tuple[Closure, ...] | None]


def grow_draft(rng: np.random.Generator, num_limbs: int, form: Form) -> GrowingBody | None:
    """Grow the tree of one body; `None` when it got stuck."""
    if num_limbs < 1:
        return None
    draft = GrowingBody(
        torso_density=choice(rng, design.DENSITIES), limb_density=choice(rng, design.DENSITIES)
    )
    # Mostly pairs fit on large bodies, which cannot make an odd number of limbs even.
    bases = [base for base in BASE_LIMBS if (num_limbs - base) % 2 == 0 or not form.symmetric]
    base = choice(rng, bases) if num_limbs >= LARGE else num_limbs
    while len(draft.parts) < base:
        if not grow_limbs(rng, draft, base, form):
            return None
    floor = lowest_point(draft.parts) - RISE
    while len(draft.parts) < num_limbs:
        if not grow_limbs(rng, draft, num_limbs, form, floor):
            return None
    return draft


def grow_limbs(
    rng: np.random.Generator,
    draft: GrowingBody,
    num_limbs: int,
    form: Form,
    floor: float = -np.inf,
) -> bool:
    """Add one limb or one pair.

    Args:
        rng: the source of randomness.
        draft: what has grown so far; changed.
        num_limbs: most limbs that it may have afterwards, the torso not counted.
        form: symmetry and sizes.
        floor: how low the new limbs may reach, m above the torso's centre.

    Returns:
        False when no draw was acceptable.
    """
    for _ in range(_ATTEMPTS):
        growth = draw_growth(rng, draft.parts, symmetric=form.symmetric)
        scale = float(rng.uniform(*form.size))
        height = round(scale * choice(rng, design.LIMB_HEIGHTS), 2)
        radius = round(scale * design.LIMB_RADIUS, 3)
        if growth is None or len(draft.parts) + len(growth.sites) > num_limbs:
            continue
        new = place(draft.parts, growth, height, (), radius)
        if lowest_point(new) < floor - 1e-9 or not is_free(draft.parts, new):
            continue
        for _ in range(_HINGE_DRAWS):
            hinges = draw_hinges(rng, choice(rng, design.AXIS_SETS), design.JOINT_RANGES)
            if draft.add([replace(part, hinges=hinges) for part in new], rng):
                return True
    return False
