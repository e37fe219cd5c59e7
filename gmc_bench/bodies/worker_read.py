"""Describe a model that the engine compiled, in plain numbers; used inside the worker process."""

import base64
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import mujoco
import numpy as np

from gmc_bench.bodies.mesh_formats import needs_conversion, stl_name, to_stl
from gmc_bench.bodies.model_files import clean_name
from gmc_bench.bodies.worker_frames import are_global, parse_global, to_local
from gmc_bench.bodies.worker_urdf import (
    RefusalError,
    describe_ties,
    mend,
    turn_between,
    untie,
    without_weights,
    world_point,
)

_MAX_PARTS = 4096  # of each kind, in a model that is described
_COUNTED = {
    "nbody": "bodies", "njnt": "joints", "ngeom": "geoms", "nactuator": "motors",
    "neq": "constraints",
}  # fmt: skip
_HINGE_OR_SLIDE = (2, 3)
_JOINT_KINDS = (int(mujoco.mjtTrn.mjTRN_JOINT), int(mujoco.mjtTrn.mjTRN_JOINTINPARENT))
_BITS = 2**31 - 1
_MAX_GROUP = 30  # the last group of actuators that can be switched off
_FLAGS = (
    "constraint", "equality", "frictionloss", "limit", "contact", "spring", "damper", "gravity",
    "clampctrl", "actuation", "filterparent",
)  # fmt: skip
"""Parts of the physics that files can switch off."""
_FLAT = re.compile(r"mesh volume is too small: (.*?) ?\. Try")
"""How the engine refuses a mesh, and its name."""


class _Compiled(NamedTuple):
    """A model that the engine compiled, and what had to change."""

    model: Any
    mended: Sequence[str] = ()
    """Links whose inertias changed."""
    was_global: bool = False
    """Its coordinates were global ones."""
    dense: Sequence[str] = ()
    """Links that state no mass and got that of their shapes, see `without_weights`."""


def _compile(request: dict[str, Any], text: str) -> _Compiled:
    """Compile a model, a URDF if need be without what the engine refuses but need not."""
    files = {name: base64.b64decode(data) for name, data in request["files"].items()}
    files |= {
        stl_name(name): _stl(name, d) for name, d in files.items() if needs_conversion(name, d)
    }
    stated = text
    dense: list[str] = []
    if request["urdf"]:
        text, dense = without_weights(stated)
    try:
        return _Compiled(_compile_once(text, files), dense=dense)
    except ValueError as error:
        if are_global(error) and not request["urdf"]:
            spec = parse_global(text, files)
            to_local(spec, literal=_finish(spec))
            return _Compiled(_finish(spec), was_global=True)
    mended: Sequence[str] = ()
    sheets: list[str] = []
    if request["urdf"]:
        text, mended = mend(stated)
        text, dense = without_weights(text)  # after it: no mass is nothing to mend
        while True:
            try:
                return _Compiled(_compile_once(text, files, sheets), mended, dense=dense)
            except ValueError as error:
                flat = _FLAT.search(str(error))
                if flat is None or flat[1] in sheets:
                    break
                sheets.append(flat[1])
    # A base that floats in a link named "world" compiles only when that link is the world.
    return _Compiled(mujoco.MjModel.from_xml_string(text, assets=files), mended, dense=dense)


def _stl(name: str, data: bytes) -> bytes:
    try:
        return to_stl(name, data)
    except ValueError as error:
        raise RefusalError(str(error)) from error


def _compile_once(text: str, files: Mapping[str, bytes], sheets: Sequence[str] = ()) -> Any:
    """Compile a model; of the meshes `sheets` the surface has mass and not the volume."""
    spec = mujoco.MjSpec.from_string(text, include=files, assets=files)
    for mesh in spec.meshes:
        if mesh.name in sheets:
            mesh.inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL
    return _finish(spec)


def _finish(spec: Any) -> Any:
    # Links joined by fixed joints stay apart from the world, so that the base is found.
    spec.compiler.fusestatic = False
    # Nothing is simulated here, so files that reserve gigabytes for it need not get them.
    spec.memory = spec.nstack = spec.nconmax = spec.njmax = -1
    return spec.compile()


def read_model(request: dict[str, Any]) -> dict[str, Any]:
    """Compile and describe a model, see `Sandbox.read`.

    Raises:
        RefusalError: it has parts that are not described.
    """
    text: str = request["text"]
    ties: list[ET.Element] = []
    locked: list[str] = []
    if request["urdf"]:
        text, ties, locked = untie(text)
    model, mended, was_global, dense = _compile(request, text)
    for key, what in _COUNTED.items():
        if getattr(model, key) > _MAX_PARTS:
            raise RefusalError(
                f"has {getattr(model, key)} {what}; {_MAX_PARTS} are the most that are read"
            )
    if model.nflex or model.nplugin:
        raise RefusalError("has flexible parts or plugins, which are not supported; remove them")
    data = mujoco.MjData(model)
    clamped = _start_pose(model, data, request.get("keyframe"))
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    return {
        "bodies": _bodies(model, data),
        "joints": _joints(model, data),
        "geoms": _geoms(model, data),
        "actuators": _actuators(model),
        "equalities": [*describe_equalities(model, data), *describe_ties(model, data, ties)],
        "exclusions": [[int(s) >> 16, int(s) & 0xFFFF] for s in model.exclude_signature],
        "pairs": int(model.npair),
        "tendons": int(model.ntendon),
        "clamped": clamped,
        "locked": locked,
        "mended": mended,
        "was_global": was_global,
        "dense": dense,
        "keyframes": [clean_name(model.key(i).name) for i in range(model.nkey)],
        "timestep": float(model.opt.timestep),
        "fluid": bool(model.opt.density or model.opt.viscosity),
        "gravity": model.opt.gravity.tolist(),
        "disabled": [flag for flag in _FLAGS if model.opt.disableflags & _bit(flag)],
    }


def _bit(flag: str) -> int:
    return int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag.upper()}"))


def _start_pose(model: Any, data: Any, keyframe: str | None) -> list[str]:
    names = [clean_name(model.key(i).name) for i in range(model.nkey)]
    if keyframe not in (None, "none"):
        if keyframe not in names:
            raise RefusalError(f"has no keyframe {keyframe!r}; it has {names or 'none'}")
        data.qpos[:] = model.key_qpos[names.index(keyframe)]
    elif keyframe is None and "home" in names:
        data.qpos[:] = model.key_qpos[names.index("home")]
    clamped = []
    for joint in range(model.njnt):
        if model.jnt_limited[joint] and model.jnt_type[joint] in _HINGE_OR_SLIDE:
            place = model.jnt_qposadr[joint]
            lower, upper = model.jnt_range[joint]
            if not lower - 1e-6 <= data.qpos[place] <= upper + 1e-6:
                clamped.append(clean_name(model.joint(joint).name))
            data.qpos[place] = min(max(data.qpos[place], lower), upper)
    return clamped


def _bodies(model: Any, data: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": clean_name(model.body(b).name),
            "parent": int(model.body_parentid[b]),
            "position": data.xpos[b].tolist(),
            "turn": data.xmat[b].tolist(),
            "mass": float(model.body_mass[b]),
            "centre": data.xipos[b].tolist(),
            "axes": data.ximat[b].tolist(),
            "moments": model.body_inertia[b].tolist(),
            "floats": bool(model.body_gravcomp[b]),
        }
        for b in range(model.nbody)
    ]


def _joints(model: Any, data: Any) -> list[dict[str, Any]]:
    found = []
    # What motors add to their joints is there whatever becomes of the motors.
    inertia, damping = np.zeros(model.njnt), np.zeros(model.njnt)
    curved = {int(j) for j in np.flatnonzero(np.any(model.jnt_stiffnesspoly, axis=1))}
    curved |= {int(model.dof_jntid[d]) for d in np.flatnonzero(np.any(model.dof_dampingpoly, 1))}
    for a in range(model.nactuator):
        if int(model.actuator_trntype[a]) in _JOINT_KINDS:
            j = int(model.actuator_trnid[a, 0])
            gear = float(model.actuator_gear[model.actuator_outadr[a], 0])
            inertia[j] += gear * gear * model.actuator_armature[a]
            damping[j] += gear * gear * model.actuator_damping[a]
            if model.actuator_dampingpoly[a].any():
                curved.add(j)
    for j in range(model.njnt):
        place, dof = int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j])
        found.append({
            "name": clean_name(model.joint(j).name),
            "body": int(model.jnt_bodyid[j]),
            "kind": ["free", "ball", "slide", "hinge"][int(model.jnt_type[j])],
            "anchor": data.xanchor[j].tolist(),
            "axis": data.xaxis[j].tolist(),
            "value": float(data.qpos[place]),
            "limited": bool(model.jnt_limited[j]),
            "range": model.jnt_range[j].tolist(),
            "stiffness": float(np.ravel(model.jnt_stiffness[j])[0]),
            "rest": float(model.qpos_spring[place]),
            "damping": float(np.ravel(model.dof_damping[dof])[0] + damping[j]),
            "armature": float(model.dof_armature[dof] + inertia[j]),
            "friction": float(model.dof_frictionloss[dof]),
            "torque": model.jnt_actfrcrange[j].tolist() if model.jnt_actfrclimited[j] else None,
            "curved": j in curved,
            "backward": _backward(model.jnt_range[j], model.jnt_actfrcrange[j]),
        })  # fmt: skip
    return found


def _backward(*ranges: Any) -> bool:
    """Return whether a range starts above its end, which the engine takes for no range."""
    return any(low > high for low, high in ranges)


def _geoms(model: Any, data: Any) -> list[dict[str, Any]]:
    kinds = {int(kind): kind.name.removeprefix("mjGEOM_").lower() for kind in (
        mujoco.mjtGeom(i) for i in range(9))}  # fmt: skip
    return [
        {
            "body": int(model.geom_bodyid[g]),
            "kind": kinds.get(int(model.geom_type[g]), "other"),
            "position": data.geom_xpos[g].tolist(),
            "turn": data.geom_xmat[g].tolist(),
            "size": model.geom_size[g].tolist(),
            "box": model.geom_aabb[g].tolist(),
            # The sign bit of -1, which stands for all bits, cannot be written.
            "contype": int(model.geom_contype[g]) & _BITS,
            "conaffinity": int(model.geom_conaffinity[g]) & _BITS,
        }
        for g in range(model.ngeom)
    ]


def _actuators(model: Any) -> list[dict[str, Any]]:
    # Some kinds have several controls or outputs; those here have one of each.
    control, output = model.actuator_ctrladr, model.actuator_outadr
    return [
        {
            "name": clean_name(model.actuator(a).name),
            "joint": int(model.actuator_trnid[a, 0])
            if int(model.actuator_trntype[a]) in _JOINT_KINDS
            else -1,
            "gear": float(model.actuator_gear[output[a], 0]),
            "gain": float(model.actuator_gainprm[a, 0]),
            "gain_kind": mujoco.mjtGain(int(model.actuator_gaintype[a])).name,
            "bias": model.actuator_biasprm[a, :3].tolist(),
            "bias_kind": mujoco.mjtBias(int(model.actuator_biastype[a])).name,
            "dynamics": mujoco.mjtDyn(int(model.actuator_dyntype[a])).name,
            "delay": float(model.actuator_delay[a]),
            "disabled": 0 <= (group := int(model.actuator_group[a])) <= _MAX_GROUP
            and bool(int(model.opt.disableactuator) >> group & 1),
            "control": model.actuator_ctrlrange[control[a]].tolist()
            if model.actuator_ctrllimited[control[a]]
            else None,
            "force": model.actuator_forcerange[a].tolist()
            if model.actuator_forcelimited[a]
            else None,
            "backward": _backward(
                model.actuator_ctrlrange[control[a]], model.actuator_forcerange[a]
            ),
        }
        for a in range(model.nactuator)
    ]


def describe_equalities(model: Any, data: Any) -> list[dict[str, Any]]:
    """Describe constraints.

    `anchors` is where the two bodies have the joint's centre, world, m; `turn` by how much the two
    bodies of a weld are turned against the pose that it keeps, rad.
    """
    found = []
    for e in range(model.neq):
        kind = mujoco.mjtEq(int(model.eq_type[e])).name.removeprefix("mjEQ_").lower()
        row: dict[str, Any] = {"kind": kind, "active": bool(model.eq_active0[e])}
        if kind in ("connect", "weld"):
            ends = [int(model.eq_obj1id[e]), int(model.eq_obj2id[e])]
            numbers = model.eq_data[e]
            if int(model.eq_objtype[e]) == int(mujoco.mjtObj.mjOBJ_SITE):
                row["anchors"] = [_site(model, data, site) for site in ends]
                row["bodies"] = [int(model.site_bodyid[site]) for site in ends]
                row["turn"] = turn_between(
                    *([data.xquat[model.site_bodyid[site]], model.site_quat[site]] for site in ends)
                )
            else:
                # A weld has the point of its second body first.
                points = (numbers[:3], numbers[3:6])
                row["bodies"] = ends
                row["turn"] = turn_between(
                    [data.xquat[ends[0]], numbers[6:10]], [data.xquat[ends[1]]]
                )
                row["anchors"] = [
                    world_point(data, body, point)
                    for body, point in zip(
                        ends, points if kind == "connect" else points[::-1], strict=True
                    )
                ]
            if kind == "connect":
                row["turn"] = 0.0
        found.append(row)
    return found


def _site(model: Any, data: Any, site: int) -> list[float]:
    return world_point(data, int(model.site_bodyid[site]), model.site_pos[site])
