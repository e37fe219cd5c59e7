"""`gmc-bench list`: what there is to run."""

import argparse
import textwrap
from typing import Any

from gmc_bench.cli.output import say, say_json
from gmc_bench.cli.parser import add_verb
from gmc_bench.core.errors import UnknownNameError, did_you_mean
from gmc_bench.core.table import aligned, number

EXAMPLES = (
    "gmc-bench list methods",
    "gmc-bench list methods recmorph swat",
    "gmc-bench list morphologies --json",
)

MAX_WIDTH = 120
"""Characters of a line about a method."""
CLAIMS = {
    "permutation_equivariant": "any order",
    "uses_graph": "tree",
    "temporal": "memory",
    "per_body": "per body",
}
"""Capabilities in short."""
_COLUMNS = {
    "methods": (),
    "suites": ("id", "tasks", "protocols", "title"),
    "tasks": ("id", "horizon", "rewards", "terminations", "metrics", "title"),
    "morphologies": ("id", "status", "hint"),
}
Rows = list[dict[str, Any]]


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "list", "List methods, suites, tasks or morphologies.", EXAMPLES)
    parser.add_argument("what", choices=tuple(_COLUMNS))
    text = "only these; of methods with all presets and deviations"
    parser.add_argument("names", metavar="NAME", nargs="*", help=text)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    parsed.parser.reject_unknown(unknown)
    from gmc_bench.experiments.catalogue import describe

    rows, columns = describe(parsed.what), _COLUMNS[parsed.what]
    if parsed.names:
        rows = _chosen(rows, parsed.names, parsed.what)
    if parsed.json:
        say_json(rows)
    elif parsed.what == "methods" and parsed.names:
        for row in rows:
            _show_method(row)
    elif parsed.what == "methods":
        _show_methods(rows)
    elif rows:
        cells = [[_cell(_shown(row, column)) for column in columns] for row in rows]
        say(aligned(columns, cells))
        if parsed.what == "morphologies" and not parsed.names:
            _show_variations()
    return 0


def _chosen(rows: Rows, names: list[str], what: str) -> Rows:
    known = {row["id"]: row for row in rows}
    for name in names:
        if name not in known:
            raise UnknownNameError(f"unknown name {name!r} of {what}{did_you_mean(name, known)}")
    return [known[name] for name in names]


_MAX_TERMS = {"rewards": 3, "metrics": 1}


def _shown(row: dict[str, Any], column: str) -> Any:
    if column in _MAX_TERMS and len(row.get(column, {})) > _MAX_TERMS[column]:
        return f"{len(row[column])}, see --json"
    if column != "metrics":
        return row.get(column)
    return [
        name if unit == "1" else f"{name} ({unit})" for name, unit in row.get(column, {}).items()
    ]


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {item:,}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)


def _show_methods(rows: Rows) -> None:
    """Print a table, and below each of its rows where the method comes from."""
    columns = ("id", "paper size", "lite size", "deviations", "licence", "claims")
    headings, rule, *lines = aligned(columns, [_method_cells(row) for row in rows]).splitlines()
    say(headings)
    say(rule)
    for line, row in zip(lines, rows, strict=True):
        say(line)
        for text in _sources(row):
            say(f"    {textwrap.shorten(text, MAX_WIDTH - 4, placeholder='...')}")
    say()
    say("Sizes are trainable parameters of actor and critic. Every preset and deviation of one:")
    say("gmc-bench list methods NAME; of all: --json.")


def _show_method(row: dict[str, Any]) -> None:
    """Print everything about one method."""
    say(f"{row['id']} (version {row.get('version', '-')}): {row['title']}")
    if "error" in row:
        return
    claims = [text for key, text in CLAIMS.items() if row["capabilities"][key]]
    facts = {
        "paper": row["paper"],
        "code": row["reference_code"] or "none published",
        "licence": row["licence"],
        "claims": ", ".join(claims) or "none",
    }
    for name, text in facts.items():
        say(_wrapped(f"{name}: {text}", "  "))
    say("  presets:")
    for name, changes in row["presets"].items():
        settings = ", ".join(f"{key}={_cell(value)}" for key, value in changes.items())
        size = number(row["parameters"].get(name), 0)
        say(_wrapped(f"- {name}: {size} parameters ({settings or 'the defaults'})", "    "))
    say("  deviations from the source, and choices it leaves open:")
    for text in row["deviations"]:
        say(_wrapped(f"- {text}", "    "))
    say()


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(text, MAX_WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def _method_cells(row: dict[str, Any]) -> list[str]:
    if "error" in row:
        return [row["id"], "-", "-", "-", "-", "-"]
    sizes = [row["parameters"].get(preset) for preset in ("paper", "lite")]
    claims = [text for key, text in CLAIMS.items() if row["capabilities"][key]]
    return [
        row["id"],
        *(number(size, 0) for size in sizes),
        str(len(row["deviations"])),
        row["licence"],
        ", ".join(claims) or "-",
    ]


def _sources(row: dict[str, Any]) -> list[str]:
    if "error" in row:
        return [row["title"]]
    return [row["paper"] or row["title"], f"code: {row['reference_code'] or 'none published'}"]


def _show_variations() -> None:
    """Print how the variants of a set are named."""
    from gmc_bench.bodies.variations import VARIATIONS, VERSION

    say()
    say("Variants of the train bodies of any set, to evaluate a trained run on, are named")
    names = ", ".join(f"SET+{name}-v{VERSION}" for name in VARIATIONS)
    say(_wrapped(f"{names}.", ""))
