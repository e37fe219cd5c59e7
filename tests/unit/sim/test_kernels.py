import numpy as np
import pytest

from gmc_bench.sim import kernels

MASK = 2**64 - 1


def _rotate(x, k):
    return ((x << k) | (x >> (64 - k))) & MASK


def _xoshiro256pp(state):
    """Yield 64-bit outputs of xoshiro256++ in plain Python integers."""
    a, b, c, d = state
    while True:
        yield (_rotate((a + d) & MASK, 23) + a) & MASK
        shifted = (b << 17) & MASK
        c ^= a
        d ^= b
        b ^= c
        a ^= d
        c ^= shifted
        d = _rotate(d, 45)


def _draw(state, count):
    return np.array([kernels.next_uniform(state) for _ in range(count)])


def test_plain_generator_gives_the_published_numbers():
    # First outputs of the authors' C code (prng.di.unimi.it/xoshiro256plusplus.c).
    outputs = _xoshiro256pp((1, 2, 3, 4))
    expected = [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205]
    assert [next(outputs) for _ in range(5)] == expected


@pytest.mark.parametrize(
    "state", [(1, 2, 3, 4), (MASK, 0, 0, 1), (0x0123456789ABCDEF, 2**63, 0xDEADBEEF, MASK - 5)]
)
def test_stream_equals_plain_integers(state):
    stream, outputs = np.array(state, np.uint64), _xoshiro256pp(state)
    expected = [(next(outputs) >> 11) / 2**53 for _ in range(2000)]
    np.testing.assert_array_equal(_draw(stream, 2000), expected)


def test_numbers_are_uniform():
    numbers = _draw(np.array([5, 6, 7, 8], np.uint64), 100_000)[100:]
    assert numbers.min() >= 0.0
    assert numbers.max() < 1.0
    # Standard errors: 0.00091 of the mean and 0.00024 of the variance.
    assert numbers.mean() == pytest.approx(0.5, abs=0.004)
    assert numbers.var() == pytest.approx(1 / 12, abs=0.001)
    shares = np.histogram(numbers, bins=20, range=(0, 1))[0] / len(numbers)
    np.testing.assert_allclose(shares, 0.05, atol=0.003)
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.013


def test_rows_draw_from_their_own_streams():
    streams = np.arange(1, 17, dtype=np.uint64).reshape(4, 4)
    twin = streams.copy()
    out = np.empty((2, 2))
    kernels.draw_uniform(streams, np.array([3, 1]), out)
    expected = [[kernels.next_uniform(twin[row]) for _ in range(2)] for row in (3, 1)]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(streams, twin)  # rows 0 and 2 have not moved
