"""Whole environment steps of quadrupeds beside bare engine steps on the same motion."""

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from gmc_bench.core.types import Array, DoubleArray, FloatArray, IntArray
from gmc_bench.envs.velocity_core import VelocityCore
from gmc_bench.robots.actuation import drive_of
from gmc_bench.sim.engine import call_model_data, compiled, engine_functions, store_double
from gmc_bench.sim.legged import LeggedSimulator
from gmc_bench.sim.legged_kernels import CTRL, DATA, FRICTION, MODEL, NUM_FEET, NUM_JOINTS


@compiled(parallel=True)
def _bare_steps(
    mj_step: int,
    addresses: Array,
    actuators: IntArray,
    feet: IntArray,
    torques: DoubleArray,
    friction: DoubleArray,
) -> None:
    """Do nothing but `mj_step` with given torques, on the same threads as the environment."""
    for row in numba.prange(addresses.shape[0]):
        address = addresses[row]
        for substep in range(torques.shape[1]):
            for j in range(actuators.shape[1]):
                store_double(address[CTRL], actuators[row, j], torques[row, substep, j])
            for foot in range(feet.shape[1]):
                store_double(address[FRICTION], 3 * feet[row, foot], friction[row, substep, foot])
            call_model_data(mj_step, address[MODEL], address[DATA])


@dataclass(frozen=True)
class Recording:
    """What moved the robots in one control step.

    Shapes: `torques` (B, S, 12) float64, N m, of each of S physics steps; `friction` (B, S, 4)
    float64, coefficient of each foot.
    """

    torques: DoubleArray
    friction: DoubleArray


class LeggedTwin:
    """A batch that repeats an environment's motion with nothing but `mj_step`.

    Drives and foot friction act at every physics step, so that the torques and coefficients of an
    environment are found by another batch that goes through the same states first, untimed.

    Args:
        core: the environment; it is only read.
    """

    def __init__(self, core: VelocityCore) -> None:
        simulator = core.simulator
        self._core = core
        self._drives = [drive_of(robot.robot) for robot in simulator.robots]
        count, threads = simulator.num_envs, simulator.num_threads
        self.batch, self._recorder = (
            LeggedSimulator(
                simulator.robots, count, num_substeps=1, rule=simulator.rule, num_threads=threads
            )
            for _ in range(2)
        )
        self._mj_step = engine_functions().mj_step

    def record(self, actions: Sequence[FloatArray]) -> list[Recording]:
        """Return what the environment will do under actions, if no episode ends on the way.

        Args:
            actions: (B, L, 1) float32 each.
        """
        simulator, recorder, clip = (
            self._core.simulator,
            self._recorder,
            self._core.task.action_clip,
        )
        recorder.set_state(simulator.get_state())
        drives = [self._drives[robot] for robot in simulator.robot_index]
        feet = [simulator.robots[robot].foot_geoms for robot in simulator.robot_index]
        shape = (simulator.num_envs, simulator.num_substeps)
        found = []
        for action in actions:
            wanted = np.clip(action[:, :NUM_JOINTS, 0].astype(np.float64), -clip, clip)
            targets = np.stack([d.targets(a) for d, a in zip(drives, wanted, strict=True)])
            torques, friction = np.empty((*shape, NUM_JOINTS)), np.empty((*shape, NUM_FEET))
            for substep in range(simulator.num_substeps):
                recorder.step(targets)
                torques[:, substep] = recorder.torque
                for row in range(simulator.num_envs):
                    friction[row, substep] = recorder.model(row).geom_friction[feet[row], 0]
            found.append(Recording(torques, friction))
        return found

    def prepare(self, actions: Sequence[FloatArray]) -> None:
        """Put the batch where the environment is, to repeat the actions (B, L, J) from there."""
        self.batch.set_state(self._core.simulator.get_state())
        robots = [self.batch.robots[i] for i in self.batch.robot_index]
        self._actuators = np.stack([robot.actuators for robot in robots])
        self._foot_geoms = np.stack([robot.foot_geoms for robot in robots])
        self._recordings = self.record(actions)

    def run(self) -> None:
        """Repeat the control steps that were prepared."""
        numba.set_num_threads(self.batch.num_threads)
        for recording in self._recordings:
            _bare_steps(
                self._mj_step, self.batch.addresses, self._actuators, self._foot_geoms,
                recording.torques, recording.friction,
            )  # fmt: skip
