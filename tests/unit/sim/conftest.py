import numpy as np
import pytest

from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.sim.model import compile_models
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table


@pytest.fixture(scope="session")
def models():
    """Three bodies of 2, 4 and 5 limbs on the flat floor."""
    return compile_models([chain(2), star(3), biped()], TASK.scene)


@pytest.fixture(scope="session")
def layout(models):
    return build_table(models, TokenSpec(5)).layout


@pytest.fixture
def make_batch(models, layout):
    """Build a batch that hosts the bodies in turn, and readings for it."""

    def make(num_envs=3, num_threads=1):
        batch = BatchSimulator(models, num_envs, layout, num_threads)
        batch.assign(np.arange(num_envs), np.arange(num_envs) % 3)
        return batch, np.zeros((num_envs, 5, 17), np.float32)

    return make
