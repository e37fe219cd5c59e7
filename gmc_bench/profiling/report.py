"""Report of a measurement: tables, unrounded figures and the machine, as Markdown and JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from gmc_bench.records.environment import collect_hardware, collect_versions, git_state

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Table:
    """A row per side, method or figure."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def to_markdown(self) -> str:
        """Return a Markdown table that is also readable as text; numbers are right-aligned."""
        lines = [self.headings, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.headings))]

        def line(cells: Sequence[str]) -> str:
            first = cells[0].ljust(widths[0])
            others = [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
            return f"| {' | '.join([first, *others])} |"

        rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
        table = "\n".join([line(self.headings), line(rule), *map(line, self.rows)])
        return f"{self.title}\n\n{table}" if self.title else table


def figure_table(figures: Mapping[str, float], explained: Mapping[str, str]) -> Table:
    """Return a row per figure; ratios (`ratio_...`) carry what they are compared with."""
    rows = [
        [name, f"{value:.3f}" if name.startswith("ratio_") else f"{value:,.0f}", explained[name]]
        for name, value in figures.items()
    ]
    return Table(("figure", "value", "what it is"), rows)


@dataclass(frozen=True, kw_only=True)
class Report:
    """What was measured, and where."""

    name: str
    """Of the benchmark or measure."""
    claim: str
    """What the figures are about, one sentence."""
    tables: Sequence[Table]
    figures: dict[str, Any]
    """The same numbers and more, unrounded."""
    machine: dict[str, Any]
    """See `describe_machine`."""
    notes: Sequence[str] = ()
    """What a reader must know to judge the figures."""

    def to_markdown(self) -> str:
        """Return the report without the machine."""
        tables = [table.to_markdown() for table in self.tables]
        notes = ["\n".join(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n\n".join([f"## {self.name}", self.claim, *tables, *notes]) + "\n"

    def to_json(self) -> str:
        """Return the report as a JSON document that `from_json` reads."""
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the report that `to_json` wrote."""
        content = json.loads(text)
        return cls(**content | {"tables": [Table(**table) for table in content["tables"]]})


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
