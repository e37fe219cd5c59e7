"""Output of the verbs: results to stdout, everything else to stderr."""

import json
import sys
from collections.abc import Sequence
from typing import Any


def say(text: str = "") -> None:
    """Write one line of results to stdout."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def say_json(content: Any) -> None:
    """Write one JSON document to stdout."""
    say(json.dumps(content, indent=2))


def note(text: str) -> None:
    """Write one line about what is going on to stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a plain-text table; the first column is left-aligned, the others right-aligned."""
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return "  ".join([first, *others]).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(headings), rule, *map(line, rows)])


def number(value: float | None, digits: int = 1) -> str:
    """Return a number for a table, `-` for none."""
    return "-" if value is None else f"{value:,.{digits}f}"
