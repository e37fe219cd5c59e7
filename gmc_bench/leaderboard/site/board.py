"""Tables on the site: the page of a table, and the page that compares its methods."""

from typing import Any

import numpy as np

from gmc_bench.core.escape import one_line
from gmc_bench.leaderboard.aggregate import ComparisonTable, Row, RowKey
from gmc_bench.leaderboard.analysis import Estimate, RowAnalysis, TableAnalysis
from gmc_bench.leaderboard.caveats import caveats
from gmc_bench.leaderboard.figures import row_styles
from gmc_bench.leaderboard.footnotes import footnotes
from gmc_bench.leaderboard.published import published_for
from gmc_bench.leaderboard.references import Scale, core_seconds, steps_per_body
from gmc_bench.leaderboard.site import names, numbers
from gmc_bench.leaderboard.site.charts import Series, bars, heat_strip, lines_chart
from gmc_bench.leaderboard.site.numbers import MISSING, TableCell
from gmc_bench.leaderboard.tables import (
    NORMALIZED,
    SHORT_DIGEST,
    before_tuning_sections,
    further_sections,
    pair_cells,
    ranked,
)
from gmc_bench.leaderboard.today import is_earlier
from gmc_bench.records.drawing import COLOURS
from gmc_bench.records.schema import Split
from gmc_bench.records.units import metres_per_return

SHARE_DIGITS = 2


def labels(table: ComparisonTable) -> dict[RowKey, str]:
    """Return a name per row that no other row of the table has."""
    rows = table.all_rows
    keys = [row.key for row in rows]
    plain = [
        f"{key.method} v{key.method_version}, {key.preset}{', untrained' * row.untrained}"
        for key, row in zip(keys, rows, strict=True)
    ]
    return {
        key: text if plain.count(text) == 1 else f"{text}, {key.config_digest[:SHORT_DIGEST]}"
        for key, text in zip(keys, plain, strict=True)
    }


def score_digits(table: ComparisonTable) -> int:
    """Return the decimals of all scores of a table."""
    rows = table.all_rows
    scores = [s.mean for row in rows for s in (row.test_score, row.train_score) if s]
    return numbers.digits_for([*scores, *(x for row in rows for _, x in row.seed_scores)])


def scored_split(table: ComparisonTable) -> Split:
    """Return the bodies that scores of a table are of, also where no row is ranked yet."""
    # Specialists are scored on train bodies only.
    shared = (row for row in table.all_rows if row.controller == "shared")
    return next((row.split for row in shared), table.split)


def row_numbers(
    row: Row, found: RowAnalysis | None, digits: int, scale: Scale | None = None
) -> list[tuple[str, TableCell]]:
    """Return the numbers of a row by their headings, in the order of all pages.

    Args:
        row: any row; an incomplete one has no scores.
        found: its analysis, if it has one.
        digits: decimals of scores.
        scale: also give how far the row is on the way to a specialist.
    """

    def score(name: str) -> TableCell:
        return numbers.estimate(getattr(found, name, None), digits)

    factor = metres_per_return(row.runs[0].record)
    distance = None if factor is None or found is None else factor * found.crossed.value
    metres = TableCell(numbers.number(distance, 2), sort="" if distance is None else repr(distance))
    alone = [
        ("Other seeds", _ends(None if found is None else found.crossed.runs, digits)),
        ("Other bodies", _ends(None if found is None else found.crossed.bodies, digits)),
    ]
    return [
        ("Mean", MISSING if found is None else numbers.estimate(found.crossed.widest, digits)),
        *([] if factor is None else [("Metres", metres)]),
        *(alone if row.split == "test" else []),  # else the mean's interval is that over seeds
        ("IQM", score("iqm")),
        ("Median", score("median")),
        ("Worst tenth", score("worst_decile")),
        ("Train score", MISSING if row.missing else numbers.spread(row.train_score, digits)),
        *([(NORMALIZED, _share(None if found is None else scale.estimate(row)))] if scale else []),
        ("Return during training", score("curve_area")),
        *budget(row),
        ("Parameters", numbers.count(row.parameters)),
        ("Env steps/s", _rate(row.env_steps_per_s)),
    ]


def _rate(value: float | None) -> TableCell:
    return MISSING if value is None else numbers.count(round(value))


def _share(found: Estimate | None) -> TableCell:
    return numbers.estimate(found, SHARE_DIGITS)


def _ends(value: Estimate | None, digits: int) -> TableCell:
    """Return an interval alone as a cell, sorted by its lower end."""
    if value is None or value.low is None or value.high is None:
        return MISSING
    ends = f"{numbers.number(value.low, digits)} to {numbers.number(value.high, digits)}"
    return TableCell(ends, sort=repr(float(value.low)))


def budget(row: Row) -> list[tuple[str, TableCell]]:
    """Return what a row was trained with, by heading; nothing for what was not trained.

    An incomplete row has no numbers: they would be of the runs that happen to be there.
    """
    if row.untrained:
        return []
    return [
        (name, MISSING if row.missing else numbers.count(round(of_runs(row))))
        for name, of_runs in (("Steps per body", steps_per_body), ("Core seconds", core_seconds))
    ]


def table_context(analysis: TableAnalysis, title: str) -> dict[str, Any]:
    """Return what every page about a table uses; the front page has one of these per table."""
    digits, factor = score_digits(analysis.table), analysis.metres_per_return
    best = analysis.rows[0].crossed if analysis.rows else None
    return {
        "title": title,
        "analysis": analysis,
        "table": analysis.table,
        "split": scored_split(analysis.table),
        "key": analysis.table.key,
        "digits": digits,
        "best": None if best is None else numbers.estimate(best.widest, digits),
        "metres": None if best is None or factor is None else f"{factor * best.value:z,.2f}",
        "metres_per_return": factor,
        "earlier": is_earlier(analysis.table),
        "ties": sum(c.first == 0 and not c.significant for c in analysis.comparisons),
        "not_ranked": _not_ranked(analysis.table),
    }


def _not_ranked(table: ComparisonTable) -> list[str]:
    """Return how much of each kind has no place in a table."""
    kinds = {
        "single-robot": table.references,
        "untrained": table.untrained,
        "before tuning": table.before_tuning,
        "unofficial": table.unranked,
    }
    return [f"{len(found)} {name}" for name, found in kinds.items() if found]


def board_context(analysis: TableAnalysis, title: str) -> dict[str, Any]:
    """Return what the page of a table shows."""
    table = analysis.table
    found = {item.row.key: item for item in analysis.rows}
    analysed = [found.get(row.key) for row in table.rows]
    drawn = bars([None if item is None else item.crossed.widest for item in analysed])
    context = table_context(analysis, title)
    return {
        **context,
        "rows": [
            {
                "place": place,
                "row": row,
                "group": "" if item is None else item.group,
                "bar": bar,
                "numbers": row_numbers(row, item, context["digits"], analysis.scale),
            }
            for (place, row), item, bar in zip(ranked(table.rows), analysed, drawn, strict=True)
        ],
        "charts": _charts(analysis),
        "strips": _strips(analysis),
        "challenge": challenge(analysis, context["digits"]),
        "footnotes": footnotes(table.rows),
        "references": [(row, budget(row)) for row in table.references],
        "caveats": caveats(analysis),
        "sections": further_sections(analysis),
        "before_tuning": before_tuning_sections(analysis),
        "published": published_for(table.key.suite, table.key.task),
    }


def _charts(analysis: TableAnalysis) -> list[dict[str, Any]]:
    """Return the drawings of a table that a script makes interactive."""
    named, colours = labels(analysis.table), list(COLOURS)
    # As in the figures of the same table.
    shown_as = [(colours.index(colour), dashes) for colour, dashes in row_styles(analysis.rows)]
    curves = [
        Series(
            named[item.row.key], item.curve.env_steps.astype(float), item.curve.mean,
            item.curve.low, item.curve.high, *look,
        )
        for item, look in zip(analysis.rows, shown_as, strict=True)
        if item.curve is not None
    ]  # fmt: skip
    profiles = [
        Series(named[item.row.key], analysis.profile_scores, profile, None, None, *look)
        for item, profile, look in zip(analysis.rows, analysis.profiles, shown_as, strict=True)
    ]
    shown = lines_chart(curves, x_from=0.0), lines_chart(profiles)
    texts = [
        ("curves", "Learning curves", "Env steps", "Training return"),
        ("profiles", "Performance profiles", "Score", "Share of runs and bodies above it"),
    ]
    return [
        {"id": name, "title": text, "x": x, "y": y, "chart": chart}
        for (name, text, x, y), chart in zip(texts, shown, strict=True)
        if chart is not None
    ]


def _strips(analysis: TableAnalysis) -> list[dict[str, Any]]:
    """Return a strip of bodies per row, easiest body first."""
    if not analysis.rows:
        return []
    named = labels(analysis.table)
    means = np.array([item.scores.mean(axis=0) for item in analysis.rows])
    order = np.argsort(-means.mean(axis=0), kind="stable")
    bodies = [analysis.rows[0].bodies[place] for place in order.tolist()]
    best = means.max(axis=0)
    return [
        {
            "label": named[item.row.key],
            "cells": heat_strip(bodies, scores[order], best[order]),
        }
        for item, scores in zip(analysis.rows, means, strict=True)
    ]


def challenge(analysis: TableAnalysis, digits: int) -> list[str]:
    """Return sentences on what it would take to beat the first row of a table."""
    if not analysis.rows:
        return []
    first, *others = analysis.rows
    interval = first.crossed.widest
    over = "other seeds and other bodies" if analysis.bodies_are_sampled else "other seeds"
    found = [f"The mean to beat is {numbers.number(interval.value, digits)}."]
    if interval.high is not None:
        found.append(
            f"One above {numbers.number(interval.high, digits)} would be beyond its 95 % interval "
            f"over {over}."
        )
    if others:
        means = np.array([item.scores.mean(axis=0) for item in analysis.rows])
        best, ahead = means.max(axis=0), means[1:].max(axis=0) > means[0]
        found.append(
            f"Another method scores higher than the first one on {int(ahead.sum())} of "
            f"{len(best)} bodies; the best method of each body together would reach "
            f"{numbers.number(float(best.mean()), digits)}."
        )
        gaps = means[1:].max(axis=0) - means[0]
        most = [place for place in np.argsort(-gaps, kind="stable").tolist()[:3] if gaps[place] > 0]
        if most:
            listed = ", ".join(
                f"{one_line(first.bodies[place])} ({numbers.number(float(gaps[place]), digits)})"
                for place in most
            )
            found.append(f"It lags most on {listed}.")
    return found


def compare_context(analysis: TableAnalysis, title: str) -> dict[str, Any]:
    """Return what the page that compares two methods shows."""
    context = table_context(analysis, title)
    digits = context["digits"]
    named = labels(analysis.table)
    data = {
        "rows": [
            {
                "label": named[item.row.key],
                "page": f"../{names.method_page(item.row.key.method)}",
                "numbers": [
                    [name, cell.text, cell.detail]
                    for name, cell in row_numbers(item.row, item, digits, analysis.scale)
                ],
                "bodies": list(item.bodies),
                "scores": _finite(item.scores.mean(axis=0).tolist()),
            }
            for item in analysis.rows
        ],
        "pairs": [
            {
                "first": item.first,
                "second": item.second,
                "difference": item.difference,
                "isRatio": item.of_logarithms,
                "estimate": _plain((item.ratio or item.contrast).widest),
                "probability": _plain(item.probability_of_improvement),
                "distinguishable": bool(item.significant),
            }
            for item in analysis.comparisons
        ],
        "digits": digits,
    }
    pairs = [(pair, pair_cells(pair)) for pair in analysis.comparisons]
    return {**context, "data": data, "pairs": pairs}


def _plain(value: Estimate) -> list[float | None]:
    return _finite([value.value, value.low, value.high])


def _finite(values: list[float | None]) -> list[float | None]:
    # JSON has no infinities; a page shows them as missing.
    return [None if v is None or abs(v) > 1e300 or v != v else float(v) for v in values]
