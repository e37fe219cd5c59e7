"""Caveats of a table's ranking in words: significant pairs, few runs, other statistics."""

from collections.abc import Sequence

from gmc_bench.core.table import number
from gmc_bench.leaderboard.analysis import REPEATED_LOOKS_FACTOR, RowAnalysis, TableAnalysis
from gmc_bench.leaderboard.comparison import share_a_letter
from gmc_bench.records.kinship import scored

FEW_RUNS = 2
"""Runs with which a t-interval is too wide to be of use."""


def caveats(analysis: TableAnalysis) -> list[str]:
    """Return what a reader of a table's ranking should know, in sentences; none without a row."""
    if not analysis.rows:
        return []
    rows = analysis.rows
    told = [_bodies(analysis), _pairs(analysis), _extra_seeds(rows), _few_runs(rows)]
    told += [_other_ranks(analysis), first_before_tuning(analysis)]
    return [sentence for sentence in told if sentence]


def first_before_tuning(analysis: TableAnalysis) -> str:
    """Return who is first with the values before tuning, where that is another method."""
    before = analysis.before_tuning
    if before is None or before.rows[0].row.key.method == analysis.rows[0].row.key.method:
        return ""
    first, *others = before.rows
    alike = [row.row.key.method for row in others if share_a_letter(row.group, first.group)]
    score = number(first.crossed.value)
    if absent := without_untuned(analysis):
        has = "has" if len(absent) == 1 else "have"
        score += f" ({listed(absent)} {has} no complete row of them)"
    return (
        f"With the values before tuning, {first.row.key.method} is first of {len(before.rows)} "
        f"with {score}{lead_over(alike)}."
    )


def without_untuned(analysis: TableAnalysis) -> list[str]:
    """Return the ranked methods that have no complete row with the values before tuning."""
    before = analysis.before_tuning
    there = {row.row.key.method for row in before.rows} if before else set()
    names = dict.fromkeys(row.row.key.method for row in analysis.rows)
    return [name for name in names if name not in there]


def lead_over(alike: Sequence[str]) -> str:
    """Return over whom a first place's lead is not significant, to end a sentence with."""
    return f"; its lead over {listed(alike)} is not significant" if alike else ""


def listed(names: Sequence[str]) -> str:
    """Return one or more names as in a sentence: `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _bodies(analysis: TableAnalysis) -> str:
    """Return how many bodies rank the rows, and in how many clusters."""
    row = analysis.rows[0]
    split = row.row.split
    count = len(scored(row.row.runs[0].record.returns, split))
    geometries = len(set(row.clusters.tolist()))
    what = f"{count} {'unseen test' if split == 'test' else 'train'} "
    what += "body" if count == 1 else "bodies"
    if len(row.bodies) < count:
        what += f" with {len(row.bodies)} different contents, each of which counts once"
    else:
        what += " counts" if count == 1 else " count"
    if not analysis.bodies_are_sampled:
        return f"{what}."
    return f"{what}; intervals over bodies are based on {geometries} geometries."


def _pairs(analysis: TableAnalysis) -> str:
    """Return how many pairs differ significantly."""
    pairs = analysis.comparisons
    if not pairs:
        return ""
    here = sum(pair.significant_here for pair in pairs)
    text = f"Told apart: {here} of {len(pairs)} pairs over other seeds on these bodies"
    if not analysis.bodies_are_sampled:
        return f"{text}."
    beyond = sum(pair.significant for pair in pairs)
    return f"{text}, {beyond} of {len(pairs)} over other seeds and other bodies."


def _extra_seeds(rows: Sequence[RowAnalysis]) -> str:
    """Return which rows have more seeds than the protocol asks for, and the correction for it."""
    more = [f"{row.row.key.method} ({row.num_extra_seeds})" for row in rows if row.num_extra_seeds]
    if not more or len(rows) < 2:
        return ""
    return (
        f"Seeds beyond those that the protocol asks for: {', '.join(more)}. Adding seeds means "
        "testing more than once, so p-values of their pairs are multiplied by "
        f"{REPEATED_LOOKS_FACTOR:g}."
    )


def _few_runs(rows: Sequence[RowAnalysis]) -> str:
    """Return which rows have one run or two, and what that means for their intervals."""
    single = [row.row.key.method for row in rows if len(row.seeds) == 1]
    few = [row.row.key.method for row in rows if 1 < len(row.seeds) <= FEW_RUNS]
    told = []
    if single:
        told.append(
            f"One run only: {', '.join(single)}. What another seed would give is unknown, so these "
            "rows are not told apart from any other; their intervals over bodies hold only for "
            "these trained policies."
        )
    if few:
        told.append(
            f"Two runs only: {', '.join(few)}. Their own intervals over seeds extend 12.7 standard "
            "errors to either side; comparisons rest on how much the runs of other rows vary."
        )
    return " ".join(told)


def _other_ranks(analysis: TableAnalysis) -> str:
    """Return how many pairs other statistics rank the other way round."""
    if len(analysis.stability) < 2:
        return ""
    ranking, *others = analysis.stability
    pairs = len(analysis.comparisons)
    same = [_in_text(item.name) for item in others if not item.num_discordant]
    told = [
        f"{_in_text(item.name)} {item.num_discordant} of {pairs} (tau {number(item.tau, 2)})"
        for item in others
        if item.num_discordant
    ]
    text = f"Places are by the {_in_text(ranking.name)} over bodies."
    if same:
        text += f" The order is the same by {', '.join(same)}."
    if told:
        text += f" Pairs that others reverse: {', '.join(told)}."
    return text


def _in_text(name: str) -> str:
    return name if name.isupper() else name.lower()
