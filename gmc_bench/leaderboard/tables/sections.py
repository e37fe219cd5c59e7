"""The parts of a table: what each one is called, says and lists.

Only complete rows are ranked, and a rank stands beside the row's group: rows that share a letter
do not differ significantly. Single-robot references and numbers printed in papers have parts of
their own, because neither was measured under the table's rules.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gmc_bench.leaderboard.aggregate import ComparisonTable, Row, Spread
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.breakdown import break_down, direction_spreads, friction_spreads
from gmc_bench.leaderboard.caveats import caveats, listed, without_untuned
from gmc_bench.leaderboard.footnotes import footnotes, names
from gmc_bench.leaderboard.measured import measured_alike
from gmc_bench.leaderboard.published import PublishedScore
from gmc_bench.leaderboard.references import MIN_SHARE, MIN_STANDARD_ERRORS, NO_ACTION, Scale
from gmc_bench.leaderboard.tables.cells import (
    KEY_HEADINGS,
    NONE,
    NORMALIZED,
    key_cells,
    pair_cells,
    ranked_cells,
    row_cells,
    spread_text,
    unranked_cells,
)
from gmc_bench.leaderboard.tables.wording import (
    AGAINST,
    BEFORE_TUNING,
    COSTS,
    DIRECTIONS,
    EXPLANATION,
    EXPLANATION_HERE,
    FRICTIONS,
    GROUPED,
    GROUPS,
    GROUPS_HERE,
    METRES,
    MORE,
    OTHERS,
    OTHERWISE,
    PUBLISHED,
    RANKS,
    REFERENCES,
    RESIZED_RUNS,
    SCORED_ON_TRAIN,
    UNRANKED,
    UNTRAINED,
)
from gmc_bench.records.breakdown import DIRECTION_METRICS, FRICTION_METRICS

PLACE_HEADINGS = ("#", "Group", "Group here")
SCORE_HEADINGS = (
    *("Seeds", "Test score", "Metres"),
    *("Other seeds", "Other bodies", "Both", "Verified"),
)
RANKED_HEADINGS = (*PLACE_HEADINGS, *KEY_HEADINGS, *SCORE_HEADINGS)
BEFORE_TUNING_HEADINGS = (*KEY_HEADINGS, *PLACE_HEADINGS, *SCORE_HEADINGS)
BEYOND = {"Group here", "Other bodies", "Both", "Here"}
"""Columns that exist only where bodies are sampled."""
OTHER_HEADINGS = (
    *KEY_HEADINGS,
    *("Median (95 %)", "IQM (95 %)", "Worst decile (95 %)", "Sampled actions"),
)
MORE_HEADINGS = (
    *KEY_HEADINGS,
    *("Score ± SD", "Train score", "Training return", "Curve area"),
    *("Steps per body", "Core seconds", "Parameters", "Env steps/s"),
)
REFERENCE_HEADINGS = (
    *(*KEY_HEADINGS, "Seeds", "Train score", "Training return"),
    *("Steps per body", "Core seconds", "Parameters", "Env steps/s", "Verified"),
)
UNTRAINED_HEADINGS = (*KEY_HEADINGS, "Seeds", "Test score", "Train score", "Verified")
UNRANKED_HEADINGS = ("Method", "Preset", "Seed", "Score", "Reasons", "Record")
PUBLISHED_HEADINGS = (
    *("Name in the paper", "Our id", "Preset", "What", "Value", "Seeds"),
    *("Bodies", "Place"),
)


class Section(NamedTuple):
    """One table with what is said about it, in plain text that no format has escaped yet."""

    title: str
    text: tuple[str, ...]
    headings: tuple[str, ...]
    rows: list[list[str]]
    notes: tuple[str, ...] = ()


def ranked_sections(analysis: TableAnalysis) -> list[Section]:
    """Return the ranking and all that is said about its rows, in the order of a page."""
    cells = ranked_cells(analysis)
    on_test = EXPLANATION if analysis.bodies_are_sampled else EXPLANATION_HERE
    explained = [
        on_test if analysis.table.split == "test" else SCORED_ON_TRAIN,
        GROUPS if analysis.bodies_are_sampled else GROUPS_HERE,
        *caveats(analysis),
    ]
    if analysis.metres_per_return is not None:
        explained.append(METRES.format(metres=analysis.metres_per_return))
    headings = _existing(analysis, RANKED_HEADINGS)
    shown = _score_headings(headings, analysis.table)
    return [
        _section("Ranking", explained, headings, cells)._replace(
            headings=shown, notes=footnotes([item.row for item in analysis.rows])
        ),
        *_against_sections(analysis),
        *_rank_sections(analysis),
        _section("Other statistics", (OTHERS,), OTHER_HEADINGS, cells),
        _more_section(analysis, cells),
        *_measured_sections(analysis),
    ]


def _score_headings(headings: Sequence[str], table: ComparisonTable) -> tuple[str, ...]:
    """Return headings; where no test bodies are scored, the score that ranks is no test score."""
    on_test = table.split == "test"
    return tuple(name if on_test or name != "Test score" else "Score" for name in headings)


def further_sections(analysis: TableAnalysis) -> list[Section]:
    """Return what pages show below a ranking whose rows they draw themselves."""
    return [*_measured_sections(analysis), *_rank_sections(analysis)]


def _measured_sections(analysis: TableAnalysis) -> list[Section]:
    return [
        *_breakdown_sections(analysis),
        *_condition_sections(
            analysis.table, "Friction", "Friction", FRICTIONS, FRICTION_METRICS, friction_spreads
        ),
        *_condition_sections(
            analysis.table,
            "Directions",
            "Direction",
            DIRECTIONS,
            DIRECTION_METRICS,
            direction_spreads,
        ),
    ]


def _more_section(analysis: TableAnalysis, cells: Sequence[Mapping[str, str]]) -> Section:
    text = [MORE, _costs([item.row for item in analysis.rows])]
    if analysis.scale is None:
        return _section("More numbers", text, MORE_HEADINGS, cells)
    text.append(_normalisation(analysis.scale))
    return _section("More numbers", text, (*MORE_HEADINGS, NORMALIZED), cells)


def _costs(rows: Sequence[Row]) -> str:
    """Return what times are, and on which processors they were taken."""
    counts = Counter(run.record.hardware.cpu for row in rows for run in row.runs)
    told = COSTS.format(
        processors=", ".join(
            f"{cpu} ({count} {'run' if count == 1 else 'runs'})"
            for cpu, count in sorted(counts.items())
        )
    )
    resized = [name for row, name in zip(rows, names(rows).values(), strict=True) if _resized(row)]
    return f"{told} {RESIZED_RUNS.format(rows=listed(resized))}" if resized else told


def _resized(row: Row) -> bool:
    return any(run.record.resized for run in row.runs)


def _normalisation(scale: Scale) -> str:
    low, top = scale.floor.key, scale.specialist.key
    floor = low.method if low.method == NO_ACTION else f"{low.method} untrained"
    return (
        f"{NORMALIZED}: (x - floor) / (specialist - floor) on each train body, then the mean over "
        f"bodies, with the 95 % interval over runs. Specialist: {top.method} ({top.preset}); "
        f"floor: {floor}. {len(scale.bodies)} of "
        f"{scale.num_bodies} different train bodies count: those on which the specialist is at "
        f"least {MIN_STANDARD_ERRORS:g} standard errors and {MIN_SHARE:g} of the median difference "
        f"above the floor."
    )


def _section(
    title: str, text: Sequence[str], headings: Sequence[str], rows: Sequence[Mapping[str, str]]
) -> Section:
    """Return the named columns of some rows as a section."""
    cells = [[row[heading] for heading in headings] for row in rows]
    return Section(title, tuple(text), tuple(headings), cells)


def _against_sections(analysis: TableAnalysis) -> list[Section]:
    """Return the comparisons of the first place with every other."""
    headings: tuple[str, ...] = (
        *(*KEY_HEADINGS, "Difference", "Ratio", "Other seeds", "Other bodies", "Both", "Win"),
        *("Told apart", "Here"),
    )
    if not analysis.bodies_are_sampled:
        headings = tuple(name for name in headings if name not in BEYOND)
    rows = [
        {**key_cells(analysis.rows[pair.second].row.key), **pair_cells(pair)}
        for pair in analysis.comparisons
        if pair.first == 0
    ]
    return [_section("Against the first place", (AGAINST,), headings, rows)] if rows else []


def _rank_sections(analysis: TableAnalysis) -> list[Section]:
    """Return the ranks by other statistics."""
    found = analysis.stability
    if not found:
        return []
    headings = ("Method", "Preset", "Settings", *(item.name for item in found))
    rows = [
        {**key_cells(row.row.key), **{item.name: str(item.ranks[index]) for item in found}}
        for index, row in enumerate(analysis.rows)
    ]
    taus = {item.name: NONE if item.tau is None else f"{item.tau:z.2f}" for item in found}
    rows.append({"Method": "Tau", "Preset": "", "Settings": "", **taus})
    return [_section("Places by other statistics", (RANKS,), headings, rows)]


def _breakdown_sections(analysis: TableAnalysis) -> list[Section]:
    """Return test scores by groups of bodies, where all records tell them."""
    found = [(row.row.key, break_down(row.row, row.row.split)) for row in analysis.rows]
    groups = list(dict.fromkeys(name for _, scores in found for name in scores))
    if not groups:
        return []
    rows = [
        {**key_cells(key), **{name: spread_text(scores.get(name)) for name in groups}}
        for key, scores in found
    ]
    return [_section("Score by kind of body", (GROUPED, MORE), (*KEY_HEADINGS, *groups), rows)]


def _condition_sections(
    table: ComparisonTable,
    title: str,
    name: str,
    text: str,
    metrics: Mapping[str, str],
    spreads: Callable[[Row], Mapping[str, Mapping[str, Spread]]],
) -> list[Section]:
    """Return what robots do under each condition, of ranked rows and references alike."""
    complete = [row for row in (*table.rows, *table.references) if not row.missing]
    alike = measured_alike(complete)
    rows = [
        {
            **key_cells(row.key),
            name: condition,
            **{metric: spread_text(found.get(metric), digits=3) for metric in metrics},
        }
        for row in alike
        for condition, found in spreads(row).items()
    ]
    other = [row.key.method for row in complete if row not in alike and spreads(row)]
    said = [text, MORE, *([OTHERWISE.format(methods=listed(other))] if other else [])]
    return [_section(title, said, (*KEY_HEADINGS, name, *metrics), rows)] if rows or other else []


def reference_section(analysis: TableAnalysis) -> Section:
    """Return the single-robot references that have all seeds."""
    found = [row for row in analysis.table.references if not row.missing]
    rows = [row_cells(row) for row in found]
    text = (REFERENCES, MORE, _costs(found))
    return _section("Single-robot references", text, REFERENCE_HEADINGS, rows)


def untrained_section(table: ComparisonTable) -> Section:
    """Return the untrained rows that have all seeds."""
    cells = [row_cells(row) for row in table.untrained if not row.missing]
    found = _section("Untrained", (UNTRAINED, MORE), UNTRAINED_HEADINGS, cells)
    return found._replace(headings=_score_headings(UNTRAINED_HEADINGS, table))


def before_tuning_sections(analysis: TableAnalysis) -> list[Section]:
    """Return the ranking with the values before tuning, where tuned rows have replaced some."""
    before = analysis.before_tuning
    if before is None:
        return []
    headings = _existing(before, BEFORE_TUNING_HEADINGS)
    absent = without_untuned(analysis)
    lacking = (f"Without a complete row of them: {listed(absent)}.",) if absent else ()
    text = (BEFORE_TUNING, *lacking, *caveats(before))
    found = _section("Before tuning", text, headings, ranked_cells(before))
    return [found._replace(headings=_score_headings(headings, before.table))]


def _existing(analysis: TableAnalysis, headings: Sequence[str]) -> tuple[str, ...]:
    """Return the headings of a ranking without those that mean nothing for its rows."""
    left_out = set() if analysis.bodies_are_sampled else set(BEYOND)
    if analysis.metres_per_return is None:
        left_out.add("Metres")
    return tuple(name for name in headings if name not in left_out)


def unranked_section(table: ComparisonTable) -> Section:
    """Return the runs that do not follow the protocol, with why."""
    rows = [unranked_cells(run) for run in table.unranked]
    return Section("Not ranked", (UNRANKED,), UNRANKED_HEADINGS, rows)


def published_section(scores: Sequence[PublishedScore]) -> Section:
    """Return numbers that papers printed for the table's suite and task."""
    rows = [
        [
            score.paper_method,
            score.method or NONE,
            score.preset or NONE,
            _what(score),
            score.printed,
            NONE if score.seeds is None else str(score.seeds),
            score.bodies,
            _place(score),
        ]
        for score in scores
    ]
    sources = dict.fromkeys(score.source.removesuffix(f", {_place(score)}") for score in scores)
    notes = dict.fromkeys(f"{_place(s)}: {s.protocol}. {s.note}" for s in scores)
    text = (PUBLISHED, f"Source: {'; '.join(sources)}.")
    return Section("Reported by the paper", text, PUBLISHED_HEADINGS, rows, tuple(notes))


def _what(score: PublishedScore) -> str:
    condition = f", {score.condition}" if score.condition else ""
    unit = f" ({score.unit})" if score.unit not in ("", "return") else ""
    return f"{score.metric}{unit}{condition}"


def _place(score: PublishedScore) -> str:
    return score.source.rsplit(", ", 1)[1]
