"""Whole environment steps beside bare engine steps and beside gymnasium's process pool."""

import multiprocessing
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numba
import numpy as np
from gymnasium.vector import AsyncVectorEnv

from gmc_bench.bodies.body import Body
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.jit import njit
from gmc_bench.core.table import Table
from gmc_bench.core.types import Array, DoubleArray, FloatArray, IntArray
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.envs.morphology_env import MorphologyEnv
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.profiling.report import Report, figure_table
from gmc_bench.profiling.setting import Setting
from gmc_bench.profiling.timing import Side, Timing, take_turns, timed
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.columns import CTRL, DATA, FRICTION, MODEL
from gmc_bench.sim.engine import call_model_data, engine_functions, store_double

BLOCK = 10
"""Control steps between two points where all sides start from the same states."""
NUM_ACTIONS = 16
"""Pre-drawn batches of random actions."""
NUM_PROCESSES = 32
"""Environments of the process pool."""
ACTION_STD = 0.9
EXPLAINED = {
    "env_steps_per_s": "observation, reward, termination and reset included",
    "bare_steps_per_s": "mj_step alone, same states, controls and threads",
    "async_steps_per_s": f"gymnasium AsyncVectorEnv, {NUM_PROCESSES} single environments",
    "ratio_env_to_bare_mj_step": "env_steps_per_s / bare_steps_per_s",
    "ratio_env_to_async_vector_env": "env_steps_per_s / async_steps_per_s",
}


@njit(cache=True, parallel=True, nogil=True)
def bare_steps(
    mj_step: int,
    addresses: Array,
    places: IntArray,
    ctrl: DoubleArray,
    feet: IntArray,
    friction: DoubleArray,
) -> None:
    """Do nothing but `mj_step`, on the same threads as the environment.

    Args:
        mj_step: address of the C function.
        addresses: (B, ...) int64, see `gmc_bench.sim.columns`.
        places: (B, A) int64, where controls go; -1 for none.
        ctrl: (B, S, A) float64, controls of S engine steps.
        feet: (B, F) int64, geoms whose friction is set.
        friction: (B, S, F) float64, their coefficients.
    """
    for row in numba.prange(addresses.shape[0]):
        address = addresses[row]
        for substep in range(ctrl.shape[1]):
            for a in range(places.shape[1]):
                if places[row, a] >= 0:
                    store_double(address[CTRL], places[row, a], ctrl[row, substep, a])
            for foot in range(feet.shape[1]):
                store_double(address[FRICTION], 3 * feet[row, foot], friction[row, substep, foot])
            call_model_data(mj_step, address[MODEL], address[DATA])


class BareTwin:
    """A batch that repeats an environment's motion with nothing but `mj_step`.

    Joint drives and foot friction act at every engine step, so that where there are any, torques
    and coefficients are found by a third batch that goes through the same states first, untimed.

    Args:
        core: the environment; it is only read.
    """

    def __init__(self, core: EnvironmentCore) -> None:
        simulator, size = core.simulator, (core.simulator.num_envs, core.simulator.layout)
        self._core = core
        self.batch = BatchSimulator(simulator.models, *size, simulator.num_threads)
        if core.driven is not None:  # one engine step at a time
            models = [
                replace(model, scene=replace(model.scene, num_substeps=1))
                for model in simulator.models
            ]
            self._recorder = BatchSimulator(models, *size, simulator.num_threads)
        self._mj_step = engine_functions().mj_step
        self.steps: list[tuple[DoubleArray, DoubleArray]] = []
        """What moves the bodies in each control step: controls (B, S, A) of S engine steps, and
        friction coefficients of the feet (B, S, F)."""

    def prepare(self, actions: Sequence[FloatArray]) -> None:
        """Put the batch where the environment is, to repeat the actions (B, L, J) from there.

        Where an episode of the environment ends on the way, the batch goes on without a reset.
        """
        batch, simulator = self.batch, self._core.simulator
        batch.set_state(simulator.get_state())
        flat = [action.reshape(batch.num_envs, -1) for action in actions]
        if self._core.driven is not None:
            self._places = np.ascontiguousarray(batch.drives.joints[batch.model_index, :, 2])
            self._feet = batch.drives.feet[batch.model_index, :, 1].astype(np.int64)
            self._recorder.set_state(simulator.get_state())
            self.steps = [self._record(action) for action in flat]
            return
        assert batch.layout is not None
        slots = batch.layout.actuator_slot[batch.model_index]
        count = np.array([batch.models[i].model.nu for i in batch.model_index])
        column = np.arange(slots.shape[1])
        self._places = np.where(column < count[:, None], column, -1)
        self._feet = np.zeros((batch.num_envs, 0), np.int64)
        nothing = np.zeros((batch.num_envs, batch.num_substeps, 0))
        chosen = [np.take_along_axis(action, slots, axis=1).astype(np.float64) for action in flat]
        self.steps = [
            (np.repeat(ctrl[:, None], batch.num_substeps, axis=1), nothing) for ctrl in chosen
        ]

    def _record(self, action: FloatArray) -> tuple[DoubleArray, DoubleArray]:
        """Return torques and friction of one control step of joint drives."""
        recorder, driven = self._recorder, self._core.driven
        assert driven is not None
        targets = driven.targets(driven.clip(action))
        torques, friction = [], []
        for _ in range(self.batch.num_substeps):
            recorder.step(targets)
            torques.append(recorder.drive_state.torque.copy())
            friction.append(
                [recorder.model(row).geom_friction[feet, 0] for row, feet in enumerate(self._feet)]
            )
        return np.stack(torques, axis=1), np.array(friction).swapaxes(0, 1).copy()

    def run(self) -> None:
        """Repeat the control steps that were prepared."""
        numba.set_num_threads(self.batch.num_threads)
        for ctrl, friction in self.steps:
            bare_steps(
                self._mj_step, self.batch.addresses, self._places, ctrl, self._feet, friction
            )


def profile_simulation(setting: Setting) -> Report:
    """Measure env steps per second of the batched environment and of its references.

    All sides take turns in blocks of ten control steps. The environment and the bare loop start
    every block from the same states and use the same actions, so that neither profits from easier
    contacts; within a block the bare loop does not reset. Each rate is that of its median block.

    Returns:
        `env_steps_per_s`, `bare_steps_per_s` (control steps of four engine steps),
        `async_steps_per_s`, their `ratio_...` fields, what each means, and the setting.
    """
    count = min(NUM_PROCESSES, setting.num_envs)
    # A fork server, because a process that has used a thread pool must not be forked.
    multiprocessing.set_forkserver_preload(["gmc_bench.envs.morphology_env"])
    makers = [
        partial(MorphologyEnv, setting.task, bodies, token_spec=setting.spec)
        for bodies in _shares(setting.bodies, count)
    ]
    pool = AsyncVectorEnv(makers, context="forkserver")
    try:
        pool.reset(seed=0)
        found = time_simulation(setting, {"async": _stepping(pool, count)})
    finally:
        pool.close()
    rates = {f"{name}_steps_per_s": timing.rate for name, timing in found.items()}
    env = rates["env_steps_per_s"]
    rates["ratio_env_to_bare_mj_step"] = env / rates["bare_steps_per_s"]
    rates["ratio_env_to_async_vector_env"] = env / rates["async_steps_per_s"]
    figures = {**rates, "explained": EXPLAINED}
    return setting.report("sim", [figure_table(rates, EXPLAINED)], figures)


def _shares(bodies: Sequence[Body], count: int) -> list[tuple[Body, ...]]:
    """Return the bodies of each of `count` environments of a process pool.

    Each gets a share, which it compiles alone; but all of them where some have closed loops, since
    the pool needs equal spaces and `loops` is as long as the most loops of an environment's bodies.
    """
    if any(isinstance(body, Morphology) and body.loops for body in bodies):
        return [tuple(bodies)] * count
    return [tuple(bodies[i % len(bodies) :: count]) for i in range(count)]


def profile_tasks(settings: Sequence[Setting]) -> Report:
    """Measure several tasks' environments, each beside `mj_step` on its own models.

    A step holds everything that its task needs: observation, height map, reward, termination,
    metrics, and resets on new terrain. The bare loop steps the same terrain and bodies.

    Args:
        settings: one per task, otherwise alike; at least one.

    Returns:
        `tasks`: by id `env_steps_per_s`, `bare_steps_per_s`, `ratio_env_to_bare_mj_step`, as in
        `profile_simulation`; `setting`, with the ids of all tasks as `task`.
    """
    tasks, rows = {}, []
    for setting in settings:
        name, found = setting.task.id, time_simulation(setting)
        env, bare = found["env"].rate, found["bare"].rate
        tasks[name] = {
            "env_steps_per_s": env,
            "bare_steps_per_s": bare,
            "ratio_env_to_bare_mj_step": env / bare,
        }
        rows.append([name, f"{env:,.0f}", f"{bare:,.0f}", f"{env / bare:.3f}"])
    title = (
        f"{settings[0].num_envs} environments; whole control steps beside mj_step alone on the "
        f"same models, states, controls and threads"
    )
    table = Table(("task", "env steps/s", "bare mj_step/s", "env / bare"), rows, title)
    return settings[0].report("sim", [table], {"tasks": tasks, "setting": {"task": list(tasks)}})


def time_simulation(
    setting: Setting, others: Mapping[str, Side] | None = None
) -> dict[str, Timing]:
    """Let the environment (`env`), nothing but `mj_step` (`bare`), and other sides take turns."""
    env = MorphologyVectorEnv(
        setting.task,
        setting.bodies,
        setting.num_envs,
        token_spec=setting.spec,
        num_threads=setting.num_threads,
        fixed=True,
    )
    env.reset(seed=0)
    core, actions = env.core, random_actions(env.action_space.shape)
    twin = BareTwin(core)
    sides: dict[str, Side] = {
        "env": _stepping(env, setting.num_envs),
        "bare": lambda _: (timed(twin.run)[1], BLOCK * setting.num_envs),
        **(others or {}),
    }
    return take_turns(
        sides, setting.seconds, prepare=lambda block: twin.prepare(_chosen(actions, block))
    )


def random_actions(shape: tuple[int, ...] | None) -> list[FloatArray]:
    """Return batches of actions, the same every time."""
    assert shape is not None
    random = np.random.default_rng(0)
    return [random.normal(0.0, ACTION_STD, shape).astype(np.float32) for _ in range(NUM_ACTIONS)]


def _chosen(actions: Sequence[FloatArray], block: int) -> list[FloatArray]:
    return [actions[(block * BLOCK + i) % NUM_ACTIONS] for i in range(BLOCK)]


def _stepping(env: Any, num_envs: int) -> Side:
    """Return a side that takes a block of steps of a vector environment."""
    actions = random_actions(env.action_space.shape)

    def step(block: int) -> None:
        for action in _chosen(actions, block):
            env.step(action)

    return lambda block: (timed(step, block)[1], BLOCK * num_envs)
