"""Friction of the feet of one environment, step by step: the reference for the compiled loops."""

from collections.abc import Sequence
from typing import Any

import mujoco

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import DoubleArray
from gmc_bench.robots.friction import FrictionPair, FrictionRule, sliding_speeds


class FrictionStepper:
    """Steps one environment with the friction that its feet have at that moment.

    Args:
        model: `mujoco.MjModel`; the friction of its feet is overwritten.
        foot_geoms: ids of the feet, spheres with the higher contact priority.
        pair: static and dynamic coefficient of all feet.
        rule: how the pair becomes one number.

    Raises:
        ConfigError: a foot is no sphere.
    """

    def __init__(
        self,
        model: Any,
        foot_geoms: Sequence[int],
        pair: FrictionPair,
        rule: FrictionRule = "two-state",
    ) -> None:
        self._model = model
        self._feet = [int(geom) for geom in foot_geoms]
        self._pair = pair
        self._rule: FrictionRule = rule
        for geom in self._feet:
            if model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_SPHERE:
                raise ConfigError(
                    f"geom {model.geom(geom).name!r} is no sphere; give the geoms of the feet"
                )

    def write(self, data: Any) -> DoubleArray:
        """Write the coefficients for the state of `data` into the model.

        Args:
            data: `mujoco.MjData`; its kinematics are brought up to date.

        Returns:
            (number of feet,) float64, the coefficients.
        """
        # The engine's own update comes too late: it makes contacts in the same call.
        mujoco.mj_kinematics(self._model, data)
        mujoco.mj_comPos(self._model, data)
        mujoco.mj_comVel(self._model, data)
        speeds = sliding_speeds(self._model, data, self._feet)
        coefficients = self._pair.coefficient(self._rule, speeds)
        self._model.geom_friction[self._feet, 0] = coefficients
        return coefficients

    def step(self, data: Any) -> DoubleArray:
        """Write the coefficients, then advance `data` by one physics step.

        Args:
            data: `mujoco.MjData`; changed in place.

        Returns:
            (number of feet,) float64, the coefficients of this step.
        """
        coefficients = self.write(data)
        mujoco.mj_step(self._model, data)
        return coefficients
