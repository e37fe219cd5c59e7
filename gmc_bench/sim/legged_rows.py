"""Rows of a batch of quadrupeds: what each keeps alive, and the functions that advance it."""

import copy
import ctypes
from functools import cache
from typing import NamedTuple

import mujoco
import numpy as np

from gmc_bench.bodies.engine_library import engine_library
from gmc_bench.robots.model import CompiledRobot
from gmc_bench.sim.engine import engine_functions


class LeggedFunctions(NamedTuple):
    """Addresses of the C functions that the compiled loops call."""

    mj_step: int
    mj_kinematics: int
    mj_com_pos: int
    mj_com_vel: int


@cache
def legged_functions() -> LeggedFunctions:
    """Return the addresses in the library that the wheel loaded."""
    known, library = engine_functions(), engine_library()

    def address(name: str) -> int:
        found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        assert found is not None
        return found

    return LeggedFunctions(
        mj_step=known.mj_step,
        mj_kinematics=address("mj_kinematics"),
        mj_com_pos=address("mj_comPos"),
        mj_com_vel=known.mj_com_vel,
    )


class HostedRobot:
    """One model and `MjData` with the addresses of their arrays, which stay for its life."""

    def __init__(self, robot: CompiledRobot, index: int) -> None:
        self.index = index
        self.base_body = robot.base_body
        # Friction and masses differ from row to row.
        self.model = model = copy.copy(robot.model)
        self.data = data = mujoco.MjData(model)
        self._mass = float(model.body_mass[self.base_body])
        self._inertia = model.body_inertia[self.base_body].copy()
        self.addresses = np.array(
            [
                model._address,
                data._address,
                *(
                    array.ctypes.data
                    for array in (
                        data.ctrl, data.qpos, data.qvel, data.cvel, data.subtree_com,
                        data.geom_xpos, data.sensordata, data.warning.number,
                        model.geom_friction,
                    )
                ),
            ],
            np.int64,
        )  # fmt: skip

    def scale_base(self, factor: float) -> None:
        """Set mass and inertia of the base to a multiple of the robot's own."""
        self.model.body_mass[self.base_body] = factor * self._mass
        self.model.body_inertia[self.base_body] = factor * self._inertia
