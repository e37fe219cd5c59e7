"""A process that runs one cell of a sweep and ends: `python -m ...worker FOLDER NAME NICE`.

Its standard input is a pipe that whoever started it holds open; the cell stops at its next
checkpoint when that ends, so that no worker outlives its driver for long.
"""

import contextlib
import logging
import os
import sys
from pathlib import Path

from gmc_bench.core.errors import GmcBenchError
from gmc_bench.experiments.cell import FAILED, HELD, Stop, run_cell
from gmc_bench.experiments.lease import FolderInUseError, LeaseLostError


def main(argv: list[str]) -> int:
    """Run the cell; return its exit code."""
    folder, name, nice = argv
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    stop = Stop(watched=sys.stdin.fileno())  # before anything slow, so that signals are kept
    with contextlib.suppress(OSError):
        os.nice(int(nice))
    try:
        return run_cell(Path(folder), name, stop)
    except (FolderInUseError, LeaseLostError) as error:
        sys.stderr.write(f"{error}\n")
        return HELD
    except GmcBenchError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
