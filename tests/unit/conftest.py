"""A set of small bodies for tests that name one."""

import shutil

import pytest

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.store import DATA_VARIABLE, store_set
from gmc_bench.conformance.morphologies import biped, chain, star


@pytest.fixture(scope="session")
def stored_tiny_set(tmp_path_factory):
    """Return the set `tiny` and the data folder that it is stored in, which nobody changes."""
    folder = tmp_path_factory.mktemp("stored")
    bodies = MorphologySet(
        id="tiny",
        splits={"train": (chain(3), star(3)), "test": (biped(), chain(3))},
        source="made for tests",
        licence="MIT",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATA_VARIABLE, str(folder))
        store_set(bodies)
    return bodies, folder


@pytest.fixture
def tiny_set(stored_tiny_set, tmp_path_factory, tmp_path, monkeypatch):
    """Work in an empty folder; the only imported set is `tiny`."""
    bodies, stored = stored_tiny_set
    data = tmp_path_factory.mktemp("data")
    shutil.copytree(stored, data, symlinks=True, dirs_exist_ok=True)
    monkeypatch.setenv(DATA_VARIABLE, str(data))
    monkeypatch.chdir(tmp_path)
    return bodies
