"""The parts of a robot: limbs with their shapes, hinges, motors and closed loops."""

from dataclasses import dataclass
from typing import Literal

from gmc_bench.types import Quat, Vec3

IDENTITY: Quat = (1.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Joint:
    """One hinge between a limb and its parent."""

    name: str
    axis: Vec3
    """Rotation axis in the limb frame; normalised by the engine."""
    position: Vec3
    """Anchor in the limb frame, m."""
    range: tuple[float, float]
    """Lower and upper limit, rad."""
    slot: int
    """Joint slot of the limb's token (UNIMAL: x joints use slot 0, y joints slot 1)."""
    damping: float = 1.0
    """N m s/rad."""
    stiffness: float = 1.0
    """N m/rad, with its rest at angle 0."""
    armature: float = 1.0
    """Rotor inertia, kg m^2."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Geom:
    """One collision shape; it also gives the limb its mass."""

    kind: Literal["sphere", "capsule"]
    radius: float
    """m."""
    start: Vec3 = (0.0, 0.0, 0.0)
    """Sphere centre or first end of the capsule's axis, limb frame, m."""
    end: Vec3 = (0.0, 0.0, 0.0)
    """Second end of the capsule's axis, limb frame, m; equal to `start` for a sphere."""
    density: float = 1000.0
    """kg/m^3."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limb:
    """One rigid part. The torso is the limb without a parent; it moves freely."""

    name: str
    parent: int
    """Index of the parent limb, -1 for the torso."""
    position: Vec3
    """Origin in the parent's frame, m; for the torso, the start position above the floor."""
    geom: Geom
    joints: tuple[Joint, ...] = ()
    orientation: Quat = IDENTITY
    """Orientation in the parent's frame."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Actuator:
    """One motor; its torque is `gear` times the control, which is clamped to [-1, 1]."""

    joint: str
    gear: float
    """N m per unit of control."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Loop:
    """A joint between two limbs that the tree does not join: it closes a loop.

    The loop is closed in the start pose, where the anchor is one point of both limbs. The engine
    keeps it closed by a soft constraint; the two limbs do not collide.
    """

    first: int
    """Index of one limb; the torso is 0."""
    second: int
    """Index of the other limb."""
    anchor: Vec3
    """The joint's centre in the frame of `first`, m."""
    kind: Literal["connect", "weld"] = "connect"
    """`connect` is a ball joint, three constraints; `weld` leaves no freedom, six constraints."""
