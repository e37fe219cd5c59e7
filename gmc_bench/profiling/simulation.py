"""Whole environment steps beside bare engine steps and beside gymnasium's process pool."""

import multiprocessing
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numba
import numpy as np
from gymnasium.vector import AsyncVectorEnv

from gmc_bench.core.table import Table
from gmc_bench.core.types import Array, FloatArray, IntArray
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.envs.morphology_env import MorphologyEnv
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.profiling.driven import DrivenTwin
from gmc_bench.profiling.report import Report, figure_table
from gmc_bench.profiling.setting import Setting
from gmc_bench.profiling.timing import Side, Timing, take_turns, timed
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.columns import CTRL, DATA, MODEL
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


@numba.njit(cache=True, parallel=True, nogil=True)
def _bare_steps(
    mj_step: int, addresses: Array, ctrl: FloatArray, num_ctrl: IntArray, num_substeps: int
) -> None:
    """Do nothing but `mj_step`, on the same threads as the environment."""
    for row in numba.prange(addresses.shape[0]):
        address = addresses[row]
        for a in range(num_ctrl[row]):
            store_double(address[CTRL], a, np.float64(ctrl[row, a]))
        for _ in range(num_substeps):
            call_model_data(mj_step, address[MODEL], address[DATA])


class BareTwin:
    """A batch that repeats an environment's motion with nothing but `mj_step`.

    Args:
        core: the environment; it is only read.
    """

    def __init__(self, core: EnvironmentCore) -> None:
        simulator = core.simulator
        self._simulator = simulator
        self.batch = BatchSimulator(
            simulator.models, simulator.num_envs, simulator.layout, simulator.num_threads
        )
        self._mj_step = engine_functions().mj_step
        self._controls: list[FloatArray] = []

    def prepare(self, actions: Sequence[FloatArray]) -> None:
        """Put the batch where the environment is, to repeat the actions (B, L, J) from there."""
        batch = self.batch
        batch.set_state(self._simulator.get_state())
        slots = batch.layout.actuator_slot[batch.model_index]
        flat = [action.reshape(batch.num_envs, -1) for action in actions]
        self._controls = [np.take_along_axis(action, slots, axis=1) for action in flat]
        self._num_ctrl = np.array([batch.models[i].model.nu for i in batch.model_index])

    def run(self) -> None:
        """Repeat the control steps that were prepared."""
        numba.set_num_threads(self.batch.num_threads)
        for control in self._controls:
            _bare_steps(
                self._mj_step, self.batch.addresses, control, self._num_ctrl,
                self.batch.num_substeps,
            )  # fmt: skip


def profile_simulation(setting: Setting) -> Report:
    """Measure env steps per second of the batched environment and of its references.

    All sides take turns in blocks of ten control steps. The environment and the bare loop start
    from the same states and use the same controls, so that neither profits from easier contacts;
    each rate is that of its median block.

    Returns:
        `env_steps_per_s`, `bare_steps_per_s` (control steps of four engine steps),
        `async_steps_per_s`, their `ratio_...` fields, what each means, and the setting.
    """
    count = min(NUM_PROCESSES, setting.num_envs)
    # A fork server, because a process that has used a thread pool must not be forked.
    multiprocessing.set_forkserver_preload(["gmc_bench.envs.morphology_env"])
    makers = [
        partial(
            MorphologyEnv,
            setting.task,
            tuple(setting.bodies[i % len(setting.bodies) :: count]),
            token_spec=setting.spec,
        )
        for i in range(count)
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
    twin = DrivenTwin(core) if core.simulator.has_drives else BareTwin(core)
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
