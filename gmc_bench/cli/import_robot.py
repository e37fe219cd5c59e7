"""`gmc-bench morphologies import`: bring robots along, one or a set."""

import argparse
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import add_verb
from gmc_bench.core.errors import ConfigError

_EXAMPLES = (
    "gmc-bench morphologies import unimals_100 ~/data/unimals_100",
    "gmc-bench morphologies import my-robots ./my_robots",
    "gmc-bench morphologies import robot.urdf --as my-robot",
)


def add_import(actions: Any) -> None:
    """Add the action."""
    parser = add_verb(
        actions,
        "import",
        "Check robots and keep them: one MJCF or URDF file, a folder of them, or a folder of train "
        "and test bodies (train/ and test/, each with xml/ and metadata/).",
        _EXAMPLES,
        usage="gmc-bench morphologies import [SET] PATH [--as SET] [--keyframe NAME] [--seconds S] "
        "[--root FOLDER]",
    )
    parser.add_argument("names", metavar="[SET] PATH", nargs="+", help="name to keep, files")
    parser.add_argument("--as", dest="name", metavar="SET", help="name to keep (default: PATH's)")
    parser.add_argument(
        "--keyframe",
        metavar="NAME",
        help="start pose of a single robot; 'none' for the pose of its file (default: the keyframe "
        "'home' if there is one)",
    )
    parser.add_argument(
        "--seconds",
        type=_seconds,
        default=5.0,
        metavar="S",
        help="simulated time for which each robot is tried under random control (default: 5)",
    )
    parser.add_argument(
        "--root",
        type=Path,
        metavar="FOLDER",
        help="folder that holds all files of the robot, where that is not the file's own",
    )
    parser.set_defaults(execute=_import, parser=parser)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 60.0:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected 0 to 60 seconds")
    return value


def _import(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    parsed.parser.reject_unknown(unknown)
    from gmc_bench.bodies.importer import SPLITS, ImportProblemsError
    from gmc_bench.bodies.robot_import import set_id_of

    if len(parsed.names) > 2 or (parsed.name and len(parsed.names) > 1):
        raise ConfigError(
            f"got {' '.join(parsed.names)!r}, expected the name of a set and one path; see "
            f"'{parsed.parser.prog} --help'"
        )
    path = Path(parsed.names[-1]).expanduser()
    name = parsed.names[0] if len(parsed.names) == 2 else parsed.name or set_id_of(path)
    if not path.exists():
        raise ConfigError(
            f"there is no file or folder {path}; expected [SET] PATH with a robot's file"
        )
    try:
        # What is missing is reported in the words of the layout it was meant to have.
        published = path.is_dir() and any((path / split).exists() for split in SPLITS)
        return _import_split(name, path) if published else _import_robots(name, path, parsed)
    except ImportProblemsError as error:
        if len(error.problems) > 1:
            for problem in error.problems:
                note(f"  {problem}")
        raise


def _import_split(name: str, path: Path) -> int:
    from gmc_bench.bodies.importer import import_set
    from gmc_bench.bodies.summary import describe_set, render_set

    report = import_set(name, path)
    say(render_set(describe_set(report.bodies)))
    say()
    say(f"kept in  {report.folder}")
    return 0


def _import_robots(name: str, path: Path, parsed: argparse.Namespace) -> int:
    from gmc_bench.bodies.robot_import import import_robots
    from gmc_bench.bodies.robot_report import render_robot

    report = import_robots(
        name, path, keyframe=parsed.keyframe, seconds=parsed.seconds, root=parsed.root
    )
    for robot in report.robots:
        say(render_robot(robot))
        say()
    say(f"kept in  {report.folder}")
    say(f"use it with  --morphologies {name}")
    return 0
