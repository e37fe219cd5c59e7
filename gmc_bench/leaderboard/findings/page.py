"""Findings as a Markdown page, generated from what is kept with a leaderboard."""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from gmc_bench.core.escape import markdown
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.findings.catalogue import CLAIMS
from gmc_bench.leaderboard.findings.claims import VERDICTS, Claim, Finding
from gmc_bench.leaderboard.findings.cost import Costs, distinct, hours_text, made_once
from gmc_bench.leaderboard.findings.evidence import Evidence, read_evidence
from gmc_bench.leaderboard.findings.plan import PendingRuns, pending_runs
from gmc_bench.leaderboard.tables import MARKDOWN_MARK
from gmc_bench.suites import SUITES

_NONE = "—"


def find_all(evidence: Evidence) -> dict[str, Finding]:
    """Return what the runs say about every claim, by its id."""
    found: dict[str, Finding] = {}
    for claim in CLAIMS:
        found[claim.id] = claim.find(evidence, found)
    return found


def findings_page(analyses: Sequence[TableAnalysis], records: Path, page: Path) -> bytes:
    """Return the page of all claims.

    Args:
        analyses: tables of a leaderboard.
        records: its folder, which has studies and evaluations beside records.
        page: where the page will be; its links are relative to that.

    Raises:
        RecordError: a file of a study or an evaluation was changed, or is something else.
    """
    evidence = read_evidence(analyses, records)
    found, costs = find_all(evidence), Costs(evidence)
    counts = Counter(item.verdict for item in found.values())
    tally = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
    idle = sum(bool(item.idle) for item in found.values() if item.verdict == "seen here")
    root = os.path.relpath(records.resolve(), page.resolve().parent)
    lines = [
        MARKDOWN_MARK, "# Findings", "",
        "What the RecMorph paper claims, and what the runs in this repository say about it. "
        "This page is generated from committed records, studies and evaluations by `make tables`; "
        "no number is entered by hand.", "",
        f"**Of {len(found)} claims: {tally}.** Of those seen here, {idle} compare with a method "
        "whose mean return is no more than that of no action at all.", "",
        *_rules(), "", "## Claims", "",
        "| Claim | Paper | Here | Verdict | Evidence |", "| --- | --- | --- | --- | --- |",
        *(_row(claim, found[claim.id], root) for claim in CLAIMS), "",
        *_pending_section(pending_runs(evidence, found, costs), costs), "",
        *_command_section(found, costs),
    ]  # fmt: skip
    return "\n".join(lines).encode()


def _rules() -> list[str]:
    """Return what differs from the paper, and how verdicts come about."""
    suite = SUITES.get("unimal-v1")
    lite, paper = suite.protocol("lite"), suite.protocol("paper")
    share = 100.0 * lite.env_steps / paper.env_steps
    quadruped = SUITES.get("quadruped-friction-v3")
    legs = quadruped.protocol("lite").env_steps, quadruped.protocol("paper").env_steps
    return [
        "## How to read this",
        "",
        f"- **A smaller budget.** Our runs follow the protocol `lite`: {lite.env_steps:,} control "
        f"steps per task, {share:.0f} % of the paper's {paper.env_steps:,} (quadrupeds: "
        f"{legs[0]:,} of {legs[1]:,}), with smaller networks and other PPO settings "
        "([protocols](protocols.md)). A claim that is not seen here may hold after longer "
        "training, and one that is seen may not.",
        "- **Other bodies.** The suite `unimal` uses the published bodies, as the paper does. "
        "Larger bodies and bodies with closed loops are this benchmark's own, because the paper's "
        "are not public ([bodies](bodies.md)), and so are varied bodies, for which an archive was "
        "announced that was not used here ([variations](variations.md)); "
        "commands and episodes of quadrupeds, which the paper does not state, are our own "
        "([quadrupeds](quadrupeds.md)). Tables I to III and Fig. 8 of the paper name no task; ours "
        "are on flat terrain.",
        "- **The same measure.** Where the paper compares final online training returns, so do we; "
        "they are not the scores that rank methods in our tables. All methods are our own "
        "implementations.",
        "- **Tuned and untuned.** On flat terrain all methods have learning rate and KL threshold "
        "from trials of their own, elsewhere none. Each table says which rows have "
        "(*Tuned beforehand*), and ranks the methods that have all seeds with the values before "
        "tuning by these, too.",
        "- **Left out** are statements about figures of single episodes, about why something "
        "happens, about which of several effects is the largest, about the variance over seeds, "
        "and about numbers of parameters, which follow from presets.",
        "- **Verdicts** rest on 95 % intervals over seeds: *seen here* if the interval of the "
        "difference lies entirely on the claim's side, *not seen here* if it lies entirely on the "
        "other, else *cannot be decided with these runs*. Of two intervals of a difference the "
        "wider one counts: with variances pooled over the methods or variants of a row as in the "
        "tables, and with those of the two alone, as in Welch's test "
        "([statistics](statistics.md)). There is none where no run differs from the others of its "
        "side, such as without a fall in any: a few equal runs do not show what others would do. "
        "Leads are corrected for the number of pairs; rows are not "
        "corrected for each other, so that a few may be wrong by chance. The size of an effect "
        "does not decide; the paper's is given beside it. "
        "Differences have the sign of the claim: *higher by -5 %* is lower. Where all runs of both "
        "sides are positive, it is the ratio of the two means less one, in percent; elsewhere it "
        "is that of the means themselves.",
        "- **What was replayed.** Scores of ranked rows are replayed from the kept weights, and "
        "anybody can replay those on varied bodies and with a limb unseen "
        "([verification](leaderboard.md#verify-and-watch)). Training returns, on which many "
        "claims rest, are not checked by replay: they are what the runs themselves recorded. Nor "
        "are the numbers of studies.",
        "- **Seeds** count from the first that a protocol asks for, without gaps, so that nobody "
        "can choose among them; further ones, added where a table was close, do not count here.",
        "- **Seeds needed** are the fewest that show the effect in the given share of cases by "
        "Student's t-test of one sample, or Welch's of two (noncentral t), with the variance "
        "measured here and for one pair alone. "
        "Leads, which are corrected for all pairs and must hold against all others, need more. "
        "A variance of two or three runs is itself uncertain, so that the share is often smaller. "
        "An effect as large as the claim's is, of two means, the paper's ratio, else its change.",
    ]


def _row(claim: Claim, found: Finding, root: str) -> str:
    here = found.here or _NONE
    if claim.remark and found.verdict != "not run yet":
        here += f". {claim.remark}"
    verdict = f"*{found.verdict}*"
    if found.power:
        verdict += f"; {found.power}"
    evidence = ", ".join(_link(root, link) for link in found.links)
    paper = f"{claim.printed} ({claim.source})" if claim.printed else f"{claim.source}, no number"
    cells = (markdown(claim.says), markdown(paper), markdown(here), verdict, evidence or _NONE)
    return f'| <a id="{claim.id}"></a>{" | ".join(cells)} |'


def _link(root: str, path: str) -> str:
    """Return a link to a file of the leaderboard; whoever added it chose its name."""
    shown = markdown(Path(path).name or path).replace(r"\_", "_")  # inside of words it is no mark
    return f"[{shown}]({root}/{quote(path, safe='/+')})"


def _pending_section(items: Sequence[PendingRuns], costs: Costs) -> list[str]:
    """Return the pending runs, in order of priority."""
    known = [item for item in items if item.hours is not None]
    lines = [
        "## What is left",
        "",
        "Missing runs, the most worthwhile first, with the core hours that they would "
        "take at the throughput of the most similar finished runs under today's rules (an estimate "
        "from flat terrain is too low for other terrain). "
        f"Together {hours_text(costs.hours(made_once(run for item in known for run in item.left)))}"
        " core hours, with runs that several lines share counted once"
        + ("." if len(known) == len(items) else ", and without those whose cost is unknown."),
        "",
        "`gmc-bench sweep --config examples/boards.yaml --dry-run` shows the boards as one sweep; "
        "its hours include evaluation.",
        "",
        "| What | Runs done | Core hours left | Command |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| {markdown(item.what)} | {item.done} of {item.wanted} | {hours_text(item.hours)} | "
        f"`{item.command}` |"
        for item in items
    ]
    return lines


def _command_section(found: dict[str, Finding], costs: Costs) -> list[str]:
    """Return for each claim the command that makes its runs."""
    lines = [
        "## Commands",
        "",
        "The command for the runs of each claim, and the core hours of those that are missing. "
        "Add finished runs, folders of studies, and files with the output of `gmc-bench evaluate "
        "... --json` by `gmc-bench leaderboard add ...`; then run `make tables`.",
        "",
        "| Claim | Command | Core hours left |",
        "| --- | --- | --- |",
    ]
    for claim in CLAIMS:
        command = claim.command()
        if command:
            hours = hours_text(costs.hours(distinct(found[claim.id].missing)))
            lines.append(f"| [{claim.id}](#{claim.id}) | `{command}` | {hours} |")
    return [*lines, ""]
