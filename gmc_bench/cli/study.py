"""`gmc-bench study`: train and measure what answers one question, as a table and a picture."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.cli import study_scaling
from gmc_bench.cli.output import say, table
from gmc_bench.cli.parser import add_verb, integer
from gmc_bench.core.errors import ConfigError

if TYPE_CHECKING:
    from gmc_bench.cli.study_plan import PlannedArm, Request
    from gmc_bench.evaluation.friction_options import FrictionOptions
    from gmc_bench.experiments.sweep import Sweep, SweepResult

EXAMPLES = (
    "gmc-bench study components",
    "gmc-bench study siblings --method recmorph --seeds 1 2",
    "gmc-bench study attributes --method modumorph --task ft incline --protocol smoke --dry-run",
    "gmc-bench study representation --method recmorph --morphologies unimals_100",
    "gmc-bench study gait --method recmorph --against metamorph-star",
    "gmc-bench study friction --method recmorph modumorph",
    "gmc-bench study friction --heading free --friction-rule dynamic",
    *study_scaling.EXAMPLES,
    "gmc-bench study --resume studies/components_recmorph_lite_gmc-unimal-mini-v1",
)
_OURS = (
    "--seed",
    "--preset",
    "--config",
    "--tokens.order",
    "--tokens.attributes",
    "--tokens.tree",
)

_OF_ONE_STUDY = {
    "against": "gait",
    "body": "gait",
    "heading": "friction",
    "friction_rule": "friction",
    "robot_source": "friction",
}
"""What the study that an option is for measures."""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(
        verbs,
        "study",
        "Train and measure what answers one question; without a name, list the questions.",
        EXAMPLES,
    )
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", help="see 'gmc-bench study' for the list")
    add(
        "--method",
        metavar="M",
        nargs="+",
        default=(),
        help="registered method, or FILE.py:SPEC (default: recmorph); friction takes several",
    )
    add("--against", metavar="M", help="gait: the method to compare with (default: metamorph-star)")
    add("--suite", metavar="S", help="default: the study's")
    add("--task", metavar="T", nargs="+", default=(), help="default: the study's")
    add("--protocol", metavar="P", help="smoke, lite or paper (default: the suite's, lite)")
    add(
        "--seeds",
        metavar="N",
        nargs="+",
        type=integer(0, 2**32 - 1),
        default=(),
        help="default: the protocol's",
    )
    add("--body", metavar="ID", help="gait: which train body (default: where all walk best)")
    add("--heading", metavar="H", help="friction: held or free (default: held)")
    add(
        "--friction-rule",
        metavar="R",
        help="friction: two-state, dynamic, static or mean (default: the task's, two-state)",
    )
    add("--robot-source", metavar="S", help="friction: built-in or menagerie (default: built-in)")
    add("--out", metavar="DIR", type=Path, help="default: a new folder under studies/")
    add("--dry-run", action="store_true", help="show the runs and stop")
    add("--resume", metavar="DIR", type=Path, help="continue a stopped study")
    study_scaling.add_options(parser)
    parser.epilog = (
        "Further options are those of 'gmc-bench run', e.g. --morphologies, --env-steps, "
        f"--threads, and hold for every run.\n\n{parser.epilog}"
    )
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    if parsed.resume is not None:
        return _resume(parsed, unknown, argv)
    from gmc_bench.studies import scaling
    from gmc_bench.studies.catalogue import STUDIES

    if parsed.name is None:
        parsed.parser.reject_unknown(unknown)
        if parsed.method:
            raise ConfigError(
                "a study was expected before its options, got --method alone; write 'gmc-bench "
                "study NAME --method M'"
            )
        rows = [[study.id, study.question] for study in STUDIES.values()]
        say(table(("study", "question"), [*rows, [scaling.NAME, scaling.QUESTION]]))
        return 0
    if parsed.name == study_scaling.NAME:
        return study_scaling.execute(parsed, unknown)
    study_scaling.reject_options(parsed, parsed.name)
    request = _request(parsed, unknown)
    from gmc_bench.cli.run import preview
    from gmc_bench.cli.study_plan import plan_study

    sweep, planned = plan_study(request, parsed.out)
    if parsed.dry_run:
        return preview(sweep)
    from gmc_bench.cli.study_results import require_measurable
    from gmc_bench.training.run_folder import new_folder

    require_measurable(request, planned, sweep.resolved[0].bodies)
    sweep.path = sweep.path or new_folder(Path("studies"), _folder_name(request, planned))
    with sweep.locked(create=True):
        return _run(request, planned, sweep, sweep.run)


def _request(parsed: argparse.Namespace, words: list[str]) -> "Request":
    from gmc_bench.cli.study_plan import Request
    from gmc_bench.experiments.method import full_name, load_method
    from gmc_bench.studies.catalogue import get_study

    study = get_study(parsed.name)
    for word in words:
        name = word.partition("=")[0]
        if name in _OURS or name.startswith("--model."):
            raise ConfigError(
                f"a study decides {name!r} itself, so that its variants differ in nothing else; "
                f"leave it out" + ("; use --seeds" if name == "--seed" else "")
            )
    methods = parsed.method or [*study.methods, "recmorph"][:1]
    for method in methods:
        study.require_method(load_method(method).id)
    if len(methods) > 1 and not study.many_methods:
        raise ConfigError(
            f"the study {study.id!r} is about one method, got --method {' '.join(methods)}; give "
            f"one, or run it once for each"
        )
    for option, wanted in _OF_ONE_STUDY.items():
        if getattr(parsed, option) is not None and study.measure != wanted:
            raise ConfigError(
                f"--{option.replace('_', '-')} is for the study {wanted!r}, got it for {study.id!r}"
            )
    return Request(
        study=study,
        # Variants are named after them, also where a study is continued from another folder.
        method=full_name(methods[0]) if study.many_methods else methods[0],
        others=tuple(full_name(method) for method in methods[1:]),
        against=parsed.against,
        suite=parsed.suite or study.suite,
        protocol=parsed.protocol,
        tasks=tuple(parsed.task),
        seeds=tuple(dict.fromkeys(parsed.seeds)),
        body=parsed.body,
        friction=_friction(parsed),
        words=tuple(words),
    )


def _friction(parsed: argparse.Namespace) -> "FrictionOptions":
    from gmc_bench.evaluation.friction_options import FrictionOptions

    given = {
        "heading": parsed.heading,
        "rule": parsed.friction_rule,
        "robots": parsed.robot_source,
    }
    return FrictionOptions(**{name: value for name, value in given.items() if value is not None})


def _folder_name(request: "Request", planned: "list[PlannedArm]") -> str:
    from gmc_bench.experiments.method import load_method

    config = planned[0].config
    method = load_method(request.method).id
    return f"{request.study.id}_{method}_{config.protocol.name}_{config.morphologies}"


def _resume(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    others = [word for word in argv[1:] if word.startswith("-") and not word.startswith("--resume")]
    if others or unknown or parsed.name:
        extra = (others or unknown or [parsed.name])[0]
        raise ConfigError(
            f"--resume takes no other options, got {extra!r}; a study continues with what is in "
            f"its folder"
        )
    from gmc_bench.studies import scaling

    if (parsed.resume / scaling.SETTINGS).is_file():
        return study_scaling.resume(parsed.resume)
    from gmc_bench.experiments.sweep import Sweep

    sweep = Sweep.open(parsed.resume)
    with sweep.locked():
        from gmc_bench.cli.study_plan import STUDY, match, read_request

        request = read_request(parsed.resume / STUDY)
        return _run(request, match(request, sweep), sweep, sweep.resume)


def _run(
    request: "Request",
    planned: "list[PlannedArm]",
    sweep: "Sweep",
    finish: "Callable[[], SweepResult]",
) -> int:
    from gmc_bench.cli import study_results
    from gmc_bench.cli.display import Display

    with Display(again=f"gmc-bench study --resume {sweep.path}") as display:
        sweep.subscribe(display)
        result = finish()
        study_results.finish(request, planned, result.records, sweep)
    return 1 if result.failures else 0
