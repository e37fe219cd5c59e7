"""What the page of a table, and the page that compares its methods, show."""

from collections.abc import Mapping
from typing import Any

from gmc_bench.leaderboard.aggregate import Row, RowKey, Table
from gmc_bench.leaderboard.analysis import RowAnalysis, TableAnalysis
from gmc_bench.leaderboard.published import PublishedScore
from gmc_bench.leaderboard.site import names, numbers
from gmc_bench.leaderboard.site.charts import bars
from gmc_bench.leaderboard.site.numbers import MISSING, Cell
from gmc_bench.leaderboard.tables import SHORT_DIGEST, ranked

RecordPages = Mapping[str, str]
"""Path of a record in the folder of records to its page."""

SHARE_DIGITS = 2


def labels(table: Table) -> dict[RowKey, str]:
    """Return a name per row that no other row of the table has."""
    keys = [row.key for row in (*table.rows, *table.references)]
    plain = [f"{key.method} v{key.method_version}, {key.preset}" for key in keys]
    return {
        key: text if plain.count(text) == 1 else f"{text}, {key.config_digest[:SHORT_DIGEST]}"
        for key, text in zip(keys, plain, strict=True)
    }


def score_digits(table: Table) -> int:
    """Return the decimals of all scores of a table."""
    rows = (*table.rows, *table.references)
    scores = [s.mean for row in rows for s in (row.test_score, row.train_score) if s]
    return numbers.digits_for([*scores, *(x for row in rows for _, x in row.seed_scores)])


def table_card(analysis: TableAnalysis) -> dict[str, Any]:
    """Return what the front page says about a table."""
    table = analysis.table
    leader = analysis.rows[0] if analysis.rows else None
    card: dict[str, Any] = {
        "key": table.key,
        "morphologies": table.morphologies,
        "page": names.board_page(table.key),
        "compare": names.compare_page(table.key),
        "set": names.set_page(table.key.morphologies, table.key.morphologies_digest),
        "complete": sum(not row.missing for row in table.rows),
        "incomplete": sum(bool(row.missing) for row in table.rows),
        "unranked": len(table.unranked),
        "leader": None,
    }
    if leader is not None:
        ties = sum(c.first == 0 and not c.distinguishable for c in analysis.comparisons)
        card["leader"] = {
            "method": leader.row.key.method,
            "page": names.method_page(leader.row.key.method),
            "score": numbers.estimate(leader.mean, score_digits(table)),
            "ties": ties,
        }
    return card


def board(
    analysis: TableAnalysis, pages: RecordPages, published: tuple[PublishedScore, ...]
) -> dict[str, Any]:
    """Return what the page of a table shows."""
    table = analysis.table
    found = {item.row.key: item for item in analysis.rows}
    digits = score_digits(table)
    drawn = bars([found[row.key].iqm if row.key in found else None for row in table.rows])
    rows = [
        {
            **identity(row, pages, digits),
            "place": place,
            "bar": bar,
            **estimates(found.get(row.key), row, digits),
        }
        for (place, row), bar in zip(ranked(table.rows), drawn, strict=True)
    ]
    return {
        **table_card(analysis),
        "table": table,
        "rows": rows,
        "with_reference": analysis.reference is not None,
        "references": [
            {
                **identity(row, pages, digits),
                "train": numbers.spread(row.train_score, digits),
            }
            for row in table.references
        ],
        "unranked_runs": [
            {
                "run": run,
                "method_page": names.method_page(run.key.method),
                "page": pages.get(run.path),
                "score": Cell(numbers.number(run.test_score, digits)),
            }
            for run in table.unranked
        ],
        "published": published,
    }


def compare(analysis: TableAnalysis) -> dict[str, Any]:
    """Return what the page that compares two methods shows."""
    table = analysis.table
    digits = score_digits(table)
    named = labels(table)
    texts = [named[item.row.key] for item in analysis.rows]
    pairs = [
        {
            "first": texts[item.first],
            "second": texts[item.second],
            "difference": numbers.estimate(item.difference, digits),
            "probability": numbers.estimate(item.probability_of_improvement, SHARE_DIGITS),
            "distinguishable": item.distinguishable,
        }
        for item in analysis.comparisons
    ]
    data = {
        "rows": [
            {
                "label": label,
                "page": f"../{names.method_page(item.row.key.method)}",
                "numbers": [
                    [name, cell.text, cell.detail]
                    for name, cell in _summary(item, digits, analysis.reference is not None)
                ],
                "bodies": list(item.bodies),
                "scores": _finite(item.scores.mean(axis=0).tolist()),
            }
            for label, item in zip(texts, analysis.rows, strict=True)
        ],
        "pairs": [
            {
                "first": item.first,
                "second": item.second,
                "difference": _plain(item.difference),
                "probability": _plain(item.probability_of_improvement),
                "distinguishable": bool(item.distinguishable),
            }
            for item in analysis.comparisons
        ],
        "digits": digits,
    }
    return {**table_card(analysis), "pairs": pairs, "data": data}


def identity(row: Row, pages: RecordPages, digits: int) -> dict[str, Any]:
    """Return what is known of a row whether it is complete or not."""
    scores = dict(row.seed_scores)
    return {
        "key": row.key,
        "settings": row.key.config_digest[:SHORT_DIGEST],
        "method_page": names.method_page(row.key.method),
        "missing": row.missing,
        "verified": row.verified,
        "num_seeds": len(row.seeds),
        "num_asked": len(row.seeds) + len(row.absent_seeds),
        "runs": [
            {
                "seed": run.record.seed,
                "page": pages[run.path],
                "score": numbers.number(scores.get(run.record.seed), digits),
            }
            for run in row.runs
        ],
        "parameters": numbers.count(row.parameters),
        "throughput": numbers.spread(row.env_steps_per_s, 0),
    }


def estimates(found: RowAnalysis | None, row: Row, digits: int) -> dict[str, Any]:
    """Return the scores of a row as cells; all are missing without an analysis."""
    if found is None:
        cells = dict.fromkeys(
            ("iqm", "mean", "median", "worst", "normalized", "gap", "curve_area"), MISSING
        )
        return {**cells, "train": MISSING, "group": ""}
    return {
        "group": found.group,
        "iqm": numbers.estimate(found.iqm, digits),
        "mean": numbers.estimate(found.mean, digits),
        "median": numbers.estimate(found.median, digits),
        "worst": numbers.estimate(found.worst_decile, digits),
        "train": numbers.spread(row.train_score, digits),
        "normalized": numbers.estimate(found.normalized_train, SHARE_DIGITS),
        "gap": numbers.estimate(found.optimality_gap, SHARE_DIGITS),
        "curve_area": numbers.estimate(found.curve_area, digits),
    }


def _summary(found: RowAnalysis, digits: int, with_reference: bool) -> list[tuple[str, Cell]]:
    cells = estimates(found, found.row, digits)
    rows = [
        ("IQM", cells["iqm"]),
        ("Mean", cells["mean"]),
        ("Median", cells["median"]),
        ("Worst tenth of bodies", cells["worst"]),
        ("Train score", cells["train"]),
        ("Mean return during training", cells["curve_area"]),
        ("Parameters", numbers.count(found.row.parameters)),
        ("Env steps/s", numbers.spread(found.row.env_steps_per_s, 0)),
    ]
    if with_reference:
        rows += [
            ("Train score / single-robot score", cells["normalized"]),
            ("Optimality gap", cells["gap"]),
        ]
    return rows


def _plain(value: Any) -> list[float | None]:
    return _finite([value.value, value.low, value.high])


def _finite(values: list[float | None]) -> list[float | None]:
    # JSON has no infinities; a page shows them as missing.
    return [None if v is None or abs(v) > 1e300 or v != v else float(v) for v in values]
