"""Sets of bodies and robots that packages offer, found by their entry points."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.core.errors import GmcBenchError, PluginError
from gmc_bench.core.registry import Registry, raised_at


@dataclass(frozen=True, kw_only=True, slots=True)
class BodySet:
    """A set of bodies as a package offers it; it is built when it is first used."""

    build: Callable[[], MorphologySet]
    """Returns the set, the same bodies each time; its id is the name of the entry point."""
    origin: Literal["generated", "built in", "installed"] = "installed"
    """Where the bodies come from, for lists; those of other packages are installed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RobotFile:
    """A robot as a MJCF or URDF file of a package; a set of this one body."""

    path: Path
    """The file, e.g. `Path(__file__).with_name("robot.xml")`; what it refers to is beside it."""
    keyframe: str | None = None
    """The start pose, see `Sandbox.read`."""
    root: Path | None = None
    """The folder outside of which nothing is read; None takes that of the file."""
    source: str = ""
    """Where the robot comes from, one sentence."""
    licence: str = "unknown"


BODY_SETS: Registry[BodySet] = Registry("morphology set", "gmc_bench.body_sets", BodySet, "BODIES")
"""Sets of bodies: entry points of the group `gmc_bench.body_sets`."""

ROBOT_FILES: Registry[RobotFile] = Registry("robot", "gmc_bench.robots", RobotFile, "ROBOT")
"""Robots as files: entry points of the group `gmc_bench.robots`."""


def registered_sets() -> set[str]:
    """Return the ids of all sets that packages offer; a robot is a set of one body."""
    return {*BODY_SETS.names(), *ROBOT_FILES.names()}


def build_set(set_id: str) -> MorphologySet:
    """Build a set that a package offers.

    Args:
        set_id: one of `registered_sets`.

    Raises:
        UnknownNameError: no package offers it.
        PluginError: it fails to load or to build, or is not what it should be.
        MorphologyError: the robot cannot be used; one sentence says why.
    """
    if set_id in ROBOT_FILES.names():
        return _read_robot(set_id, ROBOT_FILES.get(set_id))
    build = BODY_SETS.get(set_id).build
    try:
        bodies = build()
    except GmcBenchError:
        raise
    except Exception as error:  # building runs foreign code
        raise PluginError(
            f"the morphology set {set_id!r} could not be built: {type(error).__name__}: {error}"
            f"{raised_at(error)}"
        ) from error
    if not isinstance(bodies, MorphologySet) or bodies.id != set_id:
        found = repr(bodies.id) if isinstance(bodies, MorphologySet) else type(bodies).__name__
        raise PluginError(
            f"building the morphology set {set_id!r} gave {found}; expected a MorphologySet whose "
            f"id is the name of its entry point"
        )
    return bodies


@cache
def _read_robot(set_id: str, robot: RobotFile) -> MorphologySet:
    from gmc_bench.bodies.robot_import import read_robots

    bodies, _ = read_robots(set_id, robot.path, keyframe=robot.keyframe, root=robot.root)
    return replace(bodies, source=robot.source or bodies.source, licence=robot.licence)
