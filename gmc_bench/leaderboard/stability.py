"""Stability of a ranking: the ranks of the rows by other statistics, and Kendall's tau."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ranking:
    """Ranks of a table's rows by one statistic, and how they agree with the table's own ranks."""

    name: str
    """Of the statistic."""
    ranks: tuple[int, ...]
    """By row, in the order of the table; 1 is best, tied rows share the better rank."""
    tau: float | None
    """Kendall's tau-b with the statistic that ranks the table; `None` where one of the two ties all
    rows."""
    num_discordant: int
    """Discordant pairs: those that it orders the other way round."""


def rank_stability(statistics: Mapping[str, Sequence[float | None]]) -> tuple[Ranking, ...]:
    """Rank the same rows by several statistics and compare the rankings with the first.

    Args:
        statistics: values of the rows by the statistic's name, higher is better. The first one
            ranks the table. One that a row lacks (`None`) is left out.

    Returns:
        One ranking per statistic, in their order; none for fewer than two rows.
    """
    from scipy.stats import kendalltau

    known = {
        name: [value for value in values if value is not None]
        for name, values in statistics.items()
        if None not in values
    }
    first, *_ = known.values() or [[]]
    if len(first) < 2:
        return ()
    pairs = [(i, j) for i in range(len(first)) for j in range(i)]
    found = []
    for name, values in known.items():
        varied = len(set(values)) > 1 and len(set(first)) > 1
        signs = ((first[i] - first[j]) * (values[i] - values[j]) for i, j in pairs)
        found.append(
            Ranking(
                name=name,
                ranks=tuple(1 + sum(other > value for other in values) for value in values),
                tau=float(kendalltau(first, values).statistic) if varied else None,
                num_discordant=sum(sign < 0.0 for sign in signs),
            )
        )
    return tuple(found)
