"""`gmc-bench morphologies generate`: search for new bodies and keep them as a set."""

import argparse
import math
import os
import sys
from collections.abc import Callable
from typing import Any, Literal

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import add_verb, integer

EXAMPLES = (
    "gmc-bench morphologies generate my-bodies --train 10 --test 10",
    "gmc-bench morphologies generate my-large --limbs 20-30 --mean-limbs 25 --workers 4",
    "gmc-bench morphologies generate my-loops --limbs 6-10 --loops 1-2 --loop-share 0.2",
)


def add_generate(actions: Any) -> None:
    """Add the action to those of `morphologies`."""
    parser = add_verb(
        actions,
        "generate",
        "Search for random bodies that can move and keep them as a set. A search that was "
        "interrupted goes on when it is asked for again.",
        EXAMPLES,
    )
    parser.add_argument("set", metavar="NAME", help="name to keep the bodies under")
    parser.add_argument("--train", type=integer(1), default=20, metavar="N", help="train bodies")
    parser.add_argument("--test", type=integer(1), default=20, metavar="N", help="test bodies")
    parser.add_argument(
        "--limbs",
        type=_pair(int, "two whole numbers"),
        default=(5, 11),
        metavar="LO-HI",
        help="limbs of a body, the torso included (default: 5-11)",
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument(
        "--mean-limbs", type=float, metavar="X", help="mean of the limbs (default: all even)"
    )
    sizes.add_argument(
        "--histogram", choices=("unimal",), metavar="NAME", help="limbs as in the published set"
    )
    parser.add_argument(
        "--asymmetric",
        dest="symmetric",
        action="store_false",
        help="let every limb grow in any direction (default: bodies are their mirror images)",
    )
    parser.add_argument("--symmetric", action="store_true", default=True, help=argparse.SUPPRESS)
    parser.add_argument(
        "--size",
        type=_pair(float, "two numbers"),
        default=(1.0, 1.0),
        metavar="LO-HI",
        help="factor on heights and radii of limbs (default: 1-1)",
    )
    parser.add_argument(
        "--loops",
        type=_pair(int, "two whole numbers"),
        default=(0, 0),
        metavar="LO-HI",
        help="closed loops of a body that has any (default: none)",
    )
    parser.add_argument(
        "--loop-share",
        type=float,
        metavar="X",
        help="share of bodies that have loops (default: all, where --loops is given)",
    )
    parser.add_argument("--seed", type=integer(0), default=1, metavar="S", help="default: 1")
    parser.add_argument(
        "--workers",
        type=integer(1, 256),
        default=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
        metavar="N",
        help="processes; they do not change the outcome (default: all cores)",
    )
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


def _generate(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    parsed.parser.reject_unknown(unknown)
    from tqdm import tqdm

    from gmc_bench.bodies.summary import describe_set, render_set
    from gmc_bench.generation.bodies import Form
    from gmc_bench.generation.produce import (
        check_set_name,
        holds_other_bodies,
        journal_path,
        make_set,
    )
    from gmc_bench.generation.recipe import Recipe

    share = parsed.loop_share if parsed.loop_share is not None else float(parsed.loops[1] > 0)
    spread: Literal["even", "mean", "unimal"] = "even"
    if parsed.histogram or parsed.mean_limbs is not None:
        spread = "unimal" if parsed.histogram else "mean"
    recipe = Recipe(
        seed=parsed.seed,
        train=parsed.train,
        test=parsed.test,
        limbs=parsed.limbs,
        spread=spread,
        mean_limbs=parsed.mean_limbs,
        form=Form(symmetric=parsed.symmetric, size=parsed.size),
        loops=parsed.loops,
        loop_share=share,
    )
    check_set_name(parsed.set)
    if holds_other_bodies(parsed.set, recipe):
        note(f"{parsed.set!r} holds other bodies; the new ones replace them at the end.")
    if journal_path(recipe).exists():
        note(f"Going on with the search in {journal_path(recipe)}.")
    judged = 0
    pause = 0.1 if sys.stderr.isatty() else 30.0  # s; logs keep every state of the bar
    total = recipe.train + recipe.test
    with tqdm(total=total, unit="body", file=sys.stderr, mininterval=pause) as bar:

        def show(found: int) -> None:
            nonlocal judged
            judged += 1
            bar.set_postfix(judged=judged, refresh=False)
            bar.update(found - bar.n)

        try:
            product = make_set(parsed.set, recipe, parsed.workers, show)
        except KeyboardInterrupt:
            bar.close()
            note("The verdicts so far are kept; the same command goes on with the search.")
            raise
    say(render_set(describe_set(product.bodies)))
    turned_down = "  ".join(f"{fault}: {count}" for fault, count in product.found.faults.items())
    say(f"judged  {product.found.num_judged}")
    say(f"turned down  {turned_down or 'none'}")
    say()
    say(f"kept in  {product.folder}")
    return 0
