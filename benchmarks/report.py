"""What a benchmark reports: a claim, a table, the machine; as Markdown and as JSON."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gmc_bench.records.environment import collect_hardware, collect_versions, git_state
from gmc_bench.sim.batch import available_threads

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, kw_only=True)
class Report:
    """One benchmark's outcome."""

    name: str
    """Of the script."""
    claim: str
    """What the figures are about, one sentence."""
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    """The table, one line per side."""
    figures: dict[str, Any]
    """The same numbers and more, unrounded."""
    notes: Sequence[str] = ()
    """What a reader must know to judge the figures."""
    machine: dict[str, Any] = field(default_factory=dict)
    """See `describe_machine`."""

    def to_markdown(self) -> str:
        """Return the report without the machine."""
        notes = "".join(f"\n- {note}" for note in self.notes)
        body = f"## {self.name}\n\n{self.claim}\n\n{markdown_table(self.headings, self.rows)}"
        return f"{body}\n{notes}\n" if notes else f"{body}\n"

    def to_json(self) -> str:
        """Return the report as a JSON document that `from_json` reads."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Report":
        """Return the report that `to_json` wrote."""
        return cls(**json.loads(text))


def describe_machine(threads: int) -> dict[str, Any]:
    """Return hardware, versions and checkout that figures belong to."""
    commit, dirty = git_state(ROOT)
    return {
        "hardware": collect_hardware(threads).model_dump(),
        "versions": collect_versions(),
        "commit": commit,
        "dirty": dirty,
    }


def machine_markdown(machine: dict[str, Any]) -> str:
    """Return one paragraph about a machine."""
    hardware, versions = machine["hardware"], machine["versions"]
    software = ", ".join(f"{name} {version}" for name, version in versions.items())
    commit = machine["commit"] or "none"
    changed = " with local changes" if machine["dirty"] else ""
    return (
        f"{hardware['cpu']}, {hardware['cores']} core(s), {hardware['threads']} thread(s), "
        f"{hardware['platform']}. {software}. Commit {commit}{changed}."
    )


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table that is also readable as text; numbers are right-aligned."""
    widths = [max(len(line[i]) for line in (headings, *rows)) for i in range(len(headings))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        return f"| {' | '.join([first, *others])} |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(headings), line(rule), *map(line, rows)])


def make_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, default=available_threads(), help="default: all")
    parser.add_argument("--seconds", type=float, default=20.0, help="on each side (default: 20)")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def show(report: Report, *, as_json: bool) -> None:
    """Print a report."""
    if as_json:
        print(report.to_json())
    else:
        print(f"{report.to_markdown()}\n{machine_markdown(report.machine)}")
