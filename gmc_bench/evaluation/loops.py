"""Residuals of closed loops during an evaluation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.types import DoubleArray, FloatArray, IntArray
from gmc_bench.envs.core import EnvironmentCore, StepResult
from gmc_bench.evaluation.evaluate import Observer

NUM_BINS = 240
_LOWEST, _HIGHEST = 1e-6, 1e2
"""Shares of limb length between which the histogram of residuals has its bins; what lies beyond is
counted with the outermost bins. Each bin is 8 % wider than the one below it."""
_EDGES = np.geomspace(_LOWEST, _HIGHEST, NUM_BINS + 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class LoopResidual:
    """Residuals of all closed loops of one body: gap as a share of the shorter limb's length.

    `median` and `percentile_99_9` are the upper edges of the bins they lie in, but never above
    `largest`: between 1e-6 and 100 at most 8 % too large. What is smaller counts as 1.08e-6 at
    most, what is larger as 100.
    """

    largest: float
    median: float
    percentile_99_9: float
    largest_angle: float
    """Of welds, rad; 0 without any."""
    opened: int
    """How often a loop came open by more than `OPEN`."""
    samples: int
    """Control steps counted, times the loops of the body."""


class LoopMonitor(Observer):
    """Counts residuals at every control step.

    Episodes that have diverged say nothing of loops and are not counted in their last step.

    Args:
        num_bodies: M, bodies evaluated.
    """

    def __init__(self, num_bodies: int) -> None:
        self.counts: IntArray = np.zeros((num_bodies, NUM_BINS), np.int64)
        """(M, NUM_BINS) int64, residuals of each body by bin."""
        self.largest: DoubleArray = np.zeros((num_bodies, 2))
        """(M, 2) float64, largest share and largest angle, rad."""
        self.opened: IntArray = np.zeros(num_bodies, np.int64)
        """(M,) int64, events."""

    def stepped(
        self, core: EnvironmentCore, numbers: IntArray, actions: FloatArray, step: StepResult
    ) -> None:
        """Count one control step of all rows that have an episode."""
        if step.loops_opened is None:
            return
        rows = np.flatnonzero((numbers >= 0) & ~step.diverged)
        bodies = core.morphology_index[rows]
        assert core.table.loops is not None
        row, loop = np.nonzero(core.table.loops[bodies, :, 0] >= 0)
        found = core.simulator.loop_residual[rows[row], loop]
        bins = np.clip(np.searchsorted(_EDGES, found[:, 0]) - 1, 0, NUM_BINS - 1)
        np.add.at(self.counts, (bodies[row], bins), 1)
        np.maximum.at(self.largest, bodies[row], found)
        np.add.at(self.opened, bodies, step.loops_opened[rows])

    def residual(self, body: int) -> LoopResidual | None:
        """Return what was found on a body; `None` if it has no loops or was not seen."""
        samples = int(self.counts[body].sum())
        if not samples:
            return None
        largest, angle = self.largest[body].tolist()
        return LoopResidual(
            largest=largest,
            median=min(self._quantile(body, 0.5), largest),
            percentile_99_9=min(self._quantile(body, 0.999), largest),
            largest_angle=angle,
            opened=int(self.opened[body]),
            samples=samples,
        )

    def _quantile(self, body: int, share: float) -> float:
        running = np.cumsum(self.counts[body])
        place = int(np.searchsorted(running, math.ceil(share * int(running[-1]))))
        return float(_EDGES[place + 1])


def make_loop_monitor(bodies: Sequence[Morphology]) -> LoopMonitor | None:
    """Return a monitor of an evaluation of bodies, or `None` if none of them has a loop."""
    with_loops = any(getattr(body, "loops", ()) for body in bodies)
    return LoopMonitor(len(bodies)) if with_loops else None
