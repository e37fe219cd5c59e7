"""The models of MuJoCo Menagerie: compared with ours, or simulated instead of them.

The optional package `mujoco-menagerie` downloads a model on first use and keeps it in its cache.
Models are compared at joint angles zero in the frame of the base, so that rotated link frames do
not count. Known differences: see `Robot.sources`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, get_args

import mujoco
import numpy as np

from gmc_bench.core.errors import ConfigError, MorphologyError
from gmc_bench.core.types import DoubleArray
from gmc_bench.robots.model import compile_robot
from gmc_bench.robots.original import read_original
from gmc_bench.robots.schema import OriginalRobot, Robot

EXTRA = "pip install 'gmc-bench[menagerie]'"
"""Command that installs the package."""

RobotSource = Literal["built-in", "menagerie"]
"""Whose bodies are simulated: this package's, or those of MuJoCo Menagerie."""
ROBOT_SOURCES: tuple[RobotSource, ...] = get_args(RobotSource)

ENTRIES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "go1": ("unitree_go1", "go1"),
        "go2": ("unitree_go2", "go2"),
        "anymal-b": ("anybotics_anymal_b", "anymal_b"),
        "anymal-c": ("anybotics_anymal_c", "anymal_c"),
    }
)
"""Folder and model in Menagerie, by robot."""

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
    menagerie = _package(robot)
    try:
        model = menagerie.load(*ENTRIES[robot.name])
    except (menagerie.MenagerieError, OSError, ValueError) as error:
        raise _unavailable(robot, error) from error
    return compare_models(robot, model)


def load_original(robot: Robot) -> OriginalRobot:
    """Return a robot with the body of its model in MuJoCo Menagerie.

    Args:
        robot: the robot.

    Raises:
        ConfigError: see `compare_with_menagerie`.
        MorphologyError: see `read_original`.
    """
    menagerie = _package(robot)
    folder, entry = ENTRIES[robot.name]
    try:
        path = menagerie.get(folder).xml(entry)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        spec = mujoco.MjSpec.from_file(str(path))
    except (menagerie.MenagerieError, OSError, ValueError) as error:
        raise _unavailable(robot, error) from error
    return read_original(
        robot, spec, f"mujoco_menagerie {folder}/{path.name} (sha256 {digest[:12]})"
    )


def bodies_from(source: RobotSource, bodies: Sequence[Robot]) -> list[Robot]:
    """Return the same robots with the bodies of a source.

    Args:
        source: whose bodies; `built-in` changes nothing.
        bodies: as this package describes them.

    Raises:
        ConfigError: see `load_original`.
        MorphologyError: see `load_original`.
    """
    if source == "built-in":
        return list(bodies)
    return [load_original(body) for body in bodies]


def _package(robot: Robot) -> Any:
    """Return the package that has a model of a robot."""
    if robot.name not in ENTRIES:
        raise ConfigError(
            f"the robot {robot.name!r} has no model in MuJoCo Menagerie; known: "
            f"{', '.join(ENTRIES)}"
        )
    try:
        return import_module("mujoco_menagerie")
    except ImportError as error:
        raise ConfigError(
            "models of MuJoCo Menagerie need the package mujoco-menagerie, which is not "
            f"installed; run: {EXTRA}"
        ) from error


def _unavailable(robot: Robot, error: Exception) -> ConfigError:
    return ConfigError(
        f"mujoco-menagerie cannot provide the robot {robot.name!r} "
        f"({' '.join(str(error).split())}); connect to the internet or set MENAGERIE_ROOT to a "
        f"copy of Menagerie"
    )


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
