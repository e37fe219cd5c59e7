"""`gmc-bench check-method`: does a controller keep the benchmark's contract?"""

import argparse
import dataclasses
import textwrap
from typing import TYPE_CHECKING, Any

from gmc_bench.cli.output import note, say, say_json
from gmc_bench.cli.parser import add_verb
from gmc_bench.conformance.backends import BACKENDS, choose_backend
from gmc_bench.core.errors import ConfigError, did_you_mean
from gmc_bench.core.table import aligned

if TYPE_CHECKING:
    from gmc_bench.conformance.check_method import CheckResult
    from gmc_bench.methods import MethodSpec

EXAMPLES = (
    "gmc-bench check-method recmorph --preset lite",
    "gmc-bench check-method examples/my_method.py:SPEC --backend none --json",
)

SHOWN = {True: "yes", False: "NO", None: "-"}
"""What the table says of a check that passed, failed or was skipped."""
DETAIL_WIDTH = 84
"""Characters of a detail in the table; failures are printed in full below it."""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    text = "Check that a method keeps its contract; exit code 1 if not."
    parser = add_verb(verbs, "check-method", text, EXAMPLES)
    add = parser.add_argument
    add("method", metavar="METHOD", help="a registered name, or FILE.py:SPEC")
    add("--preset", metavar="P", help="only this preset (default: all)")
    text = "how to compile: fully (minutes for a large network), traced only, or not at all "
    text += "(default: inductor, or aot_eager where there is no C++ compiler)"
    add("--backend", choices=BACKENDS, help=text)
    add("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    from gmc_bench.experiments.method import load_method

    method = load_method(parsed.method)
    presets = _presets(method, parsed.preset)  # first, because loading the rest takes seconds
    backend, why = choose_backend(parsed.backend)
    if why:
        note(why)
    import torch

    from gmc_bench.conformance.check_method import check_method

    torch.set_num_threads(1)  # the matrices are small: a second thread only waits
    results: dict[str, list[CheckResult]] = {}
    for preset in presets:
        label = preset or "defaults"
        note(f"checking {method.id} ({label})")
        results[label] = check_method(method, preset, backend=backend)
        if not parsed.json:
            _show(results[label])
    failed = [(label, r) for label, found in results.items() for r in found if r.passed is False]
    if parsed.json:
        say_json(
            {
                "method": method.id,
                "version": method.version,
                "backend": backend,
                "passed": not failed,
                "presets": {
                    label: [dataclasses.asdict(result) for result in found]
                    for label, found in results.items()
                },
            }
        )
    if failed:
        label, first = failed[0]
        note(f"gmc-bench: {method.id} ({label}) fails {first.name!r}: {first.detail}")
    return 1 if failed else 0


def _presets(method: "MethodSpec", wanted: str | None) -> list[str | None]:
    if wanted is None:
        return list(method.presets) or [None]
    if wanted not in method.presets:
        hint = did_you_mean(wanted, method.presets)
        raise ConfigError(f"method {method.id!r} has no preset {wanted!r}{hint}")
    return [wanted]


def _show(results: "list[CheckResult]") -> None:
    """Print the table of one preset, and the failures in full below it."""
    details = [textwrap.shorten(item.detail, DETAIL_WIDTH, placeholder="...") for item in results]
    width = max(map(len, details))  # padded, because tables align such columns right
    cells = [
        (result.name, SHOWN[result.passed], detail.ljust(width))
        for result, detail in zip(results, details, strict=True)
    ]
    say(aligned(("check", "passed", "detail".ljust(width)), cells))
    say()
    for result in results:
        if result.passed is False:
            say(f"{result.name}: {result.detail}")
            say()
