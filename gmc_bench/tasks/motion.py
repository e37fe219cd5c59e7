"""Motion of bodies with joint drives, as terms of tasks and observers read it."""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from gmc_bench.core.arguments import require_number
from gmc_bench.core.types import BoolArray, DoubleArray, IntArray

TOUCHING = 1.0
"""Force from which a foot counts as on the ground, N."""


@dataclass(frozen=True, kw_only=True)
class Joints:
    """Constants of B bodies and their A driven joints.

    Shapes, float64: `stance` (B, A), rad; `soft_limits` (B, A, 2), rad; `torque_limits` (B, A),
    N m; `action_scale` (B,), rad per unit of action; `base_height` (B,), m, of the base in the
    stance with its feet just on the ground.
    """

    stance: DoubleArray
    soft_limits: DoubleArray
    torque_limits: DoubleArray
    action_scale: DoubleArray
    base_height: DoubleArray

    def of(self, bodies: IntArray) -> "Joints":
        """Return the constants of K of these bodies, given by their indices (K,)."""
        return Joints(**{field.name: getattr(self, field.name)[bodies] for field in fields(self)})


@dataclass(frozen=True, kw_only=True)
class SensorNoise:
    """Half widths of the uniform noise on what observations are made of.

    Raises:
        ConfigError: a half width is negative or not finite.
    """

    base_linear_velocity: float = 0.0
    """m/s."""
    base_angular_velocity: float = 0.0
    """rad/s."""
    gravity: float = 0.0
    """Of a unit vector."""
    joint_angle: float = 0.0
    """rad."""
    joint_velocity: float = 0.0
    """rad/s."""

    def __post_init__(self) -> None:
        for field in fields(self):
            require_number(getattr(self, field.name), f"the sensor noise {field.name!r}", low=0.0)


@dataclass(frozen=True, kw_only=True)
class Motion:
    """How B bodies with A driven joints and F feet move at one moment.

    Shapes, float64: `position` (B, 3), m, world; `base_linear_velocity` (B, 3), m/s,
    `base_angular_velocity` (B, 3), rad/s, and `gravity` (B, 3), unit vector, base frame; `heading`
    (B,), rad, yaw in the world; `joint_angle` (B, A), rad; `joint_velocity` (B, A), rad/s;
    `contacts` (B, F + 1), the ground's force on each foot and on the base, N; `effort` (B, A), mean
    square of the torque over the control step, (N m)^2; `air_time` (B, F), s, how long each foot
    has been in the air: in reward, termination and metric terms up to the step before, so that a
    foot that lands still has its time, in observation terms up to now.
    """

    joints: Joints
    position: DoubleArray
    base_linear_velocity: DoubleArray
    base_angular_velocity: DoubleArray
    gravity: DoubleArray
    heading: DoubleArray
    joint_angle: DoubleArray
    joint_velocity: DoubleArray
    contacts: DoubleArray
    effort: DoubleArray
    air_time: DoubleArray

    @cached_property
    def level_velocity(self) -> DoubleArray:
        """(B, 2) float64, m/s, horizontal velocity of the base in its yaw frame."""
        # The vertical in the base frame is minus gravity; what remains is horizontal.
        up, velocity = -self.gravity, self.base_linear_velocity
        forward = np.zeros_like(up)
        forward[:, 0] = 1.0
        forward -= up * up[:, :1]
        forward /= np.linalg.norm(forward, axis=1, keepdims=True) + 1e-9
        left = np.cross(up, forward)
        return np.stack([(velocity * forward).sum(axis=1), (velocity * left).sum(axis=1)], axis=1)

    @property
    def upright(self) -> DoubleArray:
        """(B,) float64, cosine of the angle between the base's vertical axis and the world's."""
        return -self.gravity[:, 2]

    @property
    def tilt(self) -> DoubleArray:
        """(B,) float64, rad, angle between the base's vertical axis and the world's."""
        found: DoubleArray = np.arccos(np.clip(self.upright, -1.0, 1.0))
        return found

    @property
    def base_contact(self) -> DoubleArray:
        """(B,) float64, N, the ground's force on the base."""
        found: DoubleArray = self.contacts[:, -1]
        return found

    @property
    def touching(self) -> BoolArray:
        """(B, F) bool, feet on the ground."""
        found: BoolArray = self.contacts[:, :-1] > TOUCHING
        return found

    def sensed(self, noise: SensorNoise, drawn: DoubleArray) -> "Motion":
        """Return the motion as noisy sensors measure it.

        Args:
            noise: half widths.
            drawn: (B, 9 + 2 A) float64, uniform in [-1, 1), in the order of the fields of `noise`.
        """
        noisy, start = {}, 0
        for field in fields(noise):
            true = getattr(self, field.name)
            part = drawn[:, start : start + true.shape[1]]
            noisy[field.name] = true + getattr(noise, field.name) * part
            start += true.shape[1]
        return replace(self, **noisy)


def wrapped(angle: DoubleArray) -> DoubleArray:
    """Return angles in [-pi, pi), rad."""
    found: DoubleArray = np.remainder(angle + math.pi, 2.0 * math.pi) - math.pi
    return found
