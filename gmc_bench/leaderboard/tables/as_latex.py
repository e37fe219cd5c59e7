"""An analysed table as LaTeX tabulars."""

import re
from collections.abc import Sequence

from gmc_bench.core.escape import latex
from gmc_bench.leaderboard.analysis import TableAnalysis
from gmc_bench.leaderboard.footnotes import MARK
from gmc_bench.leaderboard.published import published_for
from gmc_bench.leaderboard.tables.cells import KEY_HEADINGS, NONE
from gmc_bench.leaderboard.tables.sections import (
    Section,
    before_tuning_sections,
    published_section,
    ranked_sections,
    reference_section,
    untrained_section,
)
from gmc_bench.leaderboard.tables.wording import GENERATOR

LATEX_MARK = f"% {GENERATOR}"
LATEX_NEEDS = r"% needs \usepackage{booktabs}; text beyond Latin letters needs LuaLaTeX or XeLaTeX"
_NEGATIVE = re.compile(r"(?:^|(?<=[ (]))-(?=\d)")


def to_latex(analysis: TableAnalysis) -> str:
    r"""Return the ranked rows, references and published numbers as LaTeX tabulars.

    The text is to be read with `\input` and needs the package booktabs.
    """
    table = analysis.table
    sections = ranked_sections(analysis) if analysis.rows else []
    if table.references:
        sections.append(reference_section(analysis))
    if table.untrained:
        sections.append(untrained_section(table))
    sections += before_tuning_sections(analysis)
    published = published_for(table.key.suite, table.key.task)
    if published:
        sections.append(published_section(published))
    lines = [LATEX_MARK, LATEX_NEEDS, f"% {latex(table.key.title)}"]
    for place, section in enumerate(sections):
        if place:
            lines.append(r"\par\medskip")
        lines += _latex_section(section)
    return "\n".join([*lines, ""])


def _latex_section(section: Section) -> list[str]:
    if not section.rows:
        return []
    # Names on the left, what is counted or measured on the right.
    left = {
        *KEY_HEADINGS,
        "Group",
        "Group here",
        "Name in the paper",
        "Our id",
        "What",
        "Bodies",
        "Place",
    }
    columns = "".join("l" if heading in left else "r" for heading in section.headings)
    return [
        f"% {latex(section.title)}",
        *(f"% {latex(text)}" for text in (*section.text, *section.notes)),
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_line(section.headings),
        r"\midrule",
        *(_latex_line(row) for row in section.rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(_latex_cell(cell) for cell in cells) + r" \\"


def _latex_cell(cell: str) -> str:
    text = _NEGATIVE.sub("$-$", latex(cell))
    return text.replace(MARK, r"$\dagger$").replace("±", r"$\pm$").replace(NONE, "---")
