"""`gmc-bench run`: train a method on a suite and score it."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import (
    Parser,
    add_settings,
    add_verb,
    amount,
    integer,
    require_resume_alone,
    seed,
    settings_given,
)
from gmc_bench.core.errors import ConfigError, GmcBenchError
from gmc_bench.core.table import aligned

if TYPE_CHECKING:
    from gmc_bench.cli.display import Display
    from gmc_bench.experiments.experiment import Experiment
    from gmc_bench.experiments.run_folder import RunFolder
    from gmc_bench.experiments.spec import ExperimentSpec
    from gmc_bench.experiments.sweep import Sweep, SweepResult
    from gmc_bench.experiments.sweep_launch import Launch
    from gmc_bench.records.schema import RunRecord

EXAMPLES = (
    "gmc-bench run --method recmorph --suite unimal --task ft",
    "gmc-bench run --method recmorph --suite unimal",
    "gmc-bench run --method recmorph --suite unimal --protocol smoke --seed 1 --dry-run",
    "gmc-bench run --resume runs/recmorph_unimal_lite_gmc-unimal-mini-v2_seed1",
    "gmc-bench run --method examples/my_method.py:SPEC --suite unimal --ppo.gae-lambda 0.9",
)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs, "run", "Train a method on a suite and score it.", EXAMPLES, add_help=False
    )
    text = "show this; with --method and --suite also all settings of both"
    parser.add_argument("-h", "--help", action="store_true", help=text)
    add_options(parser)
    parser.set_defaults(execute=execute, parser=parser, passes_on=True)


def add_options(parser: Parser) -> None:
    """Add the options that do not depend on method and suite."""
    add = parser.add_argument
    add("--method", metavar="M", help="registered method, or FILE.py:SPEC")
    add("--suite", metavar="S", help="suite, with or without its version")
    # A later --task replaces an earlier one: the Makefile passes one.
    text = "only these tasks (default: all of the suite)"
    add("--task", metavar="T", nargs="+", action="store", help=text)
    add("--protocol", metavar="P", help="smoke, lite, standard or paper (default: lite)")
    text = "variant of the method; any but the protocol's (the default) makes the run unofficial"
    add("--preset", metavar="P", help=text)
    add("--seed", metavar="N", type=seed, help="default: the protocol's first")
    text = "body set; SET:N: its first N bodies only, SET:N@S: from the S-th"
    add("--morphologies", metavar="SET", help=text)
    text = "train nothing: score the initial weights, as a reference (so does --method zero-action)"
    add("--untrained", action="store_true", help=text)
    add("--env-steps", metavar="N", type=integer(1), help="train for another number of steps")
    add("--config", metavar="FILE", type=Path, help="YAML settings (method's under 'model')")
    add("--device", metavar="D", default="cpu", help="cpu or cuda (default: cpu)")
    text = "of matrix products (default: float32; tf32 is for GPUs)"
    add("--precision", choices=("float32", "tf32", "bfloat16"), default="float32", help=text)
    add("--threads", metavar="N", type=integer(1), help="default: all cores")
    add("--processes", metavar="N", type=integer(1), help="that share a run (default: 1)")
    interval = amount("seconds", zero=True)
    add("--checkpoint-interval", metavar="S", type=interval, default=10.0, help="default: 10")
    text = "also send curves and scores to it: wandb, mlflow, trackio or jsonl (default: nowhere)"
    add("--track", metavar="NAME[:PROJECT]", help=text)
    text = "run folder, or the folder of all tasks' runs (default: a new one under runs/)"
    add("--out", metavar="DIR", type=Path, help=text)
    add("--dry-run", action="store_true", help="check and print all settings, and stop")
    add("--resume", metavar="DIR", type=Path, help="continue what was stopped, one run or several")


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    if parsed.help and (parsed.method is None or parsed.suite is None):
        parsed.parser.print_help()
        return 0
    from gmc_bench.experiments.launch import follow

    if not parsed.dry_run and follow():
        return 0
    if parsed.resume is not None:
        return _resume(parsed, unknown, argv)
    for name in ("method", "suite"):
        if getattr(parsed, name) is None:
            raise ConfigError(
                f"--{name} is missing; for example: {EXAMPLES[0]} (see 'gmc-bench list {name}s')"
            )
    return _start(argv, dry_run=parsed.dry_run)


def _resume(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.experiments.run_folder import PLAN, is_file

    several = is_file(parsed.resume / PLAN)
    given = [option for option in argv if several or not option.startswith("--processes")]
    require_resume_alone(unknown, given, "a run continues with the settings in its folder")
    if several:
        from gmc_bench.experiments.sweep import Sweep

        sweep = Sweep.open(parsed.resume)
        return run_sweep(sweep, sweep.resume)
    from gmc_bench.experiments.experiment import Experiment

    experiment = Experiment.open(parsed.resume)
    return _run(experiment, partial(experiment.resume, parsed.processes))


def _start(argv: list[str], *, dry_run: bool) -> int:
    from gmc_bench.experiments.run_folder import require_unused

    specs, out = specs_of(argv[1:])
    if out is not None:
        require_unused(out)
    if len(specs) > 1:
        from gmc_bench.experiments.sweep import Sweep

        sweep = Sweep(specs, out=out)
        note(sweep.resolved[0].why)
        return preview(sweep.check()) if dry_run else run_sweep(sweep, sweep.run)
    from gmc_bench.experiments.experiment import Experiment

    experiment = Experiment(specs[0], out=out)
    note(experiment.resolved.why)
    if not dry_run:
        return _run(experiment, experiment.run)
    from gmc_bench.cli.display import announce

    experiment.check()
    announce(experiment.config, experiment.session.env_steps)
    say(experiment.config.to_yaml())
    return 0


def specs_of(
    argv: list[str], also: Sequence[str] = ()
) -> "tuple[list[ExperimentSpec], Path | None]":
    """Return what the options of a run ask for: one specification per task, and the folder.

    Args:
        argv: as on the command line, without the verb.
        also: further options, of the caller, that may have been meant by an unknown one.

    Raises:
        GmcBenchError: an option is unknown or does not fit.
    """
    from gmc_bench.experiments.resolve import LOCKED, choose
    from gmc_bench.experiments.spec import ExperimentSpec, read_settings
    from gmc_bench.tokens.config import TokenConfig

    first = Parser(prog="gmc-bench run", allow_abbrev=False, add_help=False)
    add_options(first)
    given = first.parse_known_args(argv)[0]
    same = ("method", "suite", "protocol", "preset", "seed", "untrained", "precision", "device",
            "threads", "processes", "checkpoint_interval", "track")  # fmt: skip
    spec = ExperimentSpec(bodies=given.morphologies, **{name: vars(given)[name] for name in same})
    choice = choose(spec)
    # Second stage: now that method and protocol are known, each of their settings is an option.
    parser = Parser(prog="gmc-bench run", allow_abbrev=False)
    add_options(parser)
    add_settings(parser, choice.protocol, "protocol", "", LOCKED | {"env_steps"})
    add_settings(parser, choice.method_config, f"method {choice.method.id}", "model.", set())
    add_settings(parser, TokenConfig(), "tokens", "tokens.", set())
    arguments, unknown = parser.parse_known_args(argv)
    parser.reject_unknown(unknown, also)
    settings = read_settings(arguments.config) if arguments.config is not None else {}
    settings |= settings_given(arguments, "")
    if arguments.env_steps is not None:
        settings["env_steps"] = arguments.env_steps
    tasks = [choice.suite.task(name) for name in arguments.task or choice.suite.tasks]
    specs = [spec.replace(task=task, settings=settings) for task in dict.fromkeys(tasks)]
    return specs, arguments.out


def preview(sweep: "Sweep", launch: "Launch | None" = None) -> int:
    """Show a sweep of which nothing was begun: runs, hours and memory, and all of it as YAML."""
    from gmc_bench.experiments.sweep_folder import runs_to_yaml
    from gmc_bench.experiments.sweep_launch import Launch
    from gmc_bench.experiments.sweep_request import SweepRequest

    note(SweepRequest(sweep, launch or Launch()).preview())
    say(runs_to_yaml(sweep.runs))
    return 0


def _run(experiment: "Experiment", finish: "Callable[[], RunRecord]") -> int:
    from gmc_bench.cli.display import Display
    from gmc_bench.rendering.web.replay import RunReplay

    replay = RunReplay(experiment)
    experiment.watch(replay)
    with Display() as display:
        experiment.subscribe(display)
        record = finish()
    path, remark = replay.write(record)  # first, because a table may find no reader
    _show(record, experiment.folder)
    if remark:
        note(f"warning: {remark}")
    if path is not None:
        say(f"replay          {path}")
    return 0


def run_sweep(sweep: "Sweep", finish: "Callable[[], SweepResult]") -> int:
    """Run several runs, shown on stderr, and show the table of their results.

    Args:
        sweep: the runs.
        finish: starts or continues them.

    Returns:
        The exit code: 1 if a run failed.
    """
    from gmc_bench.cli.display import Display

    display = Display()
    sweep.subscribe(display)
    try:
        with display:
            finish()
    except (KeyboardInterrupt, GmcBenchError, OSError):
        if display.records:
            _show_results(sweep, display)
        raise
    _show_results(sweep, display)
    return 1 if display.failures else 0


def _show_results(sweep: "Sweep", display: "Display") -> None:
    from gmc_bench.experiments.overview import describe_results

    say()
    say(describe_results(sweep.runs, display.records, display.failures))
    say(f"sweep folder    {sweep.path}")


def _show(record: "RunRecord", folder: "RunFolder") -> None:
    from gmc_bench.records.summary import HEADINGS, command_tables, summarize, training_line
    from gmc_bench.records.units import metres_per_return

    say()
    say(
        f"{record.method} on {record.task} ({record.morphologies.id}), protocol {record.protocol}, "
        f"seed {record.seed}: {record.env_steps:,} env steps in {record.wall_clock_s.total:,.0f} s "
        f"({record.env_steps_per_s:,.0f}/s), {record.parameters:,} parameters"
    )
    say(training_line(record))
    say()
    say(aligned(HEADINGS, summarize(record.returns, metres_per_return(record))))
    say()
    for headings, rows in command_tables(record):
        say(aligned(headings, rows))
        say()
    for reason in record.unofficial_reasons:
        say(f"unofficial: {reason}")
    if record.diverged_episodes:
        say(f"diverged training episodes: {record.diverged_episodes}")
    if record.loops_opened:
        say(f"closed loops came open in training: {record.loops_opened} times")
    say(f"record          {folder.record}")
    say(f"learning curve  {folder.curve}")
