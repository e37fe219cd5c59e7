"""Rows of a batch: a model and its data each, kept alive at addresses that stay."""

import copy
from typing import Any

import mujoco
import numpy as np

from gmc_bench.sim.columns import NUM_WARNINGS
from gmc_bench.sim.model import CompiledModel


class HostedModel:
    """One `MjData` and its model, with the addresses of their arrays.

    Args:
        compiled: the body.
        index: its number among the models of the batch.
        own: give the row a model of its own, for what differs from row to row: random terrain,
            friction and masses.
    """

    def __init__(self, compiled: CompiledModel, index: int, *, own: bool) -> None:
        self.index = index
        # Kept alive: MjData does not own it.
        self.model: Any = copy.copy(compiled.model) if own else compiled.model
        self.data = data = mujoco.MjData(self.model)
        self._base = compiled.robot.base_body if compiled.robot else 1
        self._mass = float(self.model.body_mass[self._base])
        self._inertia = self.model.body_inertia[self._base].copy()
        warnings = data.warning.number
        assert warnings.strides == (8,)
        assert warnings.shape == (NUM_WARNINGS,)
        arrays = (
            data.ctrl, data.qpos, data.qvel, data.xpos, data.xquat, data.cvel, data.subtree_com,
            warnings, data.geom_xpos, data.sensordata, self.model.geom_friction,
        )  # fmt: skip
        self.addresses = np.array(
            [self.model._address, data._address, *(array.ctypes.data for array in arrays)],
            np.int64,
        )
        """(NUM_ADDRESSES,) int64, see `gmc_bench.sim.columns`."""

    def scale_base(self, factor: float) -> None:
        """Set mass and inertia of the base to a multiple of the body's own.

        The robot moves with that mass, because the engine takes its inertia from there. What the
        compiler derived from the body's own mass stays: `body_subtreemass`, so that
        `data.subtree_com` is no centre of mass any more but only the point that velocities refer
        to, and the inverse weights that scale how soft contacts, joint limits and dry friction
        are, by up to a tenth. `mj_setConst` would renew both, and change the numbers of records.
        """
        self.model.body_mass[self._base] = factor * self._mass
        self.model.body_inertia[self._base] = factor * self._inertia
