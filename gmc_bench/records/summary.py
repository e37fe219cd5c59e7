"""Summary of returns for readers: per split and mode, over limbs and loops, in a line."""

from collections.abc import Sequence
from statistics import fmean

from gmc_bench.core.table import number
from gmc_bench.core.types import Split
from gmc_bench.records.breakdown import (
    DIRECTION_METRICS,
    FRICTION_METRICS,
    direction_means,
    friction_means,
    groups,
)
from gmc_bench.records.kinship import content_means, contents, mean_return, scored
from gmc_bench.records.schema import BodyReturns, RunRecord
from gmc_bench.records.units import metres_per_return

HEADINGS = ("bodies", "n", "return", "metres", "worst", "best", "length", "ended early")
"""Columns of `summarize`: bodies counted, returns over bodies, mean length, share of failures."""
_SPLITS: tuple[Split, ...] = ("train", "test")


def summarize(
    returns: Sequence[BodyReturns], metres_per_return: float | None = None
) -> list[list[str]]:
    """Return the rows of the summary table, one per split and mode (see `HEADINGS`).

    Args:
        returns: all splits and modes of a run.
        metres_per_return: what a return is as a distance, see `Task.metres_per_return`.
    """
    rows = []
    for split in _SPLITS:
        for mode in ("deterministic", "stochastic"):
            items = [item for item in returns if (item.split, item.mode) == (split, mode)]
            named = [(f"{split}, {mode}", items)] if items else []
            unseen = [item for item in items if not item.seen_in_train]
            if split == "test" and 0 < len(unseen) < len(items):
                named.append((f"{split}, {mode}, unseen bodies", unseen))
            rows += [_summary_row(label, part, metres_per_return) for label, part in named]
    for split in _SPLITS:
        rows += [
            _summary_row(f"{split}, {label}", part, metres_per_return)
            for label, part in groups(returns, split).items()
        ]
    return rows


def _summary_row(label: str, items: list[BodyReturns], metres: float | None) -> list[str]:
    """Return the cells of some bodies; one that is listed twice, under two names, counts once."""
    means = content_means(items).values()
    length, early = ends(items)
    mean = mean_return(items)
    return [
        label,
        str(len(means)),
        number(mean),
        number(None if mean is None or metres is None else metres * mean, 2),
        number(min(means)),
        number(max(means)),
        number(length, 0),
        f"{100 * early:.0f} %",
    ]


def ends(items: Sequence[BodyReturns]) -> tuple[float, float]:
    """Return the mean length of episodes, control steps, and the share that ended early.

    Means over bodies, each content once, as scores are.
    """
    bodies = [[episode for item in same for episode in item.episodes] for same in contents(items)]
    length = fmean(fmean(episode.length for episode in own) for own in bodies)
    early = fmean(fmean(episode.ended != "time_limit" for episode in own) for own in bodies)
    return length, early


def command_tables(record: RunRecord) -> list[tuple[tuple[str, ...], list[list[str]]]]:
    """Return how robots followed commands, means over robots.

    Returns:
        Headings and rows of a table of frictions and one of directions; those that were measured.
    """
    results = record.friction or ()
    tables = (
        (("friction", *FRICTION_METRICS), friction_means(results)),
        (("direction", *DIRECTION_METRICS), direction_means(results)),
    )
    return [
        (
            headings,
            [[name, *(number(value, 2) for value in row.values())] for name, row in means.items()],
        )
        for headings, means in tables
        if means
    ]


def training_line(record: RunRecord) -> str:
    """Return the training return in words, with the reason where there is none."""
    text = f"training return {number(record.training_return)}"
    if record.training_return is not None:
        return text
    if record.untrained:
        return f"{text} (nothing was trained)"
    return f"{text} (not every train body has finished an episode)"


def summary_line(record: RunRecord) -> str:
    """Return the result of one task in a line."""
    parts, metres = [training_line(record)], metres_per_return(record)
    for split in ("train", "test"):
        score = mean_return(scored(record.returns, split))
        if score is not None:
            distance = "" if metres is None else f" ({number(metres * score, 2)} m)"
            parts.append(f"{split} {number(score)}{distance}")
    return ", ".join(parts)
