"""Reward terms: pure functions of a transition, (B,) float64."""

from gmc_bench.tasks.spec import Transition
from gmc_bench.types import DoubleArray


def forward_velocity(transition: Transition) -> DoubleArray:
    """Return the mean speed of the torso along world x over the step, m/s."""
    moved = transition.torso_after[:, 0] - transition.torso_before[:, 0]
    velocity: DoubleArray = moved / transition.control_dt
    return velocity
