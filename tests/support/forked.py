"""Commands in processes of their own that skip the seconds of importing torch.

The standard library's fork server has imported everything and run nothing; a command is a fork of
it. It has signals, limits, streams and memory of its own, as a command of a new interpreter has.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

from gmc_bench.cli.main import main

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["gmc_bench.cli.main", "gmc_bench.training.trainer", "gmc_bench.records.curve", "torch._dynamo"]
)


class Forked:
    """A running `gmc-bench`, with the part of `subprocess.Popen` that tests need.

    Args:
        argv: its arguments.
        cwd: its folder.
        env: its environment.
    """

    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        readers, writers = zip(*(CONTEXT.Pipe(duplex=False) for _ in range(2)), strict=True)
        self._process = CONTEXT.Process(
            target=_run, args=(list(argv), str(cwd), dict(env), *writers)
        )
        self._process.start()
        for writer in writers:
            writer.close()
        # Pipes must be read all the time: a command that fills one waits.
        threads = ThreadPoolExecutor(len(readers))
        self._texts = [threads.submit(_read, reader) for reader in readers]
        threads.shutdown(wait=False)

    @property
    def pid(self) -> int:
        """Number of the process."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Exit code, minus the number of the signal that ended it, or `None` while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return `returncode`."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end; return what it wrote to stdout and stderr.

        Raises:
            subprocess.TimeoutExpired: it did not end within `timeout` seconds.
        """
        self._process.join(timeout)
        if self._process.is_alive():
            assert timeout is not None
            raise subprocess.TimeoutExpired("gmc-bench", timeout)
        out, err = (text.result() for text in self._texts)
        return out, err


def _read(reader: Connection) -> str:
    with reader, os.fdopen(os.dup(reader.fileno()), encoding="utf-8") as file:
        return file.read()


def _run(argv: list[str], cwd: str, env: dict[str, str], out: Connection, err: Connection) -> None:
    # A shell that runs tests in the background lets them ignore interruptions.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    with out, err:
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
    sys.argv[1:] = argv
    sys.exit(main(argv))
