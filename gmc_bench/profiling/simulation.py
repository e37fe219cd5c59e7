"""Whole environment steps beside bare engine steps and beside gymnasium's process pool."""

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numba
import numpy as np
from gymnasium.vector import AsyncVectorEnv

from gmc_bench.core.types import Array, FloatArray, IntArray
from gmc_bench.envs.morphology_env import MorphologyEnv
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.envs.velocity_core import VelocityCore
from gmc_bench.profiling import legged
from gmc_bench.profiling.setting import Setting
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.engine import call_model_data, engine_functions, store_double
from gmc_bench.sim.kernels import CTRL, DATA, MODEL

BLOCK = 10
"""Control steps between two points where both sides start from the same states."""
NUM_ACTIONS = 16
"""Pre-drawn batches of random actions."""
NUM_PROCESSES = 32
"""Environments of the process pool."""
ACTION_STD = 0.9


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


def profile_simulation(setting: Setting) -> dict[str, Any]:
    """Measure env steps per second of the batched environment and of its references.

    The environment and the bare loop take turns in blocks of ten control steps that start from
    the same states and use the same controls, so that neither profits from easier contacts or
    from a quieter machine; each rate is that of its median block, because a shared machine stalls
    now one side, now the other.

    Returns:
        `env_steps_per_s`, `bare_steps_per_s` (control steps of four engine steps),
        `async_steps_per_s`, their `ratio_...` fields, what each means, and the setting.
    """
    env_rate, bare_rate = env_and_bare_rates(setting)
    pool = _async_rate(setting)
    return {
        "env_steps_per_s": env_rate,
        "bare_steps_per_s": bare_rate,
        "async_steps_per_s": pool,
        "ratio_env_to_bare_mj_step": env_rate / bare_rate,
        "ratio_env_to_async_vector_env": env_rate / pool,
        "explained": {
            "env_steps_per_s": "observation, reward, termination and reset included",
            "bare_steps_per_s": "mj_step alone, same states, controls and threads",
            "async_steps_per_s": f"gymnasium AsyncVectorEnv, {NUM_PROCESSES} single environments",
            "ratio_env_to_bare_mj_step": "env_steps_per_s / bare_steps_per_s",
            "ratio_env_to_async_vector_env": "env_steps_per_s / async_steps_per_s",
        },
        "setting": setting.describe(),
    }


def profile_tasks(settings: Sequence[Setting]) -> dict[str, Any]:
    """Measure several tasks' environments, each beside `mj_step` on its own models.

    A step holds everything that its task needs: observation, height map, reward, termination,
    metrics, and resets on new terrain. The bare loop steps the same terrain and bodies.

    Args:
        settings: one per task, otherwise alike; at least one.

    Returns:
        `tasks`: by id `env_steps_per_s`, `bare_steps_per_s`, `ratio_env_to_bare_mj_step`, as in
        `profile_simulation`; `setting`, with the ids of all tasks as `task`.
    """
    tasks = {}
    for setting in settings:
        env_rate, bare_rate = env_and_bare_rates(setting)
        tasks[setting.task.id] = {
            "env_steps_per_s": env_rate,
            "bare_steps_per_s": bare_rate,
            "ratio_env_to_bare_mj_step": env_rate / bare_rate,
        }
    return {"tasks": tasks, "setting": {**settings[0].describe(), "task": list(tasks)}}


def task_tables(figures: dict[str, Any]) -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """Yield the table of `profile_tasks`: title, headings, rows."""
    setting = figures["setting"]
    bodies = setting["morphologies"]
    title = (
        f"{setting['num_envs']} environments, {bodies['bodies']} bodies of {bodies['id']}; whole "
        "control steps beside mj_step alone on the same models, states, controls and threads"
    )
    headings = ["task", "env steps/s", "bare mj_step/s", "env / bare"]
    yield (
        title,
        headings,
        [
            [
                name,
                f"{found['env_steps_per_s']:,.0f}",
                f"{found['bare_steps_per_s']:,.0f}",
                f"{found['ratio_env_to_bare_mj_step']:.3f}",
            ]
            for name, found in figures["tasks"].items()
        ],
    )


def env_and_bare_rates(setting: Setting) -> tuple[float, float]:
    """Return env steps per second of the environment, and of nothing but `mj_step`."""
    env = MorphologyVectorEnv(
        setting.task,
        setting.bodies,
        setting.num_envs,
        token_spec=setting.spec,
        num_threads=setting.num_threads,
        fixed=True,
    )
    env.reset(seed=0)
    actions = _random_actions(env.action_space.shape)
    whole, bare = _alternate(env, actions, setting.seconds)
    env_rate = BLOCK * setting.num_envs / statistics.median(whole)
    bare_rate = BLOCK * setting.num_envs / statistics.median(bare)
    return env_rate, bare_rate


def _random_actions(shape: tuple[int, ...] | None) -> list[FloatArray]:
    assert shape is not None
    random = np.random.default_rng(0)
    return [random.normal(0.0, ACTION_STD, shape).astype(np.float32) for _ in range(NUM_ACTIONS)]


def _alternate(
    env: MorphologyVectorEnv, actions: list[FloatArray], seconds: float
) -> tuple[list[float], list[float]]:
    """Return the seconds of every block in the environment, and in the bare loop."""
    if isinstance(env.core, VelocityCore):
        return legged.alternate(env, actions, seconds, BLOCK)
    simulator = env.core.simulator
    layout = simulator.layout
    twin = BatchSimulator(simulator.models, env.num_envs, layout, simulator.num_threads)
    slots = layout.actuator_slot[simulator.model_index]
    controls = [
        np.take_along_axis(action.reshape(env.num_envs, -1), slots, axis=1) for action in actions
    ]
    twin.set_state(simulator.get_state())
    bare_step = _bare_stepper(twin)
    for action, control in zip(actions, controls, strict=True):  # compile and warm up
        env.step(action)
        bare_step(control)
    blocks: tuple[list[float], list[float]] = ([], [])
    steps = 0
    while sum(blocks[1]) < seconds:
        twin.set_state(simulator.get_state())
        chosen = [(steps + i) % NUM_ACTIONS for i in range(BLOCK)]
        for side in (0, 1) if (steps // BLOCK) % 2 else (1, 0):
            started = time.perf_counter()
            for i in chosen:
                if side == 0:
                    bare_step(controls[i])
                else:
                    env.step(actions[i])
            blocks[side].append(time.perf_counter() - started)
        steps += BLOCK
    return blocks[1], blocks[0]


def _bare_stepper(twin: BatchSimulator) -> Callable[[FloatArray], None]:
    mj_step = engine_functions().mj_step
    num_ctrl = np.array([twin.models[i].model.nu for i in twin.model_index])

    def step(control: FloatArray) -> None:
        numba.set_num_threads(twin.num_threads)
        _bare_steps(mj_step, twin.addresses, control, num_ctrl, twin.num_substeps)

    return step


def _async_rate(setting: Setting) -> float:
    """Return env steps per second of gymnasium's process pool over the single environment."""
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
        actions = _random_actions(pool.action_space.shape)
        for action in actions:
            pool.step(action)
        blocks: list[float] = []
        while sum(blocks) < setting.seconds:
            started = time.perf_counter()
            for step in range(BLOCK):
                pool.step(actions[step])
            blocks.append(time.perf_counter() - started)
        return BLOCK * count / statistics.median(blocks)
    finally:
        pool.close()
