"""Compiled models: one body in one scene."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from gmc_bench.bodies.compiler import compile_mjcf
from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.schema import IDENTITY, Morphology
from gmc_bench.core.errors import MorphologyError
from gmc_bench.core.types import Quat, Vec3
from gmc_bench.sim.terrain import Terrain


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The world a body is put into."""

    floor: str
    """MJCF elements of the ground, placed in `worldbody`."""
    spawn: Vec3 = (0.0, 0.0, 0.0)
    """Offset added to the torso's start position, m, world frame."""
    num_substeps: int = 4
    """Engine steps per control step."""
    assets: str = ""
    """MJCF elements placed in `asset`, for what the ground refers to."""
    start_offset: Vec3 = (0.0, 0.0, 0.0)
    """Added to the torso's position at the start of an episode, on top of `spawn`, m, world frame.

    It changes the start state (`qpos0`) and not the torso's `body_pos`, so that the place where a
    body starts is not a feature of the body."""
    start_orientation: Quat = IDENTITY
    """Turns the torso at the start of an episode; a change of the start state, too."""
    terrain: Terrain | None = None
    """What is drawn anew at each reset; `floor` and `assets` hold its parts."""


@dataclass(frozen=True, kw_only=True)
class CompiledModel:
    """A body compiled for a scene."""

    morphology: Morphology
    scene: Scene
    model: Any
    """`mujoco.MjModel`; body i + 1 is limb i, joint 0 is the torso's free joint."""

    @property
    def sim_dt(self) -> float:
        """Engine time step, s."""
        return float(self.model.opt.timestep)

    @property
    def control_dt(self) -> float:
        """Time between two actions, s."""
        return self.sim_dt * self.scene.num_substeps


def compile_model(morphology: Morphology, scene: Scene) -> CompiledModel:
    """Compile one body for a scene.

    Raises:
        MorphologyError: MuJoCo refuses the body; the message carries its reason.
    """
    text = emit_mjcf(morphology, floor=scene.floor, spawn=scene.spawn, assets=scene.assets)
    try:
        model = compile_mjcf(text)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise MorphologyError(
            f"MuJoCo cannot compile the body {morphology.name!r}: {reason}"
        ) from error
    _move_start(model, scene)
    return CompiledModel(morphology=morphology, scene=scene, model=model)


def _move_start(model: Any, scene: Scene) -> None:
    # The torso's joint is free: its place in the model is nothing but its start.
    if scene.start_orientation != IDENTITY:
        compiled = model.qpos0[3:7].copy()
        mujoco.mju_mulQuat(model.qpos0[3:7], np.array(scene.start_orientation), compiled)
    if any(scene.start_offset):
        model.qpos0[:3] += scene.start_offset


def compile_models(morphologies: Sequence[Morphology], scene: Scene) -> list[CompiledModel]:
    """Compile many bodies, in order, on all cores."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda body: compile_model(body, scene), morphologies))
