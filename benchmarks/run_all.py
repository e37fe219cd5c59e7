"""Speed of stepping, gradient steps and training, as one Markdown document with the machine.

python -m benchmarks.run_all --out benchmarks.md
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.script import add_bodies, make_parser, prepare_output, run
from gmc_bench.profiling.report import ROOT, Report, describe_machine, machine_markdown
from gmc_bench.records.store import write_atomic

SCRIPTS = ("ant_envpool", "update_speed", "training_throughput")


def report_of(script: str, options: Sequence[str]) -> Report | None:
    """Run a benchmark in a process of its own; return its report, `None` if it fails."""
    command = [sys.executable, "-m", f"benchmarks.{script}", "--json", *options]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return Report.from_json(done.stdout) if done.returncode == 0 else None


def document(reports: dict[str, Report | None], threads: int) -> str:
    """Return the Markdown document of all reports."""
    parts = ["# Benchmarks\n", f"{machine_markdown(describe_machine(threads))}\n"]
    for name, report in reports.items():
        failed = f"## {name}\n\nFailed; run `python -m benchmarks.{name}` to see why.\n"
        parts.append(report.to_markdown() if report else failed)
    return "\n".join(parts)


def main() -> int:
    """Run all; return 1 if one failed."""
    parser = make_parser("Measure stepping, gradient steps and training.", as_json=False)
    parser.add_argument("--envpool-python", default=sys.executable, help="see ant_envpool")
    add_bodies(parser)
    parser.add_argument("--out", type=Path, help="write to this file instead of printing")
    options = parser.parse_args()
    if options.out:
        prepare_output(options.out)
    shared = ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    own = {"ant_envpool": ["--envpool-python", options.envpool_python]}
    if options.morphologies:
        own["training_throughput"] = ["--morphologies", options.morphologies]
    reports = {name: report_of(name, [*shared, *own.get(name, [])]) for name in SCRIPTS}
    text = document(reports, options.threads)
    if options.out:
        write_atomic(options.out, text.encode())
    else:
        print(text)
    return int(None in reports.values())


if __name__ == "__main__":
    run(main)
