"""Table of texts, as aligned text, as a Markdown page and as CSV."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from gmc_bench.core import escape

_ONE = r"[+-]?[0-9][0-9,.]*(e[+-]?[0-9]+)?"
_NUMBER = re.compile(rf"-|{_ONE}( ± [0-9,.]+)?( %)?( to {_ONE}( %)?)?")
"""What numbers, intervals and the place of a missing one look like in a cell."""


@dataclass(frozen=True)
class Table:
    """Cells and headings as plain text, a row per line."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = ()
    """What a reader must know, a paragraph of Markdown each."""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.headings):
                raise ValueError(f"{len(row)} cells for {len(self.headings)} columns: {row}")

    def to_text(self) -> str:
        """Return an aligned table; the first column is left-aligned.

        It is laid out as in Markdown, but nothing is escaped: see `to_markdown`.
        """
        widths = _widths(self.headings, self.rows)
        head, *lines = (_line(_padded(cells, widths)) for cells in (self.headings, *self.rows))
        rule = _line(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])])
        return "\n".join([head, rule, *lines])

    def to_markdown(self, level: int = 1) -> str:
        """Return a Markdown page: title and table, in which no text means markup, and notes.

        Args:
            level: of the title's heading.
        """
        lines = [f"{'#' * level} {escape.markdown(self.title)}", ""]
        lines.append(_line([escape.markdown(heading) for heading in self.headings]))
        lines.append(_line(["---"] * len(self.headings)))
        lines += [_line([escape.markdown(cell) for cell in row]) for row in self.rows]
        for note in self.notes:
            lines += ["", note]
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """Return the table as CSV with one line of headings."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.headings)
        writer.writerows([_csv_cell(cell) for cell in row] for row in self.rows)
        return text.getvalue()


def aligned(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a plain-text table; the first column is left-aligned, the others right-aligned."""
    widths = _widths(headings, rows)
    head, *lines = ("  ".join(_padded(cells, widths)).rstrip() for cells in (headings, *rows))
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([head, rule, *lines])


def _widths(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the characters of every column's widest cell."""
    return [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]


def _padded(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return cells as wide as their columns, the first left-aligned, the others right-aligned."""
    others = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))
    return [cells[0].ljust(widths[0]), *others]


def number(value: float | None, digits: int = 1) -> str:
    """Return a number for a table, `-` for none."""
    return "-" if value is None else f"{value:z,.{digits}f}"


def _csv_cell(cell: str) -> str:
    """Return a cell that no spreadsheet takes for a formula; numbers with a sign are none."""
    return cell if _NUMBER.fullmatch(cell) else escape.csv_text(cell)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
