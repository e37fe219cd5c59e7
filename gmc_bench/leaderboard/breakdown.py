"""Scores of groups of bodies: by their number of limbs, and with closed loops or without."""

import statistics

from gmc_bench.leaderboard.aggregate import Row, Spread
from gmc_bench.results.breakdown import by_limbs, by_loops
from gmc_bench.results.parts import Split


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
        items = [
            item
            for item in run.record.returns
            if (item.split, item.mode) == (split, "deterministic")
            and not (split == "test" and item.seen_in_train)
        ]
        for name, group in (by_limbs(items) | by_loops(items)).items():
            scores.setdefault(name, []).append(statistics.fmean(x.mean_return for x in group))
    return {
        name: Spread(
            mean=statistics.fmean(values),
            sd=statistics.stdev(values) if len(values) > 1 else None,
        )
        for name, values in scores.items()
        if len(values) == len(row.runs)
    }
