import numpy as np

from gmc_bench.sim.height_map import height_map_offsets, num_heights

FRONT = [
    -10, -6, -5, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 20, 22,
    24, 28, 32, 40,
]  # fmt: skip
SIDE = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 20, 22, 24, 28, 32, 40]


def test_the_offsets_are_the_published_ones():
    left, front = height_map_offsets()
    np.testing.assert_array_equal(front, FRONT)
    np.testing.assert_array_equal(left, [*reversed(SIDE), *(-n for n in SIDE[1:])])
    assert num_heights() == 47 * 30 == 1410
