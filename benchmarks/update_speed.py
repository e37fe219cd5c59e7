"""Time of a gradient step of every method, beside the same step in its first form.

python -m benchmarks.update_speed --method recmorph metamorph --preset lite --batch-size 512

"In sequence" is how this code ran at first: actor, then critic, every operation split over all
threads, float32, and the C library's own handling of freed memory. For RecMorph there is also
"plain": padded slots and `torch.nn.RNN` (see `plain_network`), run in sequence too. Each side runs
in a process of its own, one after the other.
"""

import subprocess
import sys
from collections.abc import Callable
from typing import Literal

import torch

from benchmarks.networks import BODIES, LAYOUT, minibatch_step, network_ids, random_batch
from benchmarks.plain_network import Agent, Batch, Sizes, total
from benchmarks.script import count, make_parser, run, show
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.table import Table
from gmc_bench.methods import METHODS
from gmc_bench.profiling.report import ROOT, Report, describe_machine
from gmc_bench.profiling.timing import repeat
from gmc_bench.profiling.workload import make_networks
from gmc_bench.training.allocator import keep_freed_memory

SIDES = ("in sequence", "float32", "bfloat16")
PLAIN = "plain"
MIN_REPEATS = 3


def make_step(method: str, preset: str, batch_size: int, side: str) -> Callable[[], None]:
    """Return a function that takes one gradient step of PPO on a new random minibatch."""
    precision: Literal["float32", "bfloat16"] = "bfloat16" if side == "bfloat16" else "float32"
    model = make_networks(METHODS.get(method), preset, LAYOUT.max_limbs, BODIES, precision)
    return minibatch_step(model, batch_size, parallel=side != "in sequence")


def make_plain_step(preset: str, batch_size: int) -> Callable[[], None]:
    """Return the same for RecMorph on padded slots with `torch.nn.RNN`."""
    config = METHODS.get("recmorph").make_config(preset)
    agent = Agent(LAYOUT, 0.9, Sizes(config.width, config.hidden, config.num_blocks))
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
    tokens = random_batch(batch_size)
    batch: Batch = {
        "tokens": tokens.features,
        "limb_padding": tokens.limb_padding_mask,
        "action_padding": tokens.action_padding_mask,
    }
    actions = torch.randn(tokens.action_padding_mask.shape)

    def take() -> None:
        distribution = agent.distribution(batch)
        log_prob = total(distribution.log_prob(actions), batch)  # type: ignore[no-untyped-call]
        loss = log_prob.exp().clamp(0.8, 1.2).mean() + agent.value(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        optimizer.step()

    return take


def measure(method: str, preset: str, batch_size: int, side: str, seconds: float) -> float:
    """Return the median milliseconds of a gradient step."""
    if side == PLAIN:
        step = make_plain_step(preset, batch_size)
    else:
        if side != "in sequence":
            keep_freed_memory()
        step = make_step(method, preset, batch_size, side)
    step()
    return 1e3 * repeat(step, seconds, MIN_REPEATS).median


def require_sequences(methods: list[str], preset: str, batch_size: int) -> None:
    """Refuse what no process could measure, before there are any.

    Raises:
        GmcBenchError: a method has no such preset, or the batch is shorter than a sequence of it.
    """
    for name in methods:
        length = make_networks(METHODS.get(name), preset, LAYOUT.max_limbs, BODIES).sequence_length
        if batch_size < length:
            raise ConfigError(
                f"--batch-size is {batch_size}, but {name} trains on sequences of {length} steps"
            )


def report(
    methods: list[str], preset: str, batch_size: int, seconds: float, threads: int
) -> Report:
    """Measure every side of every method in processes of their own.

    Raises:
        ConfigError: one of them failed; it has said why.
    """
    figures: dict[str, dict[str, float]] = {}
    for method in methods:
        sides = (*SIDES, PLAIN) if method == "recmorph" else SIDES
        for side in sides:
            command = [sys.executable, "-m", "benchmarks.update_speed", "--method", method]
            command += ["--preset", preset, "--batch-size", str(batch_size), "--side", side]
            command += ["--seconds", str(seconds), "--threads", str(threads)]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode:
                raise ConfigError(f"{method}, {side}, ended with exit code {done.returncode}")
            figures.setdefault(method, {})[side] = float(done.stdout)
    rows = []
    for method, times in figures.items():
        ratios = [times["in sequence"] / times[side] for side in SIDES[1:]]
        plain = [times[PLAIN] / times[side] if PLAIN in times else None for side in SIDES[1:]]
        rows.append(
            [
                method,
                *(f"{times[side]:.1f}" for side in SIDES),
                *(f"{ratio:.2f}" for ratio in ratios),
                *("-" if ratio is None else f"{ratio:.2f}" for ratio in plain),
            ]
        )
    headings = (
        "method", *(f"{side}, ms" for side in SIDES), *(f"first / {side}" for side in SIDES[1:]),
        *(f"plain / {side}" for side in SIDES[1:]),
    )  # fmt: skip
    return Report(
        name="update_speed",
        claim=f"Milliseconds per gradient step of actor and critic, preset `{preset}`, "
        f"{batch_size} samples of 6 to 12 limbs; ratios are first form / now and plain / now.",
        tables=[Table(headings, rows)],
        figures=figures,
        machine=describe_machine(threads),
    )


def main() -> None:
    """Run the benchmark from the command line."""
    parser = make_parser("Measure gradient steps.", seconds=2.0)
    parser.add_argument("--method", nargs="+", help="default: all that are registered")
    parser.add_argument("--preset", default="lite", help="of networks (default: lite)")
    parser.add_argument("--batch-size", type=count, default=512, help="default: 512")
    parser.add_argument("--side", choices=(*SIDES, PLAIN), help="only this, in this process")
    options = parser.parse_args()
    methods = options.method or network_ids()
    if options.side:
        torch.set_num_threads(options.threads)
        print(
            measure(methods[0], options.preset, options.batch_size, options.side, options.seconds)
        )
        return
    require_sequences(methods, options.preset, options.batch_size)
    found = report(methods, options.preset, options.batch_size, options.seconds, options.threads)
    show(found, as_json=options.json)


if __name__ == "__main__":
    run(main)
