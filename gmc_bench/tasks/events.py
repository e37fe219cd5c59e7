"""Event terms: functions of random numbers, (K, ...) float64."""

from collections.abc import Callable, Sequence

import numpy as np

from gmc_bench.core.types import DoubleArray
from gmc_bench.robots.friction import FrictionPair
from gmc_bench.tasks.spec import Draw

EventFunction = Callable[[Draw], DoubleArray]


def one_of_pairs(pairs: Sequence[FrictionPair]) -> EventFunction:
    """Return an event for `friction`: one of several pairs, each as likely."""
    known = tuple((pair.static, pair.dynamic) for pair in pairs)

    def event(draw: Draw) -> DoubleArray:
        share = (draw.uniform(1)[:, 0] + 1.0) / 2.0
        chosen = np.minimum((share * len(known)).astype(np.int64), len(known) - 1)
        found: DoubleArray = np.array(known)[chosen]
        return found

    return event


def factor(low: float, high: float) -> EventFunction:
    """Return an event for `strength` or `base_mass`: a factor from U(low, high)."""

    def event(draw: Draw) -> DoubleArray:
        found: DoubleArray = low + (high - low) * (draw.uniform(1)[:, 0] + 1.0) / 2.0
        return found

    return event


def any_heading(draw: Draw) -> DoubleArray:
    """Return headings of the start from U(-pi, pi), rad."""
    found: DoubleArray = np.pi * draw.uniform(1)[:, 0]
    return found


def within(*half_widths: float) -> EventFunction:
    """Return an event that adds a number from U(-h, h) to each of the first coordinates.

    Args:
        half_widths: h, one per coordinate, in the units of the event's target.
    """

    def event(draw: Draw) -> DoubleArray:
        found: DoubleArray = np.array(half_widths) * draw.uniform(len(half_widths))
        return found

    return event


def per_joint(half_width: float) -> EventFunction:
    """Return an event that adds a number from U(-half_width, half_width) to each joint, rad."""

    def event(draw: Draw) -> DoubleArray:
        found: DoubleArray = half_width * draw.uniform(draw.num_joints)
        return found

    return event
