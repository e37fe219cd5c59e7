"""Many simulations of unlike bodies, advanced by one call on all cores."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numba
import numpy as np

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.sim import kernels
from gmc_bench.sim.engine import engine_functions
from gmc_bench.sim.ground import RandomGround
from gmc_bench.sim.idle import IdlePool
from gmc_bench.sim.layout import Layout
from gmc_bench.sim.loops import tabulate_loops
from gmc_bench.sim.model import CompiledModel

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION

FEW_ROWS = 8
"""Resets that take no longer on one thread than waking the others does."""

IDLE_PER_ROW = 4
MIN_IDLE = 256
"""Data kept for bodies that no row hosts. Making one anew takes about as long as ten control steps;
without a bound, a batch would end up with at least one, of up to 2 MiB, for every body."""


def available_threads() -> int:
    """Return the number of threads that a batch can use at most."""
    return int(numba.config.NUMBA_NUM_THREADS)


def spawn_streams(seed: int, count: int) -> Array:
    """Return `count` independent random streams, (count, 4) uint64.

    Each comes from a child of `SeedSequence(seed)`, so stream i is the same whatever `count` is.
    """
    children = np.random.SeedSequence(seed).spawn(count)
    return np.stack([child.generate_state(4, np.uint64) for child in children])


class BatchSimulator:
    """B environments, each with its own model and data; any row can host any model.

    Args:
        models: M compiled models with the same number of substeps and control step.
        num_envs: B.
        layout: places of controls and readings, one row per model.
        num_threads: threads that step; default all.

    Raises:
        ConfigError: no models, unlike time steps, or a number of threads that is not available.
    """

    def __init__(
        self,
        models: Sequence[CompiledModel],
        num_envs: int,
        layout: Layout,
        num_threads: int | None = None,
    ) -> None:
        if not models or num_envs < 1:
            raise ConfigError(
                f"a batch needs at least one model and one environment, "
                f"got {len(models)} and {num_envs}"
            )
        steps = {(m.sim_dt, m.scene.num_substeps) for m in models}
        if len(steps) != 1:
            raise ConfigError(f"all models of a batch need the same time steps, got {steps}")
        threads = available_threads() if num_threads is None else num_threads
        if not 1 <= threads <= available_threads():
            raise ConfigError(
                f"num_threads must be between 1 and {available_threads()}, got {threads}"
            )
        self.models = list(models)
        self.num_envs = num_envs
        self.num_threads = threads
        self.num_substeps = models[0].scene.num_substeps
        self.control_dt = models[0].control_dt
        self._start_states = [_start_state(m.model) for m in models]
        self._start_addresses = np.array([s.ctypes.data for s in self._start_states], np.int64)
        self.layout = layout
        self._tables = (
            layout.num_bodies,
            layout.joint_qpos,
            layout.joint_qvel,
            layout.joint_lower,
            layout.joint_span,
        )
        self._functions = engine_functions()
        self._sizes = np.array([[m.model.nu, m.model.nq, m.model.nv] for m in models], np.int64)
        terrain = models[0].scene.terrain
        self.ground = RandomGround(terrain, num_envs, models[0].model) if terrain else None
        """What is drawn at resets, `None` where the ground is always the same."""
        # Data and models with terrain are large: one idle model per row is enough for those.
        idle = num_envs if self.ground else max(MIN_IDLE, IDLE_PER_ROW * num_envs)
        self._idle: IdlePool[_Data] = IdlePool(idle)
        self._data: list[_Data | None] = [None] * num_envs
        self.addresses = np.zeros((num_envs, kernels.NUM_ADDRESSES), np.int64)
        """(B, NUM_ADDRESSES) int64, columns as named in `gmc_bench.sim.kernels`."""
        self.model_index: IntArray = np.zeros(num_envs, np.int64)
        """(B,) int64, the model each row hosts."""
        self._num_ctrl = np.zeros(num_envs, np.int64)
        self._nq = np.zeros(num_envs, np.int64)
        self._nv = np.zeros(num_envs, np.int64)
        self.torso_position: DoubleArray = np.zeros((num_envs, 3))
        """(B, 3) float64, m, world; as of the start of the last engine step (MuJoCo's lag)."""
        self.diverged: BoolArray = np.zeros(num_envs, np.bool_)
        """(B,) bool, rows whose last call gave an engine warning or a number that is not finite."""
        self._loops = tabulate_loops(self.models)
        self.loop_residual: DoubleArray = np.zeros((num_envs, self._loops.lengths.shape[1], 2))
        """(B, E, 2) float64, of each closed loop the distance between its two limbs as a share of
        the shorter one's length, and the angle of a weld, rad; of the same moment as
        `torso_position`, zero after a reset, E = 0 without loops."""
        self.streams = spawn_streams(0, num_envs)
        """(B, 4) uint64, one random stream per row."""

    def _use_threads(self) -> None:
        # One thread leaves the pool alone, so that the process can still be forked.
        if self.num_threads > 1:
            numba.set_num_threads(self.num_threads)

    def seed(self, seed: int) -> None:
        """Restart every row's random stream."""
        self.streams[:] = spawn_streams(seed, self.num_envs)

    def draw_uniform(self, rows: IntArray) -> DoubleArray:
        """Return one number in [0, 1) per row, from each row's own stream."""
        out = np.empty(len(rows))
        kernels.draw_uniform(self.streams, rows, out)
        return out

    def assign(self, rows: IntArray, model_index: IntArray) -> None:
        """Let rows host other models; call `reset` on them before the next step.

        Args:
            rows: (K,) int64, without repeats.
            model_index: (K,) int64.
        """
        for row, index in zip(rows.tolist(), model_index.tolist(), strict=True):
            old = self._data[row]
            if old is not None:
                if old.index == index:
                    continue
                self._idle.give_back(old.index, old)
            new = self._take(index)
            self._data[row] = new
            if self.ground:
                self.ground.attach(row, new.model)
            self.addresses[row] = new.addresses
            self.model_index[row] = index
            self._num_ctrl[row], self._nq[row], self._nv[row] = self._sizes[index]

    def _take(self, index: int) -> "_Data":
        idle = self._idle.take(index)
        if idle is not None:
            return idle
        model = self.models[index].model
        # Random terrain is drawn into the model, so that a row needs one of its own.
        return _Data(copy.copy(model) if self.ground else model, index)

    def reset(self, rows: IntArray, noise: float, readings: FloatArray) -> None:
        """Put rows into their start pose, on new terrain where that is random.

        Args:
            rows: (K,) int64, without repeats.
            noise: half width of the uniform noise on every position and velocity coordinate.
            readings: (B, L, 13 + 2 J) float32; the given rows are written.

        Raises:
            ConfigError: a row hosts no model.
        """
        self._check_hosts(self.addresses[rows])
        self._use_threads()
        if self.ground:
            self.ground.draw(rows, self.streams, alone=self.num_threads == 1 or len(rows) == 1)
        alone = self.num_threads == 1 or len(rows) <= FEW_ROWS
        reset = kernels.reset_rows_alone if alone else kernels.reset_rows
        reset(
            self._functions, self.addresses, self.model_index, rows, self._nq, self._nv,
            self._start_addresses, int(_STATE), self.streams, noise, self._tables,
            self.torso_position, readings, self.diverged,
        )  # fmt: skip
        self.loop_residual[rows] = 0.0

    def step(self, actions: FloatArray, readings: FloatArray) -> None:
        """Advance every row by one control step.

        Args:
            actions: (B, A) float32; `Layout.actuator_slot` says which one each actuator takes;
                the engine clamps them to [-1, 1].
            readings: (B, L, 13 + 2 J) float32, written.

        Raises:
            ConfigError: a row hosts no model.
        """
        self._check_hosts(self.addresses)
        self._use_threads()
        step = kernels.step_rows_alone if self.num_threads == 1 else kernels.step_rows
        step(
            self._functions, self.addresses, self.model_index, actions, self._num_ctrl,
            self.layout.actuator_slot, self.num_substeps, self._tables, self.torso_position,
            readings, self.diverged, self._loops, self.loop_residual,
        )  # fmt: skip

    def read_ground(self, rows: IntArray, maps: FloatArray, heights: DoubleArray) -> None:
        """Read the ground around the torsos; only where terrain is random.

        Args:
            rows: (K,) int64, without repeats; those that diverged are left as they are.
            maps: (B, G) float32, m, height maps, written; see `height_map_offsets`.
            heights: (B,) float64, m, height of the ground under the torso, not below 0, written.

        Raises:
            ConfigError: the ground is not random.
        """
        if self.ground is None:
            raise ConfigError("only scenes with random terrain have a height map, got another one")
        self._use_threads()
        alone = self.num_threads == 1 or len(rows) <= FEW_ROWS
        self.ground.read(
            self.addresses, rows, self.torso_position, self.diverged, maps, heights, alone=alone
        )

    @staticmethod
    def _check_hosts(addresses: IntArray) -> None:
        # The compiled loops follow these addresses blindly: a zero would crash the process.
        if not addresses[:, kernels.DATA].all():
            raise ConfigError("an environment was stepped before it was reset; call reset first")

    def data(self, row: int) -> Any:
        """Return the live `mujoco.MjData` of one row (for rendering and tests)."""
        return self._hosted(row).data

    def model(self, row: int) -> Any:
        """Return the live `mujoco.MjModel` of one row (for rendering and tests).

        Rows that host one body share its model, unless terrain is random: then each row has its
        own, and every reset changes it in place (a renderer must upload height fields again).
        """
        return self._hosted(row).model

    def _hosted(self, row: int) -> "_Data":
        found = self._data[row]
        if found is None:
            raise ConfigError(f"row {row} hosts no model yet; call assign and reset first")
        return found

    def get_state(self) -> dict[str, Array]:
        """Return a copy of everything that continues the batch to the same bits.

        Shapes: `model_index` (B,) int64; `physics` (sum of the rows' state sizes,) float64,
        MuJoCo's integration states one after the other; `streams` (B, 4) uint64; `torso_position`
        (B, 3) float64; where terrain is random, `terrain_streams` (B, 4) uint64, what it was drawn
        from.
        """
        rows = []
        for row in range(self.num_envs):
            model = self.model(row)
            buffer = np.empty(mujoco.mj_stateSize(model, _STATE))
            mujoco.mj_getState(model, self.data(row), buffer, _STATE)
            rows.append(buffer)
        state = {
            "model_index": self.model_index.copy(),
            "physics": np.concatenate(rows),
            "streams": self.streams.copy(),
            "torso_position": self.torso_position.copy(),
        }
        return state | ({"terrain_streams": self.ground.streams.copy()} if self.ground else {})

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from a state of `get_state` of a batch with the same models.

        Raises:
            ConfigError: terrain is random, and the state holds none.
        """
        self.assign(np.arange(self.num_envs), state["model_index"])
        if self.ground:
            if "terrain_streams" not in state:
                raise ConfigError(
                    "this state holds no terrain, but the scene's terrain is random; use a state "
                    "of the same task"
                )
            self._use_threads()
            self.ground.draw_again(state["terrain_streams"], alone=self.num_threads == 1)
        offset = 0
        for row in range(self.num_envs):
            model, data = self.model(row), self.data(row)
            size = mujoco.mj_stateSize(model, _STATE)
            mujoco.mj_resetData(model, data)
            mujoco.mj_setState(model, data, state["physics"][offset : offset + size], _STATE)
            offset += size
        self.streams[:] = state["streams"]
        self.torso_position[:] = state["torso_position"]
        self.diverged[:] = False
        self.loop_residual[:] = 0.0


def _start_state(model: Any) -> DoubleArray:
    state: DoubleArray = np.empty(mujoco.mj_stateSize(model, _STATE))
    mujoco.mj_getState(model, mujoco.MjData(model), state, _STATE)
    return state


class _Data:
    """One `MjData` with the addresses of its arrays, which stay for its life."""

    def __init__(self, model: Any, index: int) -> None:
        self.index = index
        self.model = model  # kept alive: MjData does not own it
        self.data = data = mujoco.MjData(model)
        arrays = (
            data.ctrl, data.qpos, data.qvel, data.xpos, data.xquat, data.cvel, data.subtree_com,
        )  # fmt: skip
        warnings = data.warning.number
        assert warnings.strides == (8,)
        assert warnings.shape == (kernels.NUM_WARNINGS,)
        self.addresses = np.array(
            [
                model._address,
                data._address,
                *(array.ctypes.data for array in arrays),
                warnings.ctypes.data,
            ],
            np.int64,
        )
