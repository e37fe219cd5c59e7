"""`gmc-bench study scaling`: its options; what it does is in `study_scaling_run`."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from gmc_bench.cli.parser import seconds
from gmc_bench.core.errors import ConfigError

NAME = "scaling"
QUESTION = "How do latency, training and memory grow with tokens and with bodies?"
EXAMPLES = (
    "gmc-bench study scaling",
    "gmc-bench study scaling --method recmorph metamorph-star --tokens 8..512 --part memory time",
)
SETTINGS = "scaling.json"
"""Marks the folder of such a study."""
PARTS = ("memory", "bodies", "time")
_OWN = ("tokens", "bodies", "part", "seconds", "max_gib", "max_seconds")
_OF_RUNS = ("suite", "task", "seeds", "against", "body")
DEFAULTS: dict[str, Any] = {
    "tokens": (8, 16, 32, 64, 128, 256, 512, 1024),
    "bodies": (1, 10, 100, 300, 1000, 3000, 10000),
    "part": PARTS,
    "seconds": 0.5,
    "max_gib": 4.0,
    "max_seconds": 120.0,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that only this study has."""
    group = parser.add_argument_group("the study 'scaling', whose networks are not trained")
    add = group.add_argument
    add(
        "--tokens",
        metavar="L",
        nargs="+",
        type=_sizes(_powers_of_two),
        help="tokens per body, numbers or 8..1024 for powers of two (default: 8..1024)",
    )
    add(
        "--bodies",
        metavar="M",
        nargs="+",
        type=_sizes(_steps_of_three),
        help="bodies of a set, numbers or 1..10000 for 1, 3, 10, 30, ... (default: 1 10 100 300 "
        "1000 3000 10000)",
    )
    add("--part", metavar="P", nargs="+", help="memory, bodies, time (default: all, in this order)")
    add(
        "--seconds",
        metavar="S",
        type=seconds(zero=False),
        help="on the repeats of each time (default: 0.5)",
    )
    add(
        "--max-gib",
        metavar="G",
        type=_positive,
        help="process memory of one measurement; beyond it there is none (default: 4)",
    )
    add(
        "--max-seconds",
        metavar="S",
        type=seconds(zero=False),
        help="time of one measurement; beyond it there is none (default: 120)",
    )


def reject_options(parsed: argparse.Namespace, study: str) -> None:
    """Raise if options of this study were given to another.

    Raises:
        ConfigError: they were.
    """
    for name in _OWN:
        if getattr(parsed, name) is not None:
            option = name.replace("_", "-")
            raise ConfigError(f"--{option} is for the study {NAME!r}, got it for {study!r}")


def execute(parsed: argparse.Namespace, unknown: list[str]) -> int:
    """Run the study, or show what it would measure.

    Raises:
        ConfigError: an option is not for this study.
        GmcBenchError: a method cannot be used, or files cannot be written.
    """
    parsed.parser.reject_unknown(unknown)
    for name in _OF_RUNS:
        if getattr(parsed, name):
            raise ConfigError(
                f"the study {NAME!r} trains nothing, got --{name}; leave it out, and use --method, "
                f"--tokens and --bodies"
            )
    request = _request(parsed)
    from gmc_bench.cli import study_scaling_run as work
    from gmc_bench.training.run_folder import new_folder

    if parsed.dry_run:
        work.preview(request)
        return 0
    path = parsed.out or new_folder(Path("studies"), f"{NAME}_{request['preset']}")
    return work.run(request, path)


def resume(path: Path) -> int:
    """Continue a study with what is in its folder.

    Raises:
        GmcBenchError: see `study_scaling_run.run`.
    """
    from gmc_bench.cli import study_scaling_run as work

    return work.run(work.read_request(path), path)


def _request(parsed: argparse.Namespace) -> dict[str, Any]:
    """Return what is asked for, as the folder holds it."""
    from gmc_bench.experiments.method import full_name
    from gmc_bench.suites import SUITES

    given = {name: getattr(parsed, name) for name in _OWN}
    wanted = DEFAULTS | {name: value for name, value in given.items() if value is not None}
    for name in ("tokens", "bodies"):
        if given[name] is not None:
            wanted[name] = sorted({size for sizes in given[name] for size in sizes})
    for part in wanted["part"]:
        if part not in PARTS:
            raise ConfigError(f"--part must be among {', '.join(PARTS)}, got {part!r}")
    return {
        "methods": [full_name(name) for name in dict.fromkeys(parsed.method)] or _all_methods(),
        "preset": SUITES.load("unimal").protocol(parsed.protocol).preset,
        "tokens": list(wanted["tokens"]),
        "bodies": list(wanted["bodies"]),
        "parts": [part for part in PARTS if part in wanted["part"]],
        **{name: float(wanted[name]) for name in ("seconds", "max_gib", "max_seconds")},
    }


def _all_methods() -> list[str]:
    from gmc_bench.methods import METHODS, MethodSpec

    # A reference with a budget of its own has the network of another method.
    return [
        name
        for name, spec in METHODS.items()
        if isinstance(spec, MethodSpec) and spec.env_steps_per_body is None
    ]


def _powers_of_two(high: int) -> Iterable[int]:
    return (2**power for power in range(high.bit_length()))


def _steps_of_three(high: int) -> Iterable[int]:
    return (digit * 10**power for power in range(len(str(high))) for digit in (1, 3))


def _sizes(steps: Callable[[int], Iterable[int]]) -> Callable[[str], list[int]]:
    """Return a converter for a number, or for `LOW..HIGH`: both ends and the steps between."""

    def convert(text: str) -> list[int]:
        ends = text.split("..")
        if len(ends) > 2 or not all(end.isdecimal() for end in ends):
            raise argparse.ArgumentTypeError(f"must be numbers like 64 or 8..1024, got {text!r}")
        low, high = int(ends[0]), int(ends[-1])
        if not 1 <= low <= high:
            raise argparse.ArgumentTypeError(
                f"must be at least 1, the smaller number first, got {text!r}"
            )
        return sorted({low, high} | {size for size in steps(high) if low < size < high})

    return convert


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a positive number of GiB, got {text!r}")
    return value
