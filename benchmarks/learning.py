"""Does training help? Trained policies against the weights they started from, body by body.

python -m benchmarks.learning RUN_DIR [RUN_DIR ...] --out learning.png

Every run is scored as in its record; the untrained policy runs the same number of episodes on the
same bodies. Where runs differ in nothing but their seeds, a row for all of them follows, in which
each body counts with its mean over seeds. Writes the learning curves beside the table.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.script import Parser, prepare_output, run
from gmc_bench.core.table import Table
from gmc_bench.core.types import DoubleArray
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.records.schema import Mode, RunRecord
from gmc_bench.records.store import read_record, write_atomic
from gmc_bench.studies.panels import draw_panels

MODES: tuple[Mode, ...] = ("deterministic", "stochastic")


@dataclass(frozen=True, kw_only=True)
class Gain:
    """Trained against untrained returns on the train bodies, in one mode."""

    mode: str
    untrained: DoubleArray
    """(N,) mean return of each body."""
    trained: DoubleArray
    """(N,) the same after training."""
    variance: DoubleArray
    """(N,) variance of the difference of the two means, over episodes; NaN for single episodes."""

    @property
    def over_bodies(self) -> float:
        """Mean gain / its standard error, if other bodies had been drawn."""
        gain = self.trained - self.untrained
        return float(gain.mean() / (gain.std(ddof=1) / np.sqrt(len(gain))))

    @property
    def over_episodes(self) -> float:
        """Mean gain / its standard error, if other episodes of these bodies had been drawn."""
        error = np.sqrt(self.variance.sum()) / len(self.variance)
        return float((self.trained - self.untrained).mean() / error)


def gains(record: RunRecord, run: Path) -> list[Gain]:
    """Score the untrained policy of a run and compare, mode by mode."""
    returns = Experiment.open(run).evaluate(untrained=True, split="train").returns
    before = {
        (item.mode, item.body): [episode.episode_return for episode in item.episodes]
        for item in returns
    }
    found = []
    for mode in MODES:
        items = [i for i in record.returns if (i.split, i.mode) == ("train", mode)]
        if not items:
            continue
        pairs = [
            (before[mode, item.body], [episode.episode_return for episode in item.episodes])
            for item in items
        ]
        found.append(
            Gain(
                mode=mode,
                untrained=np.array([np.mean(old) for old, _ in pairs]),
                trained=np.array([np.mean(new) for _, new in pairs]),
                variance=np.array([_scatter(old) + _scatter(new) for old, new in pairs]),
            )
        )
    return found


def _scatter(values: Sequence[float]) -> float:
    """Return the variance of the mean of some episodes."""
    return float(np.var(values, ddof=1) / len(values)) if len(values) > 1 else float("nan")


def pool(seeds: Sequence[Gain]) -> Gain:
    """Return the gain of each body averaged over runs that differ in their seeds."""
    return Gain(
        mode=seeds[0].mode,
        untrained=np.mean([gain.untrained for gain in seeds], axis=0),
        trained=np.mean([gain.trained for gain in seeds], axis=0),
        variance=np.sum([gain.variance for gain in seeds], axis=0) / len(seeds) ** 2,
    )


def draw(records: list[RunRecord], path: Path) -> None:
    """Write the learning curves, a panel per task and a line per run."""

    def panel(axes: Any, task: str) -> None:
        for record in records:
            points = [p for p in record.learning_curve if p.mean_return is not None]
            if record.task == task and points:
                steps = [point.env_steps / 1000 for point in points]
                label = f"{record.method}, seed {record.seed}"
                axes.plot(steps, [point.mean_return for point in points], label=label)
        axes.set(title=task, xlabel="Env steps / 1000", ylabel="Training return")
        if axes.lines:
            axes.legend(frameon=False, fontsize=8)

    tasks = list(dict.fromkeys(record.task for record in records))
    write_atomic(path, draw_panels(tasks, panel, inches=(4.2, 3.2), columns=len(tasks)))


def cells(gain: Gain) -> list[str]:
    """Return the cells of a gain, the mode first."""
    numbers = (gain.untrained.mean(), gain.trained.mean(), gain.over_bodies, gain.over_episodes)
    return [gain.mode, *(f"{number:.1f}" for number in numbers)]


def main() -> None:
    """Print the table and write the picture."""
    parser = Parser("Trained policies against untrained ones.")
    parser.add_argument("runs", metavar="RUN_DIR", type=Path, nargs="+", help="finished runs")
    parser.add_argument(
        "--out", type=Path, default=Path("learning.png"), help="picture (default: learning.png)"
    )
    options = parser.parse_args()
    records = [read_record(folder / "record.json") for folder in options.runs]
    prepare_output(options.out)
    columns = (
        "suite", "task", "method", "seed", "actions", "untrained", "trained",
        "standard errors over bodies", "over episodes",
    )  # fmt: skip
    rows: list[list[str]] = []
    groups: dict[tuple[str, ...], list[tuple[int, Gain]]] = defaultdict(list)
    for record, folder in zip(records, options.runs, strict=True):
        name = (record.suite, record.task, record.method)
        for gain in gains(record, folder):
            rows.append([*name, str(record.seed), *cells(gain)])
            alike = (*name, record.config_digest, record.morphologies.digest, gain.mode)
            groups[alike].append((record.seed, gain))
    for group, members in groups.items():
        if len(members) > 1:
            seeds = ", ".join(str(seed) for seed, _ in members)
            rows.append([*group[:3], seeds, *cells(pool([gain for _, gain in members]))])
    print(Table(columns, rows).to_text())
    draw(records, options.out)


if __name__ == "__main__":
    run(main)
