"""The model that is drawn: the simulated one with colours, light and ground with squares."""

import colorsys
from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np

from gmc_bench.bodies.engine_library import engine_library
from gmc_bench.bodies.mjcf import emit_mjcf
from gmc_bench.bodies.schema import Morphology
from gmc_bench.core.types import DoubleArray
from gmc_bench.sim.model import Scene

Color = tuple[int, int, int]
"""Red, green, blue, 0 to 255."""

TORSO_COLOR: Color = (196, 196, 200)
SQUARE = 0.5  # m, side of a square of the ground
FIELD_OF_VIEW = 35.0  # degrees, vertical
_GOLDEN = 0.61803398875  # of a turn: neighbours in a list get unlike hues
_ASSETS = """
<asset>
  <texture name="gmc/sky" type="skybox" builtin="gradient" rgb1="0.93 0.95 0.98"
    rgb2="0.62 0.74 0.88" width="128" height="128"/>
  <texture name="gmc/floor" type="2d" builtin="checker" rgb1="0.80 0.82 0.84"
    rgb2="0.64 0.68 0.72" width="256" height="256"/>
  <texture name="gmc/patch" type="2d" builtin="checker" rgb1="0.79 0.83 0.72"
    rgb2="0.62 0.70 0.58" width="256" height="256"/>
  <material name="gmc/floor" texture="gmc/floor" texuniform="true" texrepeat="{repeat} {repeat}"
    specular="0" shininess="0" reflectance="0"/>
  <material name="gmc/patch" texture="gmc/patch" texuniform="true" texrepeat="{repeat} {repeat}"
    specular="0" shininess="0" reflectance="0"/>
</asset>"""
_COLORS = {"wall": "0.74 0.68 0.58 1", "box": "0.58 0.64 0.74 1"}
"""Of upright things, by the first word of their name."""
_VISUAL = """
<visual>
  <global fovy="{fovy}"/>
  <headlight ambient="0.42 0.42 0.42" diffuse="0.30 0.30 0.30" specular="0 0 0"/>
  <quality shadowsize="1024" offsamples="4"/>
  <map znear="0.05" zfar="80" shadowclip="1.5" shadowscale="0.2" haze="0.4"/>
  <rgba haze="0.93 0.95 0.98 1"/>
</visual>"""
# A spot high up: shadows of a directional light come out dotted with software OpenGL.
_LIGHT = """
<light mode="trackcom" directional="false" pos="-3 -4 10" dir="0.3 0.4 -1" cutoff="80"
  exponent="0" castshadow="true" ambient="0 0 0" diffuse="0.4 0.4 0.4"
  specular="0.15 0.15 0.15"/>"""
# Lights what is too far for the spot, and the slopes of the ground unlike.
_SUN = """
<light directional="true" dir="0.5 0.35 -1" castshadow="false" ambient="0 0 0"
  diffuse="0.28 0.28 0.28" specular="0 0 0"/>"""


def limb_colors(morphology: Morphology) -> tuple[Color, ...]:
    """Return the colour of every limb: grey for the torso, a hue of its own for each other."""
    colors = []
    for index in range(morphology.num_limbs):
        red, green, blue = colorsys.hsv_to_rgb((0.02 + index * _GOLDEN) % 1.0, 0.62, 0.88)
        colors.append((round(255 * red), round(255 * green), round(255 * blue)))
    return (TORSO_COLOR, *colors[1:])


def drawing_model(morphology: Morphology, scene: Scene, *, square: float = SQUARE) -> Any:
    """Compile a body for drawing.

    Its positions mean what they mean in the simulated model, so that a simulated state can be put
    into it. It must not be simulated.

    Args:
        morphology: the body.
        scene: where it is simulated. Its ground gets squares; random terrain is as compiled, see
            `ground.put_terrain`.
        square: side of a square of the ground, m.

    Returns:
        A `mujoco.MjModel`; body i + 1 is limb i.
    """
    engine_library()
    root = ElementTree.fromstring(
        emit_mjcf(morphology, floor=scene.floor, spawn=scene.spawn, assets=scene.assets)
    )
    add_scenery(root, square=square)
    for geom in root.findall("worldbody/geom"):
        kind = geom.get("name", "").partition("/")[0]
        if kind in _COLORS:
            geom.set("rgba", _COLORS[kind])
        else:
            geom.set("material", ground_material(geom))
    model = mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))
    model.stat.extent = 2.0  # the unit of the clip distances above, m; a floor is no measure
    for index, color in enumerate(limb_colors(morphology)):
        own = model.geom_bodyid == index + 1
        model.geom_rgba[own] = (*(part / 255 for part in color), 1.0)
    assert model.nq == 7 + morphology.num_joints
    return model


def add_scenery(root: "ElementTree.Element", *, square: float = SQUARE) -> None:
    """Add sky, materials and lights to a model, one light of which follows its first body.

    Args:
        root: of a MJCF document; changed in place.
        square: side of a square of the ground, m.
    """
    # A texture holds two squares, and is repeated every two metres for a repetition of 1.
    root.append(ElementTree.fromstring(_ASSETS.format(repeat=1 / square)))
    root.append(ElementTree.fromstring(_VISUAL.format(fovy=FIELD_OF_VIEW)))
    world, body = root.find("worldbody"), root.find("worldbody/body")
    assert world is not None
    assert body is not None
    world.append(ElementTree.fromstring(_SUN))
    body.append(ElementTree.fromstring(_LIGHT))


def ground_material(geom: "ElementTree.Element") -> str:
    """Return the material of a part of the ground: patches are told from plain floor."""
    return "gmc/patch" if geom.get("type") == "hfield" else "gmc/floor"


def rest_state(model: Any) -> Any:
    """Return a `mujoco.MjData` of a drawing model in its start pose, lowered onto z = 0.

    Args:
        model: from `drawing_model`.
    """
    data = mujoco.MjData(model)
    lower(model, data, np.zeros(3), np.array([0.0, 0.0, 1.0]))
    return data


def lower(model: Any, data: Any, place: DoubleArray, upward: DoubleArray) -> None:
    """Move a body straight down, or up, until it touches a plane.

    Args:
        model: from `drawing_model`.
        data: its `mujoco.MjData`; positions are changed.
        place: (3,) float64, a point of the plane, m, world.
        upward: (3,) float64, the plane's upper side, unit vector.
    """
    mujoco.mj_kinematics(model, data)
    limbs = model.geom_bodyid > 0
    reach = np.array([_reach(model, data, geom, upward) for geom in range(model.ngeom)])
    lowest = (data.geom_xpos - place) @ upward - reach
    data.qpos[:3] -= lowest[limbs].min() * upward


def _reach(model: Any, data: Any, geom: int, upward: DoubleArray) -> float:
    """Return how far a shape reaches from its middle along a unit vector, m."""
    kinds = mujoco.mjtGeom
    size = model.geom_size[geom]
    along = np.abs(upward @ data.geom_xmat[geom].reshape(3, 3))  # its axes against the vector
    match model.geom_type[geom]:
        case kinds.mjGEOM_BOX:
            return float(along @ size)
        case kinds.mjGEOM_ELLIPSOID:
            return float(np.linalg.norm(along * size))
        case kinds.mjGEOM_CYLINDER:
            return float(size[1] * along[2] + size[0] * np.sqrt(max(0.0, 1.0 - along[2] ** 2)))
        case kinds.mjGEOM_CAPSULE:
            return float(size[1] * along[2] + size[0])
        case _:
            return float(size[0])
