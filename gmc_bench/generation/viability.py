"""Viability of random bodies: a search over open-loop gaits for those worth training.

Most random bodies topple whatever they do. A body passes when some sinusoidal gait carries it
forward without falling and a fair share of all gaits keeps it up.
"""

import math
from dataclasses import dataclass

import mujoco
import numpy as np

from gmc_bench.bodies.clearance import CLEARANCE, FALL_RATIO
from gmc_bench.bodies.mjcf import SIM_DT, compile_body, has_warned, mute_warnings
from gmc_bench.bodies.mjcf_writer import FLAT_GROUND, FLAT_HEIGHT
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.types import DoubleArray

CONTROL_DT = 0.02
"""Time between two controls, s, as in the tasks."""
NUM_GAITS = 48
DURATION = 4.0  # s
MIN_DISTANCE = 0.5  # m, forward, by a gait that does not fall
MIN_SURVIVING_SHARE = 0.1

_FREQUENCIES = (0.5, 3.0)  # Hz
_AMPLITUDES = (0.3, 1.0)  # of the full control


@dataclass(frozen=True, slots=True)
class Viability:
    """What the gaits of one body did."""

    best_distance: float
    """Largest forward distance of a gait that did not fall, m; 0 when all fell."""
    surviving_share: float
    """Share of the gaits that did not fall."""

    @property
    def passed(self) -> bool:
        """Whether the body is worth training."""
        return self.best_distance >= MIN_DISTANCE and self.surviving_share >= MIN_SURVIVING_SHARE


def assess_viability(
    morphology: Morphology, rng: np.random.Generator, patience: int = NUM_GAITS
) -> Viability:
    """Try random sinusoidal gaits on flat ground.

    Every motor gets `a sin(2 pi f t + p)`: amplitude and phase per motor, frequency per gait. The
    start pose is the body's own, without noise. A gait ends when the torso is at or below half
    its standing height, or when the simulation diverges.

    Args:
        morphology: the body.
        rng: draws the gaits.
        patience: give up when none of the first gaits survives; with the default all are tried.

    Returns:
        Distance and survival over `NUM_GAITS` gaits of `DURATION` seconds; zeros for a body that
        was given up.

    Raises:
        MorphologyError: the engine refuses the body.
    """
    model = compile_body(morphology, floor=FLAT_GROUND, spawn=(0.0, 0.0, FLAT_HEIGHT))
    data = mujoco.MjData(model)
    fall_height = FLAT_HEIGHT + FALL_RATIO * (morphology.limbs[0].position[2] - CLEARANCE)
    survived: list[float] = []
    for number, gait in enumerate(_gaits(model.nu, rng)):
        if number == patience and not survived:
            break
        distance = _distance(model, data, gait, fall_height)
        if math.isfinite(distance):
            survived.append(distance)
    return Viability(max([0.0, *survived]), len(survived) / NUM_GAITS)


def _gaits(num_actuators: int, rng: np.random.Generator) -> DoubleArray:
    """Return the controls, (NUM_GAITS, T, num_actuators) float64 in [-1, 1]."""
    shape = (NUM_GAITS, 1, num_actuators)
    frequency = rng.uniform(*_FREQUENCIES, size=(NUM_GAITS, 1, 1))
    amplitude = rng.uniform(*_AMPLITUDES, size=shape)
    phase = rng.uniform(0.0, 2.0 * np.pi, size=shape)
    time = np.arange(round(DURATION / CONTROL_DT))[None, :, None] * CONTROL_DT
    controls: DoubleArray = amplitude * np.sin(2.0 * np.pi * frequency * time + phase)
    return controls


def _distance(
    model: mujoco.MjModel, data: mujoco.MjData, controls: DoubleArray, fall_height: float
) -> float:
    """Return the forward distance of one gait, m; not-a-number when it fell or diverged."""
    mujoco.mj_resetData(model, data)
    mute_warnings(data)
    substeps = round(CONTROL_DT / SIM_DT)
    for control in controls:
        data.ctrl[:] = control
        mujoco.mj_step(model, data, substeps)
        # Written so that a diverged state, which compares false, ends the gait.
        if not data.qpos[2] > fall_height:
            return math.nan
    return math.nan if has_warned(data) else float(data.qpos[0])
