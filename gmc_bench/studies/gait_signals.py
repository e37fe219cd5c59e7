"""Phases and periods of joint angles."""

import numpy as np

from gmc_bench.core.types import DoubleArray

STILL = 0.01
"""Standard deviation of an angle, rad; below it a joint counts as unmoved and has no phase."""
_FIRST_PEAK = 0.9  # of the highest peak; a multiple of the stride correlates as well


def joint_phases(angles: DoubleArray) -> DoubleArray:
    """Return where each joint is in its cycle.

    The phase is the argument of the analytic signal of the centred angle, a(t) - mean(a): 0 where
    the angle is greatest, pi where it is smallest. Near both ends it is less exact.

    Args:
        angles: (T, J) float64, rad.

    Returns:
        (T, J) float64, rad, from -pi to pi; NaN for joints that do not move, see `STILL`.
    """
    from scipy.signal import hilbert

    centred = angles - angles.mean(axis=0)
    phases: DoubleArray = np.angle(hilbert(centred, axis=0))
    phases[:, angles.std(axis=0) < STILL] = np.nan
    return phases


def autocorrelation(values: DoubleArray) -> DoubleArray:
    """Return the autocorrelation of a motion, over all of its columns together.

    With x the values less their mean over time, and both sums over t and over the columns j,

        R(k) = sum x_{t,j} x_{t+k,j} / sqrt(sum x_{t,j}^2 sum x_{t+k,j}^2),   t = 0 ... T - k - 1

    Args:
        values: (T, J) float64.

    Returns:
        (T // 2 + 1,) float64, R of the lags 0 to T // 2; 0 where nothing moves.
    """
    x = values - values.mean(axis=0)
    count = len(x)
    found = np.zeros(count // 2 + 1)
    for lag in range(len(found)):
        early, late = x[: count - lag], x[lag:]
        size = np.sqrt((early**2).sum() * (late**2).sum())
        found[lag] = (early * late).sum() / size if size > 0.0 else 0.0
    return found


def stride_lag(angles: DoubleArray, longest: float) -> float:
    """Return the length of a stride in steps: the period of the joint that moves most.

    Of the peaks of this joint's autocorrelation after its first fall below zero, and up to the
    longest stride or half of the time, it is the first that reaches 0.9 times the highest; a
    parabola through its neighbours gives the fraction.

    Args:
        angles: (T, J) float64, rad.
        longest: steps; what repeats itself more slowly is drift, not a stride.

    Returns:
        Control steps; NaN without a joint that moves, or without such a peak.
    """
    spread = angles.std(axis=0) if angles.size else np.zeros(0)
    if not len(spread) or spread.max() < STILL:
        return float("nan")
    most = int(spread.argmax())
    curve = autocorrelation(angles[:, most : most + 1])
    low = np.flatnonzero(curve < 0.0)
    inner = np.arange(1, min(len(curve) - 1, int(longest) + 1))
    peak = (curve[inner] > curve[inner - 1]) & (curve[inner] >= curve[inner + 1])
    peaks = inner[peak & (inner > (low[0] if len(low) else len(curve))) & (curve[inner] > 0.0)]
    if not len(peaks):
        return float("nan")
    first = int(peaks[curve[peaks] >= _FIRST_PEAK * curve[peaks].max()][0])
    before, top, after = curve[first - 1 : first + 2].tolist()
    return float(first + 0.5 * (before - after) / (before - 2 * top + after))
