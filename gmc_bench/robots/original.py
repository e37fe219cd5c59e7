"""Published model files as robots: their bodies, with the drives and contacts of this package.

A file brings bodies, inertias, joints and the shapes that touch the ground. It is stripped of
what a description has already: actuators, keyframes, contact settings, and the damping that stands
in for a drive's. Meshes that are only seen are left out; nothing of a file is ever drawn.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np

from gmc_bench.core.errors import MorphologyError
from gmc_bench.robots.mjcf import IMU_SITE, ROOT_JOINT, foot_name
from gmc_bench.robots.schema import OriginalRobot, Robot

_SIZES = {
    mujoco.mjtGeom.mjGEOM_SPHERE: ("sphere", 1),
    mujoco.mjtGeom.mjGEOM_CAPSULE: ("capsule", 2),
    mujoco.mjtGeom.mjGEOM_CYLINDER: ("cylinder", 2),
    mujoco.mjtGeom.mjGEOM_ELLIPSOID: ("ellipsoid", 3),
    mujoco.mjtGeom.mjGEOM_BOX: ("box", 3),
}
"""Name and number of sizes of the shapes that a body may have."""


def read_original(robot: Robot, spec: Any, origin: str) -> OriginalRobot:
    """Return a robot with the body of a model file.

    Args:
        robot: the description of the same robot; the file uses its names of links and joints.
        spec: `mujoco.MjSpec` of the file; changed. Mesh files that are only seen are not opened.
        origin: which file.

    Returns:
        The robot, its base as high as puts the file's feet on the ground.

    Raises:
        MorphologyError: the file is no such robot: a link or joint is missing or of another kind,
            a link has no inertial, a foot is no sphere, or a mesh touches the ground.
    """
    _strip(spec, robot)
    try:
        model = spec.compile()
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise MorphologyError(
            f"MuJoCo cannot compile {origin} for the robot {robot.name!r}: {reason}"
        ) from error
    reader = _Reader(robot, model, origin)
    height = reader.base_height()
    pose = replace(robot.pose, base_height=height)
    values = {name: getattr(robot, name) for name in Robot.__dataclass_fields__}
    body = "\n".join(reader.lines(height))
    return OriginalRobot(**{**values, "pose": pose}, body=body, origin=origin)


def _strip(spec: Any, robot: Robot) -> None:
    """Take away all that is no body, joint or shape that touches the ground."""
    for body in spec.bodies[1:]:
        seen = [geom for geom in body.geoms if not geom.contype and not geom.conaffinity]
        if not body.explicitinertial and (body.joints or seen):
            raise MorphologyError(
                f"the file for the robot {robot.name!r} gives no inertial for the link "
                f"{body.name!r}; use a file with an inertial for each link"
            )
    for geom in list(spec.geoms):
        if geom.contype or geom.conaffinity:
            geom.material = ""
        else:
            spec.delete(geom)
    kept = {geom.meshname for geom in spec.geoms}
    unused = (mesh for mesh in spec.meshes if mesh.name not in kept)
    groups: tuple[Any, ...] = (
        unused, spec.keys, spec.sensors, spec.actuators, spec.excludes, spec.pairs, spec.materials,
        spec.textures, spec.lights, spec.cameras,
    )  # fmt: skip
    for group in groups:
        for element in list(group):
            spec.delete(element)


class _Reader:
    """Writes the compiled body of a file in the terms of this package."""

    def __init__(self, robot: Robot, model: Any, origin: str) -> None:
        self._robot, self._model, self._origin = robot, model, origin
        names = [model.joint(index).name for index in range(model.njnt)]
        hinges = [
            name
            for index, name in enumerate(names)
            if model.jnt_type[index] == mujoco.mjtJoint.mjJNT_HINGE
        ]
        self._base = self._body(robot.base.name)
        free = model.jnt_type[model.body_jntadr[self._base]] == mujoco.mjtJoint.mjJNT_FREE
        if sorted(hinges) != sorted(robot.joint_names) or model.njnt != len(hinges) + 1 or not free:
            raise self._unfit(
                f"has the joints {', '.join(names)}; expected a free joint and the hinges "
                f"{', '.join(robot.joint_names)}"
            )
        if model.qpos0[7:].any():
            raise self._unfit("counts joint angles from another zero; remove 'ref' from its joints")
        self._feet = [self._foot(robot.links[foot.link].name) for foot in robot.feet]

    def _unfit(self, flaw: str) -> MorphologyError:
        return MorphologyError(f"{self._origin} {flaw}")

    def _body(self, name: str) -> int:
        found = int(mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_BODY, name))
        if found < 0:
            raise self._unfit(f"has no link {name!r}; expected the names of {self._robot.name!r}")
        return found

    def _foot(self, calf: str) -> int:
        """Return the sphere of a calf that is farthest from its joint."""
        model, body = self._model, self._body(calf)
        # Rigid with the calf: a foot may be a body of its own without a joint.
        rigid = np.flatnonzero(model.body_weldid[model.geom_bodyid] == body).tolist()
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        distance = {
            geom: float(np.linalg.norm(data.geom_xpos[geom] - data.xpos[body]))
            for geom in rigid
            if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE
        }
        if not distance:
            raise self._unfit(f"has no sphere that touches the ground at the link {calf!r}")
        return max(distance, key=lambda geom: distance[geom])

    def base_height(self) -> float:
        """Return the height of the base at which the lowest foot touches in the stance, m."""
        model = self._model
        data = mujoco.MjData(model)
        data.qpos[:7] = (0, 0, 0, 1, 0, 0, 0)
        for name, angle in zip(self._robot.joint_names, self._robot.pose.angles, strict=True):
            data.qpos[model.joint(name).qposadr[0]] = angle
        mujoco.mj_kinematics(model, data)
        lowest = data.geom_xpos[self._feet, 2] - model.geom_size[self._feet, 0]
        return round(-float(lowest.min()), 6)

    def lines(self, height: float) -> Iterator[str]:
        """Yield the body as MJCF, its frame level at a height, m."""
        robot = self._robot
        yield f'    <body name={quoteattr(robot.base.name)} pos="0 0 {height!r}">'
        yield f'      <freejoint name="{ROOT_JOINT}"/>'
        yield f'      <site name="{IMU_SITE}" pos="{_text(robot.base.imu)}"/>'
        yield from self._content(self._base, 3)
        yield "    </body>"

    def _content(self, body: int, depth: int) -> Iterator[str]:
        model, indent = self._model, "  " * depth
        inertial = (
            f'pos="{_text(model.body_ipos[body])}" quat="{_text(model.body_iquat[body])}" '
            f'mass="{_text(model.body_mass[body : body + 1])}" '
            f'diaginertia="{_text(model.body_inertia[body])}"'
        )
        if model.body_mass[body] > 0.0:
            yield f"{indent}<inertial {inertial}/>"
        for geom in np.flatnonzero(model.geom_bodyid == body).tolist():
            yield from (f"{indent}{line}" for line in self._shape(geom))
        for child in np.flatnonzero(model.body_parentid == body).tolist():
            if child == body:
                continue
            name = quoteattr(model.body(child).name)
            place = f'pos="{_text(model.body_pos[child])}" quat="{_text(model.body_quat[child])}"'
            yield f"{indent}<body name={name} {place}>"
            first = model.body_jntadr[child]
            for joint in range(first, first + model.body_jntnum[child]):
                yield f"{indent}  {self._hinge(joint)}"
            yield from self._content(child, depth + 1)
            yield f"{indent}</body>"

    def _hinge(self, joint: int) -> str:
        model, dof = self._model, self._model.jnt_dofadr[joint]
        name = model.joint(joint).name
        ours = self._robot.links[self._robot.joint_names.index(name)].joint
        limits = f'range="{_text(model.jnt_range[joint])}" ' if model.jnt_limited[joint] else ""
        return (
            f'<joint name={quoteattr(name)} pos="{_text(model.jnt_pos[joint])}" '
            f'axis="{_text(model.jnt_axis[joint])}" {limits}'
            f'armature="{_text(model.dof_armature[dof : dof + 1])}" damping="{ours.damping!r}" '
            f'frictionloss="{_text(model.dof_frictionloss[dof : dof + 1])}"/>'
        )

    def _shape(self, geom: int) -> Iterator[str]:
        model = self._model
        place = f'pos="{_text(model.geom_pos[geom])}"'
        if geom in self._feet:
            name, radius = foot_name(self._feet.index(geom)), _text(model.geom_size[geom, :1])
            yield f'<geom name="{name}" class="foot" {place} size="{radius}"/>'
            yield f'<site name="{name}" {place}/>'
            return
        kind = _SIZES.get(mujoco.mjtGeom(model.geom_type[geom]))
        if kind is None:
            raise self._unfit(
                f"has a {mujoco.mjtGeom(model.geom_type[geom]).name[7:].lower()} that touches the "
                f"ground at the link {model.body(model.geom_bodyid[geom]).name!r}; use a file "
                f"whose collision shapes are spheres, capsules, cylinders, ellipsoids and boxes"
            )
        name, count = kind
        yield (
            f'<geom type="{name}" {place} quat="{_text(model.geom_quat[geom])}" '
            f'size="{_text(model.geom_size[geom, :count])}"/>'
        )


def _text(numbers: Any) -> str:
    # Rounded, so that the digest does not follow the last bits of an engine's version.
    return " ".join(f"{float(number) + 0.0:.9g}" for number in numbers)
