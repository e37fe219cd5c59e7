"""Reward terms: pure functions of a transition, (B,) float64."""

import math
from collections.abc import Callable

import numpy as np

from gmc_bench.core.types import DoubleArray
from gmc_bench.tasks.spec import Transition, speed


@speed
def forward_velocity(transition: Transition) -> DoubleArray:
    """Return the mean speed of the torso along world x over the step, m/s."""
    moved = transition.torso_after[:, 0] - transition.torso_before[:, 0]
    velocity: DoubleArray = moved / transition.control_dt
    return velocity


def speed_along_slope(angle: float) -> Callable[[Transition], DoubleArray]:
    """Return a term: the mean speed up a slope of `angle` degrees along world x, m/s.

    Only the motion along x counts, divided by the cosine of the angle.
    """
    cosine = math.cos(math.radians(angle))

    @speed
    def term(transition: Transition) -> DoubleArray:
        velocity: DoubleArray = forward_velocity(transition) / cosine
        return velocity

    return term


def newly_visited_cells(transition: Transition) -> DoubleArray:
    """Return the number of grid cells visited for the first time in this step."""
    found: DoubleArray = np.broadcast_to(transition.new_cells, len(transition.torso_after)).copy()
    return found
