"""Many simulations of unlike bodies, advanced by one call on all cores."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numba
import numpy as np

from gmc_bench.core.arguments import FITTING_STATE, require_fitting_state
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.integers import is_count, require_seed
from gmc_bench.core.types import Array, BoolArray, DoubleArray, FloatArray, IntArray
from gmc_bench.robots.friction import FrictionPair
from gmc_bench.sim import kernels
from gmc_bench.sim.columns import DATA, NUM_ADDRESSES
from gmc_bench.sim.drive_kernels import read_driven_rows
from gmc_bench.sim.drives import DriveState, make_drive_state, tabulate_drives
from gmc_bench.sim.engine import engine_functions
from gmc_bench.sim.ground import RandomGround
from gmc_bench.sim.hosted import HostedModel
from gmc_bench.sim.idle import IdlePool
from gmc_bench.sim.layout import Layout
from gmc_bench.sim.loops import tabulate_loops
from gmc_bench.sim.model import CompiledModel

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION

FEW_ROWS = 8
"""Number of resets that take no longer on one thread than waking the others does."""

IDLE_PER_ROW = 4
MIN_IDLE = 256
"""Idle `MjData` kept for bodies that no row hosts. Making one anew takes about as long as ten
control steps; without a bound, a batch would end up with at least one, of up to 2 MiB, for every
body."""


_pool_process: int | None = None
"""The process that first used the pool of threads."""


def available_threads() -> int:
    """Return the number of threads that a batch can use at most."""
    return int(numba.config.NUMBA_NUM_THREADS)


def spawn_streams(seed: int, count: int) -> Array:
    """Return `count` independent random streams, (count, 4) uint64.

    Each comes from a child of `SeedSequence(seed)`, so stream i is the same whatever `count` is.

    Raises:
        ConfigError: the seed is no integer, or negative.
    """
    children = np.random.SeedSequence(require_seed(seed)).spawn(count)
    return np.stack([child.generate_state(4, np.uint64) for child in children])


def require_streams(streams: Any, count: int) -> None:
    """Check that something is `count` random streams, (count, 4) uint64, see `spawn_streams`.

    Raises:
        ConfigError: it has another shape, such as that of a single stream, or another type, or one
            stream is all zeros.
    """
    fix = f"give what spawn_streams returns for {count} environments"
    try:
        found = np.asarray(streams)
    except (TypeError, ValueError, RuntimeError) as error:  # ragged, of a GPU
        raise ConfigError(f"random streams must be an array ({error}); {fix}") from None
    if found.shape != (count, 4):
        raise ConfigError(
            f"the random streams have the shape {found.shape}, expected {(count, 4)}; {fix}"
        )
    if found.dtype != np.uint64:
        raise ConfigError(f"the random streams have the type {found.dtype}, expected uint64; {fix}")
    zero = np.flatnonzero(~found.any(axis=1))
    if len(zero):  # the fixed point of the generator
        raise ConfigError(
            f"the random stream of environment {zero[0]} is all zeros, from which every number "
            f"drawn would be 0; {fix}"
        )


class BatchSimulator:
    """B environments, each with its own data; any row can host any model.

    Two kinds of bodies, never in one batch: motors that take the actions themselves, whose limbs
    are read into tokens, and joints with drives, whose base, joints and feet are read into
    `drive_state`.

    Args:
        models: M compiled models with the same number of substeps and control step.
        num_envs: B.
        layout: places of controls and readings, one row per model; `None` reads no limbs.
        num_threads: threads that step; default all.

    Raises:
        ConfigError: no models, unlike time steps or kinds, or a number of threads that is not
            available.
    """

    def __init__(
        self,
        models: Sequence[CompiledModel],
        num_envs: int,
        layout: Layout | None = None,
        num_threads: int | None = None,
    ) -> None:
        if not models or not is_count(num_envs):
            raise ConfigError(
                f"a batch needs at least one model and one environment, "
                f"got {len(models)} and {num_envs!r}; their numbers are integers"
            )
        steps = {(m.sim_dt, m.scene.num_substeps, m.robot is None) for m in models}
        if len(steps) != 1:
            raise ConfigError(
                f"all models of a batch need the same time steps and one kind of motors, "
                f"got {steps}"
            )
        threads = available_threads() if num_threads is None else num_threads
        if not is_count(threads) or threads > available_threads():
            raise ConfigError(
                f"num_threads must be between 1 and {available_threads()}, got {threads!r}"
            )
        self.models = list(models)
        self.num_envs = num_envs
        self._all_rows = np.arange(num_envs)
        self.num_threads = threads
        self.num_substeps = models[0].scene.num_substeps
        self.sim_dt = models[0].sim_dt
        self.control_dt = models[0].control_dt
        self.has_drives = models[0].robot is not None
        """Whether controls are target angles of joint drives."""
        self._start_states = [_start_state(m.model) for m in models]
        self._start_addresses = np.array([s.ctypes.data for s in self._start_states], np.int64)
        self.layout = layout or Layout.empty(len(models))
        self._no_readings: FloatArray = np.zeros(
            (num_envs, 0, self.layout.num_readings), np.float32
        )
        self._functions = engine_functions()
        self._sizes = np.array([[m.model.nu, m.model.nq, m.model.nv] for m in models], np.int64)
        terrain = models[0].scene.terrain
        self.ground = RandomGround(terrain, num_envs, models[0].model) if terrain else None
        """What is drawn at resets, `None` where the ground is always the same."""
        # Data and models with terrain are large: one idle model per row is enough for those.
        idle = num_envs if self.ground else max(MIN_IDLE, IDLE_PER_ROW * num_envs)
        self._idle: IdlePool[HostedModel] = IdlePool(idle)
        self._data: list[HostedModel | None] = [None] * num_envs
        self.addresses = np.zeros((num_envs, NUM_ADDRESSES), np.int64)
        """(B, NUM_ADDRESSES) int64, columns as named in `gmc_bench.sim.columns`."""
        self.model_index: IntArray = np.zeros(num_envs, np.int64)
        """(B,) int64, the model each row hosts."""
        self._num_ctrl = np.zeros(num_envs, np.int64)
        self._nq = np.zeros(num_envs, np.int64)
        self._nv = np.zeros(num_envs, np.int64)
        self.diverged: BoolArray = np.zeros(num_envs, np.bool_)
        """(B,) bool, rows whose last call gave an engine warning or a number that is not finite."""
        self._loops = tabulate_loops(self.models)
        self.loop_residual: DoubleArray = np.zeros((num_envs, self._loops.lengths.shape[1], 2))
        """(B, E, 2) float64, of each closed loop the distance between its two limbs as a share of
        the shorter one's length, and the angle of a weld, rad; of the same moment as
        `torso_position`, zero after a reset, E = 0 without loops."""
        self.drives = tabulate_drives(self.models)
        self.drive_state: DriveState = make_drive_state(self.drives, num_envs)
        """What rows with drives are subject to, and how they moved at the end of the last step."""
        self.base_mass: DoubleArray = np.ones(num_envs)
        """(B,) float64, factor on mass and inertia of the base, where there are drives."""
        self.torso_position: DoubleArray = np.zeros((num_envs, 3))
        """(B, 3) float64, m, world; as of the start of the last engine step (MuJoCo's lag), with
        drives as of its end."""
        if self.has_drives:
            self.torso_position = self.drive_state.base[:, :3]
        self.streams = spawn_streams(0, num_envs)
        """(B, 4) uint64, one random stream per row."""

    def __getstate__(self) -> None:
        """Refuse to be copied or pickled: the addresses of a copy would be the original's data."""
        raise ConfigError(
            "a simulation cannot be copied or pickled, because the engine's data stay where they "
            "are; build another environment and hand over the state, with get_state and set_state"
        )

    def _use_threads(self) -> None:
        # One thread leaves the pool alone, so that the process can still be forked.
        if self.num_threads > 1:
            _require_pool(self.num_threads)
            numba.set_num_threads(self.num_threads)

    def seed(self, seed: int) -> None:
        """Restart every row's random stream; see `spawn_streams`."""
        self.streams[:] = spawn_streams(seed, self.num_envs)

    def draw_uniform(self, rows: IntArray, count: int | None = None) -> DoubleArray:
        """Return numbers in [0, 1) from each row's own stream: (K,), or (K, count)."""
        out = np.empty((len(rows), 1 if count is None else count))
        kernels.draw_uniform(self.streams, rows, out)
        return out[:, 0] if count is None else out

    def assign(self, rows: IntArray, model_index: IntArray) -> None:
        """Let rows host other models; call `reset` or `place` on them before they are stepped.

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

    def _take(self, index: int) -> HostedModel:
        own = self.has_drives or self.ground is not None
        return self._idle.take(index) or HostedModel(self.models[index], index, own=own)

    def reset(self, rows: IntArray, noise: float, readings: FloatArray) -> None:
        """Put rows into their start pose, on new terrain where that is random.

        Args:
            rows: (K,) int64, without repeats.
            noise: half width of the uniform noise on every position and velocity coordinate.
            readings: (B, L, 13 + 2 J) float32; the given rows are written.

        Raises:
            ConfigError: a row hosts no model, or the process was forked from one with threads.
        """
        self._check_hosts(self.addresses[rows])
        self._use_threads()
        if self.ground:
            self.ground.draw(
                rows, self.streams, single_threaded=self.num_threads == 1 or len(rows) == 1
            )
        single_threaded = self.num_threads == 1 or len(rows) <= FEW_ROWS
        reset = kernels.reset_rows_single_threaded if single_threaded else kernels.reset_rows
        reset(
            self._functions, self.addresses, self.model_index, rows, self._nq, self._nv,
            self._start_addresses, int(_STATE), self.streams, noise, self.layout.tables,
            self.torso_position, readings, self.diverged,
        )  # fmt: skip
        self.loop_residual[rows] = 0.0

    def place(
        self, rows: IntArray, qpos: DoubleArray, qvel: DoubleArray, *, base_mass: DoubleArray
    ) -> None:
        """Put bodies with drives into a state, and read it; no torque has acted there yet.

        Args:
            rows: (K,) int64, without repeats.
            qpos: (K, nq) float64, as MuJoCo's: base position (m) and quaternion, then the joints in
                the engine's order (rad).
            qvel: (K, nv) float64, as MuJoCo's (m/s and rad/s).
            base_mass: (K,) float64, factor on the base's mass and inertia from now on.
        """
        for k, row in enumerate(rows.tolist()):
            held = self._hosted(row)
            mujoco.mj_resetData(held.model, held.data)
            held.data.qpos[:], held.data.qvel[:] = qpos[k], qvel[k]
            held.scale_base(base_mass[k])
            self.base_mass[row] = base_mass[k]
            self._set_resting_friction(row)
            mujoco.mj_forward(held.model, held.data)
        self.drive_state.torque[rows] = 0.0
        self.drive_state.effort[rows] = 0.0
        read_driven_rows(
            self.addresses, self.model_index, rows, self.drives, self.drive_state, self.diverged
        )

    def set_friction(self, rows: IntArray, friction: DoubleArray) -> None:
        """Set the friction of all feet of rows: static and dynamic coefficient, (K, 2) float64."""
        self.drive_state.friction[rows] = friction
        for row in rows.tolist():
            self._set_resting_friction(row)

    def _set_resting_friction(self, row: int) -> None:
        # Two-state feet start at rest; each engine step writes their coefficients anew.
        held = self._data[row]
        if held is not None:
            compiled = self.models[held.index]
            pair = FrictionPair(*self.drive_state.friction[row].tolist())
            geoms = self.drives.feet[held.index, :, 1].astype(np.int64)
            rule = compiled.scene.friction_rule
            held.model.geom_friction[geoms, 0] = float(pair.coefficient(rule, 0.0))

    def push(self, rows: IntArray, velocity: DoubleArray) -> None:
        """Add to the velocities of torsos, in the order of their free joint.

        Args:
            rows: (K,) int64.
            velocity: (K, N) float64, N up to 6: linear, world frame, m/s, then angular, frame of
                the torso, rad/s.
        """
        for row, change in zip(rows.tolist(), velocity, strict=True):
            self._hosted(row).data.qvel[: len(change)] += change

    def step(
        self, controls: Array, readings: FloatArray | None = None, rows: IntArray | None = None
    ) -> None:
        """Advance rows by one control step.

        Args:
            controls: (B, A) float32 actions; `Layout.actuator_slot` says which one each actuator
                takes; the engine clamps them to [-1, 1]. With drives (B, A) float64, target angles
                in the order of the drives, rad.
            readings: (B, L, 13 + 2 J) float32, written; `None` where no limbs are read.
            rows: (K,) int64, without repeats, those that are advanced; default all. Nothing is
                written of the others.

        Raises:
            ConfigError: a row hosts no model, or the process was forked from one with threads.
        """
        self._check_hosts(self.addresses)
        self._use_threads()
        rows = self._all_rows if rows is None else rows
        step = kernels.step_rows_single_threaded if self.num_threads == 1 else kernels.step_rows
        step(
            self._functions, self.addresses, self.model_index, rows, controls, self._num_ctrl,
            self.layout.actuator_slot, self.num_substeps, self.layout.tables, self.torso_position,
            self._no_readings if readings is None else readings, self.diverged, self._loops,
            self.loop_residual, self.drives, self.drive_state,
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
        single_threaded = self.num_threads == 1 or len(rows) <= FEW_ROWS
        self.ground.read(
            self.addresses,
            rows,
            self.torso_position,
            self.diverged,
            maps,
            heights,
            single_threaded=single_threaded,
        )

    @staticmethod
    def _check_hosts(addresses: IntArray) -> None:
        # The compiled loops follow these addresses blindly: a zero would crash the process.
        if not addresses[:, DATA].all():
            raise ConfigError("an environment was stepped before it was reset; call reset first")

    def data(self, row: int) -> Any:
        """Return the live `mujoco.MjData` of one row (for rendering and tests)."""
        return self._hosted(row).data

    def model(self, row: int) -> Any:
        """Return the live `mujoco.MjModel` of one row (for rendering and tests).

        Rows that host one body share its model, unless terrain is random or there are drives:
        then each row has its own, and every reset changes it in place (a renderer must upload
        height fields again).
        """
        return self._hosted(row).model

    def _hosted(self, row: int) -> HostedModel:
        found = self._data[row]
        if found is None:
            raise ConfigError(
                f"row {row} hosts no model yet; call reset first, in a BatchSimulator after assign"
            )
        return found

    def _kept(self) -> dict[str, Array]:
        kept = {"model_index": self.model_index, "streams": self.streams}
        if not self.has_drives:
            return kept | {"torso_position": self.torso_position}
        state = self.drive_state
        return kept | {
            "friction": state.friction,
            "strength": state.strength,
            "base_mass": self.base_mass,
            "joint_state": state.joint_state,
            "base": state.base,
            "contacts": state.contacts,
        }

    def get_state(self) -> dict[str, Array]:
        """Return a copy of all that the batch needs to continue bit for bit.

        Returns:
            `model_index`, `streams`, and of bodies without drives `torso_position`, of those with
            them `base_mass` and the parts of `drive_state` that last, as the attributes of these
            names; `physics` (sum of the rows' state sizes,) float64, MuJoCo's integration states
            one after the other; where terrain is random, `terrain_streams` (B, 4) uint64, what it
            was drawn from.
        """
        rows = []
        for row in range(self.num_envs):
            model = self.model(row)
            buffer = np.empty(mujoco.mj_stateSize(model, _STATE))
            mujoco.mj_getState(model, self.data(row), buffer, _STATE)
            rows.append(buffer)
        state = {name: value.copy() for name, value in self._kept().items()}
        state["physics"] = np.concatenate(rows)
        return state | ({"terrain_streams": self.ground.streams.copy()} if self.ground else {})

    def part_of_physics(self, state: Mapping[str, Array], rows: slice) -> DoubleArray:
        """Return what `physics` holds of some rows of a state of a batch with the same models.

        Args:
            state: from `get_state`.
            rows: of that batch, consecutive, with a start and a stop.

        Returns:
            (sum of the rows' state sizes,) float64.
        """
        bounds = np.cumsum([0, *self._state_sizes(state["model_index"])])
        found: DoubleArray = state["physics"][bounds[rows.start] : bounds[rows.stop]]
        return found

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from a state of `get_state` of a batch with the same models.

        Raises:
            ConfigError: see `require_fitting`; then nothing was taken over.
        """
        self.require_fitting(state)
        everyone = np.arange(self.num_envs)
        self.assign(everyone, state["model_index"])
        if self.ground:
            self._use_threads()
            self.ground.draw_again(state["terrain_streams"], single_threaded=self.num_threads == 1)
        for name, value in self._kept().items():
            value[:] = state[name]
        offset = 0
        for row in range(self.num_envs):
            held = self._hosted(row)
            size = mujoco.mj_stateSize(held.model, _STATE)
            mujoco.mj_resetData(held.model, held.data)
            if self.has_drives:
                held.scale_base(self.base_mass[row])
            part = state["physics"][offset : offset + size]
            mujoco.mj_setState(held.model, held.data, part, _STATE)
            offset += size
        if self.has_drives:
            self.set_friction(everyone, self.drive_state.friction)
        self.diverged[:] = False
        self.loop_residual[:] = 0.0

    def require_fitting(self, state: Mapping[str, Array]) -> None:
        """Check that `set_state` can take over a state, whose numbers may be nan in broken rows.

        Raises:
            ConfigError: it is of models of other sizes or of another number of rows, its arrays are
                of other types, it holds random streams or frictions that cannot be, or terrain is
                random, and it holds none.
        """
        if self.ground and "terrain_streams" not in state:
            raise ConfigError(
                "this state holds no terrain, but the scene's terrain is random; use a state "
                "of the same task"
            )
        own = self._kept()
        if self.ground:
            own["terrain_streams"] = self.ground.streams
        require_fitting_state(state, own)
        require_streams(state["streams"], self.num_envs)
        for pair in np.asarray(state["friction"]).tolist() if self.has_drives else ():
            FrictionPair(*pair)
        index = np.asarray(state["model_index"])
        if index.min() < 0 or index.max() >= len(self.models):
            raise ConfigError(
                f"this state names models that are not among these {len(self.models)}; "
                f"{FITTING_STATE}"
            )
        physics = np.empty(sum(self._state_sizes(index)))
        require_fitting_state(state, {"physics": physics})

    def _state_sizes(self, model_index: IntArray) -> list[int]:
        """Return how many numbers of `physics` belong to each row."""
        return [mujoco.mj_stateSize(self.models[k].model, _STATE) for k in model_index]


def _require_pool(num_threads: int) -> None:
    """Raise in a process that was forked from one with a pool of threads, which it lacks.

    GNU's OpenMP would end it by a signal.
    """
    global _pool_process
    process = os.getpid()
    if _pool_process is None:
        _pool_process = process
    if process != _pool_process and numba.threading_layer() == "omp":
        raise ConfigError(
            f"a process that was forked after its parent had stepped on several threads cannot "
            f"step on {num_threads}; start it by multiprocessing.get_context('spawn'), or give "
            f"num_threads=1"
        )


def _start_state(model: Any) -> DoubleArray:
    state: DoubleArray = np.empty(mujoco.mj_stateSize(model, _STATE))
    mujoco.mj_getState(model, mujoco.MjData(model), state, _STATE)
    return state
