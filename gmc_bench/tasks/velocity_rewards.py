"""Reward terms of velocity tracking: pure functions of a transition, (B,) float64.

Commands are velocities in the base's yaw frame, see `gmc_bench.tasks.commands.VelocityCommand`.
"""

from collections.abc import Callable

import numpy as np

from gmc_bench.core.types import DoubleArray
from gmc_bench.tasks.spec import Transition

WALKING = 0.1
"""Commanded speed below which a body is asked to stand, m/s."""
TURNING = 0.1
"""Commanded yaw rate below which a body is asked to go straight, rad/s."""


def tracked_velocity(sigma: float) -> Callable[[Transition], DoubleArray]:
    """Return a term: exp(-|v_xy - c_xy|^2 / sigma), sigma in (m/s)^2.

    v is the velocity of the base in its yaw frame, c the command.
    """

    def term(transition: Transition) -> DoubleArray:
        error = transition.motion.level_velocity - transition.command[:, :2]
        found: DoubleArray = np.exp(-np.square(error).sum(axis=1) / sigma)
        return found

    return term


def tracked_turn(sigma: float) -> Callable[[Transition], DoubleArray]:
    """Return a term: exp(-(w_z - c_z)^2 / sigma), sigma in (rad/s)^2.

    w is the angular velocity of the base in its frame, c the command.
    """

    def term(transition: Transition) -> DoubleArray:
        turn = transition.motion.base_angular_velocity[:, 2] - transition.command[:, 2]
        found: DoubleArray = np.exp(-np.square(turn) / sigma)
        return found

    return term


def progress(transition: Transition) -> DoubleArray:
    """Return the velocity along the command, less twice what exceeds it, m/s.

    It has a slope where `tracked_velocity` is flat, for bodies that do not walk yet.
    """
    asked = transition.command[:, :2]
    speed = np.linalg.norm(asked, axis=1)
    along = (transition.motion.level_velocity * asked).sum(axis=1) / np.maximum(speed, 1e-6)
    found: DoubleArray = np.minimum(along, 2.0 * speed - along) * (speed > WALKING)
    return found


def turning(transition: Transition) -> DoubleArray:
    """Return the yaw rate along the commanded one, less twice what exceeds it, rad/s."""
    asked = transition.command[:, 2]
    along = transition.motion.base_angular_velocity[:, 2] * np.sign(asked)
    size = np.abs(asked)
    found: DoubleArray = np.minimum(along, 2.0 * size - along) * (size > TURNING)
    return found


def vertical_speed(transition: Transition) -> DoubleArray:
    """Return v_z^2 of the base in its frame, (m/s)^2."""
    found: DoubleArray = np.square(transition.motion.base_linear_velocity[:, 2])
    return found


def roll_and_pitch_rate(transition: Transition) -> DoubleArray:
    """Return w_x^2 + w_y^2 of the base in its frame, (rad/s)^2."""
    found: DoubleArray = np.square(transition.motion.base_angular_velocity[:, :2]).sum(axis=1)
    return found


def tilted_base(transition: Transition) -> DoubleArray:
    """Return g_x^2 + g_y^2, gravity in the base's frame."""
    found: DoubleArray = np.square(transition.motion.gravity[:, :2]).sum(axis=1)
    return found


def lowered_base(transition: Transition) -> DoubleArray:
    """Return (1 - h / h0)^2 where the base is lower than in the stance, h0 its height there.

    The shape of legged_gym's base height, relative to the robot's size and from below only.
    """
    motion = transition.motion
    height = motion.position[:, 2] - transition.ground_height
    found: DoubleArray = np.square(np.maximum(1.0 - height / motion.joints.base_height, 0.0))
    return found


def relative_torque(transition: Transition) -> DoubleArray:
    """Return the sum over joints of (torque / limit)^2: the same for light and heavy robots."""
    motion = transition.motion
    effort = motion.effort / np.square(motion.joints.torque_limits)
    found: DoubleArray = effort.sum(axis=1)
    return found


def joint_acceleration(transition: Transition) -> DoubleArray:
    """Return the sum of squared joint accelerations, rad^2/s^4."""
    change = transition.motion.joint_velocity - transition.joint_velocity_before
    found: DoubleArray = np.square(change / transition.control_dt).sum(axis=1)
    return found


def action_rate(transition: Transition) -> DoubleArray:
    """Return the sum of squared changes of the action."""
    found: DoubleArray = np.square(transition.action - transition.previous_action).sum(axis=1)
    return found


def long_steps(transition: Transition) -> DoubleArray:
    """Return the sum of (time in the air - 0.5 s) over feet that touch down, s.

    Zero unless the commanded speed is above `WALKING`.
    """
    motion = transition.motion
    landed = motion.touching & (motion.air_time > 0.0)
    walking = np.linalg.norm(transition.command[:, :2], axis=1) > WALKING
    found: DoubleArray = np.where(landed, motion.air_time - 0.5, 0.0).sum(axis=1) * walking
    return found


def beyond_soft_limits(transition: Transition) -> DoubleArray:
    """Return the sum of what joints exceed their soft limits by, rad."""
    motion = transition.motion
    angles, soft = motion.joint_angle, motion.joints.soft_limits
    beyond = np.maximum(soft[..., 0] - angles, 0.0) + np.maximum(angles - soft[..., 1], 0.0)
    found: DoubleArray = beyond.sum(axis=1)
    return found
