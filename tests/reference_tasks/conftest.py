"""Bodies and environments that the comparisons share."""

import os
from pathlib import Path

import numpy as np
import pytest

from gmc_bench.bodies.mjcf import read_mjcf
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.envs.core import EnvironmentCore
from gmc_bench.tasks import TASKS


@pytest.fixture(scope="session")
def bodies():
    return [chain(4), chain(6), star(3), star(4), biped()]


@pytest.fixture(scope="session")
def published_bodies():
    """Five of the 202 published bodies, from both splits."""
    default = Path(__file__).parents[3] / "shared" / "data" / "unimals_100"
    folder = Path(os.environ.get("GMC_UNIMALS_DIR", default))
    if not folder.is_dir():
        pytest.skip(f"the published bodies are not in {folder}; set GMC_UNIMALS_DIR")
    files = sorted(folder.glob("*/xml/*.xml"))
    return [read_mjcf(path) for path in files[::45]]


@pytest.fixture(scope="session")
def make_core():
    """Build the batched path of a task, one row per body, freshly reset."""

    def make(name, bodies, seed=0):
        core = EnvironmentCore(TASKS.get(name), bodies, len(bodies), num_threads=1)
        core.simulator.seed(seed)
        rows = np.arange(len(bodies))
        core.reset(rows, rows)
        return core

    return make
