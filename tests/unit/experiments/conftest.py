"""Experiments on a set of two small bodies."""

import pytest

from gmc_bench.suites.unimal import SUITE
from gmc_bench.training.run_config import RunConfig


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tiny_set):
    """Work in an empty folder; the only imported set is `tiny`."""


@pytest.fixture
def config(tiny_set):
    """RecMorph on flat terrain under the smallest protocol."""
    return RunConfig(
        method="recmorph",
        method_config={},
        suite="unimal-v1",
        task="unimal-ft-v1",
        morphologies="tiny",
        morphologies_digest=tiny_set.digest,
        protocol=SUITE.protocol("smoke"),
        seed=1,
    )
