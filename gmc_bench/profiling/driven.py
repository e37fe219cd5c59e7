"""Bare engine steps that repeat the motion of an environment of bodies with joint drives."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numba
import numpy as np

from gmc_bench.core.types import Array, DoubleArray, FloatArray, IntArray
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.columns import CTRL, DATA, FRICTION, MODEL
from gmc_bench.sim.engine import call_model_data, compiled, engine_functions, store_double


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
    """What moved the bodies in one control step.

    Shapes: `torques` (B, S, A) float64, N m, of each of S engine steps; `friction` (B, S, F)
    float64, coefficient of each foot.
    """

    torques: DoubleArray
    friction: DoubleArray


class DrivenTwin:
    """A batch that repeats an environment's motion with nothing but `mj_step`.

    Drives and foot friction act at every engine step, so that the torques and coefficients of an
    environment are found by another batch that goes through the same states first, untimed.

    Args:
        core: the environment; it is only read.
    """

    def __init__(self, core: EnvironmentCore) -> None:
        simulator = core.simulator
        self._core = core
        # One engine step at a time.
        models = [
            replace(model, scene=replace(model.scene, num_substeps=1)) for model in simulator.models
        ]
        self.batch, self._recorder = (
            BatchSimulator(models, simulator.num_envs, num_threads=simulator.num_threads)
            for _ in range(2)
        )
        self._mj_step = engine_functions().mj_step

    def record(self, actions: Sequence[FloatArray]) -> list[Recording]:
        """Return what the environment will do under actions, if no episode ends on the way.

        Args:
            actions: (B, L, 1) float32 each.
        """
        simulator, recorder, driven = self._core.simulator, self._recorder, self._core.driven
        assert driven is not None
        recorder.set_state(simulator.get_state())
        feet = simulator.drives.feet[simulator.model_index, :, 1].astype(np.int64)
        rows, steps = simulator.num_envs, simulator.num_substeps
        found = []
        for action in actions:
            targets = driven.targets(driven.cut_off(action.reshape(rows, -1)))
            torques = np.empty((rows, steps, targets.shape[1]))
            friction = np.empty((rows, steps, feet.shape[1]))
            for substep in range(steps):
                recorder.step(targets)
                torques[:, substep] = recorder.drive_state.torque
                for row in range(rows):
                    friction[row, substep] = recorder.model(row).geom_friction[feet[row], 0]
            found.append(Recording(torques, friction))
        return found

    def prepare(self, actions: Sequence[FloatArray]) -> None:
        """Put the batch where the environment is, to repeat the actions (B, L, J) from there."""
        batch = self.batch
        batch.set_state(self._core.simulator.get_state())
        self._actuators = np.ascontiguousarray(batch.drives.joints[batch.model_index, :, 2])
        self._feet = batch.drives.feet[batch.model_index, :, 1].astype(np.int64)
        self._recordings = self.record(actions)

    def run(self) -> None:
        """Repeat the control steps that were prepared."""
        numba.set_num_threads(self.batch.num_threads)
        for recording in self._recordings:
            _bare_steps(
                self._mj_step, self.batch.addresses, self._actuators, self._feet,
                recording.torques, recording.friction,
            )  # fmt: skip
