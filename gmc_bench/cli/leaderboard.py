"""`gmc-bench leaderboard`: tables from records."""

import argparse
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import Parser, add_verb

EXAMPLES = (
    "gmc-bench leaderboard build",
    "gmc-bench leaderboard build --records runs --out my_tables",
)


def add_parser(verbs: Any) -> None:
    """Add the verb with its actions."""
    parser = add_verb(verbs, "leaderboard", "Make tables from records.", EXAMPLES)
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    build = add_verb(actions, "build", "Write the tables of a folder of records.", EXAMPLES)
    check = add_verb(
        actions,
        "check",
        "Say whether the tables are what the records give; exit code 1 if not.",
        (
            "gmc-bench leaderboard check",
            "gmc-bench leaderboard check --records runs --out my_tables",
        ),
    )
    for action, function in ((build, _build), (check, _check)):
        action.add_argument(
            "--records", metavar="DIR", type=Path, default=Path("runs"), help="default: runs"
        )
        action.add_argument(
            "--out", metavar="DIR", type=Path, default=None,
            help="where tables/ goes (default: RECORDS/leaderboard)",
        )  # fmt: skip
        action.set_defaults(execute=function, parser=action)


def _target(parsed: argparse.Namespace) -> Path:
    out: Path | None = parsed.out
    return out if out is not None else parsed.records / "leaderboard"


def _build(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    parsed.parser.reject_unknown(unknown)
    from gmc_bench.leaderboard.build import build

    for path in build(parsed.records, _target(parsed)):
        if path.suffix == ".md" and path.name != "README.md":
            say(path.read_text(encoding="utf-8"))
        note(f"wrote {path}")
    return 0


def _check(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    parsed.parser.reject_unknown(unknown)
    from gmc_bench.leaderboard.build import check

    outdated = check(parsed.records, _target(parsed))
    for path in outdated:
        say(f"outdated  {path}")
    return 1 if outdated else 0
