"""An analysed table as a Markdown page, and its short form for a README."""

from collections.abc import Mapping, Sequence

from gmc_bench.core.escape import markdown
from gmc_bench.leaderboard.aggregate import Row, RowKey
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.footnotes import footnotes
from gmc_bench.leaderboard.published import published_for
from gmc_bench.leaderboard.references import NO_ACTION
from gmc_bench.leaderboard.tables.cells import (
    NONE,
    SHORT_DIGEST,
    point_cells,
    ranked_cells,
    row_cells,
    score_text,
)
from gmc_bench.leaderboard.tables.sections import (
    Section,
    before_tuning_sections,
    published_section,
    ranked_sections,
    reference_section,
    unranked_section,
    untrained_section,
)
from gmc_bench.leaderboard.tables.wording import EARLIER, GENERATOR
from gmc_bench.leaderboard.today import is_earlier

MARKDOWN_MARK = f"<!-- {GENERATOR} -->"
README_HEADINGS = {
    "#": "#",
    "Group": "Group",
    "Id": "Method",
    "Test score (95 %)": "Test score (95 %)",
    "Metres": "Metres",
    "Train mean": "Train score",
    "Parameters": "Parameters",
    "Runs": "Seeds",
    "Verified": "Verified",
}
"""Columns of the short tables, and what they are called there."""


def to_markdown(analysis: TableAnalysis, figures: Mapping[str, str] | None = None) -> str:
    """Return a table as a Markdown page, with what is not ranked and why.

    Args:
        analysis: the table.
        figures: pictures to show, from what they show to their path relative to the page.
    """
    table = analysis.table
    bodies = table.morphologies
    lines = [MARKDOWN_MARK, f"# {markdown(table.key.title)}", ""]
    lines += [
        f"- Bodies: {bodies.num_train} train, {bodies.num_test} test; "
        f"{markdown(bodies.source)} (licence: {markdown(bodies.licence)})",
        f"- MuJoCo {markdown(table.key.mujoco)}",
        f"- torch {markdown(', '.join(table.torch_versions))}",
        f"- Protocol digest `{table.key.protocol_digest}`",
        f"- Bodies digest `{table.key.morphologies_digest}`",
        "",
    ]
    if is_earlier(table):
        lines += [EARLIER, ""]
    if analysis.rows:
        for section in ranked_sections(analysis):
            lines += _markdown_section(section)
    else:
        lines += ["No ranked runs yet.", ""]
    for section in (reference_section(analysis), untrained_section(table)):
        lines += _markdown_section(section) if section.rows else []
    for section in before_tuning_sections(analysis):
        lines += _markdown_section(section)
    if figures:
        lines += ["## Figures", ""]
        lines += [f"![{markdown(what)}]({path})\n" for what, path in figures.items()]
    incomplete = [row for row in table.all_rows if row.missing]
    if incomplete:
        lines += ["## Incomplete", ""]
        lines += [f"- {_name(row.key)}: {markdown(_why_incomplete(row))}" for row in incomplete]
        lines += [""]
    if table.unranked:
        lines += _markdown_section(unranked_section(table))
    published = published_for(table.key.suite, table.key.task)
    if published:
        lines += _markdown_section(published_section(published))
    return "\n".join(lines)


def to_readme(analysis: TableAnalysis, link: str) -> str:
    """Return the complete rows of a table in few columns, with a heading that links to the rest.

    Below the methods are specialists, and no action at all, which have no place.

    Args:
        analysis: the table.
        link: path of the table's page, relative to the file that shows this.
    """
    table = analysis.table
    heading = f"[{markdown(table.key.title)}, MuJoCo {markdown(table.key.mujoco)}]({link})"
    rows = ranked_cells(analysis)
    if not rows:
        return f"{heading}: no complete row yet.\n"
    rows += reference_lines(analysis)
    names = [name for name in README_HEADINGS if any(row[name] != NONE for row in rows)]
    cells = [[markdown(row[name]) for name in names] for row in rows]
    shown = [README_HEADINGS[name] for name in names]
    if table.split == "train":
        shown = [name.replace("Test score", "Score") for name in shown]
    notes = [_short_note(analysis), *footnotes([item.row for item in analysis.rows])]
    return "\n".join(
        [heading, "", *_grid(shown, cells), "", *(f"{markdown(note)}\n" for note in notes)]
    )


def reference_lines(analysis: TableAnalysis) -> list[dict[str, str]]:
    """Return the lines below a short table."""
    return [
        {
            **dict.fromkeys(README_HEADINGS, NONE),
            **row_cells(row),
            "#": "",
            "Group": "",
            **point_cells(row, analysis.metres_per_return),
        }
        for row in without_place(analysis)
    ]


def without_place(analysis: TableAnalysis) -> list[Row]:
    """Return what a short table shows below its rows: the specialist, and no action at all."""
    best = [] if analysis.reference is None else [analysis.reference.row]
    idle = [row for row in analysis.table.untrained if row.key.method == NO_ACTION]
    return [row for row in (*best, *idle) if not row.missing]


def _short_note(analysis: TableAnalysis) -> str:
    """Return what ranks in a short table, what its letters say, and what has no place."""
    bodies = "unseen test bodies" if analysis.table.split == "test" else "the train bodies"
    over = "other seeds and other bodies" if analysis.bodies_are_sampled else "other seeds"
    told = [f"Ranked by mean return on {bodies}; in brackets its 95 % interval over {over}."]
    if pairs := analysis.comparisons:
        apart = sum(pair.significant for pair in pairs)
        told.append(
            f"Rows that share a letter cannot be told apart; {apart} of {len(pairs)} pairs differ "
            f"significantly."
        )
    unplaced = []
    for row in without_place(analysis):
        what = "no action at all" if row.untrained else "separate weights for each train body"
        unplaced.append(f"{row.key.method} ({what})")
    if unplaced:
        told.append(f"Not ranked: {', '.join(unplaced)}.")
    return " ".join(told)


def _markdown_section(section: Section) -> list[str]:
    lines = [f"## {markdown(section.title)}", ""]
    for text in section.text:
        lines += [markdown(text), ""]
    if section.rows:
        cells = [[markdown(cell) for cell in row] for row in section.rows]
        lines += [*_grid(section.headings, cells), ""]
    if section.notes:
        lines += [*(f"- {markdown(note)}" for note in section.notes), ""]
    return lines


def _grid(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] * len(headings)
    named = [markdown(heading) for heading in headings]
    return [f"| {' | '.join(row)} |" for row in (named, rule, *cells)]


def _why_incomplete(row: Row) -> str:
    found = [f"seed {seed} {score_text(score)}" for seed, score in row.seed_scores]
    of_what = "untrained; " if row.untrained else ""
    return f"{of_what}{'; '.join(row.missing)}; {row.split} score of {', '.join(found)}"


def _name(key: RowKey) -> str:
    settings = key.config_digest[:SHORT_DIGEST]
    return markdown(f"{key.method} v{key.method_version}, {key.preset}, settings {settings}")
