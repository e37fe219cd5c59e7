"""Stability of a ranking: the places that rows would have by other statistics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stability:
    """One statistic beside the one that ranks."""

    name: str
    places: tuple[int, ...]
    """Of the rows, in the order of the table; 1 is best, equal values share the better place."""
    tau: float | None
    """Kendall's rank correlation with the statistic that ranks; `None` where one of both puts all
    rows on one place."""
    swapped: int
    """Pairs of rows that it orders the other way round."""


def rank_stability(statistics: Mapping[str, Sequence[float | None]]) -> tuple[Stability, ...]:
    """Compare rankings of the same rows.

    Args:
        statistics: value of every row by the statistic's name, higher is better. The first one
            ranks. One that a row lacks is left out.

    Returns:
        The statistics in their order; none for fewer than two rows.
    """
    from scipy.stats import kendalltau

    known = {
        name: [value for value in values if value is not None]
        for name, values in statistics.items()
        if None not in values
    }
    ranking, *_ = known.values() or [[]]
    if len(ranking) < 2:
        return ()
    pairs = [(i, j) for i in range(len(ranking)) for j in range(i)]
    found = []
    for name, values in known.items():
        several = len(set(values)) > 1 and len(set(ranking)) > 1
        signs = ((ranking[i] - ranking[j]) * (values[i] - values[j]) for i, j in pairs)
        found.append(
            Stability(
                name=name,
                places=tuple(1 + sum(other > value for other in values) for value in values),
                tau=float(kendalltau(ranking, values).statistic) if several else None,
                swapped=sum(sign < 0.0 for sign in signs),
            )
        )
    return tuple(found)
