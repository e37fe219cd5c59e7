"""Models of MuJoCo Menagerie, simulated instead of ours.

The optional package `mujoco-menagerie` downloads a model on first use and keeps it in its cache.
"""

import hashlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, get_args

import mujoco

from gmc_bench.core.errors import ConfigError
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


def load_original(robot: Robot) -> OriginalRobot:
    """Return a robot with the body of its model in MuJoCo Menagerie.

    Args:
        robot: the robot.

    Raises:
        ConfigError: the package `mujoco-menagerie` is not installed, the model cannot be
            downloaded, or Menagerie has no such robot.
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
