"""Termination terms: pure functions of a transition, (B,) bool."""

import math
from collections.abc import Callable

import numpy as np

from gmc_bench.core.types import BoolArray
from gmc_bench.tasks.spec import Transition


def fallen(ratio: float) -> Callable[[Transition], BoolArray]:
    """Return a term that is true when the torso is at or below `ratio` times its standing height.

    The torso's height is rounded to millimetres first, as in the public environments.
    """

    def term(transition: Transition) -> BoolArray:
        height = np.round(transition.torso_after[:, 2] - transition.ground_height, 3)
        low: BoolArray = height <= ratio * transition.standing_height
        return low

    return term


def beside_track(half_width: float) -> Callable[[Transition], BoolArray]:
    """Return a term that is true when the torso is `half_width` m or more beside the x axis."""

    def term(transition: Transition) -> BoolArray:
        outside: BoolArray = np.abs(transition.torso_after[:, 1]) >= half_width
        return outside

    return term


def tumbled(max_tilt: float, base_contact: float) -> Callable[[Transition], BoolArray]:
    """Return a term that is true when a body with drives is tilted too far or lies on the ground.

    Args:
        max_tilt: degrees.
        base_contact: force on the base from which it counts as on the ground, N.
    """
    lowest = math.cos(math.radians(max_tilt))

    def term(transition: Transition) -> BoolArray:
        motion = transition.motion
        found: BoolArray = (motion.upright < lowest) | (motion.base_contact > base_contact)
        return found

    return term
