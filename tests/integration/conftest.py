"""The command line in processes of its own, and one small run that several tests look at."""

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.store import DATA_VARIABLE, store_set
from gmc_bench.cli.main import main
from gmc_bench.conformance.morphologies import biped, chain, star
from tests.support.forked import Forked

SETTINGS = (
    "--suite", "unimal", "--task", "ft", "--protocol", "smoke", "--morphologies", "tiny",
    "--threads", "1",
    "--num-envs", "4", "--rollout-length", "32", "--env-steps", "3072", "--ppo.batch-size", "64",
    "--checkpoint-interval", "0",
)  # fmt: skip
"""24 iterations of 4 environments x 32 steps, with a checkpoint after each."""
SMALL = ("--method", "recmorph", *SETTINGS, "--model.width", "16", "--model.hidden", "16")


@dataclass(frozen=True)
class CommandLine:
    """Runs `gmc-bench` in processes of their own, in a folder of its own."""

    data: Path
    """Folder of imported bodies."""
    cwd: Path
    small: tuple[str, ...] = SMALL
    """Options of a run of a few seconds."""
    settings: tuple[str, ...] = SETTINGS
    """The same without the method."""

    def start(self, *argv: object) -> Forked:
        """Start a command; its output is text in pipes."""
        return Forked([str(word) for word in argv], self.cwd, self._environment)

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parents[2]),
            DATA_VARIABLE: str(self.data),
        }

    def __call__(self, *argv: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, which must come with an exit code."""
        process = self.start(*argv)
        out, err = process.communicate()
        assert process.returncode == code, f"exit code {process.returncode}\n{out}\n{err}"
        return subprocess.CompletedProcess(argv, code, out, err)

    def start_and_wait(self, run: Path, iteration: int, *argv: object) -> Forked:
        """Start a command and return once the run has a checkpoint of an iteration."""
        process = self.start(*argv)
        while process.poll() is None and latest(run) < iteration:
            time.sleep(0.002)
        assert process.poll() is None, process.communicate()
        return process


@pytest.fixture
def here(gmc, capfd, monkeypatch):
    """Run a command inside this process; return its exit code, stdout and stderr."""
    monkeypatch.setenv(DATA_VARIABLE, str(gmc.data))
    monkeypatch.chdir(gmc.cwd)
    handlers = {
        # A shell that runs tests in the background lets them ignore interruptions.
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        signal.SIGTERM: signal.getsignal(signal.SIGTERM),
    }

    def run(*argv, code=0):
        capfd.readouterr()
        found = main([str(word) for word in argv])
        captured = capfd.readouterr()
        assert found == code, captured
        return captured

    yield run
    for number, handler in handlers.items():
        signal.signal(number, handler)


def latest(run: Path) -> int:
    """Return the iteration of a run's newest checkpoint, 0 without one."""
    names = [path.name for path in (run / "checkpoints").glob("[0-9]*")]
    return max(map(int, names), default=0)


@pytest.fixture(scope="session")
def gmc(tmp_path_factory):
    """The command line with one imported set of two train and two test bodies."""
    data = tmp_path_factory.mktemp("data")
    before = os.environ.get(DATA_VARIABLE)
    os.environ[DATA_VARIABLE] = str(data)
    store_set(
        MorphologySet(
            id="tiny",
            splits={"train": (chain(3), star(3)), "test": (biped(), chain(3))},
            source="made for tests",
            licence="MIT",
        )
    )
    if before is None:
        del os.environ[DATA_VARIABLE]
    else:
        os.environ[DATA_VARIABLE] = before
    return CommandLine(data, tmp_path_factory.mktemp("work"))


@dataclass(frozen=True)
class FinishedRun:
    """A run that nobody disturbed; tests must not change its folder."""

    path: Path
    out: str
    err: str

    @property
    def record(self) -> dict[str, object]:
        """The record as plain JSON."""
        content: dict[str, object] = json.loads((self.path / "record.json").read_bytes())
        return content


@pytest.fixture(scope="session")
def finished_run(gmc, tmp_path_factory):
    """One small run from start to end."""
    path = tmp_path_factory.mktemp("runs") / "whole"
    done = gmc("run", *gmc.small, "--out", path)
    return FinishedRun(path, done.stdout, done.stderr)
