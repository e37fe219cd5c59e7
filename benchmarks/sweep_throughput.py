"""Speed of the runs of a sweep beside as many processes started by hand, and beside one alone.

python -m benchmarks.sweep_throughput --jobs 4 --env-steps 60000

Every side trains the same runs, each with the same number of threads, from the start of its
processes to their records; the sides take turns. Nothing is scored, because scoring takes longer
than training as short as this. What a side reached is written to standard error as soon as it is
known, so that a measurement that is stopped was not in vain.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.script import count, make_parser, run, show
from gmc_bench.core.table import Table
from gmc_bench.experiments.sweep import Sweep
from gmc_bench.profiling.report import ROOT, Report, describe_machine
from gmc_bench.records.store import read_record

RUN = ("-m", "gmc_bench.cli.main", "run")


class Speed(NamedTuple):
    """What one side reached."""

    training: float
    """Env steps/s of training, summed over its runs."""
    whole: float
    """Env steps per second from the first start to the last record."""


def by_hand(folder: Path, jobs: int, env_steps: int, threads: int) -> Speed:
    """Train as many runs as there are jobs, at once, each by a command of its own."""
    began = time.perf_counter()
    words = (
        "--method", "recmorph", "--suite", "unimal", "--task", "ft", "--protocol", "lite",
        "--env-steps", str(env_steps), "--threads", str(threads), "--evaluation.modes", "",
    )  # fmt: skip
    outs = [folder / f"seed{seed}" for seed in range(1, jobs + 1)]
    processes = [
        subprocess.Popen(
            [sys.executable, *RUN, *words, "--seed", str(seed), "--out", str(out)],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for seed, out in enumerate(outs, 1)
    ]
    if any([process.wait() for process in processes]):  # all of them, before one is looked at
        raise RuntimeError(f"a run failed; see: gmc-bench run {' '.join(words)}")
    return _speed(outs, time.perf_counter() - began)


def by_sweep(folder: Path, jobs: int, env_steps: int, threads: int) -> Speed:
    """Train the same runs as a sweep."""
    began = time.perf_counter()
    sweep = Sweep.grid(
        methods="recmorph",
        suites="unimal",
        tasks="ft",
        seeds=range(1, jobs + 1),
        protocol="lite",
        settings={"env_steps": env_steps, "evaluation.modes": []},
        threads=threads,
        out=folder / "sweep",
    )
    result = sweep.run("local", jobs=jobs, nice=0)
    if result.failures:
        raise RuntimeError(f"a run failed: {result.failures}")
    return _speed([folder / "sweep" / name for name in sweep.runs], time.perf_counter() - began)


def _speed(folders: list[Path], seconds: float) -> Speed:
    records = [read_record(folder / "record.json") for folder in folders]
    return Speed(
        sum(record.env_steps_per_s for record in records),
        sum(record.env_steps for record in records) / seconds,
    )


def tell(line: str) -> None:
    """Write what is known already, beside the report."""
    print(line, file=sys.stderr, flush=True)


def measure(jobs: int, env_steps: int, threads: int, turns: int) -> Report:
    """Let one run, several by hand and a sweep of as many take turns.

    Args:
        jobs: runs at a time.
        env_steps: of each run.
        threads: of each run.
        turns: of every side; the best of each counts, the one that was disturbed least.
    """
    best: dict[str, Speed] = {}
    sides = {"one alone": (by_hand, 1), "by hand": (by_hand, jobs), "sweep": (by_sweep, jobs)}
    for turn in range(turns):
        for name, (train, runs) in sides.items():
            with tempfile.TemporaryDirectory() as folder:
                found = train(Path(folder), runs, env_steps, threads)
            before = best.get(name, found)
            best[name] = Speed(max(found.training, before.training), max(found.whole, before.whole))
            tell(
                f"turn {turn + 1} of {turns}, {name}: {found.training:,.0f} env steps/s of "
                f"training, {found.whole:,.0f} from start to record"
            )
    rows = [[name, f"{speed.training:,.0f}", f"{speed.whole:,.0f}"] for name, speed in best.items()]
    machine = describe_machine(threads)
    ratio = best["sweep"].training / best["by hand"].training
    whole = best["sweep"].whole / best["by hand"].whole
    return Report(
        name="sweep_throughput",
        claim=f"Runs of a sweep / processes started by hand = {ratio:.2f} in env steps/s of "
        f"training, {whole:.2f} from the first start to the last record.",
        tables=[Table(("side", "training, env steps/s", "whole, env steps/s"), rows)],
        figures={"ratio_to_by_hand": ratio, "ratio_whole": whole}
        | {f"{name} {what}": value for name, speed in best.items()
           for what, value in speed._asdict().items()},
        notes=[
            f"RecMorph lite on FT, {jobs} runs at a time of {env_steps:,} env steps, {threads} "
            f"thread(s) each on {machine['hardware']['cores']} core(s), best of {turns} turn(s).",
            "'whole' also holds imports and the record; nothing is scored.",
        ],
        machine=machine,
    )  # fmt: skip


def main() -> None:
    """Measure and print."""
    description = "Measure the runs of a sweep beside processes started by hand."
    parser = make_parser(description, threads=1, seconds=None)
    parser.add_argument("--jobs", type=count, default=4, help="runs at a time (default: 4)")
    parser.add_argument("--env-steps", type=count, default=60_000, help="of each (default: 60,000)")
    parser.add_argument("--turns", type=count, default=1, help="of every side (default: 1)")
    options = parser.parse_args()
    found = measure(options.jobs, options.env_steps, options.threads, options.turns)
    show(found, as_json=options.json)


if __name__ == "__main__":
    run(main)
