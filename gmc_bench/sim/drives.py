"""Joint drives, feet and stances of compiled bodies, as the compiled loops take them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from gmc_bench.core.types import DoubleArray, IntArray
from gmc_bench.robots.friction import STRIBECK_SPEED
from gmc_bench.sim.drive_kernels import NUM_BASE
from gmc_bench.sim.model import CompiledModel


class Drives(NamedTuple):
    """Drives and feet of M models with A driven joints and F feet each; A = 0: no drives.

    Shapes:
        `joints` (M, A, 3) int64, places in qpos, qvel and ctrl; `gains` (M, A, 3) float64, kp
        (N m/rad), kd (N m s/rad) and torque limit (N m); `feet` (M, F, 3) float64, body, geom and
        radius (m). `two_state` says whether the feet's coefficient is written before every engine
        step, `stribeck_speed` (m/s) how it follows the sliding speed.
    """

    joints: IntArray
    gains: DoubleArray
    feet: DoubleArray
    two_state: bool
    stribeck_speed: float


class DriveState(NamedTuple):
    """What B rows with drives are subject to, and what was read of them last.

    Shapes, float64:
        `friction` (B, 2), static and dynamic coefficient of all feet; `strength` (B,), factor on
        torques before they are limited; `joint_state` (B, A, 2), angle (rad) and velocity (rad/s);
        `base` (B, 13), see `NUM_BASE`; `contacts` (B, F + 1), the ground's force on each foot and
        on the base, N; `torque` (B, A), of the last engine step, N m; `effort` (B, A), mean square
        of the torque over the control step, (N m)^2.
    """

    friction: DoubleArray
    strength: DoubleArray
    joint_state: DoubleArray
    base: DoubleArray
    contacts: DoubleArray
    torque: DoubleArray
    effort: DoubleArray


def tabulate_drives(models: Sequence[CompiledModel]) -> Drives:
    """Tabulate the drives of compiled bodies; either all of them have some, or none has."""
    count = len(models)
    robots = [found.robot for found in models if found.robot is not None]
    if not robots:
        none = np.zeros((count, 0, 3))
        return Drives(none.astype(np.int64), none, none, False, STRIBECK_SPEED)
    return Drives(
        joints=np.stack(
            [np.stack([r.joint_qpos, r.joint_dofs, r.actuators], axis=1) for r in robots]
        ),
        gains=np.array(
            [
                [
                    [r.robot.gains.kp, r.robot.gains.kd, link.joint.torque_limit]
                    for link in r.robot.links
                ]
                for r in robots
            ]
        ),
        feet=np.array(
            [
                [[r.model.geom_bodyid[g], g, r.model.geom_size[g, 0]] for g in r.foot_geoms]
                for r in robots
            ],
            np.float64,
        ),
        two_state=models[0].scene.friction_rule == "two-state",
        stribeck_speed=STRIBECK_SPEED,
    )


def make_drive_state(drives: Drives, num_envs: int) -> DriveState:
    """Return the state of B rows: friction and strength 1, everything else zero."""
    joints, feet = drives.joints.shape[1], drives.feet.shape[1]
    return DriveState(
        friction=np.ones((num_envs, 2)),
        strength=np.ones(num_envs),
        joint_state=np.zeros((num_envs, joints, 2)),
        base=np.zeros((num_envs, NUM_BASE)),
        contacts=np.zeros((num_envs, feet + 1)),
        torque=np.zeros((num_envs, joints)),
        effort=np.zeros((num_envs, joints)),
    )
