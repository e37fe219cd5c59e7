"""Recipe of a set of bodies to search for, and its numbered candidates."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import accumulate
from typing import Literal, get_args

import numpy as np

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.arguments import require_number
from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError, MorphologyError
from gmc_bench.generation.bodies import Form, grow_clear_body

VERSION = 1
"""Raised whenever a candidate of a recipe comes out as another body."""

SCALED_VERSION = 2
"""The same for recipes whose limbs are scaled."""

UNIMAL_LIMBS: dict[str, dict[int, int]] = {
    "train": {5: 1, 6: 5, 7: 8, 8: 16, 9: 28, 10: 26, 11: 16},
    "test": {6: 1, 7: 23, 8: 28, 9: 22, 10: 13, 11: 15},
}
"""Bodies of the published set by number of limbs, the torso included."""

MAX_LIMBS = 64
"""Largest bodies that can be asked for; growth gets stuck earlier."""

_TRIES = 4  # bodies begun for a candidate with loops; others get one, and the next candidate

Stratum = tuple[int, bool]
"""Number of limbs, the torso included, and whether there are loops."""


Spread = Literal["even", "mean", "unimal"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A set of bodies to search for. Equal recipes give equal sets.

    Raises:
        ConfigError: a number is out of range, or the numbers contradict each other.
    """

    seed: int
    """Of the candidates."""
    train: int
    """Bodies of the train split."""
    test: int
    """Bodies of the test split."""
    limbs: tuple[int, int]
    """Fewest and most limbs of a body, the torso included."""
    spread: Spread = "even"
    """How sizes are spread: evenly, with the mean `mean_limbs`, or as in the published set."""
    mean_limbs: float | None = None
    """Mean number of limbs, the torso included; only with the spread `mean`."""
    form: Form = field(default_factory=Form)
    """Symmetry and sizes."""
    loops: tuple[int, int] = (0, 0)
    """Fewest and most closed loops of a body that has any."""
    loop_share: float = 0.0
    """Share of the bodies of each split that have loops."""

    def __post_init__(self) -> None:
        # Equal recipes have one digest, so 8 limbs must not be written otherwise than 8.0.
        for name in ("mean_limbs", "loop_share"):
            number = getattr(self, name)
            if number is not None:
                require_number(number, f"{name!r} of a recipe")
                object.__setattr__(self, name, float(number))
        flaw = _flaw(self)
        if flaw:
            raise ConfigError(flaw)

    @property
    def version(self) -> int:
        """Version of the rules that its candidates are grown by."""
        return VERSION if self.form.size == Form().size else SCALED_VERSION

    @property
    def digest(self) -> str:
        """SHA-256 over the recipe and the version of the rules, 64 hex digits."""
        text = json.dumps([self.version, asdict(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def quotas(self) -> dict[str, dict[Stratum, int]]:
        """Bodies wanted of each cell, by split."""
        quotas = {}
        for split, count in (("train", self.train), ("test", self.test)):
            looped = round(count * self.loop_share)
            weights = self._weights(split)
            deal = _apportioned if self.spread == "unimal" else _dealt_evenly
            quotas[split] = {
                (limbs, has_loops): number
                for has_loops, wanted in ((False, count - looped), (True, looped))
                for limbs, number in deal(weights, wanted).items()
                if number
            }
        return quotas

    def _weights(self, split: str) -> dict[int, float]:
        low, high = self.limbs
        if self.spread == "unimal":
            found = UNIMAL_LIMBS[split].items()
            return {limbs: float(number) for limbs, number in found if low <= limbs <= high}
        tilt = 0.0
        if self.spread == "mean" and self.mean_limbs is not None:
            tilt = _tilt(low, high, self.mean_limbs)
        most = high if tilt > 0.0 else low  # with the weight 1: none is too large for a float
        return {limbs: math.exp(tilt * (limbs - most)) for limbs in range(low, high + 1)}


def _flaw(recipe: Recipe) -> str | None:
    """Return what keeps a recipe from being one, as a sentence."""
    if recipe.spread not in get_args(Spread):
        return (
            f"the spread of limbs must be one of {', '.join(get_args(Spread))}, got "
            f"{shown(recipe.spread)}"
        )
    low, high = recipe.limbs
    fewest, most = recipe.loops
    if not 2 <= low <= high <= MAX_LIMBS:
        return f"limbs are {low}-{high}; give a range within 2-{MAX_LIMBS}, the torso included"
    if min(recipe.train, recipe.test) < 1 or recipe.seed < 0:
        return (
            f"{recipe.train} train bodies, {recipe.test} test bodies and the seed {recipe.seed} "
            f"were asked for; each split needs at least one body, and the seed must not be negative"
        )
    if (recipe.mean_limbs is None) == (recipe.spread == "mean"):
        return f"the mean number of limbs is {recipe.mean_limbs}; give one with the spread 'mean'"
    if recipe.mean_limbs is not None and not low < recipe.mean_limbs < high:
        return f"the mean of {recipe.mean_limbs:g} limbs does not lie between {low} and {high}"
    if recipe.spread == "unimal" and not all(
        any(low <= limbs <= high for limbs in counts) for counts in UNIMAL_LIMBS.values()
    ):
        return f"no published body has {low}-{high} limbs; theirs are 5-11 with the torso"
    smallest, largest = recipe.form.size
    if not 0.5 <= smallest <= largest <= 2.0:
        return f"the sizes of limbs are {smallest:g}-{largest:g}; give a range within 0.5-2"
    if not 0 <= fewest <= most <= 4:
        return f"loops are {fewest}-{most}; give a range within 0-4"
    if not 0.0 <= recipe.loop_share <= 1.0 or (recipe.loop_share > 0.0) != (most > 0):
        return (
            f"the share of bodies with loops is {recipe.loop_share:g} with {fewest}-{most} loops; "
            f"give a share up to 1, and above 0 if there are to be loops"
        )
    if most and low < smallest_looped(max(1, fewest)):
        loops = "1 loop" if fewest < 2 else f"{fewest} loops"
        return (
            f"bodies of {low} limbs are too small for {loops}; ask for at least "
            f"{smallest_looped(max(1, fewest))} limbs"
        )
    if most and high < smallest_looped(most):
        return (
            f"loops are {fewest}-{most}, but bodies of {high} limbs are too small for {most}; ask "
            f"for fewer loops, or for up to {smallest_looped(most)} limbs"
        )
    if most and not any(round(n * recipe.loop_share) for n in (recipe.train, recipe.test)):
        return (
            f"a share of {recipe.loop_share:g} of {recipe.train} train and {recipe.test} test "
            f"bodies is no body with loops; give a larger share or ask for more bodies"
        )
    return None


def smallest_looped(loops: int) -> int:
    """Return the fewest limbs, torso included, with which a body has tips for so many loops."""
    return max(4, 2 * loops + 1)


def _tilt(low: int, high: int, mean: float) -> float:
    """Return the rate of the exponential weights that have a mean: the most even there are."""
    left, right = -20.0, 20.0
    numbers = np.arange(low, high + 1)
    for _ in range(100):
        middle = (left + right) / 2
        weights = np.exp(middle * (numbers - (high if middle > 0 else low)))
        if float((weights * numbers).sum() / weights.sum()) < mean:
            left = middle
        else:
            right = middle
    return round(left, 9)  # the same on every machine


def _apportioned(weights: Mapping[int, float], total: int) -> dict[int, int]:
    """Deal a number out by weights: whole parts first, then the largest remainders."""
    scale = total / sum(weights.values())
    exact = {key: round(weight * scale, 9) for key, weight in weights.items()}
    dealt = {key: int(share) for key, share in exact.items()}
    by_rest = sorted(exact, key=lambda key: (dealt[key] - exact[key], key))
    for key in by_rest[: total - sum(dealt.values())]:
        dealt[key] += 1
    return dealt


def _dealt_evenly(weights: Mapping[int, float], total: int) -> dict[int, int]:
    """Deal a number out by weights so that every run of keys gets its share: means are kept."""
    scale = total / sum(weights.values())
    reached = [0, *(round(round(scale * part, 9)) for part in accumulate(weights.values()))]
    return {key: reached[k + 1] - reached[k] for k, key in enumerate(weights)}


@cache
def _cells(recipe: Recipe) -> tuple[Stratum, ...]:
    return tuple(sorted({cell for quota in recipe.quotas.values() for cell in quota}))


def candidate_cell(recipe: Recipe, index: int) -> Stratum:
    """Return the cell that a candidate belongs to, without growing it."""
    return _draw_cell(recipe, _stream(recipe, index))


def grow_candidate(recipe: Recipe, index: int) -> Morphology | None:
    """Grow a candidate.

    Args:
        recipe: the set that it may become part of.
        index: its number, from 0; it decides everything else.

    Returns:
        The body, named after its number; `None` where growth got stuck.
    """
    rng = _stream(recipe, index)
    limbs, looped = _draw_cell(recipe, rng)
    fewest, most = recipe.loops
    loops = int(rng.integers(max(1, fewest), most + 1)) if looped else 0
    name = f"grown-{index:05d}"
    tries = _TRIES if looped else 1
    try:
        return grow_clear_body(rng, limbs - 1, name, recipe.form, loops=loops, tries=tries)
    except MorphologyError:
        return None


def _stream(recipe: Recipe, index: int) -> np.random.Generator:
    return np.random.default_rng([recipe.seed, index])


def _draw_cell(recipe: Recipe, rng: np.random.Generator) -> Stratum:
    cells = _cells(recipe)
    return cells[int(rng.integers(len(cells)))]


LARGE = Recipe(seed=2, train=100, test=50, limbs=(20, 30), spread="mean", mean_limbs=25.0)
"""Bodies of up to 30 limbs."""
LOOPED = Recipe(
    seed=3, train=50, test=50, limbs=(5, 11), spread="unimal", loops=(1, 2), loop_share=0.2
)
"""Bodies of the published sizes, ten of each split with closed loops."""
UNIMAL = Recipe(seed=1, train=100, test=100, limbs=(5, 11), spread="unimal")
"""Bodies of the published sizes."""
