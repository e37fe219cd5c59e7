"""Linear probes: what a linear map reads from features, on held-out control steps."""

import warnings
from collections.abc import Sequence

import numpy as np

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import BoolArray, FloatArray, IntArray

MAX_ROWS = 20_000
"""Rows that a probe is fitted to, and as many that it is tested on."""
_TEST_SHARE = 3  # the last third of the time is held out
_GAP_SHARE = 15  # a fifteenth of the time in front of it is used by neither side
_LOGISTIC_PENALTY = 1e-4  # half of it times the squared weights, beside the mean loss per row
_LOGISTIC_ITERATIONS = 300  # enough to converge with representations of trained policies
_RIDGE_PENALTY = 1e-3  # times the squared weights, beside the mean squared error per row


def split_by_time(step: IntArray, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Split rows into a first and a last part of the time, with a gap in between.

    Args:
        step: (N,) int64, the time of each row.
        rng: draws `MAX_ROWS` rows of either side where there are more.

    Returns:
        Rows to fit to and rows to test on, in ascending order.

    Raises:
        ConfigError: one side is empty.
    """
    start, length = step.min(), step.max() + 1 - step.min()
    held_out = start + length - length // _TEST_SHARE
    sides = (step < held_out - length // _GAP_SHARE, step >= held_out)
    found = [np.flatnonzero(side) for side in sides]
    if not all(map(len, found)):
        raise ConfigError(
            f"probes hold out the last third of the control steps, which needs at least 3 steps, "
            f"got {len(np.unique(step))}; collect more"
        )
    train, test = (np.sort(rng.permutation(rows)[:MAX_ROWS]) for rows in found)
    return train, test


def standardised(fitted: FloatArray, *others: FloatArray) -> list[FloatArray]:
    """Standardise all arrays by the mean and standard deviation over rows of the first.

    Channels that are constant in the first array are only shifted.
    """
    mean = fitted.mean(axis=0, dtype=np.float64)
    spread = fitted.std(axis=0, dtype=np.float64)
    constant = spread <= 1e-6 * np.abs(mean) + 1e-12  # but for rounding
    spread = np.where(constant, 1.0, spread)
    return [((part - mean) / spread).astype(np.float32) for part in (fitted, *others)]


def balanced_accuracy(inputs: Sequence[FloatArray], known: IntArray, asked: IntArray) -> float:
    """Return the mean recall over classes of a multinomial logistic regression.

    Args:
        inputs: features to fit to (N, W) and to test on (K, W).
        known: (N,) int64, classes to fit to.
        asked: (K,) int64, classes to test on.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import balanced_accuracy_score

    fit = LogisticRegression(
        C=1.0 / (_LOGISTIC_PENALTY * len(known)), max_iter=_LOGISTIC_ITERATIONS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the same limit for all, on purpose
        fit.fit(inputs[0], known)
    return float(balanced_accuracy_score(asked, fit.predict(inputs[1])))


def explained_variance(
    inputs: Sequence[FloatArray], targets: Sequence[FloatArray], active: Sequence[BoolArray]
) -> float:
    """Return R2 of ridge regressions, one per target, pooled over targets.

    Targets are standardised on the rows that are fitted to; R2 = 1 - sum of squared errors / sum of
    squared distances from the mean of the rows that are tested on.

    Args:
        inputs: features to fit to (N, W) and to test on (K, W).
        targets: (N, J) and (K, J).
        active: (N, J) and (K, J) bool, False where a target does not count.

    Raises:
        ConfigError: no target varies.
    """
    from sklearn.linear_model import Ridge

    residual = total = 0.0
    for number in range(targets[0].shape[1]):
        rows = [part[:, number] for part in active]
        if not all(part.any() for part in rows):
            continue
        train, test = (part[row] for part, row in zip(inputs, rows, strict=True))
        known, asked = standardised(
            *(part[row, number] for part, row in zip(targets, rows, strict=True))
        )
        found = Ridge(alpha=_RIDGE_PENALTY * len(known)).fit(train, known).predict(test)
        residual += float(np.square(asked - found, dtype=np.float64).sum())
        total += float(np.square(asked - asked.mean(dtype=np.float64), dtype=np.float64).sum())
    if not total:
        raise ConfigError(
            "the probed actions do not vary, so there is nothing to explain; use a trained policy"
        )
    return 1.0 - residual / total
