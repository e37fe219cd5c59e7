"""Stance of a quadruped: the state in which it comes to rest under its drive.

Gains for locomotion are soft: a stance that is only held sags by some centimetres and, on the
Unitree robots, pitches by some degrees on the way, because front and rear feet are not level. An
episode that starts at rest has no such transient.
"""

import math

import mujoco
import numpy as np

from gmc_bench.core.errors import ConfigError, MorphologyError
from gmc_bench.core.types import DoubleArray
from gmc_bench.robots.model import CompiledRobot
from tests.support.actuation import Drive, drive_of

SETTLE_SECONDS = 3.0
"""Time after which only the slow creep of the feet is left."""


def tilt_of(quaternion: DoubleArray) -> DoubleArray:
    """Return the angle between a body's z axis and the world's.

    Args:
        quaternion: (..., 4) float64, unit, order w x y z.

    Returns:
        (...) float64, rad.
    """
    x, y = quaternion[..., 1], quaternion[..., 2]
    return np.asarray(2 * np.arcsin(np.minimum(np.hypot(x, y), 1.0)))


def hold(compiled: CompiledRobot, data: mujoco.MjData, drive: Drive | None = None) -> DoubleArray:
    """Advance by one physics step with the stance as target.

    Args:
        compiled: the robot.
        data: its state; changed in place.
        drive: the drive; `None` = the robot's own.

    Returns:
        (12,) float64, the torques applied, N m.
    """
    drive = drive or drive_of(compiled.robot)
    torques = drive.torques(
        drive.stance, data.qpos[compiled.joint_qpos], data.qvel[compiled.joint_dofs]
    )
    data.ctrl[compiled.actuators] = torques
    mujoco.mj_step(compiled.model, data)
    return torques


def settle(compiled: CompiledRobot, seconds: float = SETTLE_SECONDS) -> DoubleArray:
    """Let a robot come to rest in its stance, from where its feet just touch the ground.

    Args:
        compiled: the robot on flat ground, with the friction it is to have.
        seconds: simulated time.

    Returns:
        (19,) float64, the engine's `qpos` at rest: m, unit quaternion, rad. The base is above the
        world's origin and its heading is kept.

    Raises:
        ConfigError: the time is not positive.
        MorphologyError: the state is not finite.
    """
    if not 0 < seconds < math.inf:
        raise ConfigError(f"the robot settles for {seconds} s; give a positive time")
    data = mujoco.MjData(compiled.model)
    data.qpos[:] = compiled.standing_qpos()
    drive = drive_of(compiled.robot)
    for _ in range(round(seconds / compiled.model.opt.timestep)):
        hold(compiled, data, drive)
    qpos: DoubleArray = data.qpos.copy()
    if not np.isfinite(qpos).all():
        raise MorphologyError(
            f"robot {compiled.robot.name!r} did not settle: its state is not finite; use a "
            f"shorter timestep"
        )
    qpos[:2] = 0.0
    return qpos
