"""Compiled models: one body in one scene."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import mujoco

from gmc_bench.errors import MorphologyError
from gmc_bench.morphology.engine_library import engine_library
from gmc_bench.morphology.mjcf import emit_mjcf
from gmc_bench.morphology.schema import Morphology
from gmc_bench.types import Vec3


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The world a body is put into."""

    floor: str
    """MJCF elements of the ground, placed in `worldbody`."""
    spawn: Vec3 = (0.0, 0.0, 0.0)
    """Offset added to the torso's start position, m, world frame."""
    num_substeps: int = 4
    """Engine steps per control step."""


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
    engine_library()  # before MuJoCo has anything to log
    text = emit_mjcf(morphology, floor=scene.floor, spawn=scene.spawn)
    try:
        model = mujoco.MjModel.from_xml_string(text)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise MorphologyError(
            f"MuJoCo cannot compile the body {morphology.name!r}: {reason}"
        ) from error
    return CompiledModel(morphology=morphology, scene=scene, model=model)


def compile_models(morphologies: Sequence[Morphology], scene: Scene) -> list[CompiledModel]:
    """Compile many bodies, in order, on all cores."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda body: compile_model(body, scene), morphologies))
