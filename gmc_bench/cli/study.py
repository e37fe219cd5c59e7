"""`gmc-bench study`: train and measure what answers one question, as a table and a picture."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gmc_bench.cli.output import say
from gmc_bench.cli.parser import Parser, add_launch, add_reuse, add_verb, amount, integer, seed
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.table import aligned

if TYPE_CHECKING:
    from gmc_bench.experiments.sweep_launch import Launch
    from gmc_bench.studies.scaling_study import ScalingRequest
    from gmc_bench.studies.study_run import StudyResult, StudyRun

EXAMPLES = (
    "gmc-bench study components",
    "gmc-bench study siblings --method recmorph --seeds 1 2",
    "gmc-bench study attributes --method modumorph --task ft incline --protocol smoke --dry-run",
    "gmc-bench study representation --morphologies unimals_100 --reuse leaderboards",
    "gmc-bench study gait --method recmorph --against metamorph-star",
    "gmc-bench study friction --method recmorph modumorph --heading free --friction-rule dynamic",
    "gmc-bench study budget --seeds 1 2 --threads 1 --budgets 1/3 1",
    "gmc-bench study bodies --seeds 1 2 3 --counts 10 30 100 --steps per-body",
    "gmc-bench study scaling --method recmorph metamorph-star --tokens 8..512 --part memory time",
    "gmc-bench study components --seeds 1 2 3 --launcher local --jobs 4",
    "gmc-bench study --resume studies/components_recmorph_lite_gmc-unimal-mini-v2",
)
_OF_SCALING = ("tokens", "bodies", "part", "seconds", "max_gib", "max_seconds")
_OF_RUNS = ("suite", "task", "seeds", "reuse", "launcher", "jobs", "retries")
_NO_RUNS = "is not for the study 'scaling', which trains nothing; use --method, --tokens, --bodies"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    text = "Train and measure what answers one question; without a name, list the questions."
    parser = add_verb(verbs, "study", text, EXAMPLES)
    add = parser.add_argument
    add("name", metavar="NAME", nargs="?", help="see 'gmc-bench study' for the list")
    text = (
        "registered method, or FILE.py:SPEC (default: recmorph; of budget and bodies four methods, "
        "of scaling all); friction, budget, bodies and scaling take several"
    )
    add("--method", metavar="M", nargs="+", default=(), help=text)
    add("--against", metavar="M", help="gait: the method to compare with (default: metamorph-star)")
    add("--suite", metavar="S", help="default: the study's")
    add("--task", metavar="T", nargs="+", default=(), help="default: the study's")
    add("--protocol", metavar="P", help="smoke, lite, standard or paper (default: lite)")
    add("--seeds", metavar="N", nargs="+", type=seed, default=(), help="default: the protocol's")
    add("--body", metavar="ID", help="gait: which train body (default: where all walk best)")
    add("--heading", metavar="H", help="friction: held or free (default: held)")
    text = "friction: two-state, dynamic, static or mean (default: the suite's, two-state)"
    add("--friction-rule", metavar="R", help=text)
    text = "bodies: numbers of train bodies (default: 10 30 100 300 1000)"
    add("--counts", metavar="N", nargs="+", type=integer(1), help=text)
    text = "budget: multiples of the protocol's env steps (default: 1/3 1 10)"
    add("--budgets", metavar="N", nargs="+", help=text)
    text = "bodies: env steps, equal for all or per-body as of 100 bodies (default: equal)"
    add("--steps", metavar="S", help=text)
    add("--robot-source", metavar="S", help="friction: built-in or menagerie (default: built-in)")
    add("--out", metavar="DIR", type=Path, help="default: a new folder under studies/")
    add_reuse(add)
    add_launch(add, "this process, one after the other")
    add("--dry-run", action="store_true", help="show the runs and stop")
    add("--resume", metavar="DIR", type=Path, help="continue a stopped study")
    _add_scaling(parser)
    parser.epilog = (
        "Further options are those of 'gmc-bench run', e.g. --morphologies, --env-steps, "
        "--threads, and hold for every run.\nOptions of the launcher are --launch.NAME, see "
        f"docs/clusters.md.\n\n{parser.epilog}"
    )
    parser.set_defaults(execute=execute, parser=parser, passes_on=True)


def _add_scaling(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the study 'scaling', whose networks are not trained")
    add = group.add_argument
    text = "tokens per body, numbers or 8..1024 for powers of two (default: 8..1024)"
    add("--tokens", metavar="L", help=text, nargs="+")
    text = (
        "bodies of a set, numbers or 1..10000 for 1, 3, 10, 30, ... (default: 1 10 100 300 1000 "
        "3000 10000)"
    )
    add("--bodies", metavar="M", help=text, nargs="+")
    text = "memory, bodies, time (default: all, in this order)"
    add("--part", metavar="P", help=text, nargs="+")
    span = amount("seconds", zero=False)
    add("--seconds", metavar="S", type=span, help="on the repeats of each time (default: 0.5)")
    text = "process memory of one measurement; beyond it there is none (default: 4)"
    add("--max-gib", metavar="G", type=amount("GiB", zero=False), help=text)
    text = "time of one measurement; beyond it there is none (default: 120)"
    add("--max-seconds", metavar="S", type=span, help=text)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    if parsed.resume is not None:
        return _resume(parsed.resume, argv)
    from gmc_bench.studies import scaling
    from gmc_bench.studies.catalogue import STUDIES

    if parsed.name is None:
        parsed.parser.reject_unknown(unknown)
        if argv[1:]:
            raise ConfigError(
                f"a study was expected before its options, got {argv[1]} first; write 'gmc-bench "
                f"study NAME {argv[1]} ...'"
            )
        rows = [[study.id, study.question] for study in STUDIES.values()]
        say(aligned(("study", "question"), [*rows, [scaling.NAME, scaling.QUESTION]]))
        return 0
    if parsed.name == scaling.NAME:
        return _scaling(parsed, unknown)
    why = f"is for the study {scaling.NAME!r}, got it for {parsed.name!r}"
    parsed.parser.refuse(parsed, _OF_SCALING, why)
    study, launch = _plan(parsed, unknown)
    if parsed.dry_run:
        from gmc_bench.cli.run import preview

        study.require_measurable()
        return preview(study.sweep, launch)
    return _run(study, study.run, launch)


def _plan(parsed: argparse.Namespace, argv: list[str]) -> "tuple[StudyRun, Launch | None]":
    from gmc_bench.experiments.sweep_launch import Launch
    from gmc_bench.experiments.sweep_request import launch_options
    from gmc_bench.studies.request import OPTIONS, Request

    options = {name: getattr(parsed, name) for name in OPTIONS}
    request = Request.make(parsed.name, parsed.method, **options)
    from gmc_bench.cli.run import specs_of
    from gmc_bench.studies.study_run import StudyRun

    shared = ["--method", request.methods[0], "--suite", parsed.suite or request.study.suite]
    shared += ["--protocol", parsed.protocol] if parsed.protocol else []
    said, argv = launch_options(vars(parsed), argv)
    launch = Launch.from_dict(said) if said else None
    shared += ["--threads", "1"] if launch else []  # as in a sweep: several runs share the cores
    (base, *_), _ = specs_of([*shared, *argv], parsed.parser.options)
    places = {"out": parsed.out, "reuse": parsed.reuse}
    places["elsewhere"] = launch is not None and launch.elsewhere
    return StudyRun.plan(request, base, tasks=parsed.task, seeds=parsed.seeds, **places), launch


def _resume(path: Path, argv: list[str]) -> int:
    from gmc_bench.experiments.sweep_request import continued_launch, launch_alone
    from gmc_bench.records.kept import SCALING_SETTINGS
    from gmc_bench.studies.study_run import StudyRun

    parser = Parser(prog="gmc-bench study", allow_abbrev=False, add_help=False)
    parser.add_argument("--resume")
    add_launch(parser.add_argument, "")
    given, rest = parser.parse_each(argv[1:])
    del given["resume"]
    said = launch_alone(given, rest)
    if (path / SCALING_SETTINGS).is_file():
        from gmc_bench.studies.scaling_study import read_scaling_request

        for name in said:
            raise ConfigError(f"--{name} {_NO_RUNS}")
        return _run_scaling(read_scaling_request(path), path)
    study = StudyRun.open(path)
    if not said and study.sweep.is_done:
        return _run(study, study.resume)  # to measure, nobody needs the cluster
    return _run(study, study.resume, continued_launch(path, said))


def _run(
    study: "StudyRun", finish: "Callable[..., StudyResult]", launch: "Launch | None" = None
) -> int:
    from gmc_bench.cli.display import Display, SweepDisplay

    again = "gmc-bench study --resume {path}"
    with SweepDisplay(again, study.sweep) if launch else Display(again) as display:
        study.subscribe(display)
        result = finish(**launch.content()) if launch else finish()
    definition, path = study.request.study, study.path
    name, main = next(iter(result.tables.items()))
    say(f"\n{definition.title}: {definition.question}\n")
    say(f"{aligned(main.headings, main.rows)}\n")
    for text in main.notes:
        if not text.startswith(definition.question):
            say(text)
    say(f"table    {path / f'{name}.md'}, {path / f'{name}.csv'}")
    for picture in result.pictures:
        say(f"picture  {picture}")
    return 1 if result.failures else 0


def _scaling(parsed: argparse.Namespace, unknown: list[str]) -> int:
    parsed.parser.reject_unknown(unknown)
    from gmc_bench.experiments.run_folder import new_folder
    from gmc_bench.studies.request import OPTIONS
    from gmc_bench.studies.scaling_study import ScalingRequest, describe_request
    from gmc_bench.suites import SUITES

    parsed.parser.refuse(parsed, (*_OF_RUNS, *OPTIONS), _NO_RUNS)
    given = {name: value for name in _OF_SCALING if (value := getattr(parsed, name)) is not None}
    if "part" in given:
        given["parts"] = given.pop("part")
    preset = SUITES.load("unimal").protocol(parsed.protocol).preset
    request = ScalingRequest.make(parsed.method, preset=preset, **given)
    if not parsed.dry_run:
        path = parsed.out or new_folder(Path("studies"), f"scaling_{preset}")
        return _run_scaling(request, path)
    say(describe_request(request))
    return 0


def _run_scaling(request: "ScalingRequest", path: Path) -> int:
    from gmc_bench.cli.display import Display
    from gmc_bench.studies import scaling_study as study
    from gmc_bench.studies.scaling import AXES, QUESTION
    from gmc_bench.studies.scaling_table import exponent_table

    with Display("gmc-bench study --resume {path}") as display:
        found = study.run(request, path, display)
    for axis in AXES:
        if found.sizes(axis):
            exponents = exponent_table(found, axis)
            shown = aligned(exponents.headings, exponents.rows)
            say("\n\n".join([exponents.title, shown, *exponents.notes]) + "\n")
    say(f"{QUESTION} {path / study.TABLE}")
    return 0
