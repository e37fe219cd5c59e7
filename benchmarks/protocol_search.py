"""Search of the rules of `lite`: what learns most in a fixed time of one core, as one table.

python -m benchmarks.protocol_search --out protocol-search  # run the rest, then the table
python -m benchmarks.protocol_search --table RUNS           # only the table of these runs

Every setting differs from `BASE` as `SETTINGS` says. It runs for all methods and seeds on bodies
that no table scores, on one thread, for as many control steps as fit into `--core-seconds`: a
pilot of each setting and method measures the processor time of a step first. All runs are ordinary
ones in folders of their own, so a search that is stopped goes on where it was, from the last
checkpoint. Judged is the training return; the test split is never simulated.
"""

import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.script import Parser, add_bodies, duration, run
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.config import config_digest
from gmc_bench.core.errors import RecordError
from gmc_bench.core.table import Table, number
from gmc_bench.experiments.events import Event, IterationFinished
from gmc_bench.experiments.experiment import Experiment
from gmc_bench.experiments.search_sets import SEARCH_SET, require_search_set
from gmc_bench.experiments.spec import ExperimentSpec, flatten
from gmc_bench.experiments.tuning import TRAIN_ONLY
from gmc_bench.records.frames import load_records
from gmc_bench.records.schema import RunRecord
from gmc_bench.records.store import write_atomic

BASE: dict[str, Any] = {
    "num_envs": 256,
    "rollout_length": 16,
    "ppo.repeat": 1,
    "ppo.batch_size": 512,
    "ppo.lr": 1e-3,
    "ppo.decay_start": 0.75,
    "ppo.target_kl": 0.05,  # named, or a method would bring along what it was tuned to
}
"""What every setting shares that does not say otherwise, `lite` when the search began; everything
else is the protocol's."""
BEFORE: dict[str, Any] = {
    "num_envs": 64,
    "rollout_length": 32,
    "ppo.repeat": 4,
    "ppo.lr": 5e-4,
    "ppo.decay_start": 0.0,
}
"""The first rules of `lite`."""
SECOND: dict[str, Any] = {"ppo.decay_start": 0.0, "ppo.value_clip": False, "ppo.vf_coef": 0.5}
"""What the first round found; the second round changes one thing more."""
SETTINGS: dict[str, dict[str, Any]] = {
    "before": BEFORE,
    "base": {},
    "envs-128": {"num_envs": 128},
    "envs-512": {"num_envs": 512, "ppo.batch_size": 1024},
    "envs-512-lr": {"num_envs": 512, "ppo.batch_size": 1024, "ppo.lr": 2e-3},
    "rollout-8": {"rollout_length": 8},
    "rollout-32": {"rollout_length": 32},
    "epochs-2": {"ppo.repeat": 2},
    "epochs-2-batch-1024": {"ppo.repeat": 2, "ppo.batch_size": 1024},
    "batch-256": {"ppo.batch_size": 256, "ppo.lr": 7e-4},
    "batch-1024": {"ppo.batch_size": 1024, "ppo.lr": 1.5e-3},
    "lr-5e-4": {"ppo.lr": 5e-4},
    "lr-2e-3": {"ppo.lr": 2e-3},
    "decay-0": {"ppo.decay_start": 0.0},
    "decay-0.5": {"ppo.decay_start": 0.5},
    "kl-0.02": {"ppo.target_kl": 0.02},
    "kl-none": {"ppo.target_kl": None},
    "gamma-0.98": {"ppo.gamma": 0.98},
    "gamma-0.995": {"ppo.gamma": 0.995},
    "lambda-0.9": {"ppo.gae_lambda": 0.9},
    "lambda-0.98": {"ppo.gae_lambda": 0.98},
    "std-0.5": {"action_std": 0.5},
    "std-0.9-0.3": {"action_std_end": 0.3},
    "no-value-clip": {"ppo.value_clip": False, "ppo.vf_coef": 0.5},
    "uniform-bodies": {"sampling_alpha": 0.0},
    "second": SECOND,
    "second-batch-256": {**SECOND, "ppo.batch_size": 256, "ppo.lr": 7e-4},
    "second-lr-1.5e-3": {**SECOND, "ppo.lr": 1.5e-3},
    "second-lr-2e-3": {**SECOND, "ppo.lr": 2e-3},
    "second-lambda-0.9": {**SECOND, "ppo.gae_lambda": 0.9},
    "second-rollout-8": {**SECOND, "rollout_length": 8},
    "second-rollout-32": {**SECOND, "rollout_length": 32},
    "second-envs-128": {**SECOND, "num_envs": 128},
    "second-clip-0.3": {**SECOND, "ppo.eps_clip": 0.3},
    "second-grad-1": {**SECOND, "ppo.max_grad_norm": 1.0},
    "second-std-0.6": {**SECOND, "action_std": 0.6},
    "second-kl-none": {**SECOND, "ppo.target_kl": None},
    "second-uniform-bodies": {**SECOND, "sampling_alpha": 0.0},
}
"""What is tried, by name: changes of `BASE`, by dotted name."""
METHODS = ("recmorph", "metamorph-star", "nervenet")
"""Recurrence, attention and messages: rules that suit one kind only are no rules for all."""
SEEDS = (1001, 1002)
PILOT = 40_000
"""Control steps of the run that measures what a step costs."""
NAMED = (
    ("environments x steps", ("num_envs", "rollout_length"), " x "),
    ("epochs, minibatch", ("ppo.repeat", "ppo.batch_size"), ", "),
    ("rate", ("ppo.lr",), ""),
    ("decay from", ("ppo.decay_start",), ""),
    ("KL stop", ("ppo.target_kl",), ""),
    ("gamma, lambda", ("ppo.gamma", "ppo.gae_lambda"), ", "),
    ("deviation", ("action_std", "action_std_end"), " to "),
)
"""Columns of settings that tables always have."""
_BUDGET = ("name", "preset", "env_steps", "evaluation", "seeds", "return_window")
"""Settings of a protocol that make no other way to learn."""


class Clock:
    """Listens to a run and measures the processor time of its iterations but the first."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None
        self._last = (0.0, 0)

    def __call__(self, event: Event) -> None:
        """Take the time at the end of an iteration."""
        if isinstance(event, IterationFinished):
            self._last = (time.process_time(), event.env_steps)
            self._first = self._first or self._last

    @property
    def steps_per_second(self) -> float:
        """Control steps per second of one core.

        Raises:
            ValueError: fewer than two iterations were heard of.
        """
        if self._first is None or self._last == self._first:
            raise ValueError("the speed of fewer than two iterations cannot be measured")
        return (self._last[1] - self._first[1]) / (self._last[0] - self._first[0])


@dataclass(frozen=True)
class Search:
    """Where a search lies, and what all of its runs share."""

    out: Path
    bodies: str
    core_seconds: float

    def spec(self, method: str, name: str, seed: int, env_steps: int) -> ExperimentSpec:
        """Return one run: a method under a setting."""
        changes = {**BASE, **SETTINGS[name], **TRAIN_ONLY, "env_steps": env_steps}
        return ExperimentSpec(
            method=method, suite="unimal", task="ft", protocol="lite", bodies=self.bodies,
            seed=seed, settings=changes, threads=1, checkpoint_interval=120.0,
        )  # fmt: skip

    def env_steps(self, method: str, name: str) -> int:
        """Return the control steps that fit into the time; measured once and kept."""
        file = self.out / "pilots" / f"{name}_{method}.json"
        if not file.is_file():
            clock = Clock()
            run = file.with_suffix("")
            spec = self.spec(method, name, SEEDS[0], PILOT)
            if (run / "config.yaml").is_file():  # cut off, so its times would be those of a rest
                run = run.with_name(f"{run.name}-{int(time.time())}")
            Experiment(spec, out=run, on_event=clock).run()
            write_atomic(file, json.dumps({"steps_per_second": clock.steps_per_second}).encode())
        speed: float = json.loads(file.read_text(encoding="utf-8"))["steps_per_second"]
        return int(self.core_seconds * speed)

    def run(self, methods: Sequence[str], names: Iterable[str], seeds: Sequence[int]) -> None:
        """Run what is not there yet."""
        for name in names:
            for method in methods:
                steps = self.env_steps(method, name)
                for seed in seeds:
                    spec = self.spec(method, name, seed, steps)
                    place = self.out / "runs" / f"{name}_{method}_seed{seed}"
                    record = Experiment(spec, out=place).resume()
                    print(f"{place.name}: {number(record.training_return)}", flush=True)


def rules_of(record: RunRecord) -> dict[str, Any]:
    """Return the settings of a run that its learning follows, by dotted name."""
    protocol = {k: v for k, v in record.config["protocol"].items() if k not in _BUDGET}
    return flatten(protocol)


def table_of(records: Sequence[RunRecord]) -> Table:
    """Return a row per setting, with the training return of every method.

    Only runs of one task on one set of bodies go into a table. Rows are sorted by the mean over
    methods of the training return as a share of the method's best; what a method tunes for itself
    (rate, KL threshold) is that of the setting here.

    Raises:
        ValueError: there are no records, or they are of several tasks or sets.
    """
    places = {(record.task, record.morphologies.digest) for record in records}
    if len(places) != 1:
        raise ValueError(f"expected runs of one task on one set of bodies, got {len(places)}")
    rows = _rows(records)
    methods = sorted({record.method for record in records})
    always = [name for _, names, _ in NAMED for name in names]
    values: dict[str, set[str]] = defaultdict(set)
    for key, _ in rows:
        for name, text in key:
            values[name].add(text)
    others = [name for name, found in values.items() if len(found) > 1 and name not in always]
    best = {method: max((_mean(row.get(method, ())) or 0.0) for row in rows.values())
            for method in methods}  # fmt: skip

    def share(row: Mapping[str, Sequence[RunRecord]]) -> float:
        found = [(_mean(row.get(method, ())) or 0.0) / (best[method] or 1.0) for method in methods]
        return statistics.fmean(found)

    ordered = sorted(rows.items(), key=lambda item: -share(item[1]))
    cells = [
        [
            *(_joined(dict(key), names, between) for _, names, between in NAMED),
            *(dict(key).get(name, "-") for name in others),
            *(_result(row.get(method, ())) for method in methods),
            f"{share(row):.2f}",
        ]
        for (key, _), row in ordered
    ]
    first = records[0]
    return Table(
        [*(heading for heading, _, _ in NAMED), *others, *methods, "share of the best"],
        cells,
        f"Rules tried on {first.task}, {first.morphologies.num_train} bodies of "
        f"{first.morphologies.id} ({first.morphologies.digest[:12]})",
        (
            "Of each method: training return, mean over seeds (runs; env steps; core seconds, "
            "threads x seconds, which other load on the machine lengthens). The last column is the "
            "mean over methods of the return as a share of the method's best row; a method "
            "without a run counts 0. Runs of another length or with another network have a row of "
            "their own.",
        ),
    )


Key = tuple[tuple[tuple[str, str], ...], int]
"""Rules by name, and which of the lengths and networks that a method ran them with."""


def _rows(records: Sequence[RunRecord]) -> dict[Key, dict[str, list[RunRecord]]]:
    """Return records by rules and method; those of one method in a row differ in their seed."""
    variants: dict[tuple[Any, str], set[tuple[int, int, str]]] = defaultdict(set)
    keyed = []
    for record in records:
        key = tuple((name, _text(value)) for name, value in rules_of(record).items())
        network = record.method_version, config_digest(record.config.get("method_config", {}))
        keyed.append((key, (record.env_steps, *network), record))
        variants[key, record.method].add((record.env_steps, *network))
    rows: dict[Key, dict[str, list[RunRecord]]] = defaultdict(dict)
    for key, variant, record in keyed:
        place = sorted(variants[key, record.method]).index(variant)
        rows[key, place].setdefault(record.method, []).append(record)
    return rows


def _text(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _joined(rules: Mapping[str, str], names: Sequence[str], between: str) -> str:
    texts = [rules.get(name, "-") for name in names]
    if names[-1] == "action_std_end" and texts[-1] in ("none", "-"):
        texts = texts[:1]
    return between.join(texts)


def _mean(records: Sequence[RunRecord]) -> float | None:
    found = [item.training_return for item in records if item.training_return is not None]
    return statistics.fmean(found) if found and len(found) == len(records) else None


def _result(records: Sequence[RunRecord]) -> str:
    if not records:
        return "-"
    steps = statistics.fmean(record.env_steps for record in records)
    seconds = statistics.fmean(item.core_seconds for item in records)
    return f"{number(_mean(records))} ({len(records)}; {steps / 1e6:.2f} M; {seconds:,.0f} s)"


def main() -> int:
    """Run the search, or only make its table."""
    parser = Parser("Search of the rules of the protocol lite.")
    add = parser.add_argument
    add("--out", type=Path, default=Path("protocol-search"), help="folder of the search")
    add("--table", type=Path, metavar="RUNS", help="only the table of the records in this folder")
    add_bodies(parser, SEARCH_SET)
    add("--core-seconds", type=duration, default=300.0, help="of a run (default: 300)")
    add("--methods", nargs="+", default=list(METHODS), help=f"default: {' '.join(METHODS)}")
    add("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS, help="default: all")
    add("--seeds", nargs="+", type=int, default=list(SEEDS), help="default: 1001 1002")
    options = parser.parse_args()
    if options.table is None:
        require_search_set(load_morphologies(options.morphologies))
        search = Search(options.out, options.morphologies, options.core_seconds)
        search.run(options.methods, options.settings, options.seeds)
    folder = options.table or options.out / "runs"
    found = load_records(folder)
    if not found:
        raise RecordError(f"no records are in {folder}; give a folder of runs")
    places: dict[tuple[str, str], list[RunRecord]] = defaultdict(list)
    for record in found:
        places[record.task, record.morphologies.digest].append(record)
    text = "\n".join(table_of(records).to_markdown() for records in places.values())
    if options.table is None:
        write_atomic(options.out / "table.md", text.encode())
    print(text)
    return 0


if __name__ == "__main__":
    run(main)
