"""Does training help? Trained policies against the weights they started from, body by body.

python -m benchmarks.learning RUN_DIR [RUN_DIR ...] --out learning.png

Every run is scored as in its record; the untrained policy runs the same number of episodes on the
same bodies. Writes the learning curves beside the table.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gmc_bench.results.schema import RunRecord
from gmc_bench.results.store import read_record

MODES = ("deterministic", "stochastic")


class Gain(NamedTuple):
    """Trained against untrained returns of one run on the train bodies, in one mode."""

    mode: str
    untrained: float
    trained: float
    standard_errors: float
    """Mean over bodies of the gain / (its sample deviation over bodies / sqrt(bodies))."""
    bodies: int


def gains(record: RunRecord, run: Path) -> list[Gain]:
    """Score the untrained policy of a run and compare, mode by mode."""
    command = [sys.executable, "-m", "gmc_bench.cli.main", "evaluate", str(run), "--untrained"]
    done = subprocess.run(
        [*command, "--split", "train", "--json"], stdout=subprocess.PIPE, check=True, text=True
    )
    before: dict[tuple[str, str], float] = {}
    for item in json.loads(done.stdout)["returns"]:
        values = [episode["episode_return"] for episode in item["episodes"]]
        before[item["mode"], item["body"]] = sum(values) / len(values)
    found = []
    for mode in MODES:
        items = [i for i in record.returns if (i.split, i.mode) == ("train", mode)]
        if not items:
            continue
        trained = np.array([item.mean_return for item in items])
        untrained = np.array([before[mode, item.body] for item in items])
        gain = trained - untrained
        error = gain.std(ddof=1) / np.sqrt(len(gain))
        found.append(
            Gain(mode, untrained.mean(), trained.mean(), float(gain.mean() / error), len(gain))
        )
    return found


def draw(records: list[RunRecord], path: Path) -> None:
    """Write the learning curves, a panel per task and a line per run."""
    from matplotlib.figure import Figure

    tasks = list(dict.fromkeys(record.task for record in records))
    figure = Figure(figsize=(4.2 * len(tasks), 3.2), dpi=100, layout="constrained")
    for axes, task in zip(figure.subplots(1, len(tasks), squeeze=False)[0], tasks, strict=True):
        for record in records:
            points = [p for p in record.learning_curve if p.mean_return is not None]
            if record.task == task and points:
                steps = [point.env_steps / 1000 for point in points]
                label = f"{record.method}, seed {record.seed}"
                axes.plot(steps, [point.mean_return for point in points], label=label)
        axes.set(title=task, xlabel="Env steps / 1000", ylabel="Training return")
        axes.grid(color="#E4E4E4")
        if axes.lines:
            axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Software": None})


def main() -> int:
    """Print the table and write the picture."""
    parser = argparse.ArgumentParser(description="Trained policies against untrained ones.")
    parser.add_argument("runs", metavar="RUN_DIR", type=Path, nargs="+", help="finished runs")
    parser.add_argument("--out", type=Path, default=Path("learning.png"), help="picture")
    options = parser.parse_args()
    records = [read_record(run / "record.json") for run in options.runs]
    print("| task | method | seed | actions | untrained | trained | gain in standard errors |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for record, run in zip(records, options.runs, strict=True):
        for gain in gains(record, run):
            print(
                f"| {record.task} | {record.method} | {record.seed} | {gain.mode} | "
                f"{gain.untrained:.1f} | {gain.trained:.1f} | {gain.standard_errors:.1f} |",
                flush=True,
            )
    draw(records, options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
