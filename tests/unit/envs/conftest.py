from collections.abc import Callable

import numpy as np
import pytest

from gmc_bench.bodies.schema import Morphology
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.core.types import FloatArray
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.tasks.spec import Task
from gmc_bench.tasks.unimal_ft import TASK

MakeEnv = Callable[..., MorphologyVectorEnv]
Actions = Callable[..., FloatArray]


@pytest.fixture(scope="session")
def bodies() -> list[Morphology]:
    """Bodies of 4, 4 and 5 limbs; under random actions all of them fall within about 60 steps."""
    return [chain(4), star(3), biped()]


@pytest.fixture
def make_env(bodies) -> MakeEnv:
    """Build a batched environment; by default flat terrain, all bodies, four environments.

    One thread is the default: threads wait for each other at every step, which takes long where
    other processes use the cores.
    """

    def make(
        num_envs: int = 4, task: Task = TASK, *, num_threads: int = 1, **options
    ) -> MorphologyVectorEnv:
        return MorphologyVectorEnv(task, bodies, num_envs, num_threads=num_threads, **options)

    return make


@pytest.fixture
def draw_actions() -> Actions:
    """Draw random actions, some beyond [-1, 1]: shape (num_steps, *shape of one step)."""

    def draw(env: MorphologyVectorEnv, num_steps: int, seed: int = 0) -> FloatArray:
        shape = (num_steps, *env.action_space.shape)
        return np.random.default_rng(seed).normal(0.0, 0.9, shape).astype(np.float32)

    return draw
