"""An analysed table as CSV: full precision, one line per row and per run that is not ranked."""

import csv
import io
from collections.abc import Sequence
from dataclasses import fields

from gmc_bench.core.escape import csv_text
from gmc_bench.leaderboard.aggregate import Row, RowKey, Spread
from gmc_bench.leaderboard.analysis import Estimate, RowAnalysis, TableAnalysis
from gmc_bench.leaderboard.references import core_seconds, steps_per_body
from gmc_bench.leaderboard.tables.cells import normalized_score, ranked, yes_or_no

_ESTIMATES = {
    "test_score": ("mean", "mean score on the bodies of `split`, by which rows are ranked"),
    "test_median": ("median", "median over bodies of the mean over runs"),
    "test_iqm": ("iqm", "mean of the middle half of all runs x bodies"),
    "test_worst_decile": ("worst_decile", "mean over the tenth of hardest bodies"),
    "curve_area": ("curve_area", "mean training return over the learning curve"),
}
"""Columns of CSV that are estimates of a `RowAnalysis`: attribute and meaning."""
_SPREADS = {
    "train_score": "mean score on train bodies",
    "training_return": "final online training return",
}
"""Columns of CSV that are spreads of a `Row`."""


def _describe_columns() -> dict[str, str]:
    columns = {
        "rank": "place by test_score, ties share the better one; that of `before tuning` is in the "
        "ranking of all methods with the protocol's values, where untuned `ranked` rows count too",
        "group": "letters; rows that share one cannot be told apart on other seeds and bodies",
        "group_here": "the same on other seeds and these bodies",
        "status": "`ranked`, `incomplete`, `reference` (single-robot), `untrained`, "
        "`before tuning` or `not ranked`",
        "method": "id of the controller",
        "method_version": "its version",
        "preset": "its named settings",
        "config_digest": "SHA-256 of all settings",
        "controller": "`shared` or `single_robot`; empty for `not ranked`",
        "split": "bodies of seed_scores and of all columns named test_: `test`, those that were "
        "not trained on, or `train`, where the protocol scores no others",
        "seeds": "seeds that were run, with spaces between",
        "verified": "`yes` if every run was evaluated again with the same outcome",
    }
    for name, (_, text) in _ESTIMATES.items():
        columns[name] = text
        columns[f"{name}_low"] = f"{name}: lower end of the 95 % interval over runs"
        columns[f"{name}_high"] = f"{name}: upper end of it"
    for name, text in {"bodies": "bodies", "both": "runs and bodies"}.items():
        for end in ("low", "high"):
            columns[f"test_score_{name}_{end}"] = f"test_score: {end} end of that over {text}"
    columns["metres"] = "test_score as a distance; empty where a return is none"
    columns["test_score_sd"] = "test_score: sample standard deviation over seeds"
    for name, text in _SPREADS.items():
        columns[name] = text
        columns[f"{name}_sd"] = f"{name}: sample standard deviation over seeds"
    columns["normalized_train"] = "mean share of the way from floor to specialist on train bodies"
    columns["normalized_train_low"] = "normalized_train: lower end of the interval over runs"
    columns["normalized_train_high"] = "normalized_train: upper end of it"
    columns["steps_per_body"] = "control steps of training / train bodies"
    columns["core_seconds"] = "seconds of training x threads x processes, median over runs"
    columns["env_steps_per_s"] = "training throughput, env steps/s, median over runs"
    columns["parameters"] = "trainable parameters of actor and critic together"
    columns["seed_scores"] = "seed:score on the bodies of `split`, with spaces between"
    columns["reasons"] = "why the row or run is not ranked"
    return columns


CSV_DESCRIPTIONS = _describe_columns()
"""Column to what it holds; numbers have full precision, what does not exist is empty."""
CSV_COLUMNS = tuple(CSV_DESCRIPTIONS)


def to_csv(analysis: TableAnalysis) -> str:
    """Return a table as CSV: full precision, one line per row and per run not ranked.

    `CSV_DESCRIPTIONS` says what each column holds. Numbers printed in papers are not in it.
    """
    table = analysis.table
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    before = analysis.before_tuning
    parts: dict[str, tuple[Sequence[Row], dict[RowKey, dict[str, str]]]] = {
        "ranked": (table.rows, _csv_places(analysis)),
        "reference": (table.references, {}),
        "untrained": (table.untrained, {}),
        "before tuning": (table.before_tuning, {} if before is None else _csv_places(before)),
    }
    for status, (rows, places) in parts.items():
        for row in rows:
            cells = _csv_row(row, "incomplete" if row.missing else status)
            writer.writerow(cells | places.get(row.key, {}))
    for run in table.unranked:
        score = "" if run.test_score is None else repr(run.test_score)
        writer.writerow(
            {
                "status": "not ranked",
                **_csv_key(run.key),
                "split": run.split,
                "seeds": str(run.seed),
                "test_score": score,
                "reasons": csv_text("; ".join(run.reasons)),
            }
        )
    return text.getvalue()


def _csv_places(analysis: TableAnalysis) -> dict[RowKey, dict[str, str]]:
    """Return by row of a ranking its place and all numbers that only ranked rows have."""
    places = {row.key: place for place, row in ranked(analysis.table.rows)}
    found = {}
    for item in analysis.rows:
        key = item.row.key
        cells = _csv_statistics(item) | {"rank": str(places[key]), "group": item.group}
        cells |= _csv_numbers("normalized_train", normalized_score(analysis, item.row))
        cells["group_here"] = item.group_here
        if analysis.metres_per_return is not None:
            cells["metres"] = repr(analysis.metres_per_return * item.crossed.value)
        found[key] = cells
    return found


def _csv_key(key: RowKey) -> dict[str, str]:
    return {
        "method": csv_text(key.method),
        "method_version": str(key.method_version),
        "preset": csv_text(key.preset),
        "config_digest": key.config_digest,
    }


def _csv_row(row: Row, status: str) -> dict[str, str]:
    cells = {
        "status": status,
        **_csv_key(row.key),
        "controller": row.controller,
        "split": row.split,
        "seeds": " ".join(map(str, row.seeds)),
        "verified": yes_or_no(row.verified),
        "parameters": "" if row.parameters is None else str(row.parameters),
        "seed_scores": " ".join(
            f"{seed}:{'' if score is None else repr(score)}" for seed, score in row.seed_scores
        ),
        "reasons": csv_text("; ".join(row.missing)),
    }
    if row.missing:  # the seeds and metrics that happen to be there would flatter
        return cells
    for name in _SPREADS:
        cells |= _csv_numbers(name, getattr(row, name))
    cells |= {"steps_per_body": repr(steps_per_body(row)), "core_seconds": repr(core_seconds(row))}
    cells["env_steps_per_s"] = repr(row.env_steps_per_s)
    if status == "untrained":
        cells |= _csv_numbers("test_score", row.test_score)
    return cells


def _csv_statistics(row: RowAnalysis) -> dict[str, str]:
    cells: dict[str, str] = {}
    for name, (attribute, _) in _ESTIMATES.items():
        cells |= _csv_numbers(name, getattr(row, attribute))
    for name in ("bodies", "both"):
        ends = _csv_numbers(f"test_score_{name}", getattr(row.crossed, name))
        cells |= {key: text for key, text in ends.items() if key in CSV_DESCRIPTIONS}
    scores = _csv_numbers("test_score", row.row.test_score)
    return cells | {"test_score_sd": scores.get("test_score_sd", "")}


def _csv_numbers(name: str, value: Estimate | Spread | None) -> dict[str, str]:
    """Return the fields of a number as cells: its own, and those of its ends or deviation."""
    if value is None:
        return {}
    first, *others = fields(value)
    names = {name: first.name, **{f"{name}_{field.name}": field.name for field in others}}
    numbers = {key: getattr(value, attribute) for key, attribute in names.items()}
    return {key: "" if number is None else repr(float(number)) for key, number in numbers.items()}
