"""`gmc-bench morphologies`: import, generate and describe sets of bodies."""

from typing import Any

from gmc_bench.cli.describe import add_describe
from gmc_bench.cli.generate import add_generate
from gmc_bench.cli.import_robot import add_import
from gmc_bench.cli.parser import Parser, add_verb

EXAMPLES = (
    "gmc-bench morphologies import unimals_100 ~/data/unimals_100",
    "gmc-bench morphologies import my_robot.xml",
    "gmc-bench morphologies generate my-bodies --train 10 --test 10",
    "gmc-bench morphologies describe gmc-unimal-mini --json",
    "gmc-bench morphologies describe gmc-unimal-mini+damping-v1",
)


def add_parser(verbs: Any) -> None:
    """Add the verb with its actions."""
    parser = add_verb(
        verbs, "morphologies", "Import, generate or describe sets of bodies.", EXAMPLES
    )
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    add_import(actions)
    add_generate(actions)
    add_describe(actions)
