"""The command line inside this process, on a set of two small bodies."""

import signal

import pytest
import torch

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.store import DATA_VARIABLE, save_set
from gmc_bench.cli.main import main
from gmc_bench.conformance.morphologies import biped, chain, star


@pytest.fixture(autouse=True)
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
    save_set(bodies)
    return bodies


@pytest.fixture
def gmc(capfd):
    """Run a command; return its exit code, stdout and stderr."""
    handler, threads = signal.getsignal(signal.SIGTERM), torch.get_num_threads()

    def run(*words):
        capfd.readouterr()
        code = main([str(word) for word in words])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    yield run
    signal.signal(signal.SIGTERM, handler)
    torch.set_num_threads(threads)
