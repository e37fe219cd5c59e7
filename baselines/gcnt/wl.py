"""Weisfeiler-Lehman colours of limb trees, counted in bins."""

import numpy as np
import numpy.typing as npt

from gmc_bench.core.types import BoolArray, DoubleArray, IntArray

_Colours = npt.NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


def refine_colours(limb_type: IntArray, adjacency: BoolArray, rounds: int) -> _Colours:
    """Colour every limb by the tree around it.

    c_i <- mix(mix(c_i) + sum of mix(mix(c_j)) over the neighbours j of i), from c_i = limb type

    Limbs get the same colour if classical refinement, which writes the sorted colours of the
    neighbours side by side, cannot tell them apart, and otherwise with a chance of about 2**-64
    only (a collision of hashes). A sum does not depend on the order of neighbours, and fixed
    arithmetic gives the same colours in every process, for every set of bodies.

    Args:
        limb_type: (M, L) int64, first colours; anything in padding.
        adjacency: (M, L, L) bool, True between limbs that a joint or a closed loop connects;
            False from and to padding.
        rounds: refinements; limbs end up with the same colour if the trees within this many
            joints of them look the same.

    Returns:
        (M, L) uint64; anything in padding.

    Source:
        Weisfeiler and Leman 1968; the paper's use of it, Luo et al. 2025 (GCNT),
        arXiv:2505.15211. Differs: colours are hashed, not numbered. The hash is the output
        function of SplitMix64, Steele et al. 2014, doi:10.1145/2660193.2660195.
    """
    colours = limb_type.astype(np.uint64)
    for _ in range(rounds):
        own = _mix(colours)
        around = (adjacency * _mix(own)[:, None, :]).sum(axis=2)
        colours = _mix(own + around)
    return colours


def colour_histogram(
    limb_type: IntArray, adjacency: BoolArray, *, rounds: int, bins: int
) -> DoubleArray:
    """Count the colours of every body after the last round of refinement.

    Args:
        limb_type: (M, L) int64, first colours; negative in padding.
        adjacency: (M, L, L) bool, True between neighbours.
        rounds: refinements.
        bins: counters; a colour goes to the one of its remainder.

    Returns:
        (M, bins) float64, shares of a body's limbs; each row adds up to 1.
    """
    bin_of = (refine_colours(limb_type, adjacency, rounds) % np.uint64(bins)).astype(np.int64)
    hits = bin_of[..., None] == np.arange(bins)  # (M, L, bins)
    real = limb_type >= 0
    counts: DoubleArray = (hits & real[..., None]).sum(axis=1) / real.sum(axis=1, keepdims=True)
    return counts


def _mix(values: _Colours) -> _Colours:
    """Return one well mixed number per number, modulo 2**64."""
    values = values + _GAMMA
    values = (values ^ (values >> _SHIFTS[0])) * _FACTORS[0]
    values = (values ^ (values >> _SHIFTS[1])) * _FACTORS[1]
    return values ^ (values >> _SHIFTS[2])
