"""What a training set costs as it gets more bodies: building, resets, tables and kept results.

Meant for a process of its own (see `scaling_process`), because the memory of the simulator's
models is that of the process.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal

import numpy as np
import torch

from gmc_bench.bodies.schema import Morphology
from gmc_bench.conformance.morphologies import biped, chain, star
from gmc_bench.conformance.tokens import random_table, take_bodies
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.nn.per_body import fixed_weights
from gmc_bench.nn.tokens import TokenBatch, TokenTable
from gmc_bench.profiling.memory import PeakMemory
from gmc_bench.profiling.scaling import THREADS, actor, make_policy
from gmc_bench.profiling.scaling_process import (
    peak_resident_bytes,
    resident_bytes,
    start_peak,
)
from gmc_bench.tasks import TASKS
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import build_table
from gmc_bench.training.sampler import BalancedSampler, ReturnTracker

TOKENS = 30
"""L, limbs of every body of a random table: more than any published body has."""
NUM_ENVS = 32
ROUNDS = 100
"""Times that all environments are reset."""
TASK = "unimal-ft-v1"
_MIB = 2**20
_HORIZON = 1000  # control steps

Kind = Literal["simulation", "table", "policy", "compiler"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BodyItem:
    """One measurement."""

    kind: Kind
    method: str
    """Registered id, or where to find it; for `policy` and `compiler`."""
    preset: str
    bodies: int
    """M."""


def measure_bodies(item: BodyItem) -> dict[str, float]:
    """Measure one side of a set of M bodies; see the functions below for the figures."""
    torch.set_num_threads(THREADS)
    if item.kind == "simulation":
        return measure_simulation(item.bodies)
    if item.kind == "table":
        return measure_table(item.bodies)
    if item.kind == "policy":
        return measure_policy(item.method, item.preset, item.bodies)
    return measure_compiler(item.method, item.preset, item.bodies)


def measure_simulation(bodies: int) -> dict[str, float]:
    """Build an environment of different bodies, and reset it.

    Returns:
        `build_s`, compiling all models included; `table_s` of it for the table of tokens;
        `build_mib`, process memory that it takes; `draw_us`, choosing the next body, `reset_us`,
        the reset itself, and `record_us`, taking note of the episode, all per reset;
        `iteration_ms`, what is done once per iteration: probabilities and training return;
        `kept_mib`, process memory that all these resets have taken, which is data that the
        simulator keeps for bodies; `visited`, bodies hosted at the end.
    """
    models = distinct_bodies(bodies)
    _environment(models[:1])  # all modules are loaded, and compiled
    start_peak()
    before = resident_bytes()
    env, build_s = _timed(_environment, models)
    built = resident_bytes()
    _, table_s = _timed(build_table, env.core.simulator.models, env.token_spec)
    env.reset(seed=0)
    hosted = set(env.core.morphology_index.tolist())
    started = resident_bytes()
    rows = np.arange(NUM_ENVS)
    resets = []
    for _ in range(ROUNDS):
        index = env._draw(rows)
        resets.append(_timed(env.core.reset, rows, index)[1])
        hosted |= set(index.tolist())
    ended = resident_bytes()
    # In a loop of its own: after a reset that makes new data, caches are cold.
    draws = [_timed(env._draw, rows)[1] for _ in range(ROUNDS)]
    found = {
        "build_s": build_s,
        "table_s": table_s,
        "draw_us": 1e6 * median(draws) / NUM_ENVS,
        "reset_us": 1e6 * median(resets) / NUM_ENVS,
        "visited": float(len(hosted)),
        **_measure_sampling(bodies, env),
    }
    if before is not None and built is not None:
        found["build_mib"] = (built - before) / _MIB
    if started is not None and ended is not None:
        found["kept_mib"] = (ended - started) / _MIB
    return found


def _environment(bodies: list[Morphology]) -> MorphologyVectorEnv:
    return MorphologyVectorEnv(TASKS.get(TASK), bodies, NUM_ENVS, num_threads=THREADS)


def _measure_sampling(bodies: int, env: MorphologyVectorEnv) -> dict[str, float]:
    """Measure what training does for the choice of bodies, per episode and per iteration."""
    sampler = BalancedSampler(bodies, _HORIZON, 0.5, 0)
    tracker = ReturnTracker(bodies)
    rng = np.random.default_rng(0)
    for body in range(bodies):  # all bodies have been seen, as after some training
        sampler.record([body] * sampler.FIRST, [100] * sampler.FIRST)
        tracker.record([body], [1.0], [100])
    records, iterations = [], []
    for _ in range(ROUNDS):
        index = rng.integers(bodies, size=NUM_ENVS).tolist()
        lengths = rng.integers(1, _HORIZON, size=NUM_ENVS).tolist()
        records.append(_timed(_record, sampler, tracker, index, lengths)[1])
        iterations.append(_timed(_iterate, sampler, tracker, env)[1])
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
    env.set_sampling(sampler.probabilities(1))
    for complete in (True, False, False):
        tracker.mean_return(complete=complete)
    for complete in (True, False):
        tracker.mean_length(complete=complete)


def measure_table(bodies: int) -> dict[str, float]:
    """Make the limb graphs of a table of bodies with `TOKENS` limbs each.

    Returns:
        `table_mib` of the table, `graph_mib` of all tensors of its graph, which are made when a
        method asks for them and then kept; `graph_peak_mib` of live tensors on the way; `graph_s`.
    """
    table = body_table(bodies)
    with PeakMemory() as peak:
        graph, graph_s = _timed(lambda: table.graph)
        kept, seconds = _timed(
            lambda: (graph.adjacency, graph.degree, graph.distance, graph.limb_type)
        )
    return {
        "table_mib": _table_mib(table),
        "graph_mib": sum(value.nbytes for value in kept) / _MIB,
        "graph_peak_mib": float(peak.nbytes) / _MIB,
        "graph_s": graph_s + seconds,
    }


def measure_policy(method: str, preset: str, bodies: int) -> dict[str, float]:
    """Act for some of the bodies of a table with `TOKENS` limbs each.

    Returns:
        `weights_mib`; `policy_mib`, the largest growth of the process from an empty table to
        chosen actions: weights, table, graph, kept results and everything on the way; `prepare_s`
        of the first call, which computes what depends on bodies alone, and `act_ms` of later ones.
    """
    make_policy(method, preset, TOKENS, 1)  # all modules are loaded
    start_peak()
    before = resident_bytes()
    table = body_table(bodies)
    model = make_policy(method, preset, TOKENS, bodies)
    tokens = _show(table)
    act = actor(model, tokens)
    with fixed_weights(model):
        _, prepare_s = _timed(act)
        times = [_timed(act)[1] for _ in range(7)]
    peak = peak_resident_bytes()
    found = {
        "weights_mib": sum(part.nbytes for part in model.parameters()) / _MIB,
        "prepare_s": prepare_s,
        "act_ms": 1e3 * median(times),
    }
    if before is not None and peak is not None:
        found["policy_mib"] = (peak - before) / _MIB
    return found


def measure_compiler(method: str, preset: str, bodies: int) -> dict[str, float]:
    """Trace a network with `torch.compile` for a table of bodies, without making machine code.

    Returns:
        `compile_s` of the first call, and `recompile_s` of the next call with a table that has one
        body more: tensors of another first dimension.
    """
    model = make_policy(method, preset, TOKENS, bodies + 1)
    table = body_table(bodies + 1)
    fewer = take_bodies(table, torch.arange(bodies))
    # The compiler is loaded now, and forgets what it traced for an earlier table.
    torch.compile(torch.neg, backend="aot_eager")(torch.zeros(1))
    torch.compiler.reset()
    network: Any = torch.compile(model.actor, backend="aot_eager")
    with torch.no_grad():
        _, compile_s = _timed(network, _show(fewer))
        _, recompile_s = _timed(network, _show(table))
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
    return sum(value.nbytes for value in tensors) / _MIB


def _timed(run: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return what a function returns, and the seconds it took."""
    started = time.perf_counter()
    found = run(*arguments)
    return found, time.perf_counter() - started
