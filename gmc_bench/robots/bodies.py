"""Quadrupeds as the bodies of a set: a name, a content hash, a number of tokens."""

from dataclasses import dataclass, replace
from functools import cached_property

from gmc_bench.core.config import definition_digest
from gmc_bench.robots.schema import OriginalRobot, Robot

BUILT_IN = "built-in"
"""Origin of the robots that this package describes."""


def robot_digest(robot: Robot) -> str:
    """Return the SHA-256 of everything physical about a robot, 64 hex digits."""
    if isinstance(robot, OriginalRobot):
        robot = replace(robot, origin="")
    return definition_digest(
        replace(robot, name="", title="", sources=dict.fromkeys(robot.sources, "-"))
    )


@dataclass(frozen=True)
class RobotBody:
    """A quadruped where a set holds bodies; its tokens stand for actuators."""

    robot: Robot

    @property
    def name(self) -> str:
        """Id of the robot."""
        return self.robot.name

    @cached_property
    def digest(self) -> str:
        """Content hash; names and sources do not count."""
        return robot_digest(self.robot)

    @property
    def origin(self) -> str:
        """Where the simulated body comes from: `BUILT_IN`, or the file it was read from."""
        return self.robot.origin if isinstance(self.robot, OriginalRobot) else BUILT_IN

    @property
    def num_limbs(self) -> int:
        """Tokens."""
        return len(self.robot.links)

    @property
    def joints_per_limb(self) -> int:
        """Actions per token."""
        return 1
