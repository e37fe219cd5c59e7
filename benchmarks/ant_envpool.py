"""Our way of stepping beside EnvPool, bare `mj_step` and gymnasium, all on Ant-v5.

python -m benchmarks.ant_envpool --envpool-python /tmp/envpool/bin/python
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from benchmarks.ant import AntBatch, gymnasium_ant
from benchmarks.script import count, make_parser, run, show
from gmc_bench.core.table import Table
from gmc_bench.core.types import DoubleArray
from gmc_bench.profiling.report import Report, describe_machine
from gmc_bench.profiling.timing import Side, take_turns, timed

BLOCK = 20
"""Steps of every environment in one turn."""
SINGLE_BLOCK = 200
"""The same for gymnasium's single environment."""
WORKER = Path(__file__).with_name("envpool_worker.py")


def measure(num_envs: int, threads: int, seconds: float, envpool_python: str) -> Report:
    """Let all sides take turns.

    Args:
        num_envs: environments, the same number for EnvPool.
        threads: threads, the same number for EnvPool.
        seconds: on average for each side.
        envpool_python: interpreter that can import EnvPool; without it that side is left out.
    """
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (SINGLE_BLOCK, num_envs, 8))
    batch, twin = AntBatch(num_envs, threads), AntBatch(num_envs, threads)
    batch.reset()
    sides = {
        "gmc-bench": _stepping(batch.step, actions),
        "bare mj_step": _stepping(twin.bare_step, actions),
        "gymnasium, one environment": _gymnasium(actions),
    }
    command = [envpool_python, str(WORKER), "--num-envs", str(num_envs)]
    command += ["--threads", str(threads), "--steps", str(BLOCK)]
    with _envpool(command) as (pool, state):
        if pool is not None:
            sides["EnvPool"] = pool
        found = take_turns(sides, seconds, prepare=lambda _: twin.copy_state(batch))
    rates = {name: timing.rate for name, timing in found.items()}
    table = Table(
        ("side", "env steps/s", "gmc-bench / side"),
        [
            [name, f"{rate:,.0f}", f"{rates['gmc-bench'] / rate:.3f}"]
            for name, rate in rates.items()
        ],
    )
    return Report(
        name="ant_envpool",
        claim="Env steps/s on Gymnasium's Ant-v5 (frame skip 5), random actions, same run.",
        tables=[table],
        figures={"env_steps_per_s": rates, "num_envs": num_envs},
        notes=[
            f"{num_envs} environments on {threads} thread(s); gymnasium's one runs on one thread.",
            state,
            "gmc-bench and EnvPool (synchronous) include observation, reward, termination and "
            "resets; bare mj_step starts every block from gmc-bench's states.",
        ],
        machine=describe_machine(threads),
    )


def _stepping(step: Callable[[DoubleArray], object], actions: DoubleArray) -> Side:
    """Return a side that steps all environments."""

    def run(block: int) -> None:
        start = block * BLOCK % len(actions)
        for action in actions[start : start + BLOCK]:
            step(action)

    return lambda block: (timed(run, block)[1], BLOCK * actions.shape[1])


def _gymnasium(actions: DoubleArray) -> Side:
    env = gymnasium_ant()
    env.reset(seed=0)

    def run(block: int) -> None:
        for action in actions[:, block % actions.shape[1]]:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return lambda block: (timed(run, block)[1], len(actions))


@contextmanager
def _envpool(command: list[str]) -> Iterator[tuple[Side | None, str]]:
    """Yield EnvPool's side, or none, and one sentence about it."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
    except OSError as error:
        yield None, f"EnvPool was not measured: {command[0]} cannot be run ({error.strerror})."
        return
    assert process.stdin is not None
    assert process.stdout is not None
    with process:  # leaving closes its input, which ends it
        first = json.loads(process.stdout.readline() or '{"error": "its process ended"}')
        if "error" in first:
            yield None, f"EnvPool was not measured: {first['error']} (see --envpool-python)."
        else:
            version = f"EnvPool {first['version']}, whose wheel carries a MuJoCo of its own."
            yield _served(process.stdin, process.stdout), version


def _served(requests: IO[str], answers: IO[str]) -> Side:
    def run(block: int) -> tuple[float, int]:
        requests.write(f"{block}\n")
        requests.flush()
        elapsed, transitions = json.loads(answers.readline())
        return elapsed, transitions

    return run


def main() -> None:
    """Measure and print."""
    parser = make_parser("Measure env steps/s on Ant-v5 beside EnvPool.")
    parser.add_argument("--num-envs", type=count, default=64, help="default: 64")
    parser.add_argument(
        "--envpool-python",
        default=sys.executable,
        help="interpreter that has EnvPool (default: this one)",
    )
    options = parser.parse_args()
    report = measure(options.num_envs, options.threads, options.seconds, options.envpool_python)
    show(report, as_json=options.json)


if __name__ == "__main__":
    run(main)
