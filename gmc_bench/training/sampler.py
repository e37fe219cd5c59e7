"""Sampler of the bodies that environments host next."""

from collections.abc import Iterable

import numpy as np

from gmc_bench.core.types import Array, DoubleArray, IntArray


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

    The typical episode length of a body is the mean of its first ten episodes, or of as many as it
    has finished, then an exponential moving average. A body that has finished none counts like the
    average of those that have: counted with the horizon, which gives the lowest weight there is,
    it would be drawn least of all. (The public code crashes below ten episodes.)

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
        known = self._count > 0
        if iteration < self.warmup_iterations or not known.any():
            length = np.full_like(self._length, float(self.horizon))
        else:
            length = np.where(known, self._length, self._length[known].mean())
        return sampling_probabilities(length, self.horizon, self.alpha)

    def get_state(self) -> dict[str, Array]:
        """Return the statistics as arrays."""
        return {"count": self._count, "length": self._length}

    def set_state(self, state: dict[str, Array]) -> None:
        """Take over the statistics of `get_state`."""
        self._count = state["count"].copy()
        self._length = state["length"].copy()


class ReturnTracker:
    """Online training return: mean over bodies of the mean of each body's latest episodes.

    Counted are the episodes that finished in the last iterations, the present one included, so
    that the number belongs to the policy of that time however many episodes a body had. A body
    that finished none of them counts with its last one.

    Args:
        num_morphologies: M.
        num_iterations: K, iterations whose episodes count.
    """

    def __init__(self, num_morphologies: int, num_iterations: int) -> None:
        self._sums: DoubleArray = np.zeros((num_iterations, num_morphologies, 3))
        """(K, M, 3) float64: episodes, sum of returns and of lengths; a ring buffer."""
        self._last: DoubleArray = np.full((num_morphologies, 2), np.nan)
        """(M, 2) float64: return and length of the last episode."""
        self._place = 0
        self._means: DoubleArray | None = None

    def begin_iteration(self) -> None:
        """Start to count for a new iteration, in place of the oldest."""
        self._place = (self._place + 1) % len(self._sums)
        self._sums[self._place] = 0.0
        self._means = None

    def record(
        self,
        morphology_index: Iterable[int],
        episode_return: Iterable[float],
        episode_length: Iterable[int],
    ) -> None:
        """Take note of finished episodes, in order."""
        index = np.array(list(morphology_index), np.int64)
        values = np.array([list(episode_return), list(episode_length)], np.float64).T
        np.add.at(self._sums[self._place], index, np.insert(values, 0, 1.0, axis=1))
        self._last[index] = values
        self._means = None

    def mean_return(self, *, complete: bool) -> float | None:
        """Return the training return.

        Args:
            complete: whether every body must have finished an episode; otherwise the mean is over
                those that have.

        Returns:
            `None` where too few bodies have finished one.
        """
        return self._mean(0, complete)

    def mean_length(self, *, complete: bool) -> float | None:
        """Return the same mean for episode lengths, in control steps."""
        return self._mean(1, complete)

    @property
    def body_returns(self) -> DoubleArray:
        """(M,) float64, the mean of each body's latest episodes; NaN where none has finished."""
        return self._body_means()[:, 0]

    def _mean(self, column: int, complete: bool) -> float | None:
        means = self._body_means()
        seen = ~np.isnan(self._last[:, column])
        if not seen.any() or (complete and not seen.all()):
            return None
        return float(means[seen, column].mean())

    def _body_means(self) -> DoubleArray:
        if self._means is None:
            total = self._sums.sum(axis=0)
            count = total[:, :1]
            self._means = np.where(count > 0, total[:, 1:] / np.maximum(count, 1.0), self._last)
        return self._means

    def get_state(self) -> dict[str, Array]:
        """Return everything as arrays."""
        return {"sums": self._sums, "last": self._last, "place": np.array(self._place)}

    def set_state(self, state: dict[str, Array]) -> None:
        """Take over the state of a tracker of as many bodies and iterations."""
        self._sums, self._last = state["sums"].copy(), state["last"].copy()
        self._place, self._means = int(state["place"]), None
