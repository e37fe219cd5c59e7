"""The command line inside this process, on a set of two small bodies."""

import signal

import pytest
import torch

from gmc_bench.cli.main import main


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tiny_set):
    """Work in an empty folder; the only imported set is `tiny`."""


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
