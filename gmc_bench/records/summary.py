"""Summary of returns for readers: per split and mode, over limbs and loops, in a line."""

from collections.abc import Sequence

from gmc_bench.core.table import number
from gmc_bench.records.breakdown import (
    DIRECTION_METRICS,
    FRICTION_METRICS,
    by_limbs,
    by_loops,
    direction_means,
    friction_means,
    scored,
)
from gmc_bench.records.parts import Split
from gmc_bench.records.schema import BodyReturns, RunRecord

HEADINGS = ("bodies", "n", "return", "worst", "best", "length", "ended early")
"""Columns of `summarize`: bodies counted, returns over bodies, mean length, share of failures."""
_SPLITS: tuple[Split, ...] = ("train", "test")


def summarize(returns: Sequence[BodyReturns]) -> list[list[str]]:
    """Return the rows of the summary table, one per split and mode (see `HEADINGS`)."""
    rows = []
    for split in _SPLITS:
        for mode in ("deterministic", "stochastic"):
            items = [item for item in returns if (item.split, item.mode) == (split, mode)]
            rows += [_summary_row(f"{split}, {mode}", items)] if items else []
            unseen = [item for item in items if not item.seen_in_train]
            if split == "test" and 0 < len(unseen) < len(items):
                rows.append(_summary_row(f"{split}, {mode}, unseen bodies", unseen))
    for split in _SPLITS:
        parts = by_limbs(scored(returns, split)) | by_loops(scored(returns, split))
        rows += [_summary_row(f"{split}, {label}", items) for label, items in parts.items()]
    return rows


def _summary_row(label: str, items: list[BodyReturns]) -> list[str]:
    means = [item.mean_return for item in items]
    episodes = [episode for item in items for episode in item.episodes]
    length = sum(episode.length for episode in episodes) / len(episodes)
    fell = sum(episode.ended != "time_limit" for episode in episodes) / len(episodes)
    return [
        label,
        str(len(items)),
        number(sum(means) / len(means)),
        number(min(means)),
        number(max(means)),
        number(length, 0),
        f"{100 * fell:.0f} %",
    ]


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


def summary_line(record: RunRecord) -> str:
    """Return the result of one task in a line."""
    parts = [f"training return {number(record.training_return)}"]
    for split in ("train", "test"):
        items = scored(record.returns, split)
        parts += [f"{split} {number(mean_return(items))}"] if items else []
    return ", ".join(parts)


def mean_return(items: Sequence[BodyReturns]) -> float | None:
    """Return the mean over bodies, `None` without any."""
    return sum(item.mean_return for item in items) / len(items) if items else None
