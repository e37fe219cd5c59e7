"""Report of a measurement: tables, unrounded figures and the machine, as Markdown and JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from gmc_bench.core.table import Table
from gmc_bench.records.environment import collect_hardware, collect_versions, git_state

ROOT = Path(__file__).parents[2]


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
        tables = [text for table in self.tables for text in (table.title, table.to_text()) if text]
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
