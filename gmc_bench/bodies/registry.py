"""Sets of bodies and robots that packages offer, found by their entry points."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from gmc_bench.bodies.schema import MorphologySet
from gmc_bench.core.arguments import as_path
from gmc_bench.core.config import shown
from gmc_bench.core.errors import ConfigError
from gmc_bench.core.registry import Registry

BodyOrigin = Literal["generated", "built in", "installed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BodySet:
    """A set of bodies as a package offers it; it is built when it is first used.

    Raises:
        ConfigError: the origin is not known.
    """

    build: Callable[[], MorphologySet]
    """Returns the set, the same bodies each time; its id is the name of the entry point."""
    origin: BodyOrigin = "installed"
    """Where the bodies come from, for lists; those of other packages are installed."""

    def __post_init__(self) -> None:
        if self.origin not in get_args(BodyOrigin):
            raise ConfigError(
                f"the origin of a set of bodies must be one of {', '.join(get_args(BodyOrigin))}, "
                f"got {shown(self.origin)}"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class RobotFile:
    """A robot as a MJCF or URDF file of a package; a set of this one body.

    Raises:
        ConfigError: the file or the folder is named by neither text nor a path.
    """

    path: Path
    """The file, e.g. `Path(__file__).with_name("robot.xml")`; what it refers to is beside it."""
    keyframe: str | None = None
    """The start pose, see `Sandbox.read`."""
    root: Path | None = None
    """The folder outside of which nothing is read; None takes that of the file's package, see
    `package_around`."""
    armature: float = 0.0
    """Least armature of its joints, see `read_robot`."""
    source: str = ""
    """Where the robot comes from, one sentence."""
    licence: str = "unknown"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", as_path(self.path, "the file of a robot"))
        if self.root is not None:
            object.__setattr__(self, "root", as_path(self.root, "the folder of a robot's files"))


BODY_SETS: Registry[BodySet] = Registry("morphology set", "gmc_bench.body_sets", BodySet, "BODIES")
"""Sets of bodies: entry points of the group `gmc_bench.body_sets`."""

ROBOT_FILES: Registry[RobotFile] = Registry("robot", "gmc_bench.robots", RobotFile, "ROBOT")
"""Robots as files: entry points of the group `gmc_bench.robots`."""


def registered_sets() -> set[str]:
    """Return the ids of all sets that packages offer; a robot is a set of one body."""
    return {*BODY_SETS.names(), *ROBOT_FILES.names()}
