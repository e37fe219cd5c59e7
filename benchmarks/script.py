"""Command lines of the benchmarks: shared options, printing of a report, ends of scripts."""

import argparse
import sys
from collections.abc import Callable
from typing import NoReturn

from gmc_bench.core.errors import GmcBenchError
from gmc_bench.profiling.report import Report, machine_markdown
from gmc_bench.sim.batch import available_threads


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=available_threads(), help="default: all")
    parser.add_argument("--seconds", type=float, default=20.0, help="on each side (default: 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def show(report: Report, *, as_json: bool) -> None:
    """Print a report."""
    if as_json:
        print(report.to_json())
    else:
        print(f"{report.to_markdown()}\n{machine_markdown(report.machine)}")


def run(main: Callable[[], int | None]) -> NoReturn:
    """Run a script and end the process; bad input ends it with one sentence and exit code 2."""
    try:
        code = main()
    except GmcBenchError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    sys.exit(code or 0)
