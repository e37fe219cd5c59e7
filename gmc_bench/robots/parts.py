"""The parts of a quadruped: inertias, collision shapes, joints, links, feet, gains and poses.

Units are m, kg, rad, s and N. Every link frame is aligned with the base frame (x forward, y left,
z up) at joint angles zero and has its origin in the joint that moves the link.
"""

from dataclasses import dataclass, replace
from typing import Literal

from gmc_bench.core.types import Vec3

Inertia = tuple[float, float, float, float, float, float]
"""Inertia tensor ixx, iyy, izz, ixy, ixz, iyz about the centre of mass, link frame, kg m^2."""


def flip_point(point: Vec3, *, x: bool = False, y: bool = False) -> Vec3:
    """Return a point mirrored front to rear (`x`) and left to right (`y`)."""
    # + 0.0 drops the sign of a mirrored zero.
    return (
        (-point[0] if x else point[0]) + 0.0,
        (-point[1] if y else point[1]) + 0.0,
        point[2],
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Inertial:
    """Mass, centre of mass and inertia tensor of a link."""

    mass: float
    """kg."""
    com: Vec3
    """Centre of mass, link frame, m."""
    inertia: Inertia
    """About the centre of mass, link frame, kg m^2."""

    def flipped(self, *, x: bool = False, y: bool = False) -> "Inertial":
        """Return the mirror image; products of inertia change sign with one of their axes."""
        xx, yy, zz, xy, xz, yz = self.inertia
        inertia = (
            xx,
            yy,
            zz,
            -xy if x != y else xy,
            -xz if x else xz,
            -yz if y else yz,
        )
        return Inertial(mass=self.mass, com=flip_point(self.com, x=x, y=y), inertia=inertia)


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape:
    """One primitive of a link's collision body; it has no mass."""

    kind: Literal["sphere", "capsule", "cylinder", "box"]
    start: Vec3
    """Centre of a sphere or box, first end of a capsule's or cylinder's axis, link frame, m."""
    end: Vec3 | None = None
    """Second end of a capsule's or cylinder's axis, link frame, m."""
    radius: float | None = None
    """Of a sphere, capsule or cylinder, m."""
    half_extents: Vec3 | None = None
    """Half the edges of a box, along the axes of the link frame, m."""

    def flipped(self, *, x: bool = False, y: bool = False) -> "Shape":
        """Return the mirror image."""
        end = None if self.end is None else flip_point(self.end, x=x, y=y)
        return replace(self, start=flip_point(self.start, x=x, y=y), end=end)


@dataclass(frozen=True, kw_only=True, slots=True)
class LegJoint:
    """One driven hinge; its anchor is the origin of the link it moves."""

    name: str
    """As in the maker's robot description."""
    axis: Vec3
    """Unit vector, link frame."""
    range: tuple[float, float]
    """Hard lower and upper limit, rad."""
    feature_range: tuple[float, float]
    """Limits that policies and penalties see, rad: `range`, or a narrower one where the maker's
    description only holds a placeholder of about +-9.42."""
    torque_limit: float
    """N m."""
    velocity_limit: float
    """rad/s, as published: a feature of the tokens; nothing that is simulated depends on it."""
    saturation_torque: float
    """Torque at standstill of the DC-motor model, N m; at least `torque_limit`. It is part of the
    digest, but nothing that is simulated depends on it."""
    armature: float
    """Reflected rotor inertia, kg m^2."""
    damping: float
    """Viscous friction besides the drive's own damping gain, N m s/rad."""
    frictionloss: float
    """Dry friction, N m."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Link:
    """One rigid part of a leg with the joint that moves it."""

    name: str
    """As in the maker's robot description."""
    parent: int
    """Index of the parent link, -1 for the base."""
    position: Vec3
    """Origin (the joint's anchor) in the parent's frame, m."""
    joint: LegJoint
    inertial: Inertial
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """The body that carries the legs; it moves freely."""

    name: str
    inertial: Inertial
    shapes: tuple[Shape, ...]
    imu: Vec3 = (0.0, 0.0, 0.0)
    """Place of the inertial measurement unit, base frame, m. It is part of the digest, but nothing
    that is simulated depends on it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Foot:
    """The sphere at the end of a leg; its mass belongs to the calf."""

    link: int
    """Index of the calf."""
    position: Vec3
    """Centre, calf frame, m."""
    radius: float
    """m."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Gains:
    """The drive: torque = `kp` (target - angle) - `kd` velocity."""

    kp: float
    """N m/rad."""
    kd: float
    """N m s/rad."""
    action_scale: float = 0.25
    """Offset of the target angle per unit of action, rad."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pose:
    """The stance around which a robot is driven."""

    angles: tuple[float, ...]
    """Joint angles in the shared order, rad."""
    base_height: float
    """Height of the base's origin, level, when the lowest foot just touches flat ground, m."""
    spawn_height: float
    """Height of the base's origin at which public environments start this robot, m. It is part of
    the digest, but nothing that is simulated depends on it: tasks start from `base_height`."""
