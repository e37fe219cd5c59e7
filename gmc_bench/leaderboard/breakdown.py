"""Scores of groups of bodies: by their number of limbs, and with closed loops or without."""

import statistics

from gmc_bench.leaderboard.aggregate import Row, Spread
from gmc_bench.records.breakdown import by_limbs, by_loops, scored
from gmc_bench.records.parts import Split


def break_down(row: Row, split: Split) -> dict[str, Spread]:
    """Return a method's scores on groups of bodies.

    Args:
        row: a method with its runs, all on the same bodies.
        split: whose bodies; on `test` those that were trained on do not count.

    Returns:
        Mean over the bodies of a group, then over seeds, by the group's name; nothing where bodies
        are much alike or older records do not tell their sizes.
    """
    scores: dict[str, list[float]] = {}
    for run in row.runs:
        items = scored(run.record.returns, split)
        for name, group in (by_limbs(items) | by_loops(items)).items():
            scores.setdefault(name, []).append(statistics.fmean(x.mean_return for x in group))
    return {
        name: Spread.of(values) for name, values in scores.items() if len(values) == len(row.runs)
    }
