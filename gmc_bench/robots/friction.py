"""Static and dynamic friction of feet, where the engine has one coefficient per contact.

The coefficient follows the speed v at which the foot's surface slides over the ground:

    mu(v) = dynamic + (static - dynamic) exp(-(v / 0.1 m/s)^2)

It is written into the model before every physics step.

Source:
    Stribeck curve without its viscous part, e.g. Armstrong-Helouvry, Dupont and Canudas de Wit
    1994, doi:10.1016/0005-1098(94)90209-7, section 4.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, get_args

import numpy as np

from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.core.types import DoubleArray

FrictionRule = Literal["two-state", "dynamic", "static", "mean"]
"""How a pair becomes one coefficient: by sliding speed, or one of three constants."""
FRICTION_RULES: tuple[FrictionRule, ...] = get_args(FrictionRule)

STRIBECK_SPEED = 0.1
"""Sliding speed at which the excess of static over dynamic friction has fallen to 1/e, m/s."""


@dataclass(frozen=True, slots=True)
class FrictionPair:
    """Static and dynamic sliding coefficient.

    Raises:
        ConfigError: one is negative or not finite, or the dynamic one is the larger.
    """

    static: float
    dynamic: float

    def __post_init__(self) -> None:
        if not 0 <= self.dynamic <= self.static < math.inf:
            raise ConfigError(
                f"the friction pair is {self.static} static and {self.dynamic} dynamic; the "
                f"dynamic one must not be negative nor above the static one"
            )

    def coefficient(self, rule: FrictionRule, speed: DoubleArray | float) -> DoubleArray:
        """Return the sliding coefficient.

        Args:
            rule: how the pair becomes one number.
            speed: (...) float64, sliding speed, m/s.

        Returns:
            (...) float64.

        Raises:
            ConfigError: no such rule.
        """
        _check_rule(rule)
        constants = {
            "dynamic": self.dynamic,
            "static": self.static,
            "mean": (self.static + self.dynamic) / 2,
        }
        speeds = np.asarray(speed, dtype=np.float64)
        if rule in constants:
            return np.full(speeds.shape, constants[rule])
        excess = (self.static - self.dynamic) * np.exp(-((speeds / STRIBECK_SPEED) ** 2))
        return np.asarray(self.dynamic + excess)


FRICTION_PAIRS: Mapping[str, FrictionPair] = MappingProxyType(
    {
        "low": FrictionPair(0.3, 0.2),
        "nominal": FrictionPair(0.8, 0.6),
        "high": FrictionPair(1.2, 1.0),
    }
)
"""The levels of the benchmark."""


def _check_rule(rule: str) -> None:
    if rule not in FRICTION_RULES:
        raise ConfigError(f"unknown friction rule {rule!r}{did_you_mean(rule, FRICTION_RULES)}")


def sliding_speeds(model: Any, data: Any, foot_geoms: Sequence[int]) -> DoubleArray:
    """Return how fast the lowest point of each foot moves over the ground.

    With the centre's velocity c, angular velocity w and radius r, the lowest point moves with
    c + w x (0, 0, -r); the speed is its horizontal part. A rolling foot does not slide. The ground
    is taken as level, also on a height field.

    Args:
        model: `mujoco.MjModel`.
        data: `mujoco.MjData` whose positions and velocities are up to date.
        foot_geoms: ids of spheres.

    Returns:
        (number of feet,) float64, m/s.
    """
    import mujoco  # here, because suites name frictions without simulating anything

    speeds = np.empty(len(foot_geoms))
    motion = np.empty(6)  # angular, then linear; world axes
    for place, geom in enumerate(foot_geoms):
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_GEOM, geom, motion, 0)
        radius = model.geom_size[geom, 0]
        speeds[place] = math.hypot(motion[3] - motion[1] * radius, motion[4] + motion[0] * radius)
    return speeds
