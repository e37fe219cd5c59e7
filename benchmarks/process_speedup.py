"""Speed of one run that several processes share, beside one process: the same rules and bodies.

python -m benchmarks.process_speedup --processes 2 --seconds 60

Both sides train in turns: while one process trains alone, the others wait for their first one.
"""

from dataclasses import replace
from pathlib import Path

from benchmarks.script import make_parser, run, show
from benchmarks.training import run_config
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.table import Table
from gmc_bench.experiments.launch import shared
from gmc_bench.experiments.method import check_shares
from gmc_bench.profiling.report import Report, describe_machine
from gmc_bench.profiling.timing import side, take_turns
from gmc_bench.suites.method_rules import token_spec
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.training.trainer import Trainer, make_trainer
from recmorph import SPEC

PARTS = ("simulation", "policy", "update")


def measure(bodies: MorphologySet, processes: int, threads: int, seconds: float) -> Report:
    """Let one process and several train in turns; the first iteration of either does not count.

    Args:
        bodies: both train on its train split.
        processes: that share the environments.
        threads: of each process.
        seconds: on average for each side.

    Raises:
        ConfigError: the environments cannot be shared out to so many processes.
    """
    protocol = replace(SUITE.protocol("lite"), env_steps=100_000_000)  # near the peak rate
    spec, train = token_spec(SUITE, bodies, TASK), bodies.split("train")
    alone = run_config(bodies, protocol, threads=threads)
    config = replace(alone, processes=processes)
    check_shares(config, SPEC)  # before there are processes
    names = ("one process", f"{processes} processes")
    with shared(config, Path()) as group:
        trainers = (
            make_trainer(alone, SPEC, TASK, train, spec),
            make_trainer(config, SPEC, TASK, train, spec, group),
        )
        group.broadcast(None)  # there is no state to go on from
        steps = protocol.steps_per_iteration
        sides = {
            name: side(trainer.iterate, steps)
            for name, trainer in zip(names, trainers, strict=True)
        }
        first: dict[str, dict[str, float]] = {}

        def spent() -> dict[str, dict[str, float]]:
            return {name: _spent(trainer) for name, trainer in zip(names, trainers, strict=True)}

        turns = take_turns(sides, seconds, prepare=lambda number: number or first.update(spent()))
        last = spent()
    rows = []
    for name in names:
        total = sum(turns[name].seconds)
        shares = [(last[name][part] - first[name][part]) / total for part in PARTS]
        rows.append([name, f"{turns[name].rate:,.0f}", *(f"{share:.0%}" for share in shares)])
    one, many = (turns[name].rate for name in names)
    return Report(
        name="process_speedup",
        claim=f"Training RecMorph lite on FT: {processes} processes / one process = "
        f"{many / one:.2f} in env steps/s.",
        tables=[Table(("side", "env steps/s", *PARTS), rows)],
        figures={"ratio_to_one": many / one, "one": one, "many": many},
        notes=[
            f"{len(train)} train bodies of {bodies.id}, protocol lite ({protocol.num_envs} "
            f"environments x {protocol.rollout_length} steps), {len(turns[names[0]].seconds)} "
            f"iterations of each side, in turns; {threads} thread(s) for each process.",
            "Rates are those of the median iteration; the parts are the first process's, without "
            "the waiting between them.",
        ],
        machine=describe_machine(threads),
    )


def _spent(trainer: Trainer) -> dict[str, float]:
    return {name: getattr(trainer.timers, name) for name in PARTS}


def main() -> None:
    """Measure and print."""
    parser = make_parser("Measure one run that several processes share.")
    parser.set_defaults(threads=1)
    parser.add_argument("--processes", type=int, default=2, help="default: 2")
    parser.add_argument("--morphologies", help="body set; SET:N for its first N train bodies")
    options = parser.parse_args()
    bodies = load_morphologies(options.morphologies)
    found = measure(bodies, options.processes, options.threads, options.seconds)
    show(found, as_json=options.json)


if __name__ == "__main__":
    run(main)
