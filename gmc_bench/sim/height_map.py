"""Cells around the torso that a height map shows.

Source:
    Gupta et al. 2022 (MetaMorph), arXiv:2203.11931: cells are the denser the nearer they are.
"""

from functools import cache

import numpy as np

from gmc_bench.core.types import IntArray

REACH_BEHIND = 10  # cells of 0.1 m
REACH = 40  # cells to the front, to the left and to the right


@cache
def height_map_offsets() -> tuple[IntArray, IntArray]:
    """Return the offsets of a height map's cells from the torso's cell, in the torso's heading.

    Returns:
        To the left, (47,) int64 from 40 down to -40, and to the front, (30,) int64 from -10 up
        to 40. A height map is their product, row after row: left to right, each from behind to
        the front.
    """
    front = np.array(sorted({-n for n in _spread(REACH_BEHIND)} | _spread(REACH)), np.int64)
    side = _spread(REACH)
    left = np.array(sorted({-n for n in side} | side, reverse=True), np.int64)
    return left, front


def num_heights() -> int:
    """Return G, the numbers of a height map: 47 x 30 = 1410."""
    left, front = height_map_offsets()
    return len(left) * len(front)


def _spread(reach: int) -> set[int]:
    """Return distances from 0 to `reach`, an exponential quantile each."""
    quantiles = -np.log(1.0 - np.arange(reach) / reach)
    return {int(distance) for distance in quantiles / quantiles[-1] * reach}
