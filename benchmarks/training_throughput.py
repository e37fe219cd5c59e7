"""Training with gmc-bench beside the plain baseline: the same method, bodies and protocol.

python -m benchmarks.training_throughput --morphologies unimals_100 --seconds 60
"""

import contextlib
import multiprocessing
import os
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Literal

import torch

from benchmarks.plain_training import PlainTraining, in_few_processes
from benchmarks.script import add_bodies, make_parser, run, show
from benchmarks.training import new_trainer, run_config
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.table import Table
from gmc_bench.profiling.report import Report, describe_machine
from gmc_bench.profiling.timing import side, take_turns, timed
from gmc_bench.profiling.training import PARTS, parts_of
from gmc_bench.suites.method_rules import token_spec
from gmc_bench.suites.protocol import Protocol
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec

UPDATES = "gradient steps"
"""Counted on both sides, beside the seconds of `PARTS`."""


def _gradient_steps(optimizer: torch.optim.Optimizer) -> float:
    state = optimizer.state_dict()["state"]
    return float(state[0]["step"]) if state else 0.0


class _PlainTraining:
    """The plain training in a process of its own, which none of our settings reach.

    A trainer of ours changes torch's threads and the C library's allocator for its whole process.
    """

    def __init__(
        self, bodies: tuple[Morphology, ...], spec: TokenSpec, protocol: Protocol, threads: int
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, other = context.Pipe()
        arguments = (other, bodies, spec, protocol, threads)
        self._process = context.Process(target=_serve, args=arguments)
        self._process.start()
        other.close()  # so that the end of the process is noticed here
        self._steps = protocol.steps_per_iteration
        self.threads: int = self._connection.recv()
        """Threads that its networks run on."""
        self.progress: dict[str, float] = self._connection.recv()
        """What it has counted so far: seconds of `PARTS`, and `UPDATES`."""

    def iterate(self, _: int) -> tuple[float, float]:
        """Let it run one iteration; return its seconds and env steps."""
        self._connection.send("iterate")
        seconds, self.progress = self._connection.recv()
        return seconds, self._steps

    def close(self) -> None:
        """End it."""
        self._connection.close()
        self._process.join()


def _serve(
    connection: Connection,
    bodies: tuple[Morphology, ...],
    spec: TokenSpec,
    protocol: Protocol,
    threads: int,
) -> None:
    plain = PlainTraining(bodies, spec, protocol, seed=0, threads=threads)
    _choose_threads(plain)

    def progress() -> dict[str, float]:
        return {**plain.seconds, UPDATES: _gradient_steps(plain.optimizer)}

    connection.send(plain.threads)
    connection.send(progress())
    with contextlib.suppress(EOFError):  # the other side has seen enough
        while connection.recv():
            seconds = timed(plain.iterate)[1]
            connection.send((seconds, progress()))
    plain.close()


def _choose_threads(plain: PlainTraining) -> None:
    """Keep one thread for the networks where all of them are slower, as they often are."""
    spent = {}
    plain.iterate()
    for count in sorted({1, plain.threads}):
        plain.threads = count
        spent[count] = timed(plain.iterate)[1]
    plain.threads = min(spent, key=spent.__getitem__)


def measure(
    bodies: MorphologySet,
    protocol: Protocol,
    threads: int,
    seconds: float,
    precision: Literal["float32", "bfloat16"] = "float32",
) -> Report:
    """Let both sides train in turns; the first iteration of either is not counted.

    Args:
        bodies: both train on its train split.
        protocol: of both.
        threads: of simulation and networks.
        seconds: on average for each side.
        precision: of gmc-bench's networks; the baseline's are float32.
    """
    spec, train = token_spec(SUITE, bodies, TASK), bodies.split("train")
    steps = protocol.steps_per_iteration
    config = run_config(bodies, protocol, threads=threads, precision=precision)
    with contextlib.closing(_PlainTraining(train, spec, protocol, threads)) as plain:
        trainer = new_trainer(config, bodies)

        def progress() -> dict[str, float]:
            return {**parts_of(trainer), UPDATES: _gradient_steps(trainer.algorithm.optim)}

        turns = take_turns(
            {"gmc-bench": side(trainer.iterate, steps), "plain": plain.iterate},
            seconds,
            counters={"gmc-bench": progress, "plain": lambda: plain.progress},
        )
    rows, figures = [], {}
    for name, timing in turns.items():
        shares = {part: timing.share(part) for part in PARTS}
        shares["other"] = 1.0 - sum(shares.values())
        updates, rate = timing.counted[UPDATES] / len(timing.seconds), timing.mean_rate
        figures[name] = {"env_steps_per_s": rate, "shares": shares, "gradient_steps": updates}
        cells = [f"{share:.0%}" for share in shares.values()]
        rows.append([name, f"{rate:,.0f}", f"{updates:.1f}", *cells])
    iterations = len(turns["plain"].seconds)
    ratio = sum(turns["plain"].seconds) / sum(turns["gmc-bench"].seconds)
    headings = ("side", "env steps/s", "gradient steps/iteration", *PARTS, "other")
    return Report(
        name="training_throughput",
        claim=f"Training RecMorph lite on FT: gmc-bench in {precision} / plain in float32 = "
        f"{ratio:.2f} in env steps/s.",
        tables=[Table(headings, rows)],
        figures={**figures, "ratio_to_plain": ratio, "iterations": iterations},
        notes=[
            f"{len(train)} train bodies of {bodies.id}, protocol {protocol.name} with "
            f"rollouts of {protocol.num_envs} environments x {protocol.rollout_length} steps, "
            f"{iterations} iterations of each side, in turns, on {threads} core(s).",
            "plain: AsyncVectorEnv, padded slots, torch.nn.RNN, autograd, torch.optim.Adam; see "
            f"benchmarks/plain_training.py. Its networks run on {plain.threads} "
            f"thread(s), the faster of 1 and {threads} in a trial before the measurement.",
        ],
        machine=describe_machine(threads),
    )


def _use_cores(count: int) -> None:
    """Let this process and its children use `count` of the cores that they may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def main() -> None:
    """Measure and print."""
    parser = make_parser("Measure training beside a plain PPO.")
    add_bodies(parser)
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="of gmc-bench's networks (default: float32); the plain ones are float32",
    )
    options = parser.parse_args()
    _use_cores(options.threads)
    bodies = load_morphologies(options.morphologies)
    # Long enough that the learning rate stays near its peak during the measurement.
    protocol = in_few_processes(replace(SUITE.protocol("lite"), env_steps=100_000_000))
    rules = (protocol, options.threads, options.seconds, options.precision)
    show(measure(bodies, *rules), as_json=options.json)


if __name__ == "__main__":
    run(main)
