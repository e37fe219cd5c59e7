"""`gmc-bench`: the command line."""

import argparse
import functools
import logging
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr

import gmc_bench
from gmc_bench.cli import (
    check_method,
    deploy,
    evaluate,
    export,
    leaderboard,
    listing,
    morphologies,
    profile,
    render,
    replay,
    run,
    study,
    sweep,
    tune,
)
from gmc_bench.cli.output import discard_stdout, note
from gmc_bench.cli.parser import Parser
from gmc_bench.core.errors import GmcBenchError, with_open_paths
from gmc_bench.core.interruption import heed_signals
from gmc_bench.core.options import require_verb_first
from gmc_bench.core.stream import forgiving
from gmc_bench.rendering.backend import with_engine

VERBS = (
    run, sweep, evaluate, study, tune, listing, check_method, morphologies, profile, render,
    replay, export, deploy, leaderboard,
)  # fmt: skip


@functools.cache  # tests and notebooks call `main` again and again
def make_parser() -> Parser:
    """Return the parser of all verbs."""
    parser = Parser(
        prog="gmc-bench",
        description="Train, score and compare morphology controllers: one policy, many bodies.",
        epilog=(
            "examples:\n  gmc-bench run --method recmorph --suite unimal\n  gmc-bench list methods"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=gmc_bench.__version__)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", parser_class=Parser)
    for verb in VERBS:
        verb.add_parser(verbs)
    parser.verbs = verbs.choices
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        0 on success, 1 when a check fails or something breaks inside, 2 on bad input, 130 when
        interrupted.
    """
    with redirect_stderr(forgiving(sys.stderr)):
        logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
        logging.getLogger("gmc_bench").setLevel(logging.INFO)
        heed_signals()
        arguments = list(sys.argv[1:] if argv is None else argv)
        try:
            parser = make_parser()
            require_verb_first(arguments, parser.options, parser.verbs, parser.prog)
            parsed, unknown = parser.parse_known_args(arguments)
            if parsed.verb is None:
                parser.print_help()
                return 2
            if not getattr(parsed, "passes_on", False):  # else what is unknown may be a setting
                parsed.parser.reject_unknown(unknown)
            return int(with_engine(with_open_paths, parsed.execute, parsed, unknown, arguments))
        except GmcBenchError as error:
            note(f"gmc-bench: {error}")
            return error.exit_code
        except MemoryError as error:
            note(f"gmc-bench: this needs more memory than there is ({error}); ask for less")
            return 2
        except KeyboardInterrupt:
            note("gmc-bench: interrupted")
            return 130
        except BrokenPipeError:
            discard_stdout()  # its reader has gone, e.g. `head`; there is nobody left to tell
            return 0


if __name__ == "__main__":
    sys.exit(main())
