"""Draws from a discrete distribution in a time that does not grow with its size."""

import numpy as np

from gmc_bench.core.types import DoubleArray, IntArray
from gmc_bench.sim import kernels


class GuideTable:
    """Maps numbers in [0, 1) to indices, each as often as its probability says.

    The index of u is the smallest one with u < p_0 + ... + p_i, as a binary search would find it,
    to the bit. A guide table says where to begin, one entry for each of M equal parts of [0, 1);
    from there less than two steps are needed on average, whatever M and the probabilities are.

    Args:
        probabilities: (M,) float64, zero or positive, summing to about one.

    Source:
        Chen and Asau 1974, On generating random variates from an empirical distribution, AIIE
        Transactions 6(2) (indexed search).
    """

    def __init__(self, probabilities: DoubleArray) -> None:
        cumulative = np.cumsum(probabilities)
        # The last entry becomes exactly 1, so that no number below 1 lies beyond it.
        self._cumulative: DoubleArray = cumulative / cumulative[-1]
        parts = np.arange(len(probabilities)) / len(probabilities)
        self._guide: IntArray = np.searchsorted(self._cumulative, parts, "right")

    def find(self, uniform: DoubleArray) -> IntArray:
        """Return the indices (K,) int64 of numbers (K,) float64 in [0, 1)."""
        found: IntArray = np.empty(len(uniform), np.int64)
        kernels.find_indices(self._cumulative, self._guide, uniform, found)
        return found
