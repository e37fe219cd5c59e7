"""The command line inside this process, on a set of two small bodies."""

import signal

import pytest

from gmc_bench.cli.main import main


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tiny_set):
    """Work in an empty folder; the only imported set is `tiny`."""


@pytest.fixture
def gmc(capfd):
    """Run a command; return its exit code, stdout and stderr."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run(*argv):
        capfd.readouterr()
        code = main([str(word) for word in argv])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)
