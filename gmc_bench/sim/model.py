"""Compiled models: one body in one scene."""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, get_args

import mujoco
import numpy as np

from gmc_bench.bodies.body import Body
from gmc_bench.bodies.compiler import compile_mjcf
from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.schema import IDENTITY, Morphology
from gmc_bench.core.arguments import require_count, require_number, require_vector
from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError, MorphologyError
from gmc_bench.core.types import UNIT_TOLERANCE, Quat, Vec3
from gmc_bench.robots.friction import FRICTION_RULES, FrictionRule
from gmc_bench.robots.mjcf import HeightField
from gmc_bench.robots.model import CompiledRobot, compile_robot
from gmc_bench.robots.schema import Robot
from gmc_bench.sim.terrain import Terrain


@dataclass(frozen=True, kw_only=True)
class RoughGround:
    """Micro-rough ground, one for each body, on which a share of episodes takes place.

    Raises:
        ConfigError: the share is not in [0, 1], or the height is not positive.
    """

    share: float = 0.25
    """Of episodes; the others are on the scene's floor."""
    height: float = 0.035
    """Largest height of a cell, as a share of the lengths of hip and thigh of the front left leg,
    from joint to joint, together. Cells are 0.1 m wide, their heights uniform from 0 to it."""

    def __post_init__(self) -> None:
        require_number(self.share, "the share of rough ground")
        require_number(self.height, "the height of rough ground")
        if not 0.0 <= self.share <= 1.0 or not self.height > 0.0:
            raise ConfigError(
                f"rough ground needs a share in [0, 1] and a positive height, got {self.share} "
                f"and {self.height}"
            )


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The world a body is put into.

    Raises:
        ConfigError: a value does not fit its field, or floor and assets do not begin with those of
            the terrain.
    """

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
    """What is drawn anew at each reset. Compiled loops write into its parts by their number:
    `floor` must begin with `terrain.floor`, and `assets` with `terrain.assets`."""
    friction_rule: FrictionRule = "two-state"
    """How the friction pair of feet becomes one coefficient; only for bodies with drives."""
    rough: RoughGround | None = None
    """Another ground beside `floor`; only for bodies with drives."""

    def __post_init__(self) -> None:
        require_count(self.num_substeps, "num_substeps of a scene", "engine steps")
        for name, kinds in (("terrain", get_args(Terrain)), ("rough", (RoughGround,))):
            if not isinstance(getattr(self, name), (*kinds, type(None))):
                raise ConfigError(
                    f"the {name} of a scene must be {' or '.join(k.__name__ for k in kinds)} or "
                    f"None, got {shown(getattr(self, name))}"
                )
        for name in ("floor", "assets"):
            if not isinstance(getattr(self, name), str):
                raise ConfigError(
                    f"the {name} of a scene must be the text of MJCF elements, got "
                    f"{shown(getattr(self, name))}"
                )
        for name, length in (("spawn", 3), ("start_offset", 3), ("start_orientation", 4)):
            require_vector(getattr(self, name), length, f"the {name} of a scene")
        norm = math.hypot(*self.start_orientation)
        if abs(norm - 1.0) > UNIT_TOLERANCE:
            raise ConfigError(
                f"the start_orientation of a scene must be a unit quaternion, got "
                f"{self.start_orientation} of length {norm:.9g}; divide it by its length"
            )
        if self.friction_rule not in FRICTION_RULES:
            raise ConfigError(
                f"the friction_rule of a scene must be one of {', '.join(FRICTION_RULES)}, got "
                f"{self.friction_rule!r}"
            )
        drawn = self.terrain
        if drawn and not (
            self.floor.startswith(drawn.floor) and self.assets.startswith(drawn.assets)
        ):
            raise ConfigError(
                "the floor and the assets of a scene do not begin with those of its terrain, whose "
                "draws move them; give floor=TERRAIN.floor and assets=TERRAIN.assets with "
                "terrain=TERRAIN"
            )

    @property
    def num_grounds(self) -> int:
        """Models per body."""
        return 2 if self.rough else 1


@dataclass(frozen=True, kw_only=True)
class CompiledModel:
    """A body compiled for a scene."""

    body: Body
    scene: Scene
    model: Any
    """`mujoco.MjModel`; joint 0 is the torso's free joint. Body i + 1 is limb i of a body made of
    limbs."""
    robot: CompiledRobot | None = None
    """Where joints, drives and feet are; `None` for motors that take actions themselves."""

    @property
    def morphology(self) -> Morphology:
        """The body, which is made of limbs."""
        assert isinstance(self.body, Morphology)
        return self.body

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
        ConfigError: the scene has bodies of its own.
    """
    text = emit_mjcf(morphology, floor=scene.floor, spawn=scene.spawn, assets=scene.assets)
    try:
        model = compile_mjcf(text)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise MorphologyError(
            f"MuJoCo cannot compile the body {morphology.name!r}: {reason}"
        ) from error
    others = model.nbody - 1 - len(morphology.limbs)
    if others:  # limbs are looked up by their number among the engine's bodies
        raise ConfigError(
            f"the floor of a scene has a <body> {model.body(1).name!r}, but the ground cannot move "
            f"and is part of the world; put its geoms into the floor without a <body>"
        )
    _move_start(model, scene)
    return CompiledModel(body=morphology, scene=scene, model=model)


def _move_start(model: Any, scene: Scene) -> None:
    # The torso's joint is free: its place in the model is nothing but its start.
    if scene.start_orientation != IDENTITY:
        compiled = model.qpos0[3:7].copy()
        mujoco.mju_mulQuat(model.qpos0[3:7], np.array(scene.start_orientation), compiled)
    if any(scene.start_offset):
        model.qpos0[:3] += scene.start_offset


def compile_grounds(body: Robot, scene: Scene) -> list[CompiledRobot]:
    """Compile a body with drives for a scene: on its floor, then on its rough ground.

    Raises:
        MorphologyError: MuJoCo refuses the body; the message carries its reason.
    """
    grounds: list[HeightField | None] = [None]
    if scene.rough:
        height = scene.rough.height * sum(np.linalg.norm(k.position) for k in body.links[1:3])
        rng = np.random.default_rng(int(body.digest[:15], 16))
        cells = rng.uniform(0.0, height, (_ROUGH_CELLS, _ROUGH_CELLS))
        grounds.append(HeightField(heights=cells, half_extents=(ROUGH_REACH, ROUGH_REACH)))
    return [compile_robot(body, terrain=ground) for ground in grounds]


def drive_model(robot: CompiledRobot, scene: Scene) -> CompiledModel:
    """Return a body with drives as the simulator takes it."""
    return CompiledModel(body=robot.robot, scene=scene, model=robot.model, robot=robot)


_ROUGH_CELLS, _ROUGH_CELL = 480, 0.1  # 48 m wide: farther than the fastest command leads
ROUGH_REACH = _ROUGH_CELLS * _ROUGH_CELL / 2
"""m from the start to the edge of rough ground, beyond which there is nothing."""


def compile_models(bodies: Sequence[Body], scene: Scene) -> list[CompiledModel]:
    """Compile many bodies on all cores: body by body, each on every ground of the scene."""

    def compiled(body: Body) -> list[CompiledModel]:
        if isinstance(body, Robot):
            return [drive_model(robot, scene) for robot in compile_grounds(body, scene)]
        assert isinstance(body, Morphology)
        return [compile_model(body, scene)]

    with ThreadPoolExecutor() as pool:
        return [model for models in pool.map(compiled, bodies) for model in models]
