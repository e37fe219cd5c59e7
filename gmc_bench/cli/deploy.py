"""`gmc-bench deploy`: a policy on simulated robots in real time, in the paper's trials."""

import argparse
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import add_verb, amount, integer, seed
from gmc_bench.core.table import aligned

EXAMPLES = (
    "gmc-bench deploy runs/recmorph_quadruped-velocity_lite_quadrupeds-v1_seed1 --trial all",
    "gmc-bench deploy walk.onnx --robot go1 --trial forward --trials 3 --no-realtime",
)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    text = "Run a policy on simulated quadrupeds at 50 Hz, and count the trials that succeed."
    parser = add_verb(verbs, "deploy", text, EXAMPLES)
    add = parser.add_argument
    text = "RUN_DIR, a record, or FILE.onnx of 'gmc-bench export'"
    add("policy", metavar="POLICY", type=Path, help=text)
    text = "kind of trial (default: all of the paper's)"
    add("--trial", metavar="TRIAL", default="all", help=text)
    add("--robot", metavar="ROBOT", help="default: the paper's robot of the trial")
    add("--trials", metavar="N", type=integer(1), default=10, help="of each kind (default: 10)")
    text = "length of a trial, from 2; rough ground has room for 37 (default: 15)"
    span = amount("seconds", zero=False)
    add("--seconds", metavar="S", type=span, default=15.0, help=text)
    add("--seed", metavar="N", type=seed, default=1, help="default: 1")
    text = "keep to the wall clock (default: yes)"
    add("--realtime", action=argparse.BooleanOptionalAction, default=True, help=text)
    text = "whether the operator turns robots back to where they headed (default: held)"
    add("--heading", choices=("held", "free"), default="held", help=text)
    text = "whose bodies are simulated: built-in or menagerie (default: built-in)"
    add("--robot-source", metavar="S", default="built-in", help=text)
    text = (
        "also write videos: of the first trial of each kind and the first that fails (the "
        "default), of all that fail, or of all"
    )
    kinds = ("first", "failed", "all")
    add("--video", nargs="?", const="first", choices=kinds, help=text)
    add("--out", metavar="DIR", type=Path, help="default: RUN_DIR/deploy, or FILE_deploy")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    if parsed.video:
        from gmc_bench.rendering.backend import import_engine

        import_engine()
    from gmc_bench.cli.display import Display
    from gmc_bench.deployment.deploy import DeployOptions, deploy
    from gmc_bench.deployment.report import DISCLAIMER, HEADINGS, table_rows

    options = DeployOptions(
        trial=parsed.trial,
        robot=parsed.robot,
        trials=parsed.trials,
        seconds=parsed.seconds,
        seed=parsed.seed,
        realtime=parsed.realtime,
        hold_heading=parsed.heading == "held",
        robot_source=parsed.robot_source,
        video=parsed.video,
    )
    with Display() as display:
        folder, attempts = deploy(parsed.policy, options, parsed.out, listener=display)
    say(aligned(HEADINGS, table_rows(attempts)))
    say(DISCLAIMER)
    for attempt in attempts:
        result = attempt.result
        if not result.succeeded:
            note(
                f"{attempt.trial.id} {attempt.number + 1} on {attempt.robot}: {result.outcome} "
                f"after {result.steps} steps, {result.reason}"
            )
    say(f"report  {folder}")
    return 0
