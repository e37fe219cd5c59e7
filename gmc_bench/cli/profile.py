"""`gmc-bench profile`: throughput, each figure beside a named reference of the same run."""

import argparse
from typing import Any

from gmc_bench.cli.output import note, say, say_json
from gmc_bench.cli.parser import add_verb, amount, integer
from gmc_bench.core.errors import ConfigError

EXAMPLES = (
    "gmc-bench profile sim",
    "gmc-bench profile sim --task vt --seconds 4",
    "gmc-bench profile policy --method recmorph metamorph --seconds 30",
    "gmc-bench profile padding --morphologies gmc-unimal-mini",
    "gmc-bench profile train --suite unimal --morphologies unimals_100 --json",
    "gmc-bench profile methods --method recmorph metamorph-star swat --threads 1",
)
_UNUSED = {
    "sim": ("method", "preset", "protocol"),
    "policy": ("preset", "task", "morphologies", "num_envs"),
    "padding": ("preset", "num_envs", "seconds"),
    "train": ("preset", "num_envs"),
    "methods": ("num_envs",),
}
"""Options that have no effect, by measurement."""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    what = "Measure simulation, policy or training speed beside a reference in the same run."
    parser = add_verb(verbs, "profile", what, EXAMPLES)
    add = parser.add_argument
    add("what", metavar="MEASUREMENT", choices=_UNUSED, help=", ".join(_UNUSED))
    text = "registered or FILE.py:SPEC; 'methods' compares with the first (default: recmorph, all)"
    add("--method", metavar="M", nargs="+", help=text)
    add("--preset", metavar="P", nargs="+", help="for 'methods': presets of one to compare")
    add("--suite", metavar="S", default="unimal", help="default: unimal")
    text = "default: for 'sim' all of the suite, without gymnasium's process pool; else its first"
    add("--task", metavar="T", help=text)
    add("--protocol", metavar="P", help="settings of policy and training (default: lite)")
    add("--morphologies", metavar="SET", help="body set; SET:N for its first N train bodies")
    text = "for 'sim' only; 'train' takes the protocol's (default: 256)"
    add("--num-envs", metavar="N", type=integer(1), help=text)
    add("--threads", metavar="N", type=integer(1), help="default: all cores")
    text = "on each figure; for 'policy' on each method (default: 10)"
    add("--seconds", metavar="S", type=amount("seconds", zero=False), default=10.0, help=text)
    add("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    why = f"has no effect on {parsed.what!r}; leave it out"
    parsed.parser.refuse(parsed, _UNUSED[parsed.what], why)
    if parsed.what == "train" and len(parsed.method or ()) > 1:
        raise ConfigError(
            f"'train' measures one method, got --method {' '.join(parsed.method)}; give one, or "
            f"compare them with 'methods'"
        )
    from gmc_bench.cli.display import Display
    from gmc_bench.experiments.method import load_method
    from gmc_bench.experiments.resolve import check_threads, choose_bodies
    from gmc_bench.profiling import MEASURES, Setting, profile_tasks, usual_methods
    from gmc_bench.profiling.report import machine_markdown
    from gmc_bench.suites import SUITES
    from gmc_bench.suites.method_rules import token_spec
    from gmc_bench.tasks import TASKS

    check_threads(parsed.threads)
    suite = SUITES.load(parsed.suite)
    bodies, why = choose_bodies(parsed.morphologies, suite)
    note(why)
    chosen = tuple(map(load_method, parsed.method or ()))
    all_tasks = parsed.what == "sim" and not parsed.task
    names = [suite.task(parsed.task)] if parsed.task else suite.tasks[: None if all_tasks else 1]
    bars = Display()
    settings = [
        Setting(
            suite=suite,
            task=task,
            bodies=bodies.split("train"),
            bodies_id=bodies.id,
            bodies_digest=bodies.digest,
            spec=token_spec(suite, bodies, task),
            methods=chosen or usual_methods(parsed.what),
            presets=parsed.preset or (),
            protocol=suite.protocol(parsed.protocol, task.id),
            num_envs=parsed.num_envs or 256,
            threads=parsed.threads,
            seconds=parsed.seconds,
            listener=bars,
        )
        for task in map(TASKS.get, names)
    ]
    with bars:
        report = profile_tasks(settings) if all_tasks else MEASURES[parsed.what](settings[0])
    if parsed.json:
        say_json(report.figures)
    else:
        say(f"{report.to_markdown()}\n{machine_markdown(report.machine)}")
    return 0
