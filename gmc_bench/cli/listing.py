"""`gmc-bench list`: what there is to run."""

import argparse
import textwrap
from typing import Any

from gmc_bench.cli.output import say, say_json
from gmc_bench.cli.parser import add_verb
from gmc_bench.core.table import aligned

EXAMPLES = (
    "gmc-bench list methods",
    "gmc-bench list methods recmorph swat",
    "gmc-bench list morphologies --json",
)

_COLUMNS = {
    "methods": (),
    "suites": ("id", "tasks", "protocols", "title"),
    "tasks": ("id", "horizon", "rewards", "terminations", "metrics", "title"),
    "morphologies": ("id", "status", "hint"),
}


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "list", "List methods, suites, tasks or morphologies.", EXAMPLES)
    parser.add_argument("what", metavar="KIND", choices=tuple(_COLUMNS), help=", ".join(_COLUMNS))
    text = "only these; of methods with all presets and deviations"
    parser.add_argument("names", metavar="NAME", nargs="*", default=[], help=text)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    from gmc_bench.experiments.catalogue import describe
    from gmc_bench.experiments.method_texts import cell, describe_method, describe_methods

    rows, columns = describe(parsed.what, parsed.names), _COLUMNS[parsed.what]
    if parsed.json:
        say_json(rows)
    elif parsed.what == "methods" and parsed.names:
        for row in rows:
            say(describe_method(row))
    elif parsed.what == "methods":
        say(describe_methods(rows))
    elif rows:
        cells = [[cell(_shown(row, column)) for column in columns] for row in rows]
        say(aligned(columns, cells))
        if parsed.what == "morphologies" and not parsed.names:
            _show_variations()
    return 0


_MAX_TERMS = {"rewards": 3, "metrics": 1}


def _shown(row: dict[str, Any], column: str) -> Any:
    if column in _MAX_TERMS and len(row.get(column, {})) > _MAX_TERMS[column]:
        return f"{len(row[column])}, see --json"
    if column != "metrics":
        return row.get(column)
    return [
        name if unit == "1" else f"{name} ({unit})" for name, unit in row.get(column, {}).items()
    ]


def _show_variations() -> None:
    """Print how the variants of a set are named."""
    from gmc_bench.bodies.variations import VARIATIONS, VERSION

    say()
    say("Variants of the train bodies of any set, to evaluate a trained run on, are named")
    names = ", ".join(f"SET+{name}-v{VERSION}" for name in VARIATIONS)
    say(textwrap.fill(f"{names}.", 120, subsequent_indent="  "))
