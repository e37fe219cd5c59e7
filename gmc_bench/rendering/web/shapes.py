"""Shapes of a drawing model as plain values, for a page that draws them."""

import base64
import gzip
from typing import Any

import mujoco
import numpy as np

from gmc_bench.core.types import Array, DoubleArray
from gmc_bench.rendering.ground import HIDDEN

_SHAPES = {
    mujoco.mjtGeom.mjGEOM_PLANE.value: "plane",
    mujoco.mjtGeom.mjGEOM_HFIELD.value: "field",
    mujoco.mjtGeom.mjGEOM_SPHERE.value: "sphere",
    mujoco.mjtGeom.mjGEOM_CAPSULE.value: "capsule",
    mujoco.mjtGeom.mjGEOM_ELLIPSOID.value: "ellipsoid",
    mujoco.mjtGeom.mjGEOM_CYLINDER.value: "cylinder",
    mujoco.mjtGeom.mjGEOM_BOX.value: "box",
    mujoco.mjtGeom.mjGEOM_MESH.value: "mesh",
}
_CONNECT, _WELD = mujoco.mjtEq.mjEQ_CONNECT.value, mujoco.mjtEq.mjEQ_WELD.value
_GROUND = {"gmc/floor": "floor", "gmc/patch": "patch"}
"""What a material of the scenery means."""
_LOOP_COLOR = [0.13, 0.13, 0.16]
_LOOP_SIZE = 1.25  # of a mark, in radii of the limb


def packed(values: Array) -> str:
    """Return numbers as text: little-endian bytes, gzip, base64; equal numbers give equal text."""
    little = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return base64.b64encode(gzip.compress(little.tobytes(), 9, mtime=0)).decode()


def describe_model(model: Any, square: float) -> dict[str, Any]:
    """Return what a page needs to draw a model but for the places of its bodies.

    Args:
        model: a `mujoco.MjModel` for drawing, with its terrain.
        square: side of a square of the ground, m.

    Returns:
        Values for JSON: `bodies`, how many move (body k is the engine's k + 1); `square`; `shapes`,
        each with `kind`, `body` (-1: the world), `size` (MuJoCo's, m), `place` (x y z, m) and
        `turn` (quaternion w x y z) in the frame of its body, `color` (0 to 1), and `ground`, which
        is there on squares only; height fields have `rows`, `columns` and `heights` (packed
        uint16, share of the third size), meshes `vertices` (packed float32) and `faces` (uint32).
    """
    shown = [index for index in range(model.ngeom) if model.geom_group[index] != HIDDEN]
    shapes = [_shape(model, index) for index in shown if model.geom_type[index] in _SHAPES]
    return {
        "bodies": int(model.nbody) - 1,
        "square": square,
        "shapes": shapes + _loop_marks(model),
    }


def _shape(model: Any, index: int) -> dict[str, Any]:
    kind = _SHAPES[int(model.geom_type[index])]
    material = int(model.geom_matid[index])
    found: dict[str, Any] = {
        "kind": kind,
        "body": int(model.geom_bodyid[index]) - 1,
        "size": _rounded(model.geom_size[index]),
        "place": _rounded(model.geom_pos[index]),
        "turn": _rounded(model.geom_quat[index]),
        "color": _rounded(model.geom_rgba[index][:3], 3),
    }
    if material >= 0 and (ground := _GROUND.get(model.material(material).name)):
        found["ground"] = ground
    if kind == "field":
        found |= _field(model, int(model.geom_dataid[index]))
    if kind == "mesh":
        found |= _mesh(model, int(model.geom_dataid[index]))
    return found


def _field(model: Any, field: int) -> dict[str, Any]:
    rows, columns = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])
    start = int(model.hfield_adr[field])
    heights = np.round(model.hfield_data[start : start + rows * columns] * 65535)
    return {
        "size": _rounded(model.hfield_size[field]),
        "rows": rows,
        "columns": columns,
        "heights": packed(heights.astype(np.uint16)),
    }


def _mesh(model: Any, mesh: int) -> dict[str, Any]:
    start, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    first, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    return {
        "vertices": packed(model.mesh_vert[start : start + count].astype(np.float32)),
        "faces": packed(model.mesh_face[first : first + faces].astype(np.uint32)),
    }


def _loop_marks(model: Any) -> list[dict[str, Any]]:
    """Return a dark ball at both ends of every closed loop: they part when a loop comes open."""
    marks: list[dict[str, Any]] = []
    for index in range(model.neq):
        kind = int(model.eq_type[index])
        if kind not in (_CONNECT, _WELD):
            continue
        bodies = (int(model.eq_obj1id[index]), int(model.eq_obj2id[index]))
        places = model.eq_data[index, :3], model.eq_data[index, 3:6]
        if kind == _WELD:
            places = places[::-1]  # of a weld, the second body's comes first
        for body, place in zip(bodies, places, strict=True):
            radius = float(model.geom_size[model.body_geomadr[body], 0])
            marks.append(
                {
                    "kind": "sphere",
                    "body": body - 1,
                    "size": _rounded(np.array([_LOOP_SIZE * radius])),
                    "place": _rounded(place),
                    "turn": [1.0, 0.0, 0.0, 0.0],
                    "color": _LOOP_COLOR,
                }
            )
    return marks


def _rounded(values: DoubleArray, digits: int = 6) -> list[float]:
    return [round(float(value), digits) for value in values]
