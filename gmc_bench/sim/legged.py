"""Many simulations of quadrupeds, advanced by one call on all cores."""

from collections.abc import Mapping, Sequence
from typing import Any

import mujoco
import numpy as np

from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import Array, BoolArray, DoubleArray, IntArray
from gmc_bench.robots.friction import STRIBECK_SPEED, FrictionPair, FrictionRule
from gmc_bench.robots.model import CompiledRobot
from gmc_bench.sim import legged_kernels as kernels
from gmc_bench.sim.batch import available_threads, spawn_streams
from gmc_bench.sim.idle import IdlePool
from gmc_bench.sim.legged_rows import HostedRobot, legged_functions

_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_COPIED = (
    "streams", "friction", "strength", "base_mass", "joint_state", "base", "contacts"
)  # fmt: skip
"""What a state holds beside the engine's."""


class LeggedSimulator:
    """B quadrupeds, each with a model of its own; any row can host any robot.

    Args:
        robots: M compiled robots with the same time step and the contact sensors of
            `compile_robot(..., contacts=True)`.
        num_envs: B.
        num_substeps: physics steps per control step.
        rule: how a friction pair becomes one coefficient.
        num_threads: threads that step; default all.

    Raises:
        ConfigError: no robots, unlike time steps, or a number of threads that is not available.
    """

    def __init__(
        self,
        robots: Sequence[CompiledRobot],
        num_envs: int,
        *,
        num_substeps: int = 4,
        rule: FrictionRule = "two-state",
        num_threads: int | None = None,
    ) -> None:
        steps = {float(robot.model.opt.timestep) for robot in robots}
        if not robots or num_envs < 1 or len(steps) != 1:
            raise ConfigError(
                f"a batch needs at least one robot and one environment, and one time step, "
                f"got {len(robots)}, {num_envs} and {sorted(steps)}"
            )
        threads = available_threads() if num_threads is None else num_threads
        if not 1 <= threads <= available_threads():
            raise ConfigError(
                f"num_threads must be between 1 and {available_threads()}, got {threads}"
            )
        self.robots = list(robots)
        self.num_envs = num_envs
        self.num_threads = threads
        self.num_substeps = num_substeps
        self.rule: FrictionRule = rule
        self.sim_dt = steps.pop()
        self.control_dt = self.sim_dt * num_substeps
        self._functions = legged_functions()
        self._joints = np.stack(
            [np.stack([r.joint_qpos, r.joint_dofs, r.actuators], axis=1) for r in robots]
        )
        self._drives = np.array(
            [
                [
                    [r.robot.gains.kp, r.robot.gains.kd, link.joint.torque_limit]
                    for link in r.robot.links
                ]
                for r in robots
            ]
        )
        self._feet = np.array(
            [
                [[r.model.geom_bodyid[g], g, r.model.geom_size[g, 0]] for g in r.foot_geoms]
                for r in robots
            ],
            np.float64,
        )
        # There are few kinds of robots: nothing is ever dropped.
        self._idle: IdlePool[HostedRobot] = IdlePool(num_envs * len(robots))
        self._data: list[HostedRobot | None] = [None] * num_envs
        self.addresses = np.zeros((num_envs, kernels.NUM_ADDRESSES), np.int64)
        self.robot_index: IntArray = np.zeros(num_envs, np.int64)
        """(B,) int64, the robot each row hosts."""
        self.friction: DoubleArray = np.ones((num_envs, 2))
        """(B, 2) float64, static and dynamic coefficient of all feet."""
        self.strength: DoubleArray = np.ones(num_envs)
        """(B,) float64, factor on torques before they are limited."""
        self.base_mass: DoubleArray = np.ones(num_envs)
        """(B,) float64, factor on mass and inertia of the base."""
        shape = (num_envs, kernels.NUM_JOINTS)
        self.joint_state: DoubleArray = np.zeros((*shape, 2))
        """(B, 12, 2) float64, angle (rad) and velocity (rad/s) in the shared order."""
        self.base: DoubleArray = np.zeros((num_envs, kernels.NUM_BASE))
        """(B, 13) float64, see `legged_kernels.NUM_BASE`."""
        self.contacts: DoubleArray = np.zeros((num_envs, kernels.NUM_CONTACTS))
        """(B, 5) float64, ground's force on the four feet and on the base, N."""
        self.torque: DoubleArray = np.zeros(shape)
        """(B, 12) float64, torque of the last physics step, N m."""
        self.effort: DoubleArray = np.zeros(shape)
        """(B, 12) float64, mean square of the torque over the control step, (N m)^2."""
        self.diverged: BoolArray = np.zeros(num_envs, np.bool_)
        """(B,) bool, rows whose last call gave an engine warning or a number that is not finite."""
        self.streams = spawn_streams(0, num_envs)
        """(B, 4) uint64, one random stream per row."""

    def seed(self, seed: int) -> None:
        """Restart every row's random stream."""
        self.streams[:] = spawn_streams(seed, self.num_envs)

    def draw_uniform(self, rows: IntArray, count: int = 0) -> DoubleArray:
        """Return numbers in [0, 1) from each row's own stream: (K,), or (K, count)."""
        out = np.empty((len(rows), max(count, 1)))
        kernels.draw_uniforms(self.streams, rows, out)
        return out if count else out[:, 0]

    def assign(self, rows: IntArray, robot_index: IntArray) -> None:
        """Let rows host other robots; call `place` on them before the next step.

        Args:
            rows: (K,) int64, without repeats.
            robot_index: (K,) int64.
        """
        for row, index in zip(rows.tolist(), robot_index.tolist(), strict=True):
            old = self._data[row]
            if old is not None:
                if old.index == index:
                    continue
                self._idle.give_back(old.index, old)
            new = self._idle.take(index) or HostedRobot(self.robots[index], index)
            self._data[row] = new
            self.addresses[row] = new.addresses
            self.robot_index[row] = index

    def place(
        self, rows: IntArray, qpos: DoubleArray, qvel: DoubleArray, *, base_mass: DoubleArray
    ) -> None:
        """Put robots into a state, and read it.

        Args:
            rows: (K,) int64, without repeats.
            qpos: (K, 19) float64, as MuJoCo's: position, quaternion, joints in the engine's order.
            qvel: (K, 18) float64.
            base_mass: (K,) float64, factor on the base's mass and inertia from now on.
        """
        for k, row in enumerate(rows.tolist()):
            held = self._hosted(row)
            model, data = held.model, held.data
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = qpos[k], qvel[k]
            held.scale_base(base_mass[k])
            self.base_mass[row] = base_mass[k]
            self._set_resting_friction(row)
            mujoco.mj_forward(model, data)
        kernels.read_rows(
            self.addresses, rows, self.robot_index, self._joints, self.joint_state, self.base,
            self.contacts, self.diverged,
        )  # fmt: skip

    def set_friction(self, rows: IntArray, friction: DoubleArray) -> None:
        """Set static and dynamic coefficient of rows, (K, 2)."""
        self.friction[rows] = friction
        for row in rows.tolist():
            self._set_resting_friction(row)

    def _set_resting_friction(self, row: int) -> None:
        # Two-state feet start at rest; each physics step writes their coefficients anew.
        if self._data[row] is not None:
            held = self._hosted(row)
            pair = FrictionPair(*self.friction[row].tolist())
            geoms = self.robots[held.index].foot_geoms
            held.model.geom_friction[geoms, 0] = float(pair.coefficient(self.rule, 0.0))

    def push(self, rows: IntArray, velocity: DoubleArray) -> None:
        """Add horizontal velocities (K, 2), m/s, world frame, to the bases of rows."""
        for row, change in zip(rows.tolist(), velocity, strict=True):
            self._hosted(row).data.qvel[:2] += change

    def step(self, targets: DoubleArray) -> None:
        """Advance every robot by one control step.

        Args:
            targets: (B, 12) float64, target angles in the shared order, rad.

        Raises:
            ConfigError: a row hosts no robot.
        """
        if not self.addresses[:, kernels.DATA].all():
            raise ConfigError("an environment was stepped before it was reset; call reset first")
        alone = self.num_threads == 1
        if not alone:
            import numba

            numba.set_num_threads(self.num_threads)
        step = kernels.step_rows_alone if alone else kernels.step_rows
        step(
            self._functions, self.addresses, self.robot_index, self._joints, self._drives,
            self._feet, self.friction, self.rule == "two-state", STRIBECK_SPEED, self.strength,
            targets, self.num_substeps, self.joint_state, self.base, self.contacts, self.torque,
            self.effort, self.diverged,
        )  # fmt: skip

    def data(self, row: int) -> Any:
        """Return the live `mujoco.MjData` of one row (for rendering and tests)."""
        return self._hosted(row).data

    def model(self, row: int) -> Any:
        """Return the live `mujoco.MjModel` of one row, its own (for rendering and tests)."""
        return self._hosted(row).model

    def _hosted(self, row: int) -> HostedRobot:
        found = self._data[row]
        if found is None:
            raise ConfigError(f"row {row} hosts no robot yet; call assign and place first")
        return found

    def get_state(self) -> dict[str, Array]:
        """Return a copy of everything that continues the batch to the same bits.

        Shapes: `physics` (B, S) float64, MuJoCo's integration states, all of one size; the others
        as the attributes of the same names.
        """
        physics = []
        for row in range(self.num_envs):
            model = self.model(row)
            buffer = np.empty(mujoco.mj_stateSize(model, _STATE))
            mujoco.mj_getState(model, self.data(row), buffer, _STATE)
            physics.append(buffer)
        names = ("robot_index", *_COPIED)
        return {"physics": np.stack(physics)} | {name: getattr(self, name).copy() for name in names}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Continue from a state of `get_state` of a batch with the same robots."""
        rows = np.arange(self.num_envs)
        self.assign(rows, state["robot_index"])
        for row in range(self.num_envs):
            held = self._hosted(row)
            mujoco.mj_resetData(held.model, held.data)
            held.scale_base(state["base_mass"][row])
            mujoco.mj_setState(held.model, held.data, state["physics"][row], _STATE)
        for name in _COPIED:
            getattr(self, name)[:] = state[name]
        self.set_friction(rows, self.friction)
        self.diverged[:] = False
