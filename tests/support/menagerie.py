"""Comparison of our robots with the models of MuJoCo Menagerie.

Models are compared at joint angles zero in the frame of the base, so that rotated link frames do
not count. Known differences: see `Robot.sources`.
"""

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from gmc_bench.core.errors import MorphologyError
from gmc_bench.core.types import DoubleArray
from gmc_bench.robots import menagerie
from gmc_bench.robots.model import compile_robot
from gmc_bench.robots.schema import Robot

_TOLERANCES = {
    "mass": 1e-5,  # kg
    "com": 1e-6,  # m
    "inertia": 1e-6,  # kg m^2
    "anchor": 1e-6,  # m
    "axis": 1e-6,
    "range": 1e-3,  # rad; some files round degrees
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One quantity in which two models of a robot disagree."""

    part: str
    """Name of the link or joint."""
    quantity: str
    """`mass` kg, `com` m, `inertia` kg m^2, `anchor` m, `axis` or `range` rad."""
    ours: tuple[float, ...]
    theirs: tuple[float, ...]


def compare_with_menagerie(robot: Robot) -> list[Difference]:
    """Compare a robot with its model in MuJoCo Menagerie.

    Args:
        robot: the robot.

    Returns:
        Where the two disagree, base first; empty if they agree.

    Raises:
        ConfigError: the package `mujoco-menagerie` is not installed, the model cannot be
            downloaded, or Menagerie has no such robot.
        MorphologyError: their model lacks one of the links or joints.
    """
    package = menagerie._package(robot)
    try:
        model = package.load(*menagerie.ENTRIES[robot.name])
    except (package.MenagerieError, OSError, ValueError) as error:
        raise menagerie._unavailable(robot, error) from error
    return compare_models(robot, model)


def compare_models(robot: Robot, model: Any) -> list[Difference]:
    """Compare a robot with any model that names its links and joints as the maker does.

    Args:
        robot: the robot.
        model: `mujoco.MjModel`.

    Returns:
        Where the two disagree, base first; empty if they agree.

    Raises:
        MorphologyError: the model lacks one of the links or joints.
    """
    ours, theirs = _numbers(robot, compile_robot(robot).model), _numbers(robot, model)
    return [
        Difference(part=part, quantity=quantity, ours=_rounded(mine), theirs=_rounded(theirs[key]))
        for key, mine in ours.items()
        for part, quantity in [key]
        if np.abs(mine - theirs[key]).max() > _TOLERANCES[quantity]
    ]


def _rounded(numbers: DoubleArray) -> tuple[float, ...]:
    return tuple(float(f"{number:.9g}") for number in numbers)


def _numbers(robot: Robot, model: Any) -> dict[tuple[str, str], DoubleArray]:
    """Return every compared quantity by part and name, in the frame of the base."""
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    base = _find(model, mujoco.mjtObj.mjOBJ_BODY, robot.base.name, robot)
    origin, turn = data.xpos[base].copy(), data.xmat[base].reshape(3, 3).T.copy()
    found: dict[tuple[str, str], DoubleArray] = {}
    for name in (robot.base.name, *(link.name for link in robot.links)):
        body = _find(model, mujoco.mjtObj.mjOBJ_BODY, name, robot)
        axes = turn @ data.ximat[body].reshape(3, 3)
        tensor = axes @ np.diag(model.body_inertia[body]) @ axes.T
        found[name, "mass"] = model.body_mass[body : body + 1].copy()
        found[name, "com"] = turn @ (data.xipos[body] - origin)
        found[name, "inertia"] = tensor[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
    for name in robot.joint_names:
        joint = _find(model, mujoco.mjtObj.mjOBJ_JOINT, name, robot)
        found[name, "anchor"] = turn @ (data.xanchor[joint] - origin)
        found[name, "axis"] = turn @ data.xaxis[joint]
        found[name, "range"] = model.jnt_range[joint].copy()
    return found


def _find(model: Any, kind: Any, name: str, robot: Robot) -> int:
    place = int(mujoco.mj_name2id(model, kind, name))
    if place < 0:
        raise MorphologyError(
            f"the model to compare with the robot {robot.name!r} has no part named {name!r}; "
            f"expected the maker's names"
        )
    return place
