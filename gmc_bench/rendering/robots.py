"""Film of a quadruped's trial."""

from typing import Any
from xml.etree import ElementTree

import mujoco
import numpy as np

from gmc_bench.core.types import Array
from gmc_bench.rendering.camera import follow
from gmc_bench.rendering.scene import add_scenery, ground_material
from gmc_bench.rendering.video import Film
from gmc_bench.robots.mjcf import FLOOR, HeightField, build_mjcf
from gmc_bench.robots.model import CompiledRobot

_BASE_COLOR = (0.77, 0.77, 0.78, 1.0)
_LEG_COLOR = (0.25, 0.45, 0.72, 1.0)
_FOOT_COLOR = (0.16, 0.16, 0.18, 1.0)
_DISTANCE = 6.5  # of the camera, in heights of the base
_WINDOW = 0.5  # s over which the speed is averaged


def drawing_robot(compiled: CompiledRobot) -> Any:
    """Compile a robot on its ground for drawing.

    Args:
        compiled: as it was simulated; its states can be put into the result.

    Returns:
        A `mujoco.MjModel`, which must not be simulated.
    """
    root = ElementTree.fromstring(build_mjcf(compiled.robot, terrain=_terrain(compiled)))
    add_scenery(root)
    floor = root.find("worldbody/geom")
    assert floor is not None
    floor.set("material", ground_material(floor))
    model = mujoco.MjModel.from_xml_string(ElementTree.tostring(root, encoding="unicode"))
    model.hfield_data[:] = compiled.model.hfield_data
    model.stat.extent = 2.0  # the unit of the clip distances
    model.geom_rgba[model.geom_bodyid > 0] = _LEG_COLOR
    model.geom_rgba[model.geom_bodyid == compiled.base_body] = _BASE_COLOR
    model.geom_rgba[compiled.foot_geoms] = _FOOT_COLOR
    return model


def _terrain(compiled: CompiledRobot) -> HeightField | None:
    """Return the ground that a robot was compiled on; `None` for a plane."""
    model = compiled.model
    if not model.nhfield:
        return None
    half_x, half_y, relief, _ = model.hfield_size[0].tolist()
    shape = (int(model.hfield_nrow[0]), int(model.hfield_ncol[0]))
    lowest = float(model.geom(FLOOR).pos[2])
    heights = lowest + relief * model.hfield_data.reshape(shape).astype(np.float64)
    return HeightField(heights=heights, half_extents=(half_x, half_y))


def film_of_robot(
    compiled: CompiledRobot, states: Array, control_dt: float, title: str, *, ending: str = ""
) -> Film:
    """Return the film of a trial.

    Args:
        compiled: the robot on its ground.
        states: (T + 1, 19) float64, positions as the engine holds them.
        control_dt: s between two of them.
        title: written at the top.
        ending: written over the last pictures; empty for nothing.
    """
    height, window = compiled.robot.pose.base_height, max(1, round(_WINDOW / control_dt))

    def numbers(step: int) -> tuple[str, str]:
        first = max(0, step - window)
        moved = float(np.linalg.norm(states[step, :2] - states[first, :2]))
        speed = moved / (max(step - first, 1) * control_dt)
        return f"{speed:.2f} m/s", f"{step * control_dt:.2f} s"

    return Film(
        title=title,
        model=drawing_robot(compiled),
        states=states,
        points=follow(states[:, :3], 0.6 * height, control_dt),
        distance=_DISTANCE * height,
        control_dt=control_dt,
        numbers=numbers,
        ending=ending,
    )
