"""Determinism: the same steps with other threads, in other processes, with other instructions.

python -m benchmarks.determinism --out benchmarks/reached/determinism.json

Every way of running is a process of its own. It simulates 1,000 control steps of every task of
every suite, and lets every method act and take gradients, from weights and inputs that are exact in
binary and so the same everywhere. Digests of all bytes are compared with those of the first
process. Instruction sets are those that libraries can be told to keep to; what a library was not
told, it chooses as ever. Results are written after every process, and continued. Those of another
machine, in a file `determinism-NAME.json` beside the first, are compared with it by
`benchmarks.reached_table`.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.networks import network_ids
from benchmarks.script import make_resumable_parser, read_results, run, write_results
from gmc_bench.bodies.sets import load_morphologies
from gmc_bench.conformance.method_subject import NETWORKS, PolicyInput, call
from gmc_bench.conformance.tokens import random_tokens
from gmc_bench.core.table import aligned
from gmc_bench.core.types import Array
from gmc_bench.envs.morphology_vector_env import MorphologyVectorEnv
from gmc_bench.methods import METHODS
from gmc_bench.methods.policy import ActorCritic
from gmc_bench.profiling.report import ROOT
from gmc_bench.suites import SUITES
from gmc_bench.tasks import TASKS
from gmc_bench.tokens.spec import TokenSpec

STEPS = 1000
BLOCK = 100  # steps of a digest
ENVIRONMENTS = 4
BODIES = 4
BATCH = 64  # environments that a policy acts for
LIMBS = (12, 5, 2, 9, 7)
MANY = 4  # threads, at least
EQUAL = "equal"
SIMULATION, POLICY = "simulation", "policy"
_NO_FMA = ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F,-AVX512VL")
_NO_NUMPY = "X86_V3,X86_V4,AVX512_ICL,AVX512_SPR"


class Way(NamedTuple):
    """A way of running what is compared."""

    name: str
    parts: tuple[str, ...] = (SIMULATION, POLICY)
    threads: int = 1
    variables: tuple[tuple[str, str], ...] = ()
    """Of the process's environment."""


def _numba(name: str, features: str) -> tuple[tuple[str, str], ...]:
    """Return what numba is told; of the name alone it would add all that the processor has."""
    return ("NUMBA_CPU_NAME", name), ("NUMBA_CPU_FEATURES", features)


WAYS = (
    Way("1 thread"),
    Way("another process"),
    Way("2 threads", threads=2),
    Way("all threads, at least 4", threads=MANY),
    Way("numba: SSE2", (SIMULATION,), variables=_numba("x86-64", "+sse2")),
    Way("C library without AVX2, FMA", variables=(_NO_FMA,)),
    Way("numpy: no AVX2", (SIMULATION,), variables=(("NPY_DISABLE_CPU_FEATURES", _NO_NUMPY),)),
    Way("OpenBLAS: Haswell", (SIMULATION,), variables=(("OPENBLAS_CORETYPE", "Haswell"),)),
    Way("torch: AVX2", (POLICY,), variables=(("ATEN_CPU_CAPABILITY", "avx2"),)),
    Way("torch: no AVX2", (POLICY,), variables=(("ATEN_CPU_CAPABILITY", "default"),)),
    Way("MKL: AVX2", (POLICY,), variables=(("MKL_ENABLE_INSTRUCTIONS", "AVX2"),)),
    Way("oneDNN: AVX2", (POLICY,), variables=(("ONEDNN_MAX_CPU_ISA", "AVX2"),)),
    Way("numba: AVX2, FMA", (SIMULATION,), variables=_numba("haswell", "+avx2,+fma")),
)  # fmt: skip
"""The first is what the others are compared with."""


def exact(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> Array:
    """Draw float32 numbers in [-scale, scale] that no library rounds on their way here."""
    return (rng.integers(-1024, 1025, shape) * (scale / 1024)).astype(np.float32)


def cases() -> Iterator[tuple[str, str, list[Any]]]:
    """Yield every task of every suite: a name, the task's id, bodies (those with loops first)."""
    for name in SUITES.names():
        suite = SUITES.get(name)
        bodies = load_morphologies(suite.default_morphologies[-1]).split("train")
        chosen = sorted(bodies, key=lambda body: not getattr(body, "loops", ()))[:BODIES]
        yield from ((f"{name} / {task}", task, chosen) for task in suite.tasks)


def simulate(task: str, bodies: list[Any], threads: int) -> list[str]:
    """Return the digests of every hundred steps under random actions.

    They are taken from observations, rewards with their terms, metrics, and what ended.
    """
    short = replace(TASKS.get(task), horizon=170)  # bodies are drawn anew in resets
    env = MorphologyVectorEnv(short, bodies, ENVIRONMENTS, num_threads=threads)
    limbs, joints = env.token_spec.max_limbs, env.token_spec.joints_per_limb
    actions = exact(np.random.default_rng(0), (STEPS, ENVIRONMENTS, limbs, joints), 1.25)
    first, _ = env.reset(seed=11)
    digest, found = hashlib.sha256(b"".join(map(np.ndarray.tobytes, first.values()))), []
    for number, action in enumerate(actions, 1):
        seen, *rest, info = env.step(action)
        names = sorted(name for name in info if name.startswith(("reward/", "metric/", "loops")))
        for part in (*seen.values(), *rest, *(info[name] for name in names)):
            digest.update(np.ascontiguousarray(part).tobytes())
        if number % BLOCK == 0:
            found.append(digest.hexdigest()[:16])
    return found


def act(method_id: str) -> dict[str, str]:
    """Return the digests of a method's outputs and gradients."""
    rng, spec = np.random.default_rng(0), METHODS.get(method_id)
    policy = ActorCritic(
        spec, spec.make_config("lite"), TokenSpec(12), num_bodies=len(LIMBS)
    ).eval()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.copy_(torch.from_numpy(exact(rng, tuple(parameter.shape), 0.125)))
    tokens = random_tokens(np.random.default_rng(1), policy.spec, LIMBS, BATCH)
    table = tokens.table
    real = ~table.limb_padding_mask.numpy()[..., None]
    context, scaled = (
        torch.from_numpy(exact(rng, tuple(old.shape), 1.0) * real)
        for old in (table.context, table.scaled_context)
    )
    tokens = replace(
        tokens, table=replace(table, context=context, scaled_context=scaled),
        dynamic=torch.from_numpy(exact(rng, tuple(tokens.dynamic.shape), 2.0)),
    )  # fmt: skip
    scene = PolicyInput(tokens, policy.initial_state(BATCH))
    outputs, gradients = hashlib.sha256(), hashlib.sha256()
    for name in NETWORKS:
        found = call(policy, name, scene)
        outputs.update(found.detach().numpy().tobytes())
        total = (found * torch.from_numpy(exact(rng, tuple(found.shape), 1.0))).sum()
        weights = list(getattr(policy, name).parameters())
        for gradient in torch.autograd.grad(total, weights, allow_unused=True):
            gradients.update(b"" if gradient is None else gradient.contiguous().numpy().tobytes())
    return {"outputs": outputs.hexdigest()[:16], "gradients": gradients.hexdigest()[:16]}


def _child(way: Way) -> dict[str, Any]:
    """Run what a way compares, in this process."""
    found: dict[str, Any] = {}
    if SIMULATION in way.parts:
        found[SIMULATION] = {
            name: simulate(task, bodies, way.threads) for name, task, bodies in cases()
        }
    if POLICY in way.parts:
        torch.set_num_threads(way.threads)
        found[POLICY] = {name: act(name) for name in network_ids()}
    return found


def _run(way: Way) -> dict[str, Any]:
    """Run a way in a process of its own."""
    threads = str(max(MANY, os.cpu_count() or 1))
    environment = {
        **os.environ, "OMP_WAIT_POLICY": "passive", "NUMBA_NUM_THREADS": threads,
        "OMP_NUM_THREADS": str(way.threads), **dict(way.variables),
    }  # fmt: skip
    command = [sys.executable, "-m", "benchmarks.determinism", "--way", way.name]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(found: dict[str, Any], first: dict[str, Any]) -> dict[str, str]:
    """Return by part (simulation, outputs, gradients) how a way compares with the first one."""
    said = dict.fromkeys((SIMULATION, "outputs", "gradients"), "")
    if SIMULATION in found:
        begun = {}
        for name, digests in found[SIMULATION].items():
            equal = [a == b for a, b in zip(first[SIMULATION][name], digests, strict=True)]
            if not all(equal):
                begun[name] = BLOCK * (equal.index(False) + 1)
        said[SIMULATION] = _said("tasks", list(begun), len(found[SIMULATION]))
        if begun:
            when = " to ".join(map(str, sorted({min(begun.values()), max(begun.values())})))
            said[SIMULATION] += f", within {when} steps"
    for part in ("outputs", "gradients") if POLICY in found else ():
        different = [
            name for name, item in found[POLICY].items() if item[part] != first[POLICY][name][part]
        ]
        said[part] = _said("methods", different, len(found[POLICY]))
    return said


def _said(what: str, different: list[str], count: int) -> str:
    if not different:
        return EQUAL
    names = f" ({', '.join(different)})" if len(different) < count - 1 else ""
    return f"{len(different)} of {count} {what} differ{names}"


def rows(content: dict[str, Any]) -> list[list[str]]:
    """Return a row per way that was tried, but for the first."""
    tried = content["ways"]
    first = tried.get(WAYS[0].name)
    return [
        [way.name, *compare(tried[way.name], first).values()]
        for way in WAYS[1:]
        if way.name in tried
    ]


HEADINGS = ("way of running", "simulation", "outputs of networks", "gradients")


def main() -> int:
    """Run the ways that are missing; return 1 if what must be equal is not.

    That is all in another process, and with more threads the simulation.
    """
    description = "Compare the bytes of steps and of networks."
    parser = make_resumable_parser(description, is_needed=False)
    names = [way.name for way in WAYS]
    parser.add_argument("--way", choices=names, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(_child(WAYS[names.index(options.way)])))
        return 0
    if options.out is None:
        parser.error("--out is missing")
    content, end = read_results(options.out, ways={}), time.monotonic() + options.seconds
    for way in WAYS:
        if way.name not in content["ways"] and time.monotonic() < end:
            content["ways"][way.name] = _run(way)
            write_results(options.out, content)
    print(aligned(list(HEADINGS), rows(content)))
    parts = {names[1]: (SIMULATION, "outputs", "gradients"), names[2]: (SIMULATION,)}
    parts[names[3]] = parts[names[2]]
    return int(any(
        compare(content["ways"][name], content["ways"][names[0]])[part] != EQUAL
        for name, compared in parts.items() if name in content["ways"]
        for part in compared
    ))  # fmt: skip


if __name__ == "__main__":
    run(main)
