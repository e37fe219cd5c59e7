"""Gymnasium's Ant-v5 on gmc-bench's way of stepping, and as gymnasium has it."""

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import mujoco
import numba
import numpy as np

from benchmarks import ant_kernels as kernels
from gmc_bench.bodies.engine_library import engine_library
from gmc_bench.core.types import Array, BoolArray, DoubleArray
from gmc_bench.profiling.simulation import bare_steps
from gmc_bench.sim.batch import spawn_streams
from gmc_bench.sim.engine import engine_functions

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


class AntBatch:
    """B ants, stepped by one call on all threads.

    Args:
        num_envs: B.
        num_threads: threads that step.
        seed: of the start states; every row has a random stream of its own.
    """

    def __init__(self, num_envs: int, num_threads: int, seed: int = 0) -> None:
        known = engine_functions()
        self._functions = kernels.AntFunctions(
            mj_step=known.mj_step,
            mj_rne_post_constraint=_address("mj_rnePostConstraint"),
            mj_forward=known.mj_forward,
            mj_set_state=known.mj_set_state,
        )
        self.num_envs = num_envs
        self.num_threads = num_threads
        self.model = ant_model()
        self.data = [mujoco.MjData(self.model) for _ in range(num_envs)]
        """Live `mujoco.MjData` of every row."""
        self._addresses = np.array([self._row(data) for data in self.data], np.int64)
        self._start = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, mujoco.MjData(self.model), self._start, _STATE)
        self._streams = spawn_streams(seed, num_envs)
        self.arrays = kernels.AntArrays(
            observation=np.zeros((num_envs, kernels.NUM_OBSERVED)),
            final_observation=np.zeros((num_envs, kernels.NUM_OBSERVED)),
            reward=np.zeros(num_envs),
            terminated=np.zeros(num_envs, np.bool_),
            truncated=np.zeros(num_envs, np.bool_),
            length=np.zeros(num_envs, np.int64),
        )

    def _row(self, data: Any) -> list[int]:
        arrays = (data.ctrl, data.qpos, data.qvel, data.xpos, data.cfrc_ext)
        bodies = kernels.NUM_BODIES
        # The compiled loops read these arrays without looking at their size.
        assert [array.size for array in arrays] == [
            kernels.NU, kernels.NQ, kernels.NV, 3 * bodies, 6 * bodies,
        ]  # fmt: skip
        return [self.model._address, data._address, *(array.ctypes.data for array in arrays)]

    def reset(self) -> DoubleArray:
        """Start an episode in every row; return observations (B, 105)."""
        numba.set_num_threads(self.num_threads)
        kernels.reset_rows(
            self._functions, self._addresses, self._start.ctypes.data, int(_STATE),
            self._streams, self.arrays,
        )  # fmt: skip
        return self.arrays.observation.copy()

    def step(self, actions: DoubleArray) -> tuple[DoubleArray, DoubleArray, BoolArray, BoolArray]:
        """Advance every row by one control step.

        Args:
            actions: (B, 8) float64.

        Returns:
            Observation (B, 105), of the next episode where one ended, reward (B,), terminated and
            truncated (B,). `arrays.final_observation` has the last observations of ended ones.
        """
        assert actions.shape == (self.num_envs, kernels.NU)
        numba.set_num_threads(self.num_threads)
        kernels.step_rows(
            self._functions, self._addresses, actions, self._start.ctypes.data, int(_STATE),
            self._streams, self.arrays,
        )  # fmt: skip
        found = self.arrays
        return (
            found.observation.copy(),
            found.reward.copy(),
            found.terminated.copy(),
            found.truncated.copy(),
        )

    def bare_step(self, actions: DoubleArray) -> None:
        """Advance every row by `mj_step` alone: no observation, reward or reset."""
        numba.set_num_threads(self.num_threads)
        places = np.arange(kernels.NU) + np.zeros((self.num_envs, 1), np.int64)
        ctrl = np.repeat(actions[:, None], kernels.NUM_SUBSTEPS, axis=1)
        nothing = np.zeros((self.num_envs, 0), np.int64)
        bare_steps(
            self._functions.mj_step, self._addresses, places, ctrl, nothing,
            np.zeros((self.num_envs, kernels.NUM_SUBSTEPS, 0)),
        )  # fmt: skip

    def copy_state(self, other: "AntBatch") -> None:
        """Take over the physics of another batch of the same size."""
        state: Array = np.empty_like(self._start)
        for own, theirs in zip(self.data, other.data, strict=True):
            mujoco.mj_getState(self.model, theirs, state, _STATE)
            mujoco.mj_setState(self.model, own, state, _STATE)


def ant_model() -> Any:
    """Compile the model that gymnasium ships."""
    folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    return mujoco.MjModel.from_xml_path(str(folder / "ant.xml"))


def gymnasium_ant() -> gymnasium.Env[Any, Any]:
    """Return gymnasium's own Ant-v5."""
    if "imageio" not in sys.modules and importlib.util.find_spec("imageio") is None:
        # gymnasium imports it with every MuJoCo environment, but only screenshots use it.
        sys.modules["imageio"] = ModuleType("imageio")
    return gymnasium.make("Ant-v5")


def _address(name: str) -> int:
    found = ctypes.cast(getattr(engine_library(), name), ctypes.c_void_p).value
    assert found is not None
    return found
