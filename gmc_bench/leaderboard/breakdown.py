"""Scores of groups of bodies, by limbs and loops, and what robots do on several frictions."""

import statistics

from gmc_bench.leaderboard.aggregate import Row, Spread
from gmc_bench.records.breakdown import by_limbs, by_loops, friction_means, scored
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


def friction_spreads(row: Row) -> dict[str, dict[str, Spread]]:
    """Return by friction and heading of `FRICTION_METRICS` the mean over robots, then over seeds.

    A metric that one seed lacks is left out; nothing where a record has no frictions.
    """
    found: dict[str, dict[str, Spread]] = {}
    runs = [friction_means(run.record.friction or ()) for run in row.runs]
    for friction, headings in runs[0].items():
        values = {
            heading: [run.get(friction, {}).get(heading) for run in runs] for heading in headings
        }
        found[friction] = {
            heading: Spread.of([value for value in each if value is not None])
            for heading, each in values.items()
            if None not in each
        }
    return found
