"""`gmc-bench run`: train a method on a suite and score it."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import Parser, add_settings, add_verb, integer, seconds, settings_given
from gmc_bench.core.errors import ConfigError

if TYPE_CHECKING:
    from gmc_bench.bodies.schema import MorphologySet
    from gmc_bench.experiments.resolve import Choice
    from gmc_bench.training.run_config import RunConfig

EXAMPLES = (
    "gmc-bench run --method recmorph --suite unimal --task ft",
    "gmc-bench run --method recmorph --suite unimal",
    "gmc-bench run --method recmorph --suite unimal --protocol smoke --seed 1 --dry-run",
    "gmc-bench run --resume runs/recmorph_unimal_lite_gmc-unimal-mini-v1_seed1",
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
    parser.set_defaults(execute=execute, parser=parser)


def add_options(parser: Parser) -> None:
    """Add the options that do not depend on method and suite."""
    add = parser.add_argument
    add("--method", metavar="M", help="registered method, or FILE.py:SPEC")
    add("--suite", metavar="S", help="suite, with or without its version")
    add("--task", metavar="T", nargs="+", help="only these tasks (default: all of the suite)")
    add("--protocol", metavar="P", help="smoke, lite or paper (default: the suite's, lite)")
    add(
        "--preset",
        metavar="P",
        help="variant of the method; any but the protocol's makes the run unofficial (default: the "
        "protocol's)",
    )
    add("--seed", metavar="N", type=integer(0, 2**32 - 1), help="default: the protocol's first")
    add("--morphologies", metavar="SET", help="body set; SET:N trains on its first N bodies only")
    add("--env-steps", metavar="N", type=integer(1), help="train for another number of steps")
    add("--config", metavar="FILE", type=Path, help="YAML settings (method's under 'model')")
    add("--device", metavar="D", default="cpu", help="cpu or cuda (default: cpu)")
    add(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="of matrix products (default: float32; bfloat16 needs a CPU or GPU that has it)",
    )
    add("--threads", metavar="N", type=integer(1), help="default: all cores")
    interval = seconds(zero=True)
    add("--checkpoint-interval", metavar="S", type=interval, default=10.0, help="default: 10")
    text = "run folder, or the folder of all tasks' runs (default: a new one under runs/)"
    add("--out", metavar="DIR", type=Path, help=text)
    add("--dry-run", action="store_true", help="print the resolved settings and stop")
    add("--resume", metavar="DIR", type=Path, help="continue what was stopped, one run or several")


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    if parsed.help and (parsed.method is None or parsed.suite is None):
        parsed.parser.print_help()
        return 0
    if parsed.resume is not None:
        return _resume(parsed, unknown, argv)
    for name in ("method", "suite"):
        if getattr(parsed, name) is None:
            raise ConfigError(
                f"--{name} is missing; for example: {EXAMPLES[0]} (see 'gmc-bench list {name}s')"
            )
    return _start(argv)


def _resume(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    others = [word for word in argv[1:] if word.startswith("-") and not word.startswith("--resume")]
    if others or unknown:
        raise ConfigError(
            f"--resume takes no other options, got {(others or unknown)[0]!r}; a run continues "
            f"with the settings in its folder"
        )
    from gmc_bench.training.run_folder import PLAN, RunFolder

    if (parsed.resume / PLAN).is_file():
        from gmc_bench.training.plan_folder import PlanFolder

        with PlanFolder(parsed.resume) as several:
            from gmc_bench.cli import campaign

            return campaign.resume(several)
    with RunFolder(parsed.resume) as folder:  # first, because loading the rest takes seconds
        from gmc_bench.cli.report import show
        from gmc_bench.experiments.session import open_session
        from gmc_bench.records.store import read_record
        from gmc_bench.training.run_config import read_run_config

        config = read_run_config(folder.config)
        if folder.record.exists():
            show(read_record(folder.record), folder)
            return 0
        _execute(open_session(config), folder)
    return 0


@dataclass(frozen=True)
class Resolved:
    """Runs with all settings resolved: one per task."""

    choice: "Choice"
    bodies: "MorphologySet"
    why: str
    """Which bodies and why, one sentence."""
    configs: "list[RunConfig]"
    arguments: argparse.Namespace


def resolve(words: list[str], bodies: "MorphologySet | None" = None) -> Resolved:
    """Resolve the options of a run.

    Args:
        words: options as on the command line, without the verb.
        bodies: the body set, if it is at hand; otherwise it is loaded.

    Raises:
        GmcBenchError: an option is unknown or does not fit.
    """
    from gmc_bench.experiments import resolve as plan
    from gmc_bench.tokens.config import TokenConfig

    first = Parser(prog="gmc-bench run", allow_abbrev=False, add_help=False)
    add_options(first)
    choice = plan.choose(first.parse_known_args(words)[0])
    # Second stage: now that method and protocol are known, each of their settings is an option.
    parser = Parser(prog="gmc-bench run", allow_abbrev=False)
    add_options(parser)
    add_settings(parser, choice.protocol, "protocol", "", plan.LOCKED | {"env_steps"})
    add_settings(parser, choice.method_config, f"method {choice.method.id}", "model.", set())
    add_settings(parser, TokenConfig(), "tokens", "tokens.", set())
    arguments, unknown = parser.parse_known_args(words)
    parser.reject_unknown(unknown)
    named = [choice.suite.task(name) for name in arguments.task or choice.suite.tasks]
    why = ""
    if bodies is None:
        bodies, why = plan.choose_morphologies(arguments, choice.suite)
    groups = ("model.", "tokens.")
    given = settings_given(arguments, "")
    configs = [
        plan.plan_run(
            choice,
            task,
            bodies,
            arguments,
            {name: value for name, value in given.items() if not name.startswith(groups)},
            *(settings_given(arguments, group) for group in groups),
        )
        for task in dict.fromkeys(named)
    ]
    return Resolved(choice, bodies, why, configs, arguments)


def _start(argv: list[str]) -> int:
    found = resolve(argv[1:])
    configs, arguments = found.configs, found.arguments
    note(found.why)
    if len(configs) > 1:
        from gmc_bench.cli import campaign

        if arguments.dry_run:
            campaign.preview(configs)
            return 0
        return campaign.start(configs, found.bodies, arguments.out)
    if arguments.dry_run:
        _announce(configs[0], found.choice, found.bodies, None)
        say(configs[0].to_yaml())
        return 0
    return _run_one(configs[0], found.choice, found.bodies, arguments.out)


def _run_one(config: Any, choice: Any, bodies: Any, path: Path | None) -> int:
    from gmc_bench.experiments import resolve as plan
    from gmc_bench.experiments.session import check_method, open_session
    from gmc_bench.records.store import write_atomic
    from gmc_bench.training.run_folder import RunFolder, new_folder

    path = path or new_folder(Path("runs"), plan.run_name(config, choice.method))
    session = open_session(config, bodies)
    check_method(session)  # before a folder is made that nobody could use
    with RunFolder(path, create=True) as folder:
        write_atomic(folder.config, config.to_yaml().encode())
        _announce(config, choice, bodies, path)
        _execute(session, folder)
    return 0


def _execute(session: Any, folder: Any) -> None:
    try:
        from gmc_bench.cli import execution

        execution.execute(session, folder)
    except KeyboardInterrupt:
        note(f"\nStopped. Continue with: gmc-bench run --resume {folder.path}")
        raise


def _announce(config: Any, choice: Any, bodies: Any, path: Path | None) -> None:
    from gmc_bench.suites.method_rules import protocol_digest
    from gmc_bench.training.independent import planned_steps

    protocol = config.protocol
    digest = protocol_digest(protocol, choice.method, choice.suite, config.task)
    per_body = choice.method.capabilities.per_body
    steps = planned_steps(protocol, len(bodies.split("train")), per_body=per_body)
    note(
        f"method {choice.method.id} (preset {choice.preset}), suite {config.suite}, "
        f"task {config.task}, protocol {protocol.name} ({digest[:12]}), "
        f"seed {config.seed}, {steps:,} env steps"
    )
    for reason in config.unofficial_reasons:
        note(f"unofficial: {reason}")
    if path is not None:
        note(f"run folder {path}")
