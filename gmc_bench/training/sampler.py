"""Sampler of the bodies that environments host next."""

from collections import deque
from collections.abc import Iterable

import numpy as np

from gmc_bench.core.types import Array, BoolArray, DoubleArray, IntArray


def sampling_probabilities(episode_length: DoubleArray, horizon: int, alpha: float) -> DoubleArray:
    """Return how often each body should be drawn so that all get equally many steps.

    Formula:
        p_k proportional to (horizon / L_k)^alpha

    Args:
        episode_length: (M,) float64, typical episode length L_k of each body; use `horizon`
            where it is unknown.
        horizon: longest episode.
        alpha: 0 draws uniformly, 1 balances the number of steps.

    Source:
        Gupta et al. 2022 (MetaMorph), arXiv:2203.11931, dynamic replay buffer balancing.
    """
    weight = (horizon / np.maximum(episode_length, 1.0)) ** alpha
    probabilities: DoubleArray = weight / weight.sum()
    return probabilities


class BalancedSampler:
    """Draws bodies so that each contributes about equally many steps.

    The typical episode length of a body is the mean of its first ten episodes, then an
    exponential moving average; bodies with fewer finished episodes count with the full horizon
    (the public code crashes there).

    Args:
        num_morphologies: M.
        horizon: longest episode.
        alpha: strength, see `sampling_probabilities`.
        warmup_iterations: iterations with uniform drawing.

    Source:
        Gupta et al. 2022 (MetaMorph), arXiv:2203.11931; agrimgupta92/metamorph.
    """

    FIRST = 10
    """Episodes whose mean starts the moving average."""
    DECAY = 0.9
    """Weight of the old value in the moving average."""

    def __init__(
        self, num_morphologies: int, horizon: int, alpha: float, warmup_iterations: int
    ) -> None:
        self.horizon = horizon
        self.alpha = alpha
        self.warmup_iterations = warmup_iterations
        self._count: IntArray = np.zeros(num_morphologies, np.int64)
        self._length: DoubleArray = np.zeros(num_morphologies)

    def record(self, morphology_index: Iterable[int], episode_length: Iterable[int]) -> None:
        """Take note of finished episodes, in order."""
        for index, length in zip(morphology_index, episode_length, strict=True):
            seen = self._count[index]
            if seen < self.FIRST:
                self._length[index] += (length - self._length[index]) / (seen + 1)
            else:
                self._length[index] = self.DECAY * self._length[index] + (1 - self.DECAY) * length
            self._count[index] = seen + 1

    def probabilities(self, iteration: int) -> DoubleArray:
        """Return the drawing probabilities (M,) for an iteration, counted from 0."""
        known = self._count >= self.FIRST
        length = np.where(known, self._length, float(self.horizon))
        if iteration < self.warmup_iterations:
            length = np.full_like(length, float(self.horizon))
        return sampling_probabilities(length, self.horizon, self.alpha)

    def get_state(self) -> dict[str, Array]:
        """Return the statistics as arrays."""
        return {"count": self._count, "length": self._length}

    def set_state(self, state: dict[str, Array]) -> None:
        """Take over the statistics of `get_state`."""
        self._count = state["count"].copy()
        self._length = state["length"].copy()


class ReturnTracker:
    """Online training return: mean over bodies of the mean of each body's last episodes.

    Args:
        num_morphologies: M.
    """

    WINDOW = 10
    """Episodes per body, as in the public code."""

    def __init__(self, num_morphologies: int) -> None:
        self._returns = _Windows(num_morphologies, self.WINDOW)
        self._lengths = _Windows(num_morphologies, self.WINDOW)

    def record(
        self,
        morphology_index: Iterable[int],
        episode_return: Iterable[float],
        episode_length: Iterable[int],
    ) -> None:
        """Take note of finished episodes, in order."""
        for index, value, length in zip(
            morphology_index, episode_return, episode_length, strict=True
        ):
            self._returns.add(index, float(value))
            self._lengths.add(index, float(length))

    @property
    def bodies_seen(self) -> int:
        """Bodies with at least one finished episode."""
        return self._returns.num_filled

    def mean_return(self, *, complete: bool) -> float | None:
        """Return the training return.

        Args:
            complete: `None` unless every body has a finished episode; otherwise the mean is
                over the bodies that have one.
        """
        return self._returns.mean(complete=complete)

    def mean_length(self, *, complete: bool) -> float | None:
        """Return the same mean for episode lengths, in control steps."""
        return self._lengths.mean(complete=complete)

    def get_state(self) -> dict[str, Array]:
        """Return the windows as float64 arrays (M, WINDOW), padded with NaN at the end."""
        return {"returns": self._returns.to_array(), "lengths": self._lengths.to_array()}

    def set_state(self, state: dict[str, Array]) -> None:
        """Take over the windows of `get_state`."""
        self._returns.load(state["returns"])
        self._lengths.load(state["lengths"])


class _Windows:
    """The last values of every body.

    Means are asked for several times per iteration, and most bodies of a large set have no new
    value then: the mean of a body is kept until it gets one.

    Args:
        count: M, bodies.
        width: values kept of each.
    """

    def __init__(self, count: int, width: int) -> None:
        self._values: list[deque[float]] = [deque(maxlen=width) for _ in range(count)]
        self._width = width
        self._means: DoubleArray = np.zeros(count)
        self._filled: BoolArray = np.zeros(count, np.bool_)
        self._changed: set[int] = set()

    @property
    def num_filled(self) -> int:
        """Bodies with a value."""
        return int(self._filled.sum())

    def add(self, index: int, value: float) -> None:
        """Take note of a value; the oldest of a full window is forgotten."""
        self._values[index].append(value)
        self._filled[index] = True
        self._changed.add(index)

    def mean(self, *, complete: bool) -> float | None:
        """Return the mean over bodies with a value of the means of their windows."""
        if not self._filled.any() or (complete and not self._filled.all()):
            return None
        for index in self._changed:
            self._means[index] = np.mean(self._values[index])
        self._changed.clear()
        return float(np.mean(self._means[self._filled]))

    def to_array(self) -> DoubleArray:
        """Return (M, width) float64, padded with NaN at the end."""
        padded = np.full((len(self._values), self._width), np.nan)
        for row, window in enumerate(self._values):
            padded[row, : len(window)] = list(window)
        return padded

    def load(self, padded: DoubleArray) -> None:
        """Take over what `to_array` returned."""
        self._values = [deque(row[~np.isnan(row)].tolist(), maxlen=self._width) for row in padded]
        self._means = np.zeros(len(padded))
        self._filled = np.array([bool(window) for window in self._values], np.bool_)
        self._changed = set(np.flatnonzero(self._filled).tolist())
