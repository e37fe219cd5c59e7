"""A task is a scene plus named, pure terms over one transition of a batch."""

from collections.abc import Callable
from dataclasses import dataclass

from gmc_bench.sim.model import Scene
from gmc_bench.types import BoolArray, DoubleArray


@dataclass(frozen=True, slots=True)
class Transition:
    """What terms may look at after one control step of B environments.

    Args:
        torso_before: (B, 3) float64, torso position before the step, m, world.
        torso_after: (B, 3) float64, the same after it.
        standing_height: (B,) float64, height of the torso above the ground when the body's
            lowest point touches it, m.
        ground_height: height of the floor's surface, m, world.
        control_dt: s.
    """

    torso_before: DoubleArray
    torso_after: DoubleArray
    standing_height: DoubleArray
    ground_height: float
    control_dt: float


@dataclass(frozen=True, slots=True)
class RewardTerm:
    """A weighted part of the reward."""

    name: str
    weight: float
    function: Callable[[Transition], DoubleArray]
    """Returns (B,) float64, unweighted."""


@dataclass(frozen=True, slots=True)
class TerminationTerm:
    """A condition that ends an episode as a failure."""

    name: str
    function: Callable[[Transition], BoolArray]
    """Returns (B,) bool."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. A released task never changes its numbers: a change is a new version."""

    id: str
    """Lower-case id with a version, e.g. `unimal-ft-v1`."""
    title: str
    description: str
    scene: Scene
    rewards: tuple[RewardTerm, ...]
    terminations: tuple[TerminationTerm, ...]
    ground_height: float
    """Height of the floor's surface, m, world."""
    floor_clearance: float = 0.2
    """Height of a body's lowest point above the floor at its start position, m."""
    horizon: int = 1000
    """Control steps after which an episode is cut off."""
    reset_noise: float = 0.005
    """Half width of the uniform noise on every position and velocity coordinate at reset."""
    source: str = ""
