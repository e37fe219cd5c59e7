"""Speed of one run that several processes share, beside one process: the same rules and bodies.

python -m benchmarks.process_speedup --processes 2 --seconds 60

Both sides train in turns: while one process trains alone, the others wait for their first one.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.script import add_bodies, make_parser, run, show
from benchmarks.training import new_trainer, run_config
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.table import Table
from gmc_bench.experiments.launch import shared
from gmc_bench.experiments.method import check_shares
from gmc_bench.profiling.report import Report, describe_machine
from gmc_bench.profiling.timing import side, take_turns
from gmc_bench.profiling.training import PARTS, parts_of
from gmc_bench.suites.unimal import SUITE
from recmorph import SPEC


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
    alone = run_config(bodies, protocol, threads=threads)
    config = replace(alone, processes=processes)
    check_shares(config, SPEC)  # before there are processes
    names = ("one process", f"{processes} processes")
    with shared(config, Path()) as group:
        both = (new_trainer(alone, bodies), new_trainer(config, bodies, group))
        trainers = dict(zip(names, both, strict=True))
        group.broadcast(None)  # there is no state to go on from
        steps = protocol.steps_per_iteration
        turns = take_turns(
            {name: side(trainer.iterate, steps) for name, trainer in trainers.items()},
            seconds,
            counters={name: partial(parts_of, trainer) for name, trainer in trainers.items()},
        )
    rows = [
        [name, f"{timing.rate:,.0f}", *(f"{timing.share(part):.0%}" for part in PARTS)]
        for name, timing in turns.items()
    ]
    one, many = (turns[name].rate for name in names)
    return Report(
        name="process_speedup",
        claim=f"Training RecMorph lite on FT: {processes} processes / one process = "
        f"{many / one:.2f} in env steps/s.",
        tables=[Table(("side", "env steps/s", *PARTS), rows)],
        figures={"ratio_to_one": many / one, "one": one, "many": many},
        notes=[
            f"{len(bodies.split('train'))} train bodies of {bodies.id}, protocol lite "
            f"({protocol.num_envs} environments x {protocol.rollout_length} steps), "
            f"{len(turns[names[0]].seconds)} iterations of each side, in turns; {threads} "
            "thread(s) for each process.",
            "Rates are those of the median iteration; the parts are the first process's, without "
            "the waiting between them.",
        ],
        machine=describe_machine(threads),
    )


def main() -> None:
    """Measure and print."""
    parser = make_parser("Measure one run that several processes share.", threads=1)
    parser.add_argument("--processes", type=int, default=2, help="default: 2")
    add_bodies(parser)
    options = parser.parse_args()
    bodies = load_morphologies(options.morphologies)
    found = measure(bodies, options.processes, options.threads, options.seconds)
    show(found, as_json=options.json)


if __name__ == "__main__":
    run(main)
