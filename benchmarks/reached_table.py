"""Markdown of what the long benchmarks of faults have reached, from their files of results."""

import json
from pathlib import Path
from typing import Any

from benchmarks import chaos, corruption, determinism, fuzz, soak
from benchmarks.fuzz_targets import make_target, seeds

REACHED = Path(__file__).with_name("reached")


def read(name: str) -> dict[str, Any]:
    """Return the results of a benchmark."""
    content: dict[str, Any] = json.loads((REACHED / f"{name}.json").read_bytes())
    return content


def soak_row() -> str:
    """Return the row of the soak: of its longest process, if one was long enough to tell."""
    start = f"| `benchmarks.soak` | {soak.GOAL:,} s | "
    processes = read("soak")["processes"] if (REACHED / "soak.json").exists() else []
    rows: list[dict[str, float]] = max(processes, key=len, default=[])
    if len(rows) < soak.FEWEST:
        return f"{start}not run yet | |"
    grown = ", ".join(f"{name} {soak.growth(rows, name):+.1f}" for name in soak.MEASURED)
    return f"{start}{rows[-1]['seconds']:,.0f} s, {len(rows)} sweeps | growth: {grown} |"


def determinism_lines() -> list[str]:
    """Return what was compared byte by byte: on one machine, then its runs on others beside it."""
    if not (REACHED / "determinism.json").exists():
        return []
    content, plain = read("determinism"), determinism.WAYS[0].name
    first = content["ways"][plain]
    simulated, acted = (len(first[part]) for part in (determinism.SIMULATION, determinism.POLICY))
    others = [read(path.stem) for path in sorted(REACHED.glob("determinism-*.json"))]
    rows = determinism.rows(content)
    rows += [
        [f"another machine: {_machine(other)}", *compared.values()]
        for other in others
        for compared in (determinism.compare(other["ways"][plain], first),)
    ]
    return [
        "",
        f"`benchmarks.determinism`, compared with one thread of one process on "
        f"{_machine(content)}: {determinism.STEPS:,} steps of {simulated} tasks with their suites' "
        f"bodies, outputs and gradients of {acted} methods.",
        "",
        "| " + " | ".join(determinism.HEADINGS) + " |",
        "| --- | --- | --- | --- |",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def _machine(content: dict[str, Any]) -> str:
    hardware = content["machine"]["hardware"]
    return f"{hardware['cpu']} ({hardware['instructions']})"


def is_fixed(name: str, finding: str) -> bool:
    """Return whether a target of the fuzzer now reads or refuses the input that broke it.

    Args:
        name: of the target.
        finding: the name that the input was given; its file may have another one by now.
    """
    kept = [data for data in seeds(name) if fuzz.found_name(data) == finding]
    if not kept:
        return False
    try:
        fuzz.timed_call(make_target(name), kept[0])
    except (Exception, fuzz.TooSlowError):  # noqa: BLE001 - a reader may break in any way
        return False
    return True


def _counted(findings: int, fixed: int) -> str:
    text = f"{findings} finding{'s' * (findings != 1)}"
    if not findings:
        return text
    return f"{text}, {'all' if fixed == findings else fixed} fixed"


def markdown() -> str:
    """Return the section of the page on reliability."""
    damaged, disturbed = read("corruption"), read("chaos")
    targets, kills = read("fuzz")["targets"], disturbed["counts"]
    executions = sum(row["executions"] for row in targets.values())
    findings = [(name, found) for name, row in targets.items() for found in row["findings"]]
    fixed = sum(is_fixed(*finding) for finding in findings)
    slowest = max(row.get("slowest_s", 0) for row in targets.values())
    peak = max(row.get("peak_bytes", 0) for row in targets.values()) >> 20
    outcomes = ", ".join(f"{damaged['outcomes'][name]:,} {name}" for name in corruption.OUTCOMES)
    bad = kills.get("other bytes", 0), kills.get("lost or repeated steps", 0)
    lines = [
        "## Reached so far",
        "",
        "Each of these goes on where it was stopped; give it the same file. "
        "`python -m benchmarks.reached_table` writes this section. A chain\n"
        "is a run or sweep that is hit several times and then finished. Damage is refused, passed "
        "over (what is damaged is made again), without effect,\n"
        "missed (something else was read, and nothing said), or failed (a traceback, or too slow).",
        "",
        "| command | goal | reached | outcome |",
        "| --- | ---: | ---: | --- |",
        f"| `benchmarks.chaos` | {chaos.GOAL:,} kills | {kills.get('kills', 0):,} in "
        f"{kills.get('chains', 0):,} chains | {bad[0]} with other bytes, {bad[1]} with lost or "
        f"repeated steps, {len(disturbed['problems'])} problems |",
        f"| `benchmarks.corruption` | {corruption.GOAL:,} cases | {damaged['cases']:,} | "
        f"{outcomes} |",
        f"| `benchmarks.fuzz` | {fuzz.GOAL:,} executions | {executions:,} | "
        f"{_counted(len(findings), fixed)}; slowest {slowest:.2f} s, peak {peak:,} MiB |",
        soak_row(),
        "",
        "| killed | times |",
        "| --- | ---: |",
        *(f"| {name} | {kills.get(f'kill {name}', 0):,} |" for name in chaos.MOMENTS),
        "",
        "| other fault, and how the command ended | times |",
        "| --- | ---: |",
        *(
            f"| {name} | {count:,} |"
            for name, count in sorted(kills.items())
            if ":" in name and not name.startswith("case: ")
        ),
        *determinism_lines(),
    ]
    return "\n".join(lines) + "\n"


def with_section(page: str, section: str) -> str:
    """Return a page with the section in place of the one that it has, or of the mark for it."""
    if "## Reached so far" not in page:
        return page.replace("<!-- reached -->\n", section)
    before, _, rest = page.partition("## Reached so far")
    return before + section + "\n## " + rest.partition("\n## ")[2]


def main() -> None:
    """Write the section into the page."""
    page = Path(__file__).parents[1] / "docs" / "reliability.md"
    page.write_text(with_section(page.read_text(encoding="utf-8"), markdown()), encoding="utf-8")


if __name__ == "__main__":
    main()
