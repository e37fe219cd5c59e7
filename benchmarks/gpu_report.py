"""Training with the networks on a GPU, in one call: rules of the papers, gradient steps, acting.

python -m benchmarks.gpu_report --seconds 120

Environments run on all cores. `--device cpu` measures the same without a GPU, for comparison.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from benchmarks.networks import BODIES, LAYOUT, minibatch_step, network_ids, random_batch
from benchmarks.script import add_bodies, make_parser, run, show
from benchmarks.training import new_trainer, run_config
from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.core.errors import GmcBenchError
from gmc_bench.core.precision import Precision
from gmc_bench.core.table import Table
from gmc_bench.experiments.devices import check_device
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.policies.exploration import Explorer
from gmc_bench.policies.torch_state import TorchState
from gmc_bench.profiling.report import Report, describe_machine
from gmc_bench.profiling.timing import repeat, side, take_turns
from gmc_bench.profiling.training import PARTS, parts_of
from gmc_bench.profiling.workload import anew, make_networks
from gmc_bench.suites.protocol import Protocol
from gmc_bench.suites.unimal import SUITE

PRECISIONS: dict[str, tuple[Precision, ...]] = {
    "cpu": ("float32", "bfloat16"),
    "cuda": ("float32", "tf32", "bfloat16"),
}
"""By kind of device."""
MIN_REPEATS = 3
ACTING = (32, 256)
"""Environments of the rules `paper` and `lite`."""
PAPER_RATE = 698
"""Env steps/s that the RecMorph paper gives for a V100; it names neither task nor rules."""


def measure_training(
    bodies: MorphologySet, protocol: Protocol, device: str, threads: int, seconds: float
) -> tuple[Table, dict[str, Any]]:
    """Train RecMorph by the rules of a protocol for some time, in all precisions.

    The first iteration does not count.
    """
    rows: list[list[str]] = []
    figures: dict[str, Any] = {}
    for precision in _precisions(device):
        config = run_config(bodies, protocol, precision=precision, device=device, threads=threads)
        trainer = new_trainer(config, bodies)
        sides = {"": side(until_done(trainer.iterate, device), protocol.steps_per_iteration)}
        timing = take_turns(sides, seconds, counters={"": partial(parts_of, trainer)})[""]
        rate, shares = timing.mean_rate, {part: timing.share(part) for part in PARTS}
        cells = [f"{share:.0%}" for share in shares.values()]
        rows.append([precision, f"{rate:,.0f}", f"{rate / PAPER_RATE:.1f}", *cells])
        figures[precision] = {"env_steps_per_s": rate, "shares": shares}
    headings = ("precision", "env steps/s", f"/ {PAPER_RATE} of a V100", *PARTS)
    title = f"Rules `{protocol.name}` end to end: {len(bodies.split('train'))} bodies, "
    title += f"{protocol.num_envs} environments x {protocol.rollout_length} steps, "
    title += f"{threads} thread(s) of simulation."
    return Table(headings, rows, title=title), figures


def measure_networks(
    methods: list[str], preset: str, batch_size: int, device: str, seconds: float
) -> tuple[Table, dict[str, Any]]:
    """Measure a gradient step and choosing actions of every method, in all precisions."""
    rows, figures, failed = [], {}, []
    precisions = _precisions(device)
    for name in methods:
        found: dict[str, float | None] = {}
        for precision in precisions:
            measured: dict[str, float | None]
            try:
                measured = _networks(name, preset, batch_size, device, precision, seconds)
            except (GmcBenchError, RuntimeError) as error:  # the others are measured all the same
                failed.append(f"{name} in {precision}: {str(error).splitlines()[0]}")
                measured = dict.fromkeys(_columns())
            found |= {f"{what}, {precision}": value for what, value in measured.items()}
        figures[name] = found
        rows.append([name, *("-" if v is None else f"{v:.2f}" for v in found.values())])
    headings = ("method", *(f"{c}, {p}" for p in precisions for c in _columns()))
    title = f"Milliseconds, preset `{preset}`: a gradient step on {batch_size} samples, and "
    title += "choosing actions for so many environments that keep their bodies."
    return Table(headings, rows, title=title, notes=failed), figures


def _precisions(device: str) -> tuple[Precision, ...]:
    return PRECISIONS[device.partition(":")[0]]


def _columns() -> tuple[str, ...]:
    return ("step", *(f"act {count}" for count in ACTING))


def _networks(
    name: str, preset: str, batch_size: int, device: str, precision: Precision, seconds: float
) -> dict[str, float | None]:
    method = METHODS.get(name)
    chosen = preset if preset in method.presets else None
    model = make_networks(method, chosen, LAYOUT.max_limbs, BODIES, precision).to(device)
    calls = {"step": minibatch_step(model, batch_size)} | {
        f"act {count}": _acting(model, count) for count in ACTING
    }
    found: dict[str, float | None] = {}
    with TorchState(torch.get_num_threads(), device, 0, precision=precision).in_use():
        for what, call in calls.items():
            model.train(what == "step")
            found[what] = 1e3 * repeat(until_done(call, device), seconds, MIN_REPEATS).median
    return found


def _acting(model: ActorCritic, count: int) -> Callable[[], None]:
    """Return a function that chooses actions as a rollout does."""
    tokens = random_batch(count, str(model.action_std.device))
    explorer, bodies = Explorer(model), tokens.morphology_index.cpu().numpy()
    noise = torch.zeros(tokens.action_padding_mask.shape, device=tokens.dynamic.device)
    state = model.initial_state(count)

    def act() -> None:
        with fixed_weights(model):
            explorer(anew(tokens), noise, state, bodies)

    return act


def until_done(run: Callable[[], object], device: str) -> Callable[[], None]:
    """Return a function that runs another one and then synchronises the device."""

    def whole() -> None:
        run()
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)

    return whole


def measure(
    bodies: MorphologySet,
    protocols: list[Protocol],
    methods: list[str],
    device: str,
    threads: int,
    seconds: float,
) -> Report:
    """Measure all.

    Args:
        bodies: to train on.
        protocols: of training; preset and minibatches of the first one are those of the gradient
            steps.
        methods: whose networks are measured.
        device: of the networks.
        threads: of the simulation.
        seconds: of training, for each protocol and precision; a fiftieth of it for every other
            figure.
    """
    training = {p.name: measure_training(bodies, p, device, threads, seconds) for p in protocols}
    size, preset = protocols[0].ppo.batch_size, protocols[0].preset
    networks, times = measure_networks(methods, preset, size, device, seconds / 50)
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else "none"
    machine = describe_machine(threads)
    machine["hardware"] |= {"gpu": name}
    return Report(
        name="gpu_report",
        claim=f"Networks on {device} (GPU: {name}, CUDA {torch.version.cuda}).",
        tables=[*(table for table, _ in training.values()), networks],
        figures={
            "training": {name: rates for name, (_, rates) in training.items()},
            "networks": times,
        },
        notes=[f"Training: RecMorph on {bodies.id}, flat terrain.", *networks.notes],
        machine=machine,
    )


def main() -> None:
    """Measure and print."""
    parser = make_parser("Measure training with the networks on a GPU.", seconds=120.0)
    parser.add_argument("--device", default="cuda", help="default: cuda")
    add_bodies(parser)
    parser.add_argument("--protocol", nargs="+", default=["paper", "standard"], help="of training")
    parser.add_argument("--method", nargs="+", help="default: all that are registered")
    options = parser.parse_args()
    device = check_device(options.device)
    # Long enough that the learning rate stays near its peak during the measurement.
    chosen = [replace(SUITE.protocol(name), env_steps=2_000_000_000) for name in options.protocol]
    methods = options.method or network_ids()
    bodies = load_morphologies(options.morphologies)
    found = measure(bodies, chosen, methods, device, options.threads, options.seconds)
    show(found, as_json=options.json)


if __name__ == "__main__":
    run(main)
