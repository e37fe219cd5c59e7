"""Numbers and names of a table as the text of its cells."""

from collections.abc import Callable, Sequence

from gmc_bench.leaderboard.aggregate import Row, RowKey, Spread, UnrankedRun
from gmc_bench.leaderboard.analysis import Comparison, Estimate, TableAnalysis
from gmc_bench.leaderboard.footnotes import marked, names
from gmc_bench.leaderboard.references import core_seconds, steps_per_body
from gmc_bench.leaderboard.statistics import mean

NONE = "—"
SHORT_DIGEST = 8  # hex digits, enough to tell settings apart by eye
KEY_HEADINGS = ("Method", "Preset", "Settings")
NORMALIZED = "Normalised train score"


def ranked(rows: Sequence[Row]) -> list[tuple[int | None, Row]]:
    """Pair rows, best first, with their rank; rows of equal score share the better rank.

    An incomplete row has no rank.
    """
    scores = [row.test_score.mean for row in rows if row.test_score and not row.missing]
    return [
        (None if row.missing or not row.test_score else scores.index(row.test_score.mean) + 1, row)
        for row in rows
    ]


def ranked_cells(analysis: TableAnalysis) -> list[dict[str, str]]:
    """Return every number of the ranked rows, best first, by heading."""
    places = {row.key: place for place, row in ranked(analysis.table.rows)}
    named = names([item.row for item in analysis.rows])
    return [
        {
            **row_cells(item.row),
            "Id": marked(item.row.key.method, named[item.row.key]),
            "#": str(places[item.row.key]),
            "Group": item.group,
            "Group here": item.group_here,
            "Test score": score_text(item.crossed.value),
            "Score ± SD": spread_text(item.row.test_score),
            "Test score (95 %)": estimate_text(
                item.crossed.both if analysis.bodies_are_sampled else item.crossed.runs
            ),
            "Metres": metres_text(item.crossed.value, analysis.metres_per_return),
            "Other seeds": ends_text(item.crossed.runs),
            "Other bodies": ends_text(item.crossed.bodies),
            "Both": ends_text(item.crossed.both),
            "Median (95 %)": estimate_text(item.median),
            "Sampled actions": score_text(None if item.sampled is None else mean(item.sampled)),
            "IQM (95 %)": estimate_text(item.iqm),
            "Worst decile (95 %)": estimate_text(item.worst_decile),
            "Curve area": estimate_text(item.curve_area),
            NORMALIZED: estimate_text(normalized_score(analysis, item.row), 3),
        }
        for item in analysis.rows
    ]


def row_cells(row: Row) -> dict[str, str]:
    """Return everything that is known of a row before it is analysed, by heading."""
    train = row.train_score
    return {
        **key_cells(row.key),
        "Id": marked(row.key.method),
        "Runs": str(len(row.seeds)),
        "Seeds": seeds(row),
        "Test score": spread_text(row.test_score),
        "Train mean": score_text(None if train is None else train.mean),
        "Train score": spread_text(train),
        "Training return": spread_text(row.training_return),
        "Steps per body": f"{steps_per_body(row):,.0f}",
        "Core seconds": f"{core_seconds(row):,.0f}",
        "Parameters": NONE if row.parameters is None else f"{row.parameters:,}",
        "Env steps/s": NONE if row.env_steps_per_s is None else f"{row.env_steps_per_s:,.0f}",
        "Verified": yes_or_no(row.verified),
    }


def pair_cells(pair: Comparison) -> dict[str, str]:
    """Return how two rows differ, by heading; without a ratio, intervals are of the difference."""
    ratio = pair.ratio
    found, shown = (ratio, ratio_text) if ratio else (pair.contrast, score_text)
    return {
        "Difference": score_text(pair.difference),
        "Ratio": ratio_text(ratio.value) if ratio else NONE,
        "Other seeds": ends_text(found.runs, shown),
        "Other bodies": ends_text(found.bodies, shown),
        "Both": ends_text(found.both, shown),
        "Win": estimate_text(pair.probability_of_improvement, 2),
        "Told apart": yes_or_no(pair.significant),
        "Here": yes_or_no(pair.significant_here),
    }


def point_cells(row: Row, metres_per_return: float | None) -> dict[str, str]:
    """Return a row's test score, which is not analysed, without its interval."""
    if row.test_score is None:
        return {}
    score = row.test_score.mean
    return {
        "Test score (95 %)": score_text(score),
        "Metres": metres_text(score, metres_per_return),
    }


def unranked_cells(run: UnrankedRun) -> list[str]:
    """Return a run that does not follow the protocol, in the order of its headings."""
    method, score = f"{run.key.method} v{run.key.method_version}", score_text(run.test_score)
    return [method, run.key.preset, str(run.seed), score, "; ".join(run.reasons), run.path]


def key_cells(key: RowKey) -> dict[str, str]:
    """Return what names a row."""
    method = marked(key.method, f"{key.method} v{key.method_version}")
    cells = (method, key.preset, key.config_digest[:SHORT_DIGEST])
    return dict(zip(KEY_HEADINGS, cells, strict=True))


def normalized_score(analysis: TableAnalysis, row: Row) -> Estimate | None:
    """Return a row's normalised score on train bodies; None where a table has no scale."""
    return None if analysis.scale is None else analysis.scale.estimate(row)


def yes_or_no(value: bool) -> str:
    """Return a truth value as a word."""
    return "yes" if value else "no"


def seeds(row: Row) -> str:
    """Return how many seeds a row has, and of how many if some are missing."""
    run = len(row.seeds)
    return f"{run}/{run + len(row.absent_seeds)}" if row.absent_seeds else str(run)


def spread_text(spread: Spread | None, digits: int = 1) -> str:
    """Return `mean ± standard deviation`; of a single value the latter is a dash."""
    if spread is None:
        return NONE
    sd = NONE if spread.sd is None else f"{spread.sd:z,.{digits}f}"
    return f"{spread.mean:z,.{digits}f} ± {sd}"


def estimate_text(estimate: Estimate | None, digits: int = 1) -> str:
    """Return `value (low to high)`; without an interval a dash in brackets."""
    if estimate is None:
        return NONE
    value = f"{estimate.value:z,.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return f"{value} ({NONE})"
    return f"{value} ({estimate.low:z,.{digits}f} to {estimate.high:z,.{digits}f})"


def score_text(value: float | None) -> str:
    """Return a score, or a difference of two; a dash for none."""
    return NONE if value is None else f"{value:z,.1f}"


def ratio_text(value: float) -> str:
    """Return a positive ratio with two or three significant digits."""
    if value >= 100.0:
        return f"{value:,.0f}" if value < 1e9 else f"{value:.1e}"
    return f"{value:.1f}" if value >= 10.0 else f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def ends_text(estimate: Estimate, shown: Callable[[float], str] = score_text) -> str:
    """Return `low to high`, or a dash."""
    if estimate.low is None or estimate.high is None:
        return NONE
    return f"{shown(estimate.low)} to {shown(estimate.high)}"


def metres_text(score: float, metres_per_return: float | None) -> str:
    """Return a return as a distance, m; a dash where it is none."""
    return NONE if metres_per_return is None else f"{metres_per_return * score:z,.2f}"
