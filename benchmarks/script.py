"""Command lines of the benchmarks: shared options, reports, continued results, ends of scripts."""

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from gmc_bench.core.errors import GmcBenchError
from gmc_bench.profiling.report import Report, describe_machine, machine_markdown
from gmc_bench.records.store import write_atomic
from gmc_bench.sim.batch import available_threads


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=available_threads(), help="default: all")
    parser.add_argument("--seconds", type=float, default=20.0, help="on each side (default: 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def make_resumable_parser(
    description: str,
    *,
    is_needed: bool = True,
    seconds: float = math.inf,
    what: str = "at most, now",
) -> argparse.ArgumentParser:
    """Return a parser with the options of benchmarks that go on where they were stopped.

    Args:
        description: of the benchmark.
        is_needed: whether every call needs a file of results.
        seconds: default of `--seconds`.
        what: `--seconds` is.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=float, default=seconds, help=what)
    parser.add_argument("--out", type=Path, required=is_needed, help="results, JSON; continued")
    return parser


def read_results(path: Path, **beginning: Any) -> dict[str, Any]:
    """Return the results so far; where there are none, what they begin with."""
    content: dict[str, Any] = json.loads(path.read_bytes()) if path.exists() else beginning
    return content


def write_results(path: Path, content: dict[str, Any]) -> None:
    """Write the results so far, with the machine that they come from."""
    content = {**content, "machine": describe_machine(1)}
    write_atomic(path, json.dumps(content, indent=1).encode() + b"\n")


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
