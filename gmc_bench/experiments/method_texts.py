"""Texts about methods for readers: a table of all, and everything about one."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from gmc_bench.core.table import aligned, number

MAX_WIDTH = 120
"""Characters of a line about a method."""
CLAIMS = {
    "permutation_equivariant": "any order",
    "uses_graph": "tree",
    "temporal": "memory",
    "per_body": "per body",
}
"""Capabilities in short."""
_HINT = (
    "Sizes are trainable parameters of actor and critic. Every preset and deviation of one:",
    "gmc-bench list methods NAME; of all: --json.",
)


def describe_methods(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table, and below each of its rows where the method comes from."""
    columns = ("id", "paper size", "lite size", "deviations", "licence", "claims")
    headings, rule, *lines = aligned(columns, [_method_cells(row) for row in rows]).splitlines()
    shown = [headings, rule]
    for line, row in zip(lines, rows, strict=True):
        shown.append(line)
        for text in _sources(row):
            shown.append(f"    {textwrap.shorten(text, MAX_WIDTH - 4, placeholder='...')}")
    return "\n".join([*shown, "", *_HINT])


def describe_method(row: Mapping[str, Any]) -> str:
    """Return everything about one method."""
    lines = [f"{row['id']} (version {row.get('version', '-')}): {row['title']}"]
    if "error" in row:
        return lines[0]
    claims = [text for key, text in CLAIMS.items() if row["capabilities"][key]]
    facts = {
        "paper": row["paper"],
        "code": row["reference_code"] or "none published",
        "licence": row["licence"],
        "claims": ", ".join(claims) or "none",
    }
    if row["footnote"]:
        facts["footnote in tables"] = row["footnote"]
    lines += [_wrapped(f"{name}: {text}", "  ") for name, text in facts.items()]
    lines.append("  presets:")
    for name, changes in row["presets"].items():
        settings = ", ".join(f"{key}={cell(value)}" for key, value in changes.items())
        size = number(row["parameters"].get(name), 0)
        text = f"- {name}: {size} parameters ({settings or 'the defaults'})"
        lines.append(_wrapped(text, "    "))
    for key, settings in row["tuned"].items():
        values = ", ".join(f"{name} {value:g}" for name, value in settings.items())
        lines.append(_wrapped(f"tuned for {key}: {values}", "  "))
    lines.append("  deviations from the source, and choices it leaves open:")
    lines += [_wrapped(f"- {text}", "    ") for text in row["deviations"]]
    return "\n".join([*lines, ""])


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(text, MAX_WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")


def _method_cells(row: Mapping[str, Any]) -> list[str]:
    if "error" in row:
        return [row["id"], "-", "-", "-", "-", "-"]
    sizes = [row["parameters"].get(preset) for preset in ("paper", "lite")]
    claims = [text for key, text in CLAIMS.items() if row["capabilities"][key]]
    return [
        row["id"],
        *(number(size, 0) for size in sizes),
        str(len(row["deviations"])),
        row["licence"],
        ", ".join(claims) or "-",
    ]


def _sources(row: Mapping[str, Any]) -> list[str]:
    if "error" in row:
        return [row["title"]]
    return [row["paper"] or row["title"], f"code: {row['reference_code'] or 'none published'}"]


def cell(value: Any) -> str:
    """Return a value of a catalogue as the text of a table's cell."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {item:,}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value)
    return "" if value is None else str(value)
