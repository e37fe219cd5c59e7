"""`gmc-bench tune`: trials of a method, as many and over the same ranges as every method has."""

import argparse
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import say
from gmc_bench.cli.parser import add_verb, integer, require_resume_alone, seed
from gmc_bench.core.config import fields_of
from gmc_bench.core.errors import ConfigError

EXAMPLES = (
    "gmc-bench tune recmorph",
    "gmc-bench tune my_method.py:SPEC --morphologies my-search-set --trials 8 --env-steps 300000",
    "gmc-bench tune --resume tuning/recmorph_unimal-ft_lite",
)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    text = "Tune a method's rate, KL threshold and dropout on bodies that no table scores."
    parser = add_verb(verbs, "tune", text, EXAMPLES)
    add = parser.add_argument
    add("method", metavar="METHOD", nargs="?", help="a registered name, or FILE.py:SPEC")
    given: dict[str, Any] = {"default": argparse.SUPPRESS}
    add("--suite", metavar="S", help="default: unimal", **given)
    add("--task", metavar="T", help="default: ft", **given)
    add("--protocol", metavar="P", help="default: the suite's, lite", **given)
    text = "search set; SET:N for its first N train bodies (default: gmc-search-v1)"
    add("--morphologies", dest="bodies", metavar="SET", help=text, **given)
    add("--env-steps", metavar="N", type=integer(1), help="of a run (default: 300000)", **given)
    text = "the method's own values and others (default: 8)"
    add("--trials", metavar="N", type=integer(1), help=text, **given)
    text = "of the runs of each trial (default: 1001)"
    add("--seeds", metavar="N", nargs="+", type=seed, help=text, **given)
    add("--threads", metavar="N", type=integer(1), help="default: all cores", **given)
    add("--device", metavar="D", help="cpu or cuda (default: cpu)", **given)
    add("--out", metavar="DIR", type=Path, help="default: a new folder under tuning/")
    add("--resume", metavar="DIR", type=Path, help="continue what was stopped")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    from gmc_bench.cli.display import Display
    from gmc_bench.experiments.tuning import Tuning, TuningSpec
    from gmc_bench.experiments.tuning_texts import describe_tuning

    if parsed.resume is not None:
        more = [parsed.method] if parsed.method else []
        require_resume_alone(more, argv, "a search continues with what is in its folder")
        tuning = Tuning.open(parsed.resume)
    else:
        if parsed.method is None:
            raise ConfigError(f"a method is missing; for example: {EXAMPLES[0]}")
        names = fields_of(TuningSpec)
        given = {name: value for name, value in vars(parsed).items() if name in names}
        tuning = Tuning(TuningSpec(**given), out=parsed.out)
    with Display("gmc-bench tune --resume {path}") as display:
        tuning.subscribe(display)
        result = tuning.resume() if parsed.resume else tuning.run()
    say(describe_tuning(result, tuning))
    return 0
