"""`gmc-bench study scaling`: its options; what it does is in `study_scaling_run`."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from gmc_bench.cli.output import note, say, table
from gmc_bench.cli.parser import seconds
from gmc_bench.core.errors import ConfigError

if TYPE_CHECKING:
    from gmc_bench.studies.scaling_study import ScalingRequest

EXAMPLES = (
    "gmc-bench study scaling",
    "gmc-bench study scaling --method recmorph metamorph-star --tokens 8..512 --part memory time",
)
NAME = "scaling"
_OWN = ("tokens", "bodies", "part", "seconds", "max_gib", "max_seconds")
_OF_RUNS = ("suite", "task", "seeds", "against", "body")


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
    if parsed.dry_run:
        _preview(request)
        return 0
    from gmc_bench.training.run_folder import new_folder

    path = parsed.out or new_folder(Path("studies"), f"{NAME}_{request.preset}")
    return _run(request, path)


def resume(path: Path) -> int:
    """Continue a study with what is in its folder.

    Raises:
        GmcBenchError: see `scaling_study.run`.
    """
    from gmc_bench.studies import scaling_study

    return _run(scaling_study.read_request(path), path)


def _run(request: "ScalingRequest", path: Path) -> int:
    from gmc_bench.cli.display import Display
    from gmc_bench.studies import scaling_study as study
    from gmc_bench.studies.scaling import AXES, QUESTION
    from gmc_bench.studies.scaling_table import exponent_table

    try:
        with Display() as bars:
            found = study.run(request, path, bars)
    except KeyboardInterrupt:
        note(f"\nStopped. Continue with: gmc-bench study --resume {path}")
        raise
    for axis in AXES:
        if found.sizes(axis):
            exponents = exponent_table(found, axis)
            say(f"Exponents over {axis}\n\n{table(exponents.headings, exponents.rows)}\n")
            say("\n".join(exponents.notes) + "\n")
    say(f"{QUESTION} {path / study.TABLE}")
    return 0


def _preview(request: "ScalingRequest") -> None:
    """Show how much would be measured."""
    from gmc_bench.studies.scaling_study import plan

    counts: dict[tuple[str, str], list[int]] = {}
    for batch in plan(request):
        for place in batch:
            counts.setdefault((place.method or "-", place.item.kind), []).append(place.item.size)
    rows = [(method, kind, " ".join(map(str, sizes))) for (method, kind), sizes in counts.items()]
    say(table(("method", "measurement", "sizes"), rows))


def _request(parsed: argparse.Namespace) -> "ScalingRequest":
    from gmc_bench.studies.scaling_study import ScalingRequest
    from gmc_bench.suites import SUITES

    given = {name: value for name in _OWN if (value := getattr(parsed, name)) is not None}
    for name in {"tokens", "bodies"} & given.keys():
        given[name] = sorted({size for sizes in given[name] for size in sizes})
    if "part" in given:
        given["parts"] = given.pop("part")
    preset = SUITES.load("unimal").protocol(parsed.protocol).preset
    return ScalingRequest.make(parsed.method, preset=preset, **given)


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
