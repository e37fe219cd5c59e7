"""A set of small bodies for tests that name one."""

import pytest

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.store import DATA_VARIABLE, store_set
from gmc_bench.conformance.morphologies import biped, chain, star


@pytest.fixture
def tiny_set(tmp_path_factory, tmp_path, monkeypatch):
    """Work in an empty folder; the only imported set is `tiny`."""
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path_factory.mktemp("data")))
    monkeypatch.chdir(tmp_path)
    bodies = MorphologySet(
        id="tiny",
        splits={"train": (chain(3), star(3)), "test": (biped(), chain(3))},
        source="made for tests",
        licence="MIT",
    )
    store_set(bodies)
    return bodies
