"""Scores of groups of bodies, by what is new about them, limbs and loops; commands of robots."""

from collections.abc import Sequence

from gmc_bench.core.types import Split
from gmc_bench.leaderboard.aggregate import Row, Spread
from gmc_bench.records.breakdown import direction_means, friction_means, groups
from gmc_bench.records.kinship import contents, mean_return


def break_down(row: Row, split: Split) -> dict[str, Spread]:
    """Return a method's scores on groups of bodies.

    Args:
        row: a method with its runs, all on the same bodies.
        split: whose bodies; on `test` those that were trained on do not count.

    Returns:
        Mean over the bodies of a group, each content once, then over seeds, by the group's name
        and the number of contents; nothing where bodies are much alike or older records do not
        tell their sizes.
    """
    scores: dict[str, list[float]] = {}
    for run in row.runs:
        for name, group in groups(run.record.returns, split).items():
            found = mean_return(group)
            if found is not None:
                label = f"{name} ({len(contents(group))})"
                scores.setdefault(label, []).append(found)
    return {
        name: Spread.of(values) for name, values in scores.items() if len(values) == len(row.runs)
    }


def friction_spreads(row: Row) -> dict[str, dict[str, Spread]]:
    """Return by friction and heading of `FRICTION_METRICS` the mean over robots, then over seeds.

    A metric that one seed lacks is left out; nothing where a record has no frictions.
    """
    return _spreads([friction_means(run.record.friction or ()) for run in row.runs])


def direction_spreads(row: Row) -> dict[str, dict[str, Spread]]:
    """Return by direction and heading of `DIRECTION_METRICS` what `friction_spreads` does."""
    return _spreads([direction_means(run.record.friction or ()) for run in row.runs])


def _spreads(runs: Sequence[dict[str, dict[str, float | None]]]) -> dict[str, dict[str, Spread]]:
    found: dict[str, dict[str, Spread]] = {}
    for name, headings in runs[0].items():
        values = {heading: [run.get(name, {}).get(heading) for run in runs] for heading in headings}
        found[name] = {
            heading: Spread.of([value for value in each if value is not None])
            for heading, each in values.items()
            if None not in each
        }
    return found
