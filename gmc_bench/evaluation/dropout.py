"""Sensor dropout: one limb of every body shows the policy nothing but zeros.

Source:
    The RecMorph paper evaluates with one random limb unseen for the whole execution. What it
    leaves open is decided here: never the torso, all features as the network sees them, masks
    and limb tree unchanged.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.types import FloatArray, IntArray
from gmc_bench.nn.tokens import TokenTable


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


def silence_context(table: TokenTable, silent_limbs: IntArray) -> TokenTable:
    """Return a table whose silent limbs have zeros in place of the features fixed by the body.

    Args:
        table: of M bodies, normalised.
        silent_limbs: (M,) int64, a limb of each body.
    """
    context, scaled = table.context.clone(), table.scaled_context.clone()
    limbs = torch.from_numpy(silent_limbs).to(context.device)
    rows = torch.arange(len(table), device=context.device)
    context[rows, limbs] = 0.0
    scaled[rows, limbs] = 0.0
    return replace(table, context=context, scaled_context=scaled)


def silence_dynamic(dynamic: FloatArray, silent_limbs: IntArray) -> None:
    """Set the time-varying features of silent limbs to zero, in place.

    Args:
        dynamic: (B, L, Fd) float32, normalised.
        silent_limbs: (B,) int64, the limb of each row's body.
    """
    dynamic[np.arange(len(dynamic)), silent_limbs] = 0.0
