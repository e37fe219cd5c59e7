"""Metrics: pure functions of a transition that say how far an episode has come, (B,) float64."""

import math
from collections.abc import Callable

import numpy as np

from gmc_bench.core.types import DoubleArray
from gmc_bench.tasks.spec import Transition


def position_x(transition: Transition) -> DoubleArray:
    """Return the torso's place along world x, m."""
    found: DoubleArray = transition.torso_after[:, 0].copy()
    return found


def distance_along_slope(angle: float, start: float) -> Callable[[Transition], DoubleArray]:
    """Return a metric: the way up a slope of `angle` degrees, m.

    Args:
        angle: of the slope, degrees.
        start: world x where bodies start, m.
    """
    cosine = math.cos(math.radians(angle))

    def metric(transition: Transition) -> DoubleArray:
        found: DoubleArray = (transition.torso_after[:, 0] - start) / cosine
        return found

    return metric


def visited_cells(transition: Transition) -> DoubleArray:
    """Return the number of grid cells visited since the episode began."""
    found: DoubleArray = np.broadcast_to(transition.num_cells, len(transition.torso_after)).copy()
    return found


def velocity_error(transition: Transition) -> DoubleArray:
    """Return how far the horizontal velocity in the yaw frame is from that commanded, m/s."""
    error = transition.motion.level_velocity - transition.command[:, :2]
    found: DoubleArray = np.linalg.norm(error, axis=1)
    return found


def tilt(transition: Transition) -> DoubleArray:
    """Return the angle between the base's vertical axis and the world's, degrees."""
    found: DoubleArray = np.degrees(transition.motion.tilt)
    return found
