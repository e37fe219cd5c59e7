"""Analysed tables as Markdown, CSV and LaTeX text; equal analyses always give equal bytes."""

from gmc_bench.leaderboard.tables.as_csv import CSV_COLUMNS, CSV_DESCRIPTIONS, to_csv
from gmc_bench.leaderboard.tables.as_latex import LATEX_MARK, to_latex
from gmc_bench.leaderboard.tables.as_markdown import (
    MARKDOWN_MARK,
    to_markdown,
    to_readme,
    without_place,
)
from gmc_bench.leaderboard.tables.cells import (
    NONE,
    NORMALIZED,
    SHORT_DIGEST,
    pair_cells,
    ranked,
)
from gmc_bench.leaderboard.tables.file_names import TABLES_FOLDER, file_names
from gmc_bench.leaderboard.tables.sections import Section, before_tuning_sections, further_sections
from gmc_bench.leaderboard.tables.wording import GENERATOR

__all__ = [
    "CSV_COLUMNS",
    "CSV_DESCRIPTIONS",
    "GENERATOR",
    "LATEX_MARK",
    "MARKDOWN_MARK",
    "NONE",
    "NORMALIZED",
    "SHORT_DIGEST",
    "TABLES_FOLDER",
    "Section",
    "before_tuning_sections",
    "file_names",
    "further_sections",
    "pair_cells",
    "ranked",
    "to_csv",
    "to_latex",
    "to_markdown",
    "to_readme",
    "without_place",
]
