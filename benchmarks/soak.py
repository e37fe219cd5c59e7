"""Soak: sweep after sweep in one process, while memory, open files and threads are watched.

python -m benchmarks.soak --seconds 7200 --out benchmarks/reached/soak.json

Each sweep trains and scores two tiny runs and is deleted. Another call goes on where the time of
the last one ended, as another process: what grows must not grow within any of them. Growth is the
slope of a straight line through what was measured after the first tenth, over the length of it.
"""

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.command import open_files
from benchmarks.kept_files import NARROW, SMALL, TINY, tiny_set
from benchmarks.script import make_resumable_parser, read_results, run, write_results
from gmc_bench.bodies.store import DATA_VARIABLE, store_set
from gmc_bench.core.table import aligned
from gmc_bench.experiments.spec import ExperimentSpec
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.profiling.memory import resident_bytes

GOAL = 7200  # s
MAX_GROWTH_MIB = 64.0
MEASURED = ("memory_mib", "open_files", "threads")
FEWEST = 10  # sweeps of a process whose growth can be told


def sweep_once(folder: Path) -> None:
    """Train and score two runs, and delete them."""
    spec = ExperimentSpec(
        method="recmorph", suite="unimal", task="ft", protocol="smoke", bodies=TINY,
        settings={**SMALL, **NARROW}, threads=1, checkpoint_interval=0,
    )  # fmt: skip
    result = Sweep([spec, spec.replace(task="incline")], out=folder).run()
    if result.failures or len(result.records) != 2:
        raise AssertionError(f"a run failed: {result.failures}")
    shutil.rmtree(folder)


def measure() -> dict[str, float]:
    """Return what must not grow."""
    return {
        "memory_mib": (resident_bytes() or 0) / 2**20,
        "open_files": open_files(),
        "threads": threading.active_count(),
    }


def growth(rows: list[dict[str, float]], name: str) -> float:
    """Return the rise of a line fitted to the last nine tenths of the rows."""
    values = [row[name] for row in rows[len(rows) // 10 :]]
    slope = np.polyfit(np.arange(len(values)), values, 1)[0]
    return float(slope * (len(values) - 1))


def summary(processes: list[list[dict[str, float]]]) -> list[list[str]]:
    """Return a row per process and measure that is long enough to tell."""
    return [
        [
            str(number), f"{rows[-1]['seconds']:,.0f}", str(len(rows)), name,
            f"{rows[len(rows) // 10][name]:.1f}", f"{rows[-1][name]:.1f}",
            f"{growth(rows, name):+.1f}",
        ]
        for number, rows in enumerate(processes, 1)
        if len(rows) >= FEWEST
        for name in MEASURED
    ]  # fmt: skip


def main() -> int:
    """Run for the time that is missing; return 1 if something grew."""
    parser = make_resumable_parser(
        "Run sweeps for long and watch memory and files.",
        seconds=GOAL,
        what=f"in all (default: {GOAL:,})",
    )
    options = parser.parse_args()
    content = read_results(options.out, processes=[])
    done = sum(rows[-1]["seconds"] for rows in content["processes"] if rows)
    base = Path(tempfile.mkdtemp(prefix="gmc-soak-"))
    os.environ[DATA_VARIABLE] = str(base / "data")
    torch.set_num_threads(1)
    store_set(tiny_set())
    rows: list[dict[str, float]] = []
    content["processes"].append(rows)
    started = time.monotonic()
    while time.monotonic() - started < options.seconds - done:
        sweep_once(base / "sweep")
        rows.append({"seconds": time.monotonic() - started, **measure()})
        write_results(options.out, content)
    shutil.rmtree(base, ignore_errors=True)
    long = [found for found in content["processes"] if len(found) >= FEWEST]
    print(aligned(
        ["process", "s", "sweeps", "measure", "at a tenth", "at the end", "growth"],
        summary(content["processes"]),
    ))  # fmt: skip
    grown = any(
        growth(found, name) > (MAX_GROWTH_MIB if name == "memory_mib" else 1.0)
        for found in long
        for name in MEASURED
    )
    return int(grown)


if __name__ == "__main__":
    run(main)
