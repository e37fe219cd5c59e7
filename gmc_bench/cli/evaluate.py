"""`gmc-bench evaluate`: score the policy of a finished run again."""

import argparse
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import note, number, say, say_json, table
from gmc_bench.cli.parser import add_verb, integer

EXAMPLES = (
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v1_seed1",
    "gmc-bench evaluate runs/recmorph_unimal-ft_lite_gmc-unimal-mini-v1_seed1 "
    "--split test --episodes 16 --json",
)

SEEN = " (seen in training)"


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "evaluate", "Score the policy of a finished run again.", EXAMPLES)
    add = parser.add_argument
    add("run_dir", metavar="RUN_DIR", type=Path, help="folder of a finished run")
    add("--split", choices=("train", "test"), help="only this split (default: both)")
    add("--episodes", metavar="N", type=integer(1), help="per body and mode")
    add("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(execute=execute, parser=parser)


def execute(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    """Run the verb."""
    parsed.parser.reject_unknown(unknown)
    from gmc_bench.training.run_folder import RunFolder

    folder = RunFolder(parsed.run_dir)  # first, because loading the rest takes seconds
    from gmc_bench.cli import session as sessions
    from gmc_bench.cli.report import HEADINGS, summarize
    from gmc_bench.results.store import read_record
    from gmc_bench.training.run_config import read_run_config

    session = sessions.open_session(read_run_config(folder.config))
    digest = read_record(folder.record).weights_digest if folder.record.exists() else None
    model, normalizer = sessions.load_trained(session, folder, digest)
    splits = (parsed.split,) if parsed.split else None
    returns = sessions.score(session, model, normalizer, splits=splits, episodes=parsed.episodes)
    if parsed.json:
        say_json({"run": str(parsed.run_dir), "returns": [item.model_dump() for item in returns]})
        return 0
    note("")
    rows = [
        [
            item.body
            + (" (seen in training)" if item.split == "test" and item.seen_in_train else ""),
            item.split,
            item.mode,
            number(item.mean_return),
            number(sum(e.length for e in item.episodes) / len(item.episodes), 0),
        ]
        for item in returns
    ]
    say(table(("body", "split", "mode", "return", "length"), rows))
    say()
    say(table(HEADINGS, summarize(returns)))
    return 0
