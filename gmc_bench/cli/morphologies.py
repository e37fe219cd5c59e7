"""`gmc-bench morphologies`: import and describe sets of bodies."""

import argparse
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import note, say, say_json
from gmc_bench.cli.parser import Parser, add_verb

EXAMPLES = (
    "gmc-bench morphologies import unimals_100 ~/data/unimals_100",
    "gmc-bench morphologies describe gmc-unimal-mini --json",
    "gmc-bench morphologies describe gmc-unimal-mini+damping-v1",
)


def add_parser(verbs: Any) -> None:
    """Add the verb with its two actions."""
    parser = add_verb(verbs, "morphologies", "Import or describe sets of bodies.", EXAMPLES)
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    bring = add_verb(
        actions,
        "import",
        "Check a folder of bodies (train/ and test/, each with xml/ and metadata/) and keep it.",
        (EXAMPLES[0], "gmc-bench morphologies import my-bodies ./my_bodies"),
    )
    bring.add_argument("set", metavar="SET", help="name to keep the bodies under")
    bring.add_argument("path", metavar="PATH", type=Path, help="folder with train/ and test/")
    bring.set_defaults(execute=_import, parser=bring)
    describe = add_verb(
        actions,
        "describe",
        "Show what a set of bodies holds.",
        (*EXAMPLES[1:], "gmc-bench morphologies describe unimals_100"),
    )
    describe.add_argument("set", metavar="SET", help="name of the set")
    describe.add_argument("--json", action="store_true", help="print one JSON document")
    describe.set_defaults(execute=_describe, parser=describe)


def _import(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    parsed.parser.reject_unknown(unknown)
    from gmc_bench.morphology.importer import ImportProblemsError, import_set
    from gmc_bench.morphology.summary import describe_set, render_set

    try:
        report = import_set(parsed.set, parsed.path.expanduser())
    except ImportProblemsError as error:
        for problem in error.problems:
            note(f"  {problem}")
        raise
    say(render_set(describe_set(report.bodies)))
    say()
    say(f"kept in  {report.folder}")
    return 0


def _describe(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    parsed.parser.reject_unknown(unknown)
    from gmc_bench.library import load_limb_bodies
    from gmc_bench.morphology.summary import describe_set, render_set

    description = describe_set(load_limb_bodies(parsed.set))
    if parsed.json:
        say_json(description)
    else:
        say(render_set(description))
    return 0
