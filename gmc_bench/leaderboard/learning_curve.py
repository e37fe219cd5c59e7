"""Learning curves of the runs of one row on common env steps: their mean and their area."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gmc_bench.core.types import DoubleArray, IntArray
from gmc_bench.leaderboard.statistics import Estimate, mean, run_interval, t_quantile
from gmc_bench.records.schema import CurvePoint

MAX_POINTS = 200
"""Of a drawn line; more than a width of about 600 pixels shows."""


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean learning curve of a row's runs and its interval over runs, point by point."""

    env_steps: IntArray
    """(G,), rising: every step at which some run has a point, where all runs have a value."""
    mean: DoubleArray
    """(G,), mean over runs of the mean training return."""
    low: DoubleArray | None
    """(G,); `None`, as `high`, for a single run."""
    high: DoubleArray | None


def thinned(count: int) -> IntArray:
    """Return at most 200 of so many places, evenly spaced, with the first and the last."""
    kept: IntArray = np.linspace(0, count - 1, min(count, MAX_POINTS)).round().astype(np.int64)
    return kept


def common_curves(curves: Sequence[Sequence[CurvePoint]]) -> tuple[IntArray, DoubleArray]:
    """Put the learning curves of several runs on the same env steps by linear interpolation.

    Points without a mean return are skipped. The common part starts at the largest first step
    with a value and ends at the smallest last one; nothing is extrapolated.

    Args:
        curves: R runs, each by rising env steps.

    Returns:
        Env steps (G,): all steps of all runs in the common part; and returns there, (R, G). G is 0
        where the runs have no part in common.
    """
    found = [
        [(item.env_steps, item.mean_return) for item in curve if item.mean_return is not None]
        for curve in curves
    ]
    if not all(found):
        return np.empty(0, dtype=np.int64), np.empty((len(curves), 0))
    points = [np.array(run, dtype=np.float64) for run in found]  # (points, 2) each
    start, end = max(run[0, 0] for run in points), min(run[-1, 0] for run in points)
    steps = np.unique(np.concatenate([run[:, 0] for run in points]))
    steps = steps[(steps >= start) & (steps <= end)]
    lines = [np.interp(steps, run[:, 0], run[:, 1]) for run in points]
    return steps.astype(np.int64), np.array(lines)


def curve_area(env_steps: IntArray, curves: DoubleArray) -> Estimate | None:
    """Return the area under the curves divided by the env steps they cover.

    This is the mean return over training, by the trapezoid rule, averaged over runs.

    Args:
        env_steps: (G,), rising.
        curves: (R, G).

    Returns:
        The mean over runs with its interval; `None` for fewer than two points.
    """
    if len(env_steps) < 2:
        return None
    widths = np.diff(env_steps) / (env_steps[-1] - env_steps[0])
    areas = (curves[:, 1:] + curves[:, :-1]) / 2.0 @ widths
    return run_interval(areas[:, None], mean)


def mean_curve(env_steps: IntArray, curves: DoubleArray) -> Curve | None:
    """Return the mean over runs, (R, G) -> (G,), with pointwise t-intervals; `None` if G is 0."""
    if not len(env_steps):
        return None
    middle, runs = curves.mean(axis=0), len(curves)
    if runs < 2:
        return Curve(env_steps, middle, None, None)
    half = t_quantile(runs - 1) * curves.std(axis=0, ddof=1) / np.sqrt(runs)
    return Curve(env_steps, middle, middle - half, middle + half)
