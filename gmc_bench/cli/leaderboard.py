"""`gmc-bench leaderboard`: from runs to records, tables and a site that others can check."""

import argparse
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from gmc_bench.cli.output import note, say
from gmc_bench.cli.parser import Parser, add_verb, integer
from gmc_bench.core.errors import ConfigError

EXAMPLES = (
    "gmc-bench leaderboard build",
    "gmc-bench leaderboard build --records leaderboards --out leaderboards --site",
    "gmc-bench leaderboard add runs/recmorph_unimal-ft_lite_unimals_100_seed{1,2,3}",
    "gmc-bench leaderboard verify --all",
)


def add_parser(verbs: Any) -> None:
    """Add the verb with its actions."""
    parser = add_verb(verbs, "leaderboard", "Tables, site and checks of records.", EXAMPLES)
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=Parser
    )
    build = _action(actions, "build", "Write tables, figures and the site of a folder of records.",
        _build,
        "gmc-bench leaderboard build",
        "gmc-bench leaderboard build --records runs --out my_tables --site",
    )  # fmt: skip
    check = _action(actions, "check", "Say whether tables are up to date; exit code 1 if not.",
        _check,
        "gmc-bench leaderboard check",
        "gmc-bench leaderboard check --records runs --out my_tables",
    )  # fmt: skip
    for action, done in ((build, "written"), (check, "checked")):
        _records_option(action, "runs")
        text = "where tables/ goes (default: RECORDS/leaderboard)"
        action.add_argument("--out", metavar="DIR", type=Path, help=text)
        text = f"Markdown file whose part between the leaderboard marks is {done}, too"
        action.add_argument("--readme", metavar="FILE", type=Path, help=text)
        text = f"Markdown file of what a paper claims and the records say, {done} whole"
        action.add_argument("--findings", metavar="FILE", type=Path, help=text)
    build.add_argument("--site", action="store_true", help="write a static site to OUT/site, too")
    text = "replays of its verified records, too; the first time, ~5 s of processor time a row"
    build.add_argument("--replays", action="store_true", help=text)
    text = "pictures and videos for the site (see 'gmc-bench render')"
    build.add_argument("--media", metavar="DIR", type=Path, help=text)
    add = _action(actions, "add", "Add finished runs to a leaderboard, if they follow its rules.",
        _add,
        "gmc-bench leaderboard add runs/RUN_SEED_1 runs/RUN_SEED_2 runs/RUN_SEED_3",
    )  # fmt: skip
    text = "finished runs; folders of studies and files of evaluations for the findings, too"
    add.add_argument("run_dirs", metavar="RUN_DIR", type=Path, nargs="+", help=text)
    _records_option(add, "leaderboards")
    verify = _action(actions, "verify", "Run recorded episodes again from the weights and compare.",
        _verify,
        "gmc-bench leaderboard verify runs/recmorph_unimal-ft_lite_unimals_100_seed1",
        "gmc-bench leaderboard verify --all --jobs 2",
    )  # fmt: skip
    option = verify.add_argument
    text = "a record, the first digits of its digest, a run folder, or a kept evaluation"
    option("record", metavar="RECORD", type=Path, nargs="?", help=text)
    option("--all", action="store_true", help="every record of the leaderboard")
    text = "with --all: only those that are not verified yet"
    option("--unverified", action="store_true", help=text)
    text = "with --all: only N records, drawn anew each time"
    option("--sample", metavar="N", type=integer(1), help=text)
    text = "with --all: processes (default: 1)"
    option("--jobs", metavar="N", type=integer(1), default=1, help=text)
    _records_option(verify, None)
    text = "where weights are looked for that the leaderboard does not keep (default: runs)"
    option("--runs", metavar="DIR", type=Path, nargs="+", default=[Path("runs")], help=text)
    text = "only the episodes that decide a record's place in its table"
    option("--ranked-only", action="store_true", help=text)
    sign = _action(actions, "sign", "Sign records with a key of minisign, once added or before.",
        _sign,
        "gmc-bench leaderboard sign runs/RUN_SEED_1 runs/RUN_SEED_2 --key ~/.minisign/minisign.key",
    )  # fmt: skip
    text = "run folders, or records of the leaderboard by file or first digits of their digest"
    sign.add_argument("records_to_sign", metavar="RECORD", type=Path, nargs="*", help=text)
    text = "secret key, as 'minisign -G' makes it (default: ~/.minisign/minisign.key)"
    key = Path("~/.minisign/minisign.key")
    sign.add_argument("--key", metavar="FILE", type=Path, default=key, help=text)
    sign.add_argument("--new-key", action="store_true", help="make that key first")
    _records_option(sign, "leaderboards")
    following = _action(actions, "next", "Name the run that would decide most in each table.",
        _next,
        "gmc-bench leaderboard next",
    )  # fmt: skip
    _records_option(following, "leaderboards")
    _action(actions, "schema", "Print the JSON Schema of records.", _schema,
        "gmc-bench leaderboard schema > record.schema.json",
    )  # fmt: skip


def _action(
    actions: Any,
    name: str,
    summary: str,
    function: Callable[[argparse.Namespace, list[str], list[str]], int],
    *examples: str,
) -> Parser:
    action = add_verb(actions, name, summary, examples)
    action.set_defaults(execute=function, parser=action)
    return action


def _records_option(action: Parser, default: str | None) -> None:
    text = f"default: {default or 'the leaderboard that RECORD lies in, or leaderboards'}"
    path = None if default is None else Path(default)
    action.add_argument("--records", metavar="DIR", type=Path, default=path, help=text)


def _target(parsed: argparse.Namespace) -> Path:
    out: Path | None = parsed.out
    return out if out is not None else parsed.records / "leaderboard"


def _build(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    if (parsed.media is not None or parsed.replays) and not parsed.site:
        raise ConfigError("--media and --replays are for the site; give --site as well")
    from gmc_bench.leaderboard.build import SITE_FOLDER, SiteOptions, build

    site, pages, target = None, 0, _target(parsed)
    if parsed.site:
        from gmc_bench.leaderboard.site.pages import method_pages
        from gmc_bench.rendering.web.records import RecordReplays

        replays = RecordReplays(parsed.records) if parsed.replays else None
        site = SiteOptions(method_pages(), parsed.media, replays)
    for path in build(parsed.records, target, parsed.readme, site, parsed.findings):
        if (target / SITE_FOLDER) in path.parents:
            pages += 1
            continue
        if path.suffix == ".md" and path.name != "README.md" and path != parsed.findings:
            say(path.read_text(encoding="utf-8"))
        note(f"wrote {path}")
    if pages:
        note(f"wrote {pages} files of the site; open {target / SITE_FOLDER / 'index.html'}")
    return 0


def _check(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.leaderboard.build import check

    outdated = check(parsed.records, _target(parsed), parsed.readme, parsed.findings)
    for path in outdated:
        say(f"outdated  {path}")
    failed = _signatures(parsed.records)
    return 1 if outdated or failed else 0


def _signatures(records: Path, named: Path | None = None) -> int:
    """Say what is wrong with signatures, of all records or of one; return how many are wrong."""
    from gmc_bench.leaderboard.signing import check_all, check_named

    found = list(check_all(records) if named is None else check_named(named, records))
    for item in found:
        if item.problem:
            say(f"FAILED  {item.problem}")
    signers = Counter(item.signer for item in found if not item.problem)
    for name, count in signers.items():
        note(f"{count} signed by {name}")
    return len(found) - signers.total()


def _add(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.experiments.run_folder import KEPT
    from gmc_bench.leaderboard.keeping import files_to_keep, keep, require_policies
    from gmc_bench.leaderboard.rerun import acting_weights
    from gmc_bench.leaderboard.rules import installed_rules
    from gmc_bench.leaderboard.submission import Submission, add, read_finished_run

    files, folders = files_to_keep(parsed.run_dirs, parsed.records)
    for folder in (item for item in folders if (item / KEPT).is_file()):
        say(f"left   {folder}: it was taken from a leaderboard")
    runs = [(item, read_finished_run(item)) for item in folders if not (item / KEPT).is_file()]
    submissions = [
        Submission(
            folder, stored, installed_rules(stored.record), partial(acting_weights, folder, stored)
        )
        for folder, stored in runs
    ]
    require_policies(files, parsed.records, [stored.record for _, stored in runs])
    for path in [*(add(submissions, parsed.records) if runs else ()), *keep(files)]:
        say(f"added  {path}")
    step = "verify --all" if runs else "build"
    note(f"Now run: gmc-bench leaderboard {step} --records {parsed.records}")
    return 0


def _verify(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    if (parsed.record is None) != parsed.all:
        raise ConfigError("give either one RECORD or --all")
    from gmc_bench.cli.display import Display
    from gmc_bench.leaderboard.board import add_verification, board_of, says_something_new
    from gmc_bench.leaderboard.rerun import verify_all, verify_one
    from gmc_bench.leaderboard.rescoring import is_evaluation, verify_evaluation

    if not parsed.all:
        why = "goes only with --all; leave it out"
        parsed.parser.refuse(parsed, ("unverified", "sample", "jobs"), why)
        if is_evaluation(parsed.record):
            why = "is for records, got it for a kept evaluation; leave it out"
            parsed.parser.refuse(parsed, ("ranked_only", "runs"), why)
    root, board = board_of(parsed.record, parsed.records)
    if parsed.all and not board.records:
        raise ConfigError(f"{root} holds no records; give another folder with --records")
    counts: Counter[str] = Counter()
    failed = _signatures(root, parsed.record)
    with Display() as display:
        how = {"ranked_only": parsed.ranked_only, "on_progress": display}
        if parsed.all:  # of a folder of runs, the records are where the weights are
            folders = [*parsed.runs, *([] if board.length else [root])]
            outcomes = verify_all(
                board, folders, jobs=parsed.jobs, unverified=parsed.unverified,
                sample=parsed.sample, **how,
            )  # fmt: skip
        elif is_evaluation(parsed.record):
            outcomes = iter([verify_evaluation(parsed.record, board, root, display)])
        else:
            outcomes = iter([verify_one(parsed.record, board, parsed.runs, root, **how)])
        for outcome in outcomes:
            counts[outcome.kind] += outcome.records
            say(f"{outcome.kind.replace('failed', 'FAILED')}  {outcome.text}")
            found = outcome.verification
            if found is not None and says_something_new(board, found):
                note(f"wrote {add_verification(root, found)}")
    if parsed.all:
        note(", ".join(f"{count} {kind}" for kind, count in counts.items()) or "nothing is left")
    done = counts["verified"] or not counts
    return 0 if done and not failed + counts["failed"] + counts["not verified"] else 1


def _sign(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.leaderboard.signing import ask_password, sign_record
    from gmc_bench.records.signature import SIGNERS_NAME, make_key

    if not (parsed.records_to_sign or parsed.new_key):
        raise ConfigError("give a RECORD to sign, or --new-key")
    if parsed.new_key:
        password = ask_password("Password of the new key (empty: none): ")
        if password and ask_password("The same again: ") != password:
            raise ConfigError("the two passwords differ; nothing was written")
        say(make_key(parsed.key, password))
        note(f"This is the public key; who keeps a leaderboard puts it into its {SIGNERS_NAME}.")
    ask = cache(partial(ask_password, f"Password of {parsed.key}: "))
    for named in parsed.records_to_sign:
        say(f"signed  {sign_record(named, parsed.records, parsed.key, ask)}")
    return 0


def _next(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.leaderboard.build import open_leaderboard
    from gmc_bench.leaderboard.next_run import next_runs
    from gmc_bench.leaderboard.rules import ranked_methods

    for run in (found := next_runs(open_leaderboard(parsed.records).analyses, ranked_methods())):
        say(f"{run.table}\n  {run.why}\n  {run.command}")
    if not found:
        note("No table of today's rules lacks a run that would decide anything.")
    return 0


def _schema(parsed: argparse.Namespace, unknown: list[str], argv: list[str]) -> int:
    from gmc_bench.records.store import json_schema

    say(json_schema().rstrip())
    return 0
