"""Sensor dropout: one limb of every body shows the policy nothing but zeros.

Source:
    The RecMorph paper evaluates with one random limb unseen for the whole execution. What it
    leaves open is decided here: never the torso, all features as the network sees them, masks
    and limb tree unchanged.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.types import IntArray


def draw_silent_limbs(morphologies: Sequence[Morphology], seed: int) -> IntArray:
    """Choose the limb of each body that is not seen.

    The choice follows from the seed and the body's content alone, so that it is the same for all
    methods, modes and sets.

    Args:
        morphologies: M bodies.
        seed: of the evaluation.

    Returns:
        (M,) int64, index of the limb, which is also its token; never 0, the torso.
    """
    return np.array([_draw(body, seed) for body in morphologies], np.int64)


def _draw(body: Morphology, seed: int) -> int:
    key = hashlib.sha256(f"sensor-dropout/{seed}/{body.digest}".encode()).digest()
    rng = np.random.default_rng(int.from_bytes(key[:16]))
    return int(rng.integers(1, body.num_limbs))
