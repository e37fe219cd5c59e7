"""Costs of a method or a set as bodies get more tokens and sets more bodies, one at a time.

Over tokens, networks run on random trees of exactly the stated number of tokens. Over bodies, a
set is built, reset and acted for. Every measurement is meant for a process of its own (see
`measure_in_process`), because the memory of the simulator's models is that of the process.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np
import torch

from gmc_bench.bodies.schema import Morphology
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.conformance.tokens import random_table, take_bodies
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.methods import METHODS
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.policies.torch_state import forked_rng, torch_threads
from gmc_bench.profiling.memory import (
    PeakMemory,
    peak_resident_bytes,
    resident_bytes,
    start_peak,
)
from gmc_bench.profiling.timing import repeat, timed
from gmc_bench.profiling.workload import (
    MIB,
    acting,
    full_bodies,
    gradient_step,
    make_networks,
    peak_bytes,
)
from gmc_bench.sim.batch import BatchSimulator
from gmc_bench.tasks import TASKS
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table
from gmc_bench.training.allocator import keep_freed_memory
from gmc_bench.training.sampler import BalancedSampler, ReturnTracker

THREADS = 1
BODIES = 8
"""Different bodies of a batch, over tokens."""
ACT_BATCH = 8
TRAIN_BATCH = 16
"""Transitions of a gradient step; a method with a memory gets whole sequences."""
MIN_REPEATS = 3
TOKENS = 30
"""L, limbs of every body of a random table: more than any published body has."""
NUM_ENVS = 32
ROUNDS = 100
"""Times that all environments are reset."""
TASK = "unimal-ft-v1"
_HORIZON = 1000  # control steps
_WINDOW = 50
"""Iterations whose episodes make up the training return."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """One measurement."""

    kind: str
    """A key of `MEASURES`."""
    size: int
    """Tokens of every body, or bodies."""
    method: str = ""
    """Registered id, or where to find it; empty where the kind has nothing to do with one."""
    preset: str = ""
    seconds: float = 0.0
    """Time spent on repeats, where times are measured over tokens."""


def measure(item: Item) -> dict[str, float]:
    """Measure one kind at one size; `MEASURES` has the functions, which say what they return.

    Raises:
        GmcBenchError: there is no such method, or its network does not work at this size.
    """
    with torch_threads(THREADS), forked_rng():
        return MEASURES[item.kind](item)


def measure_acting(item: Item) -> dict[str, float]:
    """Measure a forward pass of the actor for `ACT_BATCH` bodies, by time or by memory.

    What depends on bodies alone has been computed before.

    Returns:
        `act_ms` and `samples_per_s`, medians over repeats, with `repeats`; or `act_mib`, the peak
        of live tensors that are not weights, and `parameters`.
    """
    keep_freed_memory()
    model = _policy(item, item.size, BODIES)
    act = acting(model, full_bodies(model.spec, BODIES, ACT_BATCH))
    with fixed_weights(model):
        act()
        return _costs("act", act, ACT_BATCH, item, model)


def measure_training(item: Item) -> dict[str, float]:
    """Measure a gradient step of training, by time or by memory.

    That is actor and critic, forward and backward, and the optimiser, one after the other.

    Returns:
        `train_ms`, `samples_per_s` and `repeats`, or `train_mib` and `parameters`, as in
        `measure_acting`.
    """
    keep_freed_memory()
    model = _policy(item, item.size, BODIES)
    length = model.sequence_length
    samples = length * max(1, TRAIN_BATCH // length)
    step = gradient_step(model, full_bodies(model.spec, BODIES, samples))
    step()  # the optimiser makes its moments now
    return _costs("train", step, samples, item, model)


def _policy(item: Item, tokens: int, bodies: int) -> Any:
    return make_networks(METHODS.load(item.method), item.preset, tokens, bodies)


def _costs(
    name: str, run: Callable[[], object], samples: int, item: Item, model: torch.nn.Module
) -> dict[str, float]:
    if item.kind.endswith("memory"):
        size = sum(parameter.numel() for parameter in model.parameters())
        return {f"{name}_mib": peak_bytes(run) / MIB, "parameters": float(size)}
    found = repeat(run, item.seconds, MIN_REPEATS)
    return {
        f"{name}_ms": 1e3 * found.median,
        "samples_per_s": samples / found.median,
        "repeats": float(len(found.seconds)),
    }


def measure_simulation(item: Item) -> dict[str, float]:
    """Build an environment of different bodies, and reset it.

    Returns:
        `build_s`, compiling all models included; `table_s` of it for the table of tokens;
        `build_mib`, process memory that it takes; `draw_us`, choosing the next body, `reset_us`,
        the reset itself, and `record_us`, taking note of the episode, all per reset;
        `iteration_ms`, what is done once per iteration: probabilities and training return;
        `kept_mib`, process memory that all these resets have taken, which is data that the
        simulator keeps for bodies; `visited`, bodies hosted at the end.
    """
    models = distinct_bodies(item.size)
    _environment(models[:1])  # all modules are loaded, and compiled
    start_peak()
    before = resident_bytes()
    env, build_s = timed(_environment, models)
    built = resident_bytes()
    simulator = env.core.simulator
    assert isinstance(simulator, BatchSimulator)
    _, table_s = timed(build_table, simulator.models, env.token_spec)
    env.reset(seed=0)
    hosted = set(env.core.morphology_index.tolist())
    started = resident_bytes()
    rows = np.arange(NUM_ENVS)
    resets = []
    for _ in range(ROUNDS):
        index = env._draw(rows)
        resets.append(timed(env.core.reset, rows, index)[1])
        hosted |= set(index.tolist())
    ended = resident_bytes()
    # In a loop of its own: after a reset that makes new data, caches are cold.
    draws = [timed(env._draw, rows)[1] for _ in range(ROUNDS)]
    found = {
        "build_s": build_s,
        "table_s": table_s,
        "draw_us": 1e6 * median(draws) / NUM_ENVS,
        "reset_us": 1e6 * median(resets) / NUM_ENVS,
        "visited": float(len(hosted)),
        **_measure_sampling(item.size, env),
    }
    if before is not None and built is not None:
        found["build_mib"] = (built - before) / MIB
    if started is not None and ended is not None:
        found["kept_mib"] = (ended - started) / MIB
    return found


def _environment(bodies: list[Morphology]) -> MorphologyVectorEnv:
    return MorphologyVectorEnv(TASKS.get(TASK), bodies, NUM_ENVS, num_threads=THREADS)


def _measure_sampling(bodies: int, env: MorphologyVectorEnv) -> dict[str, float]:
    """Measure what training does for the choice of bodies, per episode and per iteration."""
    sampler = BalancedSampler(bodies, _HORIZON, 0.5, 0)
    tracker = ReturnTracker(bodies, _WINDOW)
    rng = np.random.default_rng(0)
    for body in range(bodies):  # all bodies have been seen, as after some training
        sampler.record([body] * sampler.FIRST, [100] * sampler.FIRST)
        tracker.record([body], [1.0], [100])
    records, iterations = [], []
    for _ in range(ROUNDS):
        index = rng.integers(bodies, size=NUM_ENVS).tolist()
        lengths = rng.integers(1, _HORIZON, size=NUM_ENVS).tolist()
        records.append(timed(_record, sampler, tracker, index, lengths)[1])
        iterations.append(timed(_iterate, sampler, tracker, env)[1])
    return {
        "record_us": 1e6 * median(records) / NUM_ENVS,
        "iteration_ms": 1e3 * median(iterations),
    }


def _record(
    sampler: BalancedSampler, tracker: ReturnTracker, index: list[int], lengths: list[int]
) -> None:
    sampler.record(index, lengths)
    tracker.record(index, [1.0] * len(index), lengths)


def _iterate(sampler: BalancedSampler, tracker: ReturnTracker, env: MorphologyVectorEnv) -> None:
    """Do what a training iteration does; it asks for means as often."""
    tracker.begin_iteration()
    env.set_sampling(sampler.probabilities(1))
    for complete in (True, False, False):
        tracker.mean_return(complete=complete)
    for complete in (True, False):
        tracker.mean_length(complete=complete)


def measure_table(item: Item) -> dict[str, float]:
    """Make the limb graphs of a table of bodies with `TOKENS` limbs each.

    Returns:
        `table_mib` of the table, `graph_mib` of all tensors of its graph, which are made when a
        method asks for them and then kept; `graph_peak_mib` of live tensors on the way; `graph_s`.
    """
    table = body_table(item.size)
    with PeakMemory() as peak:
        graph, graph_s = timed(lambda: table.graph)
        kept, seconds = timed(
            lambda: (graph.adjacency, graph.degree, graph.distance, graph.limb_type)
        )
    return {
        "table_mib": _table_mib(table),
        "graph_mib": sum(value.nbytes for value in kept) / MIB,
        "graph_peak_mib": float(peak.nbytes) / MIB,
        "graph_s": graph_s + seconds,
    }


def measure_policy(item: Item) -> dict[str, float]:
    """Act for some of the bodies of a table with `TOKENS` limbs each.

    Returns:
        `weights_mib`; `policy_mib`, the largest growth of the process from an empty table to
        chosen actions: weights, table, graph, kept results and everything on the way; `prepare_s`
        of the first call, which computes what depends on bodies alone, and `act_ms` of later ones.
    """
    _policy(item, TOKENS, 1)  # all modules are loaded
    start_peak()
    before = resident_bytes()
    table = body_table(item.size)
    model = _policy(item, TOKENS, item.size)
    tokens = _show(table)
    act = acting(model, tokens)
    with fixed_weights(model):
        _, prepare_s = timed(act)
        times = [timed(act)[1] for _ in range(7)]
    peak = peak_resident_bytes()
    found = {
        "weights_mib": sum(part.nbytes for part in model.parameters()) / MIB,
        "prepare_s": prepare_s,
        "act_ms": 1e3 * median(times),
    }
    if before is not None and peak is not None:
        found["policy_mib"] = (peak - before) / MIB
    return found


def measure_compiler(item: Item) -> dict[str, float]:
    """Trace a network with `torch.compile` for a table of bodies, without making machine code.

    Returns:
        `compile_s` of the first call, and `recompile_s` of the next call with a table that has one
        body more: tensors of another first dimension.
    """
    model = _policy(item, TOKENS, item.size + 1)
    table = body_table(item.size + 1)
    fewer = take_bodies(table, torch.arange(item.size))
    # The compiler is loaded now, and forgets what it traced for an earlier table.
    torch.compile(torch.neg, backend="aot_eager")(torch.zeros(1))
    torch.compiler.reset()
    network: Any = torch.compile(model.actor, backend="aot_eager")
    with torch.no_grad():
        _, compile_s = timed(network, _show(fewer))
        _, recompile_s = timed(network, _show(table))
    return {"compile_s": compile_s, "recompile_s": recompile_s}


def distinct_bodies(count: int) -> list[Morphology]:
    """Return chains, stars and bipeds of 3 to 12 limbs, each with motors of its own strength."""
    shapes = [*map(chain, range(3, 13)), *map(star, range(2, 12)), biped()]
    found = []
    for index in range(count):
        shape = shapes[index % len(shapes)]
        gear = 1.0 + index / count
        motors = tuple(replace(motor, gear=motor.gear * gear) for motor in shape.actuators)
        found.append(replace(shape, name=f"{shape.name}-{index}", actuators=motors))
    return found


def body_table(bodies: int) -> TokenTable:
    """Return a table of random trees of `TOKENS` limbs."""
    rng = np.random.default_rng(0)
    return random_table(rng, TokenSpec(TOKENS), (TOKENS,) * bodies)


def _show(table: TokenTable) -> TokenBatch:
    """Return tokens of `NUM_ENVS` environments that show random bodies of the table."""
    rng = np.random.default_rng(1)
    index = torch.from_numpy(rng.integers(len(table), size=NUM_ENVS))
    dynamic = rng.standard_normal((NUM_ENVS, TOKENS, table.spec.num_dynamic))
    return TokenBatch(table, index, torch.from_numpy(dynamic).float())


def _table_mib(table: TokenTable) -> float:
    tensors = [value for value in vars(table).values() if isinstance(value, torch.Tensor)]
    return sum(value.nbytes for value in tensors) / MIB


MEASURES: dict[str, Callable[[Item], dict[str, float]]] = {
    "act-memory": measure_acting,
    "train-memory": measure_training,
    "act-time": measure_acting,
    "train-time": measure_training,
    "simulation": measure_simulation,
    "table": measure_table,
    "policy": measure_policy,
    "compiler": measure_compiler,
}
"""By kind; the first four over tokens, the others over bodies."""
