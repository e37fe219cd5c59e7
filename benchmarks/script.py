"""Command lines of the benchmarks: shared options, reports, continued results, ends of scripts."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from gmc_bench.cli.parser import Parser as OptionParser
from gmc_bench.cli.parser import amount, integer
from gmc_bench.core.errors import ConfigError, GmcBenchError
from gmc_bench.profiling.report import Report, describe_machine, machine_markdown
from gmc_bench.records.store import make_folder, write_atomic
from gmc_bench.sim.batch import available_threads

ALL_THREADS = available_threads()


class Parser(OptionParser):
    """A parser of a benchmark's options."""

    def __init__(self, description: str) -> None:
        prog = f"python -m benchmarks.{Path(sys.argv[0]).stem}"
        super().__init__(prog=prog, description=description)


count = integer(1)
"""Converts an option that takes an integer of at least 1."""
duration = amount("seconds", zero=True)
"""Converts an option that takes seconds."""


def make_parser(
    description: str,
    *,
    threads: int | None = ALL_THREADS,
    seconds: float | None = 20.0,
    as_json: bool = True,
) -> Parser:
    """Return a parser with the options that measuring scripts share.

    Args:
        description: of the benchmark.
        threads: default of `--threads`; `None` for a script without this option.
        seconds: the same of `--seconds`.
        as_json: whether there is `--json`.
    """
    parser = Parser(description)
    if threads is not None:
        text = "all" if threads == ALL_THREADS else str(threads)
        parser.add_argument("--threads", type=count, default=threads, help=f"default: {text}")
    if seconds is not None:
        text = f"on each side (default: {seconds:g})"
        parser.add_argument("--seconds", type=duration, default=seconds, help=text)
    if as_json:
        parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def add_bodies(parser: Parser, default: str | None = None) -> None:
    """Add the option for the bodies to train on."""
    text = "body set; SET:N for its first N train bodies"
    text += f" (default: {default})" if default else ""
    parser.add_argument("--morphologies", default=default, help=text)


def make_resumable_parser(
    description: str,
    *,
    is_needed: bool = True,
    seconds: float = math.inf,
    what: str = "at most, now (default: no limit)",
) -> Parser:
    """Return a parser with the options of benchmarks that go on where they were stopped.

    Args:
        description: of the benchmark.
        is_needed: whether every call needs a file of results.
        seconds: default of `--seconds`.
        what: help of `--seconds`.
    """
    parser = Parser(description)
    parser.add_argument("--seconds", type=duration, default=seconds, help=what)
    parser.add_argument("--out", type=Path, required=is_needed, help="results, JSON; continued")
    return parser


def read_results(path: Path, **beginning: Any) -> dict[str, Any]:
    """Return the results so far; where there are none, what they begin with.

    Raises:
        ConfigError: the file holds something else.
    """
    if not path.exists():
        return beginning
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        content = None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is not a file of results; give --out another name")
    return content


def write_results(path: Path, content: dict[str, Any]) -> None:
    """Write the results so far, with the machine that they come from."""
    content = {**content, "machine": describe_machine(1)}
    write_atomic(path, json.dumps(content, indent=1).encode() + b"\n")


def prepare_output(path: Path) -> None:
    """Make the folder of a file that is written at the end: before the long part, not after it.

    Raises:
        ConfigError: the path is a folder.
        StorageError: the folder cannot be made.
    """
    if path.is_dir():
        raise ConfigError(f"--out is the folder {path}; name a file")
    make_folder(path.parent)


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
