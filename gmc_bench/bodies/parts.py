"""The parts of a robot: limbs with their shapes, joints, motors and closed loops.

Published bodies use the defaults of the fields that have one; everything else is for imported
robots.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from gmc_bench.core.types import Quat, Vec3

IDENTITY: Quat = (1.0, 0.0, 0.0, 0.0)
JointKind = Literal["hinge", "slide"]
GeomKind = Literal["sphere", "capsule", "cylinder", "box", "ellipsoid"]
LoopKind = Literal["connect", "weld"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Joint:
    """One degree of freedom between a limb and its parent; its value is 0 in the start pose."""

    name: str
    axis: Vec3
    """Rotation axis, or direction of a slide, in the limb frame; normalised by the engine."""
    position: Vec3
    """Anchor in the limb frame, m."""
    range: tuple[float, float]
    """Lower and upper limit, rad; m for a slide."""
    slot: int
    """Joint slot of the limb's token (UNIMAL: x joints use slot 0, y joints slot 1)."""
    damping: float = 1.0
    """N m s/rad; N s/m for a slide."""
    stiffness: float = 1.0
    """Of a spring about `spring_reference`, N m/rad; N/m for a slide."""
    armature: float = 1.0
    """Rotor inertia, kg m^2; kg for a slide."""
    kind: JointKind = "hinge"
    limited: bool = True
    """False where nothing stops the joint; `range` then only scales its value in tokens."""
    spring_reference: float = 0.0
    """Rest position of the spring, rad; m for a slide."""
    friction_loss: float = 0.0
    """Dry friction, N m; N for a slide."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Geom:
    """One collision shape; it also gives the limb its mass, unless the limb states its inertia."""

    kind: GeomKind
    radius: float
    """m; of a box or ellipsoid, its largest half size."""
    start: Vec3 = (0.0, 0.0, 0.0)
    """First end of the axis of a capsule or cylinder, or else the centre, limb frame, m."""
    end: Vec3 = (0.0, 0.0, 0.0)
    """Second end of that axis, limb frame, m; equal to `start` where there is none."""
    density: float = 1000.0
    """kg/m^3."""
    half_sizes: Vec3 = (0.0, 0.0, 0.0)
    """Of a box or ellipsoid, along its own axes, m."""
    orientation: Quat = IDENTITY
    """Of a box or ellipsoid, in the limb frame."""
    contype: int = 1
    """Bits of MuJoCo's contact filter: two geoms may touch where the `contype` of one and the
    `conaffinity` of the other share a bit. The ground has 1 and 1."""
    conaffinity: int = 1

    @property
    def volume(self) -> float:
        """m^3."""
        length = math.dist(self.start, self.end)
        match self.kind:
            case "box":
                return 8.0 * math.prod(self.half_sizes)
            case "ellipsoid":
                return 4.0 / 3.0 * math.pi * math.prod(self.half_sizes)
            case "cylinder":
                return math.pi * self.radius**2 * length
            case _:
                return math.pi * self.radius**2 * (length + 4.0 / 3.0 * self.radius)


@dataclass(frozen=True, kw_only=True, slots=True)
class Inertia:
    """Mass and inertia of a limb that do not follow from its geoms."""

    mass: float
    """kg."""
    centre: Vec3
    """Centre of mass, limb frame, m."""
    moments: Vec3
    """Principal moments of inertia about the centre of mass, kg m^2."""
    orientation: Quat = IDENTITY
    """Of the principal axes, in the limb frame."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limb:
    """One rigid part. The torso is the limb without a parent; it moves freely."""

    name: str
    parent: int
    """Index of the parent limb, -1 for the torso."""
    position: Vec3
    """Origin in the parent's frame, m; for the torso, the start position above the floor, at which
    the body's lowest point is 0.2 m up."""
    geom: Geom
    """The limb's largest shape; the one that tokens describe."""
    joints: tuple[Joint, ...] = ()
    orientation: Quat = IDENTITY
    """Orientation in the parent's frame."""
    more_geoms: tuple[Geom, ...] = ()
    """The limb's other shapes."""
    inertia: Inertia | None = None
    """None where mass and inertia follow from the geoms and their densities."""

    @property
    def geoms(self) -> tuple[Geom, ...]:
        """All shapes, the largest first."""
        return (self.geom, *self.more_geoms)


def scale_mass(limb: Limb, factor: float) -> Limb:
    """Return a limb of the same shape with `factor` times the mass and inertia."""
    geom, *more = (replace(geom, density=geom.density * factor) for geom in limb.geoms)
    inertia = limb.inertia
    if inertia is not None:
        x, y, z = inertia.moments
        moments = (x * factor, y * factor, z * factor)
        inertia = replace(inertia, mass=inertia.mass * factor, moments=moments)
    return replace(limb, geom=geom, more_geoms=tuple(more), inertia=inertia)


@dataclass(frozen=True, kw_only=True, slots=True)
class Actuator:
    """One motor; its control is clamped to [-1, 1].

    Its torque is `gear * control + bias[0] + bias[1] * q + bias[2] * dq`, clamped to
    `torque_range`; q and dq are the joint's position and velocity. A plain motor has no bias. A
    position servo with the gains kp and kv whose target is `a + b * control` has gear `kp * b` and
    the bias `(kp * a, -kp, -kv)`.
    """

    joint: str
    gear: float
    """N m per unit of control; N for a slide."""
    bias: Vec3 = (0.0, 0.0, 0.0)
    """N m, N m/rad and N m s/rad; N, N/m and N s/m for a slide."""
    torque_range: tuple[float, float] | None = None
    """N m; N for a slide."""

    @property
    def kind(self) -> Literal["motor", "position", "velocity"]:
        """What the control commands: the torque, a target angle, or a target speed."""
        if self.bias[1]:
            return "position"
        return "velocity" if self.bias[2] else "motor"


def scale_torque(actuator: Actuator, factor: float) -> Actuator:
    """Return an actuator whose torque is `factor` (positive) times as large in every state."""
    constant, spring, damper = actuator.bias
    torque_range = actuator.torque_range
    if torque_range is not None:
        torque_range = (torque_range[0] * factor, torque_range[1] * factor)
    return replace(
        actuator,
        gear=actuator.gear * factor,
        bias=(constant * factor, spring * factor, damper * factor),
        torque_range=torque_range,
    )


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
    kind: LoopKind = "connect"
    """`connect` is a ball joint, three constraints; `weld` leaves no freedom, six constraints."""
