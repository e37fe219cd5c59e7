"""`gmc-bench morphologies describe`: what sets of bodies hold, one alone or side by side."""

import argparse
import sys
from typing import Any

from gmc_bench.cli.output import say, say_json
from gmc_bench.cli.parser import add_verb, integer

EXAMPLES = (
    "gmc-bench morphologies describe gmc-unimal-mini --json",
    "gmc-bench morphologies describe gmc-unimal-mini+damping-v1",
    "gmc-bench morphologies describe gmc-unimal-mini gmc-unimal --behaviour --limit 10",
)


def add_describe(actions: Any) -> None:
    """Add the action to those of `morphologies`."""
    parser = add_verb(
        actions,
        "describe",
        "Show what a set of bodies holds, or several sets in one table.",
        (*EXAMPLES, "gmc-bench morphologies describe unimals_100"),
    )
    parser.add_argument("set", metavar="SET", nargs="+", help="name of the set")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--behaviour",
        action="store_true",
        help="also simulate the bodies, without control and with open-loop gaits",
    )
    parser.add_argument(
        "--limit", type=integer(1), metavar="N", help="simulate at most N bodies of each split"
    )
    parser.set_defaults(execute=_describe, parser=parser)


def _describe(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    parsed.parser.reject_unknown(unknown)
    from gmc_bench.bodies.sets import load_limb_bodies
    from gmc_bench.bodies.summary import describe_set, render_set

    sets = [load_limb_bodies(name) for name in parsed.set]
    if len(sets) > 1 or parsed.behaviour:
        return _compare(sets, parsed)
    description = describe_set(sets[0])
    if parsed.json:
        say_json(description)
    else:
        say(render_set(description))
    return 0


def _compare(sets: list[Any], parsed: argparse.Namespace) -> int:
    from tqdm import tqdm

    from gmc_bench.generation.measures import comparison_table, measure_set

    measured = []
    with tqdm(unit="body", file=sys.stderr, disable=None) as bar:

        def show() -> None:
            bar.update()

        for bodies in sets:
            bar.set_description(bodies.id)
            measured.append(
                measure_set(
                    bodies,
                    behaviour=parsed.behaviour,
                    limit=parsed.limit,
                    on_body=show,
                )
            )
    if parsed.json:
        say_json(measured)
    else:
        say(comparison_table(measured))
    return 0
