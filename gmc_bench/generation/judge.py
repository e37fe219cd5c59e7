"""Judge of grown bodies: one is fit for a set if it simulates, its loops hold and it can move.

All of this simulates chaotic motion. Another processor may judge a borderline body differently,
so a released set pins the bodies that were accepted and does not repeat the judging.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import mujoco
import numpy as np

from gmc_bench.bodies.mjcf import SIM_DT, compile_body, has_warned, mute_warnings
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.types import DoubleArray
from gmc_bench.generation.viability import CONTROL_DT, assess_viability

CHECK_DURATION = 10.0
"""Random control that every body must simulate, s."""
LOOP_STEPS = 1_000
"""Control steps of random control over which loops are measured."""
LOOP_RUNS = 5
"""How often, each time with other controls: the highest openings are rare events."""
MEDIAN_RESIDUAL = 0.005
"""Largest median opening of a loop, as a share of limb length."""
HIGH_RESIDUAL = 0.02
"""Largest 99.9th percentile of the opening, as a share of limb length."""
LOOP_MARGIN = 0.75
"""Share of both limits that a body may use here, so that it stays within them under other
controls."""
MASS = (1.0, 300.0)
"""Range of a body's mass, kg."""
INERTIA = (1e-4, 20.0)
"""Range of the principal moments of inertia of each limb, kg m^2."""
PATIENCE = 12
"""Gaits after which a body that fell in all of them is given up."""

PLANE = '<geom name="floor/0" type="plane" size="0 0 1"/>'
"""Ground without an end, at the height 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What was found out about a body."""

    fault: str = ""
    """Why it was turned down: `mass`, `simulation`, `loops` or `viability`; empty if it was not."""
    best_distance: float = 0.0
    """See `Viability`, m."""
    surviving_share: float = 0.0
    """See `Viability`."""
    median_residual: float = 0.0
    """Median opening of the worst loop in the worst run, share of limb length; 0 without loops."""
    high_residual: float = 0.0
    """99.9th percentile of the opening of the worst loop in the worst run, likewise."""


def judge(body: Morphology, seed: Sequence[int], *, gaits: bool = True) -> Verdict:
    """Try a body.

    In this order, until it fails: mass and inertia are in `MASS` and `INERTIA`; some open-loop
    gaits carry it, see `Viability.passed`; ten seconds of uniform random control neither diverge
    nor make the engine warn; its loops stay closed in each of several longer runs.

    Args:
        body: the body.
        seed: of the gaits and the random control.
        gaits: whether gaits are tried; bodies that evolve are selected by what they learn.

    Raises:
        MorphologyError: the engine refuses the body.
    """
    model = compile_body(body, floor=PLANE)
    heavy = not MASS[0] <= float(model.body_mass.sum()) <= MASS[1]
    inertia = model.body_inertia[1:]
    if heavy or inertia.min() < INERTIA[0] or inertia.max() > INERTIA[1]:
        return Verdict(fault="mass")
    verdict = Verdict()
    if gaits:
        viability = assess_viability(body, np.random.default_rng([*seed, 1]), PATIENCE)
        verdict = Verdict(
            best_distance=round(viability.best_distance, 4),
            surviving_share=round(viability.surviving_share, 4),
        )
        if not viability.passed:
            return replace(verdict, fault="viability")
    runs = LOOP_RUNS if body.loops else 1
    steps = LOOP_STEPS if body.loops else round(CHECK_DURATION / CONTROL_DT)
    rng = np.random.default_rng([*seed, 2])
    medians, highs = [0.0], [0.0]
    for _ in range(runs):
        openings = simulate_randomly(body, model, steps, rng)
        if openings is None:
            return replace(verdict, fault="simulation")
        if body.loops:
            medians.append(float(np.median(openings, axis=0).max()))
            highs.append(float(np.percentile(openings, 99.9, axis=0).max()))
    verdict = replace(
        verdict, median_residual=round(max(medians), 6), high_residual=round(max(highs), 6)
    )
    closed = (
        verdict.median_residual <= LOOP_MARGIN * MEDIAN_RESIDUAL
        and verdict.high_residual <= LOOP_MARGIN * HIGH_RESIDUAL
    )
    return verdict if closed else replace(verdict, fault="loops")


def simulate_randomly(
    body: Morphology, model: mujoco.MjModel, steps: int, rng: np.random.Generator
) -> DoubleArray | None:
    """Drive a body by uniform random controls and measure how far its loops open.

    Args:
        body: the body.
        model: its model; body i + 1 is limb i.
        steps: control steps.
        rng: draws the controls.

    Returns:
        (steps, loops) float64: distance between the two images of each loop's anchor, as a share
        of the length of its shorter limb; `None` when the simulation diverged or the engine
        warned.
    """
    data = mujoco.MjData(model)
    mute_warnings(data)
    substeps = round(CONTROL_DT / SIM_DT)
    bodies = np.array([[loop.first + 1, loop.second + 1] for loop in body.loops], int)
    bodies = bodies.reshape(-1, 2)  # (loops, 2), also without loops
    mujoco.mj_kinematics(model, data)
    anchors = [
        _local(data, limb, _point(data, loop.first + 1, np.array(loop.anchor)))
        for loop in body.loops
        for limb in (loop.first + 1, loop.second + 1)
    ]
    places = np.array(anchors).reshape(-1, 2, 3)
    lengths = np.array([_loop_length(body, loop.first, loop.second) for loop in body.loops])
    openings = np.zeros((steps, len(body.loops)))
    for step in range(steps):
        data.ctrl[:] = rng.uniform(-1.0, 1.0, size=model.nu)
        mujoco.mj_step(model, data, substeps)
        if has_warned(data) or not np.isfinite(data.qpos).all():
            return None
        if len(openings[step]):
            mujoco.mj_kinematics(model, data)  # the frames lag one engine step behind the state
            frames = data.xmat.reshape(-1, 3, 3)[bodies]
            images = data.xpos[bodies] + (frames @ places[..., None])[..., 0]
            openings[step] = np.linalg.norm(images[:, 0] - images[:, 1], axis=-1) / lengths
    return openings


def _point(data: mujoco.MjData, body: int, place: DoubleArray) -> DoubleArray:
    point: DoubleArray = data.xpos[body] + data.xmat[body].reshape(3, 3) @ place
    return point


def _local(data: mujoco.MjData, body: int, point: DoubleArray) -> DoubleArray:
    place: DoubleArray = data.xmat[body].reshape(3, 3).T @ (point - data.xpos[body])
    return place


def _loop_length(body: Morphology, *limbs: int) -> float:
    """Return the length of the shorter of the limbs that a loop joins, m."""
    geoms = [body.limbs[limb].geom for limb in limbs]
    return min(math.dist(g.start, g.end) for g in geoms if g.kind == "capsule")
