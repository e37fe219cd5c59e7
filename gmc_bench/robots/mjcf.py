"""Quadrupeds as MJCF: models of primitive shapes whose mass is all in the inertials.

Source:
    Options measured for these robots: with MuJoCo's default cone (pyramidal, `impratio` 1) the
    feet creep and the heavy robots sink. Foot contact (`condim`, `priority`, `solimp`):
    google-deepmind/mujoco_playground and google-deepmind/mujoco_menagerie.
"""

import math
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

from gmc_bench.bodies.mjcf import SIM_DT
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.types import DoubleArray
from gmc_bench.robots.parts import Foot, Inertial, LegJoint, Link, Shape
from gmc_bench.robots.schema import LEGS, OriginalRobot, Robot

ROOT_JOINT = "root"
"""Name of the base's free joint."""
FLOOR = "floor"
"""Name of the ground's geom and height field."""
IMU_SITE = "imu"

_BODY_FRICTION = 0.6  # sliding coefficient of everything but the feet
_FOOT_FRICTION = 0.6  # before it is set anew at every step
_FOOT_TORSION, _FOOT_ROLLING = 0.02, 0.01  # m; without effect at condim 3
_FOOT_SOFTNESS = "0.9 0.95 0.023"  # solimp: impedance at, and 0.023 m beyond, the surface
_GROUND_DEPTH = 1.0  # m of solid ground below a height field's lowest point
_FLAT = 1e-3  # m; smallest extent of a height field that the engine takes


def foot_name(leg: int) -> str:
    """Return the name of a foot's geom and site, e.g. `FL_foot`."""
    return f"{LEGS[leg]}_foot"


@dataclass(frozen=True, kw_only=True, eq=False)
class HeightField:
    """Uneven ground, centred at the world's origin.

    Raises:
        ConfigError: the heights are no finite grid of at least 2 x 2, or an extent is not positive.
    """

    heights: DoubleArray
    """(rows, columns) float64, m, world frame; rows along y, columns along x."""
    half_extents: tuple[float, float]
    """Half the size along x and y, m."""

    def __post_init__(self) -> None:
        grid = np.asarray(self.heights)
        if grid.ndim != 2 or min(grid.shape) < 2 or not np.isfinite(grid).all():
            raise ConfigError(
                f"the heights have shape {grid.shape}; expected a finite grid of at least (2, 2)"
            )
        if not all(0 < extent < math.inf for extent in self.half_extents):
            raise ConfigError(
                f"the ground has half extents {self.half_extents}; both must be positive"
            )

    @property
    def lowest(self) -> float:
        """Lowest height, m."""
        return float(np.min(self.heights))

    @property
    def relief(self) -> float:
        """Height of the highest point above the lowest, at least 0.001, m."""
        return max(float(np.max(self.heights)) - self.lowest, _FLAT)

    def elevation(self) -> DoubleArray:
        """Return the heights as shares of the relief, (rows, columns) float64 in [0, 1]."""
        return (np.asarray(self.heights, dtype=np.float64) - self.lowest) / self.relief


def build_mjcf(
    robot: Robot,
    *,
    terrain: HeightField | None = None,
    contacts: bool = False,
) -> str:
    """Write the complete model of a robot on its ground.

    The text depends on the arguments alone, and its numbers read back exactly. Bodies and joints
    carry the maker's names, in the shared order; motors carry the joints' names and take torques,
    clamped to the joint's limit. The drives' PD law is not part of the model. There are no
    self-collisions. Only the feet have friction that can be set: they take priority over the
    ground. A height field's elevation is not in the text, see `compile_robot`.

    Args:
        robot: the robot.
        terrain: uneven ground; `None` = a plane at height 0.
        contacts: whether sensors read the ground's force on each foot, in the order of the legs,
            and on the base: four numbers each, whether there is a contact and its force, N.

    Returns:
        A MJCF document.
    """
    lines = [
        f"<mujoco model={quoteattr(robot.name)}>",
        '  <compiler angle="radian" autolimits="true"/>',
        f'  <option timestep="{SIM_DT!r}" integrator="implicitfast" jacobian="dense" '
        'cone="elliptic" impratio="10.0" solver="Newton" iterations="100">',
        f'    <flag sensor="{"enable" if contacts else "disable"}" autoreset="disable"/>',
        "  </option>",
        "  <default>",
        f'    <geom condim="1" contype="0" conaffinity="1" mass="0" friction="{_BODY_FRICTION}"/>',
        '    <default class="foot">',
        f'      <geom type="sphere" condim="3" priority="1" solimp="{_FOOT_SOFTNESS}" '
        f'friction="{_FOOT_FRICTION} {_FOOT_TORSION} {_FOOT_ROLLING}"/>',
        "    </default>",
        "  </default>",
        *_assets(terrain),
        "  <worldbody>",
        _floor(terrain),
        *_bodies(robot),
        "  </worldbody>",
        "  <actuator>",
        *(_motor(link.joint) for link in robot.links),
        "  </actuator>",
        *(_contact_sensors(robot) if contacts else ()),
        "</mujoco>",
        "",
    ]
    return "\n".join(lines)


def _contact_sensors(robot: Robot) -> list[str]:
    reads = 'data="found force" reduce="netforce" num="1"'
    touched = [f'geom1="{foot_name(leg)}"' for leg in range(len(LEGS))]
    touched.append(f"body1={quoteattr(robot.base.name)}")
    return [
        "  <sensor>",
        *(f'    <contact {part} geom2="{FLOOR}" {reads}/>' for part in touched),
        "  </sensor>",
    ]


def _assets(terrain: HeightField | None) -> list[str]:
    if terrain is None:
        return []
    rows, columns = np.shape(terrain.heights)
    size = _text((*terrain.half_extents, terrain.relief, _GROUND_DEPTH))
    hfield = f'<hfield name="{FLOOR}" nrow="{rows}" ncol="{columns}" size="{size}"/>'
    return ["  <asset>", f"    {hfield}", "  </asset>"]


def _floor(terrain: HeightField | None) -> str:
    # Condim 1: the feet's own number decides, and everything else slides.
    shape = (
        'type="plane" size="0 0 1"'
        if terrain is None
        else f'type="hfield" hfield="{FLOOR}" pos="0 0 {terrain.lowest!r}"'
    )
    return f'    <geom name="{FLOOR}" {shape} contype="1" conaffinity="0"/>'


def _bodies(robot: Robot) -> list[str]:
    if isinstance(robot, OriginalRobot):
        return robot.body.splitlines()  # with its sites, which weigh nothing
    lines = [
        f'    <body name={quoteattr(robot.base.name)} pos="0 0 {robot.pose.base_height!r}">',
        f'      <freejoint name="{ROOT_JOINT}"/>',
        f"      {_inertial(robot.base.inertial)}",
        *(f"      {_shape(shape)}" for shape in robot.base.shapes),
    ]
    for leg, foot in enumerate(robot.feet):
        # A leg is a chain: three bodies inside each other, the foot on the last.
        for level, link in enumerate(robot.links[3 * leg : 3 * leg + 3]):
            lines += _open_link(link, "  " * (level + 3))
        lines.append(_foot(foot, leg, "  " * 6))
        lines += [f"{'  ' * (level + 3)}</body>" for level in (2, 1, 0)]
    lines.append("    </body>")
    return lines


def _open_link(link: Link, indent: str) -> list[str]:
    return [
        f'{indent}<body name={quoteattr(link.name)} pos="{_text(link.position)}">',
        f"{indent}  {_inertial(link.inertial)}",
        f"{indent}  {_hinge(link.joint)}",
        *(f"{indent}  {_shape(shape)}" for shape in link.shapes),
    ]


def _foot(foot: Foot, leg: int, indent: str) -> str:
    place = f'pos="{_text(foot.position)}"'
    return f'{indent}<geom name="{foot_name(leg)}" class="foot" {place} size="{foot.radius!r}"/>'


def _inertial(inertial: Inertial) -> str:
    return (
        f'<inertial pos="{_text(inertial.com)}" mass="{inertial.mass!r}" '
        f'fullinertia="{_text(inertial.inertia)}"/>'
    )


def _hinge(joint: LegJoint) -> str:
    return (
        f'<joint name={quoteattr(joint.name)} axis="{_text(joint.axis)}" '
        f'range="{_text(joint.range)}" armature="{joint.armature!r}" damping="{joint.damping!r}" '
        f'frictionloss="{joint.frictionloss!r}"/>'
    )


def _motor(joint: LegJoint) -> str:
    name, limit = quoteattr(joint.name), joint.torque_limit
    return f'    <motor name={name} joint={name} ctrlrange="{-limit!r} {limit!r}"/>'


def _shape(shape: Shape) -> str:
    if shape.kind == "box":
        assert shape.half_extents is not None  # the description is validated
        return f'<geom type="box" pos="{_text(shape.start)}" size="{_text(shape.half_extents)}"/>'
    if shape.kind == "sphere":
        return f'<geom type="sphere" pos="{_text(shape.start)}" size="{shape.radius!r}"/>'
    assert shape.end is not None
    ends = _text((*shape.start, *shape.end))
    return f'<geom type="{shape.kind}" fromto="{ends}" size="{shape.radius!r}"/>'


def _text(numbers: tuple[Any, ...]) -> str:
    return " ".join(repr(float(number)) for number in numbers)
