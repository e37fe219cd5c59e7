"""Our way of stepping beside EnvPool, bare `mj_step` and gymnasium, all on Ant-v5.

python -m benchmarks.ant_envpool --envpool-python /tmp/envpool/bin/python
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np

from benchmarks.ant import AntBatch, gymnasium_ant
from benchmarks.report import Report, describe_machine, make_parser, show
from benchmarks.turns import Side, take_turns
from gmc_bench.core.types import DoubleArray

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
    batch = AntBatch(num_envs, threads)
    batch.reset()
    sides = {
        "gmc-bench": _ours(batch, actions),
        "bare mj_step": _bare(batch, actions),
        "gymnasium, one environment": _gymnasium(actions),
    }
    command = [envpool_python, str(WORKER), "--num-envs", str(num_envs)]
    command += ["--threads", str(threads), "--steps", str(BLOCK)]
    with _envpool(command) as (pool, state):
        if pool is not None:
            sides["EnvPool"] = pool
        rates = take_turns(sides, seconds)
    return Report(
        name="ant_envpool",
        claim="Env steps/s on Gymnasium's Ant-v5 (frame skip 5), random actions, same run.",
        headings=["side", "env steps/s", "gmc-bench / side"],
        rows=[
            [name, f"{rate:,.0f}", f"{rates['gmc-bench'] / rate:.3f}"]
            for name, rate in rates.items()
        ],
        figures={"env_steps_per_s": rates, "num_envs": num_envs},
        notes=[
            f"{num_envs} environments on {threads} thread(s); gymnasium's one runs on one thread.",
            state,
            "gmc-bench and EnvPool (synchronous) include observation, reward, termination and "
            "resets; bare mj_step starts every block from gmc-bench's states.",
        ],
        machine=describe_machine(threads),
    )


def _ours(batch: AntBatch, actions: DoubleArray) -> Side:
    def run(block: int) -> tuple[float, int]:
        started = time.perf_counter()
        for action in _chosen(actions, block):
            batch.step(action)
        return time.perf_counter() - started, BLOCK * batch.num_envs

    return run


def _bare(batch: AntBatch, actions: DoubleArray) -> Side:
    twin = AntBatch(batch.num_envs, batch.num_threads)

    def run(block: int) -> tuple[float, int]:
        twin.copy_state(batch)
        started = time.perf_counter()
        for action in _chosen(actions, block):
            twin.bare_step(action)
        return time.perf_counter() - started, BLOCK * batch.num_envs

    return run


def _chosen(actions: DoubleArray, block: int) -> DoubleArray:
    start = block * BLOCK % len(actions)
    return actions[start : start + BLOCK]


def _gymnasium(actions: DoubleArray) -> Side:
    env = gymnasium_ant()
    env.reset(seed=0)

    def run(block: int) -> tuple[float, int]:
        started = time.perf_counter()
        for action in actions[:, block % actions.shape[1]]:
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return time.perf_counter() - started, len(actions)

    return run


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
    parser.add_argument("--num-envs", type=int, default=64, help="default: 64")
    parser.add_argument(
        "--envpool-python",
        default=sys.executable,
        help="interpreter that has EnvPool (default: this one)",
    )
    options = parser.parse_args()
    report = measure(options.num_envs, options.threads, options.seconds, options.envpool_python)
    show(report, as_json=options.json)


if __name__ == "__main__":
    main()
