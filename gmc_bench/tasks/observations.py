"""Observation terms: pure functions of a moment, (B, tokens or 1, width) float64, SI units."""

from gmc_bench.core.types import DoubleArray
from gmc_bench.tasks.spec import Moment


def base_linear_velocity(moment: Moment) -> DoubleArray:
    """Return the base's velocity in its own frame, m/s."""
    return moment.motion.base_linear_velocity[:, None]


def base_angular_velocity(moment: Moment) -> DoubleArray:
    """Return the base's angular velocity in its own frame, rad/s."""
    return moment.motion.base_angular_velocity[:, None]


def gravity(moment: Moment) -> DoubleArray:
    """Return the direction of gravity in the base's frame."""
    return moment.motion.gravity[:, None]


def command(moment: Moment) -> DoubleArray:
    """Return the command."""
    return moment.command[:, None]


def joint_offset(moment: Moment) -> DoubleArray:
    """Return each joint's angle from that of the stance, rad."""
    motion = moment.motion
    found: DoubleArray = (motion.joint_angle - motion.joints.stance)[..., None]
    return found


def joint_velocity(moment: Moment) -> DoubleArray:
    """Return each joint's velocity, rad/s."""
    return moment.motion.joint_velocity[..., None]


def previous_action(moment: Moment) -> DoubleArray:
    """Return each joint's latest action."""
    return moment.action[..., None]


def above_lower_limit(moment: Moment) -> DoubleArray:
    """Return how far each joint is above its lower soft limit, as a share of the range."""
    soft, angle = moment.motion.joints.soft_limits, moment.motion.joint_angle
    found: DoubleArray = ((angle - soft[..., 0]) / (soft[..., 1] - soft[..., 0]))[..., None]
    return found


def below_upper_limit(moment: Moment) -> DoubleArray:
    """Return how far each joint is below its upper soft limit, as a share of the range."""
    soft, angle = moment.motion.joints.soft_limits, moment.motion.joint_angle
    found: DoubleArray = ((soft[..., 1] - angle) / (soft[..., 1] - soft[..., 0]))[..., None]
    return found
