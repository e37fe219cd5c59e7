"""Simulate a model for a while; used inside the worker process."""

from typing import Any

import mujoco
import numpy as np

from gmc_bench.bodies.compiler import compile_mjcf
from gmc_bench.bodies.mjcf_writer import FLAT_HEIGHT
from gmc_bench.bodies.worker_read import describe_equalities

_SUBSTEPS = 4


def roll_out(request: dict[str, Any]) -> dict[str, Any]:
    """Roll a written model out under random control, see `Sandbox.roll_out`.

    The simulation gets as much memory as in environments, so that a body that needs more is not
    imported.
    """
    model = compile_mjcf(request["text"])
    data = mujoco.MjData(model)
    for warning in data.warning:
        warning.number = 1
    rng = np.random.default_rng(request["seed"])
    mujoco.mj_forward(model, data)
    touching = _touching(model, data)
    height, lowest, residual = float(data.qpos[2]) - FLAT_HEIGHT, float("inf"), 0.0
    fastest = np.zeros(model.nv)
    landed = False
    names: list[str] = []
    steps = int(request["steps"])
    for step in range(steps):
        if step % _SUBSTEPS == 0:
            data.ctrl[:] = rng.uniform(-1, 1, model.nu)
        mujoco.mj_step(model, data)
        names = [mujoco.mjtWarning(i).name for i, w in enumerate(data.warning) if w.number > 1]
        if names or not (np.isfinite(data.qpos).all() and np.isfinite(data.qvel).all()):
            names = names or ["a state that is not finite"]
            break
        lowest = min(lowest, float(data.qpos[2]) - FLAT_HEIGHT)
        fastest = np.maximum(fastest, np.abs(data.qvel))
        landed = landed or bool((np.min(data.contact.geom, axis=1, initial=1) == 0).any())
        residual = max(residual, _opening(model, data))
    free = int(mujoco.mjtJoint.mjJNT_FREE)
    joints = [model.joint(j) for j in range(model.njnt) if model.jnt_type[j] != free]
    return {
        "time": float(data.time), "warnings": names, "lowest": min(lowest, height),
        "height": height, "touching": touching, "landed": landed, "opening": residual,
        "speeds": {joint.name: float(fastest[joint.dofadr[0]]) for joint in joints},
    }  # fmt: skip


def _touching(model: Any, data: Any) -> list[list[Any]]:
    """Return [body, body, depth in m] of the contacts in the start pose; 0 is the floor."""
    return [
        [*(int(model.geom_bodyid[g]) for g in contact.geom), float(-contact.dist)]
        for contact in data.contact[:64]
        if contact.dist < 0
    ]


def _opening(model: Any, data: Any) -> float:
    """Return by how much the widest loop is open, m."""
    gaps = [0.0]
    for row in describe_equalities(model, data) if model.neq else ():
        if "anchors" not in row:
            continue
        first, second = (np.array(point) for point in row["anchors"])
        gaps.append(float(np.linalg.norm(first - second)))
    return max(gaps)
