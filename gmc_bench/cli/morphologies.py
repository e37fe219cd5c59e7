"""`gmc-bench morphologies`: import, generate and describe sets of bodies."""

import argparse
import math
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import note, say, say_json
from gmc_bench.cli.parser import Parser, add_settings, add_verb, amount, integer, settings_given
from gmc_bench.core.config import with_overrides
from gmc_bench.core.errors import ConfigError
from gmc_bench.generation.evolution import Evolution

_MOST_WORKERS = 256
_IMPORT = (
    "gmc-bench morphologies import unimals_100 ~/data/unimals_100",
    "gmc-bench morphologies import my-robots ./my_robots",
    "gmc-bench morphologies import robot.urdf --as my-robot",
)
_GENERATE = (
    "gmc-bench morphologies generate my-bodies --train 10 --test 10",
    "gmc-bench morphologies generate my-large --limbs 20-30 --mean-limbs 25 --workers 4",
    "gmc-bench morphologies generate my-loops --limbs 6-10 --loops 1-2 --loop-share 0.2",
    "gmc-bench morphologies generate my-kin --train 30 --test 10 --descend-from gmc-unimal-v2",
)
_DESCRIBE = (
    "gmc-bench morphologies describe gmc-unimal-mini --json",
    "gmc-bench morphologies describe gmc-unimal-mini+damping-v1",
    "gmc-bench morphologies describe gmc-unimal-mini gmc-unimal --behaviour --limit 10",
    "gmc-bench morphologies describe unimals_100",
)
_EVOLVE = (
    "gmc-bench morphologies evolve my-walkers --train 40 --test 40 --threads 1",
    "gmc-bench morphologies evolve few --train 20 --test 10 --population 60 --survivors 15",
)
_REVEAL = ("gmc-bench morphologies reveal gmc-heldout-v1 --secret secret.json",)
EXAMPLES = (_IMPORT[0], "gmc-bench morphologies import my_robot.xml", _GENERATE[0], *_DESCRIBE[:2])


def add_parser(verbs: Any) -> None:
    """Add the verb with its actions."""
    parser = add_verb(
        verbs, "morphologies", "Import, generate or describe sets of bodies.", EXAMPLES
    )
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    _add_import(actions)
    _add_generate(actions)
    _add_evolve(actions)
    _add_reveal(actions)
    _add_describe(actions)


def _add_import(actions: Any) -> None:
    parser = add_verb(
        actions,
        "import",
        "Check and keep robots (a MJCF or URDF file, a folder of them) or train/ and test/ bodies.",
        _IMPORT,
        usage="gmc-bench morphologies import [SET] PATH [options]",
    )
    parser.add_argument("names", metavar="[SET] PATH", nargs="+", help="name to keep, files")
    parser.add_argument("--as", dest="name", metavar="SET", help="name to keep (default: PATH's)")
    text = "start pose of a single robot; 'none' for the pose of its file (default: the keyframe"
    parser.add_argument("--keyframe", metavar="NAME", help=f"{text} 'home' if there is one)")
    text = "simulated time for which each robot is tried under random control (default: 5)"
    span = amount("seconds", zero=True, most=60.0)
    parser.add_argument("--seconds", type=span, metavar="S", help=text)
    text = "folder that holds all files of the robot (default: its package, or the file's own)"
    parser.add_argument("--root", metavar="FOLDER", help=text)
    text = "least inertia that motors add to joints, in kg m^2, to slides in kg (default: none)"
    parser.add_argument("--armature", type=amount("kg m^2", zero=True), metavar="A", help=text)
    parser.set_defaults(execute=_import, parser=parser)


def _import(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.bodies.importer import ImportProblemsError
    from gmc_bench.bodies.robot_import import import_bodies

    *names, path = parsed.names
    names += [] if parsed.name is None else [parsed.name]
    if len(names) > 1:
        raise ConfigError(
            f"got {' '.join(parsed.names)!r}, expected the name of a set and one path; see "
            f"'{parsed.parser.prog} --help'"
        )
    options = {name: getattr(parsed, name) for name in ("keyframe", "seconds", "root", "armature")}
    try:
        say(import_bodies(path, *names, **options).text)
    except ImportProblemsError as error:
        if len(error.problems) > 1:
            for problem in error.problems:
                note(f"  {problem}")
        raise
    return 0


def _add_generate(actions: Any) -> None:
    parser = add_verb(
        actions,
        "generate",
        "Search for random bodies that can move and keep them as a set. A search that was "
        "interrupted goes on when it is asked for again; one for descendants begins anew.",
        _GENERATE,
    )
    whole, real = _pair(int, "two whole numbers"), _pair(float, "two numbers")
    parser.add_argument("set", metavar="NAME", help="name to keep the bodies under")
    parser.add_argument("--train", type=integer(1), default=20, metavar="N", help="train bodies")
    parser.add_argument("--test", type=integer(1), default=20, metavar="N", help="test bodies")
    text = "limbs of a body, the torso included (default: 5-11)"
    parser.add_argument("--limbs", type=whole, default=(5, 11), metavar="LO-HI", help=text)
    sizes = parser.add_mutually_exclusive_group()
    text = "mean number of limbs (default: all numbers equally often)"
    sizes.add_argument("--mean-limbs", type=float, metavar="X", help=text)
    text = "limbs as in the published set"
    sizes.add_argument("--histogram", choices=("unimal",), metavar="NAME", help=text)
    text = "let every limb grow in any direction (default: bodies are their mirror images)"
    parser.add_argument("--asymmetric", dest="symmetric", action="store_false", help=text)
    parser.add_argument("--symmetric", action="store_true", default=True, help=argparse.SUPPRESS)
    text = "factor on heights and radii of limbs (default: 1-1)"
    parser.add_argument("--size", type=real, default=(1.0, 1.0), metavar="LO-HI", help=text)
    text = "closed loops of a body that has any (default: none)"
    parser.add_argument("--loops", type=whole, default=(0, 0), metavar="LO-HI", help=text)
    text = "share of bodies that have loops (default: all, where --loops is given)"
    parser.add_argument("--loop-share", type=float, metavar="X", help=text)
    parser.add_argument("--seed", type=integer(0), default=1, metavar="S", help="default: 1")
    text = "mutated train bodies of this released, evolved set instead of random bodies"
    parser.add_argument("--descend-from", metavar="SET", help=text)
    text = "processes of a search; they do not change the outcome (default: all cores)"
    parser.add_argument("--workers", type=integer(1, _MOST_WORKERS), metavar="N", help=text)
    parser.set_defaults(execute=_generate, parser=parser)


def _pair(convert: Callable[[str], float], wanted: str) -> Callable[[str], tuple[Any, Any]]:
    """Return a converter for `LO-HI`, or one number for both."""

    def read(text: str) -> tuple[Any, Any]:
        low, dash, high = text.partition("-")
        try:
            pair = convert(low), convert(high if dash else low)
        except ValueError:
            pair = (math.nan, math.nan)
        if not all(map(math.isfinite, pair)) or pair[0] > pair[1]:
            raise argparse.ArgumentTypeError(
                f"must be {wanted} as LO-HI, the lower first, got {text!r}"
            )
        return pair

    return read


def _recipe(parsed: argparse.Namespace) -> Any:
    from gmc_bench.generation.bodies import Form
    from gmc_bench.generation.recipe import Recipe

    share = parsed.loop_share if parsed.loop_share is not None else float(parsed.loops[1] > 0)
    return Recipe(
        seed=parsed.seed,
        train=parsed.train,
        test=parsed.test,
        limbs=parsed.limbs,
        spread=parsed.histogram or ("even" if parsed.mean_limbs is None else "mean"),
        mean_limbs=parsed.mean_limbs,
        form=Form(symmetric=parsed.symmetric, size=parsed.size),
        loops=parsed.loops,
        loop_share=share,
    )


def _generate(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from tqdm import tqdm

    from gmc_bench.generation.descendants import make_descendants, plain_descent
    from gmc_bench.generation.produce import make_set, prospects
    from gmc_bench.records.environment import usable_cores

    recipe, base = _recipe(parsed), parsed.descend_from
    descent = plain_descent(base, recipe) if base else None
    if descent is not None:
        parsed.parser.refuse(parsed, ("workers",), "has no effect on descendants")
    for sentence in prospects(parsed.set, recipe, descent):
        note(sentence)
    total, numbers = recipe.train + recipe.test, count(1)
    pause = 0.1 if sys.stderr.isatty() else 30.0  # s; logs keep every state of the bar
    with tqdm(total=total, unit="body", file=sys.stderr, mininterval=pause) as bar:

        def show(found: int) -> None:
            bar.set_postfix(judged=next(numbers), refresh=False)
            bar.update(found - bar.n)

        workers = parsed.workers or min(usable_cores(), _MOST_WORKERS)
        try:
            if descent is None:
                text = make_set(parsed.set, recipe, workers, show).text
            else:
                text = make_descendants(parsed.set, descent, recipe.train, recipe.test, show).text
        except KeyboardInterrupt:
            bar.close()
            if descent is None:
                note("The verdicts so far are kept; the same command goes on with the search.")
            raise
    say(text)
    return 0


def _add_evolve(actions: Any) -> None:
    text = (
        "Evolve bodies that learn to walk and keep the best as a set: one policy trains on all, "
        "the best have children. What was interrupted goes on when it is asked for again."
    )
    parser = add_verb(actions, "evolve", text, _EVOLVE)
    parser.add_argument("set", metavar="NAME", help="name to keep the bodies under")
    parser.add_argument("--train", type=integer(1), default=40, metavar="N", help="default: 40")
    parser.add_argument("--test", type=integer(1), default=40, metavar="N", help="default: 40")
    parser.add_argument("--threads", type=integer(1), default=1, metavar="N", help="default: 1")
    add_settings(parser, Evolution(), "evolution", "", set())
    parser.set_defaults(execute=_evolve, parser=parser)


def _evolve(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.cli.display import Display
    from gmc_bench.experiments.evolution import evolve_set

    settings = with_overrides(Evolution(), settings_given(parsed, ""))
    with Display(again="the same command") as show:
        options = {"num_threads": parsed.threads, "listener": show}
        say(evolve_set(parsed.set, settings, parsed.train, parsed.test, **options).text)
    return 0


def _add_reveal(actions: Any) -> None:
    text = "Check the secret of a held-out set against its commitment and grow the set."
    parser = add_verb(actions, "reveal", text, _REVEAL)
    parser.add_argument("set", metavar="SET", help="name of the held-out set")
    text = "JSON with seed and salt (default: as revealed with this release)"
    parser.add_argument("--secret", type=Path, metavar="FILE", help=text)
    parser.set_defaults(execute=_reveal, parser=parser)


def _reveal(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.generation.heldout import reveal

    say(reveal(parsed.set, parsed.secret).text)
    return 0


def _add_describe(actions: Any) -> None:
    text = "Show what a set of bodies holds, or several sets in one table."
    parser = add_verb(actions, "describe", text, _DESCRIBE)
    parser.add_argument("set", metavar="SET", nargs="+", help="name of the set")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    text = "also simulate the bodies, without control and with open-loop gaits"
    parser.add_argument("--behaviour", action="store_true", help=text)
    text = "measure at most N bodies of each split, with --behaviour or of several sets"
    parser.add_argument("--limit", type=integer(1), metavar="N", help=text)
    parser.set_defaults(execute=_describe, parser=parser)


def _describe(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.bodies.sets import load_limb_bodies
    from gmc_bench.bodies.summary import describe_set, render_set

    measured = len(parsed.set) > 1 or parsed.behaviour
    if not measured:
        parsed.parser.refuse(parsed, ["limit"], "needs --behaviour, or several sets")
    sets = [load_limb_bodies(name) for name in parsed.set]
    if measured:
        rows = _measure(sets, parsed)
        from gmc_bench.generation.measures import comparison_table

        say_json(rows) if parsed.json else say(comparison_table(rows))
        return 0
    description = describe_set(sets[0])
    say_json(description) if parsed.json else say(render_set(description))
    return 0


def _measure(sets: list[Any], parsed: argparse.Namespace) -> list[Any]:
    from tqdm import tqdm

    from gmc_bench.generation.measures import measure_set

    rows = []
    with tqdm(unit="body", file=sys.stderr, disable=None) as bar:
        for bodies in sets:
            bar.set_description(bodies.id)
            options = {"behaviour": parsed.behaviour, "limit": parsed.limit}
            rows.append(measure_set(bodies, **options, on_body=bar.update))
    return rows
