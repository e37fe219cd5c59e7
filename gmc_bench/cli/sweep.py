"""`gmc-bench sweep`: a grid of runs on this machine or a cluster, stopped and continued at will."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.cli.output import note, say, say_json
from gmc_bench.cli.parser import Parser, add_launch, add_reuse, add_verb, amount, integer, seed
from gmc_bench.core.errors import ConfigError

if TYPE_CHECKING:
    from gmc_bench.experiments.sweep_request import SweepRequest

EXAMPLES = (
    "gmc-bench sweep --methods recmorph metamorph-star --suites unimal --tasks ft vt --out DIR",
    "gmc-bench sweep --methods recmorph --suites unimal --ppo.lr 1e-4 3e-4 --dry-run",
    "gmc-bench sweep --config table.yaml --launcher slurm --launch.partition cpu --out DIR",
    "gmc-bench sweep --resume DIR --jobs 8",
    "gmc-bench sweep status DIR",
)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    text = "Run methods x suites x tasks x seeds, several at a time or on a cluster."
    parser = add_verb(verbs, "sweep", text, EXAMPLES)
    text = "show how far the sweep in a folder is; --json for all that is known"
    parser.add_argument("status", metavar="status DIR", nargs="*", help=text)
    add_options(parser)
    parser.epilog = (
        "Settings of 'gmc-bench run' are options here too, e.g. --env-steps, --ppo.lr,\n"
        "--model.width, --tokens.order; one that is given several values is varied. Options of\n"
        f"the launcher are --launch.NAME, see docs/clusters.md.\n\n{parser.epilog}"
    )
    parser.set_defaults(execute=execute, parser=parser, passes_on=True)


def add_options(parser: Parser) -> None:
    """Add the options that have names."""
    add = parser.add_argument
    one: dict[str, Any] = {"default": argparse.SUPPRESS}
    many: dict[str, Any] = {"nargs": "+", **one}
    add("--methods", metavar="M", help="registered methods, or FILE.py:SPEC", **many)
    add("--suites", metavar="S", help="suites, with or without their version", **many)
    add("--tasks", metavar="T", help="only these tasks (default: all of each suite)", **many)
    add("--seeds", metavar="N", type=seed, help="default: all that the protocol asks for", **many)
    add("--protocol", metavar="P", help="smoke, lite, standard or paper (default: lite)", **many)
    add("--preset", metavar="P", help="variant of the methods", **many)
    add("--bodies", "--morphologies", metavar="SET", help="body set; SET:N for its first N", **many)
    add("--precision", metavar="F", help="float32, tf32 or bfloat16", **many)
    add("--untrained", action="store_true", help="train nothing", **one)
    add("--device", metavar="D", help="cpu or cuda (default: cpu)", **one)
    add("--threads", metavar="N", type=integer(1), help="of each run (default: 1)", **one)
    add("--processes", metavar="N", type=integer(1), help="that share a run (default: 1)", **one)
    interval = amount("seconds", zero=True)
    add("--checkpoint-interval", metavar="S", type=interval, help="default: 10", **one)
    add("--track", metavar="NAME[:PROJECT]", help="also send curves and scores there", **one)
    add_launch(add, "local")
    add("--config", metavar="FILE", type=Path, help="YAML with these options; those here win")
    add("--out", metavar="DIR", type=Path, help="default: a new folder under runs/")
    add_reuse(add, argparse.SUPPRESS)
    add("--resume", metavar="DIR", type=Path, help="continue what was stopped")
    add("--dry-run", action="store_true", help="show the runs, hours and memory, and stop")
    add("--json", action="store_true", help=argparse.SUPPRESS)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    if argv[1:2] == ["status"]:
        return _status(argv[2:], as_json=parsed.json)
    parsed.parser.refuse(parsed, ["json"], f"is for '{EXAMPLES[-1]}'; leave it out here")
    from gmc_bench.experiments import sweep_request as requests

    # Again without "status DIR", which would take the values of settings: they have no options.
    parser = Parser(prog="gmc-bench sweep", allow_abbrev=False, add_help=False)
    add_options(parser)
    given, rest = parser.parse_each(argv[1:])
    parser.reject_unknown(requests.unknown_options(rest), requests.SETTING_OPTIONS)
    config, out, resume, dry, _ = map(given.pop, ("config", "out", "resume", "dry_run", "json"))
    if resume is not None:
        request = requests.continued_sweep(resume, given, rest, config=config, out=out)
    else:
        request = requests.request_sweep(given, rest, config=config, out=out)
        for why in dict.fromkeys(item.why for item in request.sweep.resolved):
            note(why)
    if dry:
        say(request.preview())
        return 0
    return _run(request)


def _run(request: "SweepRequest") -> int:
    from gmc_bench.cli.display import SweepDisplay
    from gmc_bench.experiments.sweep_texts import describe_sweep

    sweep = request.sweep
    with SweepDisplay("gmc-bench sweep --resume {path}", sweep) as display:
        sweep.subscribe(display)
        result = request.run()
    say(f"{describe_sweep(sweep.overview())}\nsweep folder    {sweep.path}")
    return 1 if result.failures else 0


def _status(argv: list[str], *, as_json: bool) -> int:
    from gmc_bench.experiments.sweep import Sweep
    from gmc_bench.experiments.sweep_texts import describe_sweep

    for argument in argv:
        if argument.startswith("--") and argument not in ("--", "--json"):
            raise ConfigError(
                f"'status' takes no option but --json, got {argument!r}; leave it out"
            )
    folders = [argument for argument in argv if not argument.startswith("--")]
    if len(folders) != 1:
        raise ConfigError(f"'status' needs the folder of a sweep; for example: {EXAMPLES[-1]}")
    overview = Sweep.open(folders[0]).overview()
    if as_json:
        say_json(overview.to_dict())
    else:
        say(describe_sweep(overview))
    return 0
