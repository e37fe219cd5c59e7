"""Groups of bodies that a score is broken down by."""

from collections.abc import Mapping, Sequence

from gmc_bench.core.types import Split
from gmc_bench.records.kinship import by_novelty, by_run, scored
from gmc_bench.records.parts import AHEAD, BodyReturns, FrictionResult

LIMBS_PER_GROUP = 5
"""Numbers of limbs that share a group: 5 to 9, 10 to 14, ..."""
MIN_RANGE = 10
"""Bodies whose numbers of limbs differ by less are not broken down."""


def groups(returns: Sequence[BodyReturns], split: Split) -> dict[str, list[BodyReturns]]:
    """Group what counts of a split: on `test` by novelty and evolution; by limbs and loops."""
    items, train = scored(returns, split), scored(returns, "train")
    new = by_novelty(items, train) | by_run(items, train) if split == "test" else {}
    return new | by_limbs(items) | by_loops(items)


def by_limbs(items: Sequence[BodyReturns]) -> dict[str, list[BodyReturns]]:
    """Group bodies by their number of limbs, torso included, smallest first.

    Returns:
        Groups by name, e.g. `20 to 24 limbs`; none where sizes are unknown or much alike.
    """
    sizes = [item.limbs for item in items if item.limbs is not None]
    if not sizes or len(sizes) < len(items) or max(sizes) - min(sizes) < MIN_RANGE:
        return {}
    found: dict[str, list[BodyReturns]] = {}
    for size, item in sorted(zip(sizes, items, strict=True), key=lambda pair: pair[0]):
        first = size // LIMBS_PER_GROUP * LIMBS_PER_GROUP
        found.setdefault(f"{first} to {first + LIMBS_PER_GROUP - 1} limbs", []).append(item)
    return found


def by_loops(items: Sequence[BodyReturns]) -> dict[str, list[BodyReturns]]:
    """Group bodies into trees and bodies with closed loops; none where all are of one kind."""
    looped = [item for item in items if item.loops is not None]
    trees = [item for item in items if item.loops is None]
    return {"trees": trees, "closed loops": looped} if looped and trees else {}


FRICTION_METRICS = {
    "Velocity RMSE (m/s)": "velocity_rmse",
    "Progress (m)": "progress",
    "Tilt RMS (degrees)": "tilt_rms",
    "Fall rate (%)": "fall_rate",
}
"""Heading to name of the metric."""
DIRECTION_METRICS = {
    "Velocity RMSE (m/s)": "velocity_rmse",
    "Yaw rate RMSE (rad/s)": "turn_rmse",
    "Fall rate (%)": "fall_rate",
}
"""Heading to name of the metric."""


def friction_means(results: Sequence[FrictionResult]) -> dict[str, dict[str, float | None]]:
    """Return by friction and heading of `FRICTION_METRICS` the mean over robots, straight ahead.

    `None` where one robot has no such number.
    """
    found: dict[str, list[FrictionResult]] = {}
    for item in straight_ahead(results):
        found.setdefault(item.friction, []).append(item)
    return {name: _robot_means(items, FRICTION_METRICS) for name, items in found.items()}


def direction_means(results: Sequence[FrictionResult]) -> dict[str, dict[str, float | None]]:
    """Return by direction and heading of `DIRECTION_METRICS` the mean over robots.

    Straight ahead comes first, on the friction of the other directions. Nothing where there are no
    others; `None` where one robot has no such number.
    """
    found: dict[str, list[FrictionResult]] = {}
    for item in by_direction(results):
        found.setdefault(item.went, []).append(item)
    return {name: _robot_means(items, DIRECTION_METRICS) for name, items in found.items()}


def straight_ahead(results: Sequence[FrictionResult]) -> list[FrictionResult]:
    """Return what robots did straight ahead, on every friction."""
    return [item for item in results if item.went == AHEAD]


def by_direction(results: Sequence[FrictionResult]) -> list[FrictionResult]:
    """Return what robots did in all directions on one friction; nothing if only straight ahead."""
    pairs = {item.friction for item in results if item.went != AHEAD}
    return [item for item in results if item.friction in pairs]


def _robot_means(
    items: Sequence[FrictionResult], metrics: Mapping[str, str]
) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for heading, name in metrics.items():
        values = [item.restarts.get(name) for item in items]
        known = [value for value in values if value is not None]
        found[heading] = sum(known) / len(known) if len(known) == len(values) else None
    return found
