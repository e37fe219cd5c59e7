"""The trials of the virtual deployment: what is asked for, and what is drawn for each."""

import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from gmc_bench.bodies.mjcf import SIM_DT
from gmc_bench.core.types import Vec3
from gmc_bench.robots.friction import FRICTION_PAIRS, FrictionPair
from gmc_bench.robots.schema import LEGS

Feet = Literal["bare", "masked", "wrapped"]
SECONDS = 15.0
"""Length of a trial."""
RAMP_SECONDS = 1.0
"""s in which the command rises from zero."""
MIN_SECONDS = 2.0 * RAMP_SECONDS
"""Least length of a trial: in one as long as the ramp, a robot that tracks the command perfectly
has half of the commanded velocity on average, from which the motion only just counts as
completed."""
MAX_SECONDS = 3600.0
"""Greatest length of a trial."""
NUM_TRIALS = 10
"""Of each kind, as in the paper."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One kind of trial."""

    id: str
    setting: str
    """As in the paper's table."""
    robot: str
    """The paper's."""
    command: Vec3
    """Forward and lateral (left) velocity, m/s, and yaw rate, rad/s, in the base's yaw frame."""
    feet: Feet = "bare"
    published: str = "10/10"
    """Successes on hardware in the paper."""


TRIALS: Mapping[str, Trial] = MappingProxyType(
    {
        trial.id: trial
        for trial in (
            Trial(
                id="backward-right",
                setting="backward-right walking",
                robot="go1",
                command=(-0.5, -0.3, 0.0),
            ),
            Trial(id="forward", setting="forward walking", robot="go2", command=(0.5, 0.0, 0.0)),
            Trial(
                id="masked-feet",
                setting="masked feet",
                robot="go2",
                command=(0.5, 0.0, 0.0),
                feet="masked",
            ),
            Trial(
                id="wrapped-foot",
                setting="plastic-wrapped foot",
                robot="go2",
                command=(0.5, 0.0, 0.0),
                feet="wrapped",
            ),
        )
    }
)
"""Robots and settings are the paper's; commands and what the settings mean are chosen here."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What differs from trial to trial; by default nothing disturbs, on flat nominal ground."""

    floor: Literal["flat", "micro-rough"] = "flat"
    friction: tuple[FrictionPair, ...] = (FRICTION_PAIRS["nominal"],) * len(LEGS)
    """Of each foot, in the order of the legs."""
    foot_growth: float = 0.0
    """m, what covers add to the feet's radius."""
    foot_softness: float = 1.0
    """Factor on the time constant of the feet's contact."""
    strength: float = 1.0
    """Factor on torques before they are limited."""
    base_mass: float = 1.0
    """Factor on the base's mass and inertia."""
    latency: float = 0.0
    """s from the readings to the drives' new targets, a whole number of physics steps."""
    velocity_bias: Vec3 = (0.0, 0.0, 0.0)
    """m/s, constant error of the base's estimated linear velocity, base frame."""
    observation_noise: float = 0.0
    """Factor on the observation noise of training."""
    sensor_seed: int = 0
    """Of the noise."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def draw_conditions(trial: Trial, seed: int, number: int, *, rough: bool = True) -> Conditions:
    """Draw what one trial meets.

    Friction is the nominal pair. Floors take turns, and so do the feet that are wrapped, each for
    two trials, so that it meets both floors. Covers on all feet (masked) scale the pair by 0.5 to
    0.7, add 3 mm and double the contact's time constant; a wrapped foot has one coefficient of 0.2
    to 0.3. Motors have 0.9 to 1.1 of their strength, the base 0.9 to 1.1 of its mass, actions are
    late by 0 to 20 ms, the velocity estimate is off by up to 0.1 m/s.

    Args:
        trial: the kind.
        seed: of the whole deployment.
        number: of the trial, from 0.
        rough: whether there is micro-rough ground; without it, all trials are on the plane.
    """
    rng = np.random.default_rng([seed, number, zlib.crc32(trial.id.encode())])
    nominal = FRICTION_PAIRS["nominal"]
    factor, low = rng.uniform(0.5, 0.7), rng.uniform(0.2, 0.3)
    pairs = [nominal] * len(LEGS)
    if trial.feet == "masked":
        pairs = [FrictionPair(factor * nominal.static, factor * nominal.dynamic)] * len(LEGS)
    elif trial.feet == "wrapped":
        pairs[number // 2 % len(LEGS)] = FrictionPair(low, low)
    bias = rng.uniform(-0.1, 0.1, 3)
    return Conditions(
        floor="micro-rough" if rough and number % 2 else "flat",
        friction=tuple(pairs),
        foot_growth=0.003 if trial.feet == "masked" else 0.0,
        foot_softness=2.0 if trial.feet == "masked" else 1.0,
        strength=float(rng.uniform(0.9, 1.1)),
        base_mass=float(rng.uniform(0.9, 1.1)),
        latency=float(rng.integers(0, round(0.02 / SIM_DT) + 1) * SIM_DT),
        velocity_bias=(float(bias[0]), float(bias[1]), float(bias[2])),
        observation_noise=1.0,
        sensor_seed=int(rng.integers(2**32)),
    )
