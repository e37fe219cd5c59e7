"""`gmc-bench replay`: recorded episodes of a run as one file for any browser."""

import argparse
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import add_verb
from gmc_bench.core.errors import ConfigError

EXAMPLES = (
    "gmc-bench replay runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v2_seed1",
    "gmc-bench replay runs/RUN --body NAME OTHER --split train",
)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs, "replay", "Write recorded episodes of a run as one HTML file, in 3D.", EXAMPLES
    )
    add = parser.add_argument
    add("run_dir", metavar="RUN_DIR", type=Path, help="a finished run, or a record")
    text = "these bodies (default: the best, the median and the worst)"
    add("--body", metavar="ID", nargs="+", default=[], help=text)
    add("--all", action="store_true", help="all bodies")
    text = "of which bodies (default: test, or train if none other were scored)"
    add("--split", choices=("train", "test"), help=text)
    text = "how actions were chosen (default: deterministic, if it was scored)"
    add("--mode", choices=("deterministic", "stochastic"), help=text)
    add("--out", metavar="FILE", type=Path, help="default: in RUN_DIR")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    parsed.parser.reject_unknown(unknown)
    if parsed.body and parsed.all:
        raise ConfigError("--body and --all were given; leave one of them out")
    from gmc_bench.experiments.experiment import Experiment

    experiment = Experiment.open(parsed.run_dir)  # first, because loading the rest takes seconds
    from gmc_bench.cli.display import Display
    from gmc_bench.rendering.web.replay import ReplayChoice, write_replay

    choice = ReplayChoice(
        bodies=tuple(parsed.body), everything=parsed.all, split=parsed.split, mode=parsed.mode
    )
    with Display() as display:
        written = write_replay(experiment, choice, parsed.out, listener=display)
    for text in written.remarks:
        note(text)
    say(f"replay of {written.shown} episodes  {written.path}")
    return 0
