"""Four legs from the numbers of one: what mirrors between the legs of a quadruped, and what not.

Every function returns four things in the order FL, FR, RL, RR.
"""

from dataclasses import dataclass
from typing import TypeVar

from gmc_bench.core.types import Vec3
from gmc_bench.robots.parts import Foot, Inertial, LegJoint, Link, Shape, flip_point
from gmc_bench.robots.schema import LEGS, SEGMENTS

P = TypeVar("P", Inertial, Shape)
T = TypeVar("T")

Range = tuple[float, float]
Four = tuple[T, T, T, T]
"""One per leg."""

_AXES: dict[str, Vec3] = {"hip": (1.0, 0.0, 0.0), "thigh": (0.0, 1.0, 0.0), "calf": (0.0, 1.0, 0.0)}


def same(thing: T) -> Four[T]:
    """Return the same thing for every leg."""
    return (thing, thing, thing, thing)


def mirrored(front_left: P, axes: str = "xy") -> Four[P]:
    """Mirror a part of the front left leg to the others.

    Args:
        front_left: the part, in its link frame.
        axes: `y` if right legs are mirror images of left ones, `x` if rear legs are those of front
            ones, `xy` for both.

    Returns:
        The parts of the four legs.
    """
    x, y = "x" in axes, "y" in axes
    return (
        front_left,
        front_left.flipped(y=y),
        front_left.flipped(x=x),
        front_left.flipped(x=x, y=y),
    )


def half_turned(front_left: Inertial, front_right: Inertial) -> Four[Inertial]:
    """Return the parts of a robot whose rear is its front, turned by half a turn about z.

    The rear right leg is then built like the front left one, and the rear left one like the front
    right one; left and right are no exact mirror images.
    """
    return (
        front_left,
        front_right,
        front_right.flipped(x=True, y=True),
        front_left.flipped(x=True, y=True),
    )


def mirrored_shapes(front_left: tuple[Shape, ...]) -> Four[tuple[Shape, ...]]:
    """Mirror the shapes of a front left link along both axes, see `mirrored`."""
    fl, fr, rl, rr = zip(*map(mirrored, front_left), strict=True)
    return (tuple(fl), tuple(fr), tuple(rl), tuple(rr))


def mirrored_range(front_left: Range, axes: str) -> Four[Range]:
    """Mirror a joint range of the front left leg: angles change sign on the mirrored side.

    Args:
        front_left: lower and upper limit, rad.
        axes: `y` for a hip (it turns about x, so right legs turn the other way), `x` for a thigh
            or calf whose rear legs bend the other way.

    Returns:
        The ranges of the four legs, rad.
    """
    flipped = (-front_left[1], -front_left[0])
    right = flipped if "y" in axes else front_left
    rear = flipped if "x" in axes else front_left
    return (front_left, right, rear, rear if "x" in axes else right)


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """What the four hips, thighs or calves of a robot have in common."""

    position: Vec3
    """Joint anchor of the front left one in its parent's frame, m; the others mirror it."""
    inertials: Four[Inertial]
    shapes: Four[tuple[Shape, ...]]
    ranges: Four[Range]
    """Hard joint limits, rad."""
    feature_ranges: Four[Range] | None = None
    """Limits that policies see, rad; `None` = the hard ones."""
    torque_limit: float
    """N m."""
    velocity_limit: float
    """rad/s."""
    saturation_torque: float | None = None
    """N m; `None` = the torque limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JointDynamics:
    """Passive properties that all joints of a robot share."""

    armature: float
    """kg m^2."""
    damping: float
    """N m s/rad."""
    frictionloss: float
    """N m."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Naming:
    """How a maker names the parts of a leg."""

    legs: Four[str] = LEGS
    bodies: tuple[str, str, str] = SEGMENTS
    """Of hip, thigh and calf."""
    joints: tuple[str, str, str] = ("hip_joint", "thigh_joint", "calf_joint")
    """Of hip, thigh and calf."""

    def joint_order(self, legs: Four[str], *, by_leg: bool = True) -> tuple[str, ...]:
        """Return the joint names leg by leg, or joint by joint (all hips first).

        Args:
            legs: the legs in the order wanted, as the maker names them.
            by_leg: whether a leg's joints stay together.

        Returns:
            Twelve names.
        """
        if by_leg:
            return tuple(f"{leg}_{joint}" for leg in legs for joint in self.joints)
        return tuple(f"{leg}_{joint}" for joint in self.joints for leg in legs)


def build_links(
    segments: tuple[Segment, Segment, Segment], dynamics: JointDynamics, naming: Naming
) -> tuple[Link, ...]:
    """Put the legs together.

    Args:
        segments: hip, thigh and calf.
        dynamics: passive properties of the joints.
        naming: names of bodies and joints.

    Returns:
        Twelve links in the shared order.
    """
    links: list[Link] = []
    for leg, leg_name in enumerate(naming.legs):
        for kind, segment in enumerate(segments):
            feature_ranges = segment.feature_ranges or segment.ranges
            joint = LegJoint(
                name=f"{leg_name}_{naming.joints[kind]}",
                axis=_AXES[SEGMENTS[kind]],
                range=segment.ranges[leg],
                feature_range=feature_ranges[leg],
                torque_limit=segment.torque_limit,
                velocity_limit=segment.velocity_limit,
                saturation_torque=segment.saturation_torque or segment.torque_limit,
                armature=dynamics.armature,
                damping=dynamics.damping,
                frictionloss=dynamics.frictionloss,
            )
            links.append(
                Link(
                    name=f"{leg_name}_{naming.bodies[kind]}",
                    parent=-1 if kind == 0 else len(links) - 1,
                    position=_of_leg(segment.position, leg),
                    joint=joint,
                    inertial=segment.inertials[leg],
                    shapes=segment.shapes[leg],
                )
            )
    return tuple(links)


def build_feet(position: Vec3, radius: float, axes: str = "xy") -> tuple[Foot, ...]:
    """Return the four feet.

    Args:
        position: centre of the front left foot in its calf's frame, m.
        radius: m.
        axes: what mirrors, see `mirrored`.

    Returns:
        Feet in the order of the legs.
    """
    return tuple(
        Foot(link=2 + 3 * leg, position=_of_leg(position, leg, axes), radius=radius)
        for leg in range(len(LEGS))
    )


def _of_leg(point: Vec3, leg: int, axes: str = "xy") -> Vec3:
    return flip_point(point, x="x" in axes and leg >= 2, y="y" in axes and leg % 2 == 1)
