"""Training with gmc-bench beside the plain opponent: the same method, bodies and protocol.

python -m benchmarks.training_throughput --morphologies unimals_100 --seconds 60
"""

import contextlib
import multiprocessing
import os
import tempfile
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Literal, NamedTuple

import torch

from benchmarks.plain_training import TIMED, PlainTraining
from benchmarks.script import make_parser, show
from gmc_bench.bodies.schema import Morphology, MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.config import to_dict
from gmc_bench.core.table import Table
from gmc_bench.profiling.report import Report, describe_machine
from gmc_bench.suites.method_rules import token_spec
from gmc_bench.suites.protocol import Protocol
from gmc_bench.suites.unimal import SUITE
from gmc_bench.tasks.unimal_ft import TASK
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.training.run_config import RunConfig
from gmc_bench.training.run_folder import RunFolder
from gmc_bench.training.trainer import Trainer
from recmorph import SPEC


class _Enough(Exception):  # noqa: N818 - not an error, it ends a measurement
    pass


class _Clock(NamedTuple):
    """What one side has spent and done so far."""

    seconds: float
    parts: dict[str, float]
    gradient_steps: float

    def since(self, start: "_Clock") -> "_Clock":
        parts = {name: self.parts[name] - start.parts[name] for name in self.parts}
        steps = self.gradient_steps - start.gradient_steps
        return _Clock(self.seconds - start.seconds, parts, steps)


def _gradient_steps(optimizer: torch.optim.Optimizer) -> float:
    return float(optimizer.state_dict()["state"][0]["step"])


class _Opponent:
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
        self.threads: int = self._connection.recv()
        """Threads that its networks run on."""

    def iterate(self) -> _Clock:
        """Let it run one iteration."""
        self._connection.send("iterate")
        clock: _Clock = self._connection.recv()
        return clock

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
    plain, seconds = PlainTraining(bodies, spec, protocol, seed=0, threads=threads), 0.0
    _choose_threads(plain)
    connection.send(plain.threads)
    with contextlib.suppress(EOFError):  # the other side has seen enough
        while connection.recv():
            started = time.perf_counter()
            plain.iterate()
            seconds += time.perf_counter() - started
            steps = _gradient_steps(plain.optimizer)
            connection.send(_Clock(seconds, dict(plain.seconds), steps))
    plain.close()


def _choose_threads(plain: PlainTraining) -> None:
    """Keep one thread for the networks where all of them are slower, as they often are."""
    spent = {}
    plain.iterate()
    for count in sorted({1, plain.threads}):
        plain.threads = count
        started = time.perf_counter()
        plain.iterate()
        spent[count] = time.perf_counter() - started
    plain.threads = min(spent, key=spent.__getitem__)


class _Turns:
    """Runs one iteration of the opponent after each of ours, and reads both clocks.

    The first iteration of either side compiles and warms up; it is not counted.
    """

    def __init__(self, trainer: Trainer, opponent: _Opponent, seconds: float) -> None:
        self.trainer, self.opponent = trainer, opponent
        self._limit = seconds
        self._seconds = 0.0
        self._start: tuple[_Clock, _Clock] | None = None
        self.iterations = -1
        self._turned = time.perf_counter()

    def __call__(self, _: object) -> None:
        """Take over after an iteration of ours.

        Raises:
            _Enough: both sides have had their time.
        """
        self._seconds += time.perf_counter() - self._turned
        self._now = self._clock(), self.opponent.iterate()
        self._turned = time.perf_counter()
        self.iterations += 1
        if self._start is None:
            self._start = self._now
        elif all(clock.seconds >= self._limit for clock in self.result()):
            raise _Enough

    def result(self) -> tuple[_Clock, _Clock]:
        """Return ours and theirs since the first iteration."""
        assert self._start is not None
        return self._now[0].since(self._start[0]), self._now[1].since(self._start[1])

    def _clock(self) -> _Clock:
        timers, optimizer = self.trainer.timers, self.trainer.algorithm.optim
        parts = {name: getattr(timers, name) for name in TIMED}
        return _Clock(self._seconds, parts, _gradient_steps(optimizer))


def measure(
    bodies: MorphologySet,
    protocol: Protocol,
    threads: int,
    seconds: float,
    precision: Literal["float32", "bfloat16"] = "float32",
) -> Report:
    """Let both sides train in turns.

    Args:
        bodies: both train on its train split.
        protocol: of both.
        threads: of simulation and networks.
        seconds: on each side, at least.
        precision: of gmc-bench's networks; the opponent's are float32.
    """
    spec, train = token_spec(SUITE, bodies, TASK), bodies.split("train")
    config = RunConfig(
        method=SPEC.id,
        method_config=to_dict(SPEC.make_config("lite")),
        suite="",
        task=TASK.id,
        morphologies=bodies.id,
        morphologies_digest=bodies.digest,
        protocol=protocol,
        seed=0,
        threads=threads,
        precision=precision,
    )
    with (
        contextlib.closing(_Opponent(train, spec, protocol, threads)) as opponent,
        tempfile.TemporaryDirectory() as temporary,
        RunFolder(Path(temporary) / "run", create=True) as folder,
    ):
        trainer = Trainer(config, SPEC, TASK, train, spec, folder)
        turns = _Turns(trainer, opponent, seconds)
        with contextlib.suppress(_Enough):
            trainer.train(turns)
    return _report(turns, bodies, config)


def _use_cores(count: int) -> None:
    """Let this process and its children use `count` of the cores that they may use."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def _report(turns: _Turns, bodies: MorphologySet, config: RunConfig) -> Report:
    protocol, threads = config.protocol, config.threads
    steps = turns.iterations * protocol.steps_per_iteration
    clocks = dict(zip(("gmc-bench", "plain"), turns.result(), strict=True))
    rows, figures = [], {}
    for name, clock in clocks.items():
        shares = {part: spent / clock.seconds for part, spent in clock.parts.items()}
        shares["other"] = 1.0 - sum(shares.values())
        updates = clock.gradient_steps / turns.iterations
        rate = steps / clock.seconds
        figures[name] = {"env_steps_per_s": rate, "shares": shares, "gradient_steps": updates}
        cells = [f"{share:.0%}" for share in shares.values()]
        rows.append([name, f"{rate:,.0f}", f"{updates:.1f}", *cells])
    headings = ("side", "env steps/s", "gradient steps/iteration", *TIMED, "other")
    ratio = clocks["plain"].seconds / clocks["gmc-bench"].seconds
    return Report(
        name="training_throughput",
        claim=f"Training RecMorph lite on FT: gmc-bench in {config.precision} / plain in float32 = "
        f"{ratio:.2f} in env steps/s.",
        tables=[Table(headings, rows)],
        figures={**figures, "ratio_to_plain": ratio, "iterations": turns.iterations},
        notes=[
            f"{len(bodies.split('train'))} train bodies of {bodies.id}, protocol {protocol.name}, "
            f"{turns.iterations} iterations of each side, in turns, on {threads} core(s).",
            "plain: AsyncVectorEnv, padded slots, torch.nn.RNN, autograd, torch.optim.Adam; see "
            f"benchmarks/plain_training.py. Its networks run on {turns.opponent.threads} "
            f"thread(s), the faster of 1 and {threads} in a trial before the measurement.",
        ],
        machine=describe_machine(threads),
    )


def main() -> None:
    """Measure and print."""
    parser = make_parser("Measure training beside a plain PPO.")
    parser.add_argument("--morphologies", help="body set; SET:N for its first N train bodies")
    parser.add_argument(
        "--precision",
        choices=("float32", "bfloat16"),
        default="float32",
        help="of gmc-bench's networks (default: float32); the opponent's are float32",
    )
    options = parser.parse_args()
    _use_cores(options.threads)
    bodies = load_morphologies(options.morphologies)
    # Long enough that the learning rate stays near its peak during the measurement.
    protocol = replace(SUITE.protocol("lite"), env_steps=100_000_000)
    rules = (protocol, options.threads, options.seconds, options.precision)
    show(measure(bodies, *rules), as_json=options.json)


if __name__ == "__main__":
    main()
