"""A task is a scene plus named, pure terms over one transition of a batch."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gmc_bench.core.types import BoolArray, DoubleArray
from gmc_bench.sim.height_map import num_heights
from gmc_bench.sim.model import Scene
from gmc_bench.sim.terrain import BEYOND, CELLS_PER_METRE
from gmc_bench.tokens.spec import Parts


@dataclass(frozen=True, slots=True)
class Transition:
    """What terms may look at after one control step of B environments.

    Args:
        torso_before: (B, 3) float64, torso position before the step, m, world.
        torso_after: (B, 3) float64, the same after it.
        standing_height: (B,) float64, height of the torso above the ground when the body's
            lowest point touches it, m.
        ground_height: height of the ground under the torso after the step, m, world; one number
            where it is the same everywhere, else (B,) float64.
        control_dt: s.
        new_cells: (B,) float64, cells of the task's grid visited for the first time; zero for
            tasks without a grid.
        num_cells: (B,) float64, cells visited since the episode began; zero likewise.
    """

    torso_before: DoubleArray
    torso_after: DoubleArray
    standing_height: DoubleArray
    ground_height: DoubleArray | float
    control_dt: float
    new_cells: DoubleArray | float = 0.0
    num_cells: DoubleArray | float = 0.0


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


@dataclass(frozen=True, slots=True)
class MetricTerm:
    """A number that says how far an episode has come, for people to read."""

    name: str
    unit: str
    function: Callable[[Transition], DoubleArray]
    """Returns (B,) float64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class VisitGrid:
    """Cells that count when a torso stands on them for the first time."""

    low: tuple[float, float]
    """x and y where the grid begins, m, world."""
    shape: tuple[int, int]
    """Cells along x and along y."""
    cell_size: float
    """Side of a cell, m."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slope:
    """Ground that rises along x, as the cells of 0.1 m that its height is looked up in."""

    rise: float
    """Height gained per metre of x."""
    half_length: float
    """Its ends along x, m, world; beyond them and beside it the ground is at -10 m."""
    half_width: float
    """m."""

    def height(self, position: DoubleArray, height: float) -> DoubleArray:
        """Return the ground's height under places.

        Args:
            position: (B, 3) float64, m, world.
            height: of the ground at x = 0, m.

        Returns:
            (B,) float64, m: that of the low edge of the cell, rounded to millimetres.
        """
        x, y = position[:, 0], position[:, 1]
        inside = (np.abs(x) < self.half_length) & (np.abs(y) < self.half_width)
        low = np.floor(CELLS_PER_METRE * x) / CELLS_PER_METRE
        found: DoubleArray = np.where(inside, np.round(height + self.rise * low, 3), BEYOND)
        return found


@dataclass(frozen=True, kw_only=True)
class TaskBase:
    """What every kind of task says. A released task never changes its numbers."""

    id: str
    """Lower-case id with a version, e.g. `unimal-ft-v1`."""
    title: str
    description: str
    horizon: int = 1000
    """Control steps after which an episode is cut off."""
    source: str = ""
    metrics: tuple[MetricTerm, ...] = ()

    @property
    def num_heights(self) -> int:
        """G, numbers of the height map in observations; 0 for tasks without one."""
        return 0

    @property
    def parts(self) -> Parts:
        """What tokens stand for."""
        return "limbs"

    @property
    def reward_weights(self) -> dict[str, float]:
        """Weight of every reward term, by name."""
        raise NotImplementedError

    @property
    def termination_names(self) -> tuple[str, ...]:
        """Reasons that end an episode as a failure."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Task(TaskBase):
    """A task of limbs on some ground. A change of a released task is a new version."""

    scene: Scene
    rewards: tuple[RewardTerm, ...]
    terminations: tuple[TerminationTerm, ...]
    ground_height: float
    """Height of the floor's surface, m, world; at x = 0 where it slopes. Random terrain says
    itself how high the ground is."""
    floor_clearance: float = 0.2
    """Height of a body's lowest point above the floor at its start position, m."""
    reset_noise: float = 0.005
    """Half width of the uniform noise on every position and velocity coordinate at reset."""
    slope: Slope | None = None
    grid: VisitGrid | None = None

    @property
    def num_heights(self) -> int:
        """G, numbers of the height map in observations; 0 unless terrain is random."""
        return num_heights() if self.scene.terrain else 0

    @property
    def reward_weights(self) -> dict[str, float]:
        """Weight of every reward term, by name."""
        return {term.name: term.weight for term in self.rewards}

    @property
    def termination_names(self) -> tuple[str, ...]:
        """Reasons that end an episode as a failure."""
        return tuple(term.name for term in self.terminations)
