"""The complete description of a quadruped, from which its model is built.

The shared order of links, joints and motors is FL, FR, RL, RR (front or rear, left or right), each
leg as hip, thigh, calf. It is the depth-first order of the kinematic tree, so that a link follows
its parent. Makers use other orders; `Robot.native_orders` holds them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gmc_bench.bodies.body import Parts
from gmc_bench.core.config import definition_digest
from gmc_bench.core.errors import MorphologyError, did_you_mean
from gmc_bench.core.types import IntArray
from gmc_bench.robots.parts import Base, Foot, Gains, Link, Pose
from gmc_bench.robots.validation import find_flaw

BUILT_IN = "built-in"
"""Origin of the robots that this package describes."""
LEGS = ("FL", "FR", "RL", "RR")
SEGMENTS = ("hip", "thigh", "calf")
SHARED_JOINTS = tuple(f"{leg}_{segment}" for leg in LEGS for segment in SEGMENTS)
"""What the twelve slots of the shared order are called, whatever the robot."""


@dataclass(frozen=True, kw_only=True)
class Robot:
    """One quadruped.

    Raises:
        MorphologyError: the links are not four legs of hip, thigh and calf in the shared order,
            names repeat, a number is not finite or not physical, the stance breaks a joint limit,
            a native order does not list every joint once, or a group of numbers has no source.
    """

    name: str
    """Id, lower case."""
    title: str
    """Name for people."""
    base: Base
    links: tuple[Link, ...]
    """Twelve, in the shared order."""
    feet: tuple[Foot, ...]
    """One per leg, in the order of `LEGS`."""
    gains: Gains
    pose: Pose
    soft_limit_factor: float
    """Share of the range, around its middle, that is used without penalty."""
    native_orders: Mapping[str, tuple[str, ...]]
    """Joint names in the order of other software, by the name of that order."""
    sources: Mapping[str, str]
    """Where each group of numbers comes from, see `SOURCE_GROUPS`."""

    def __post_init__(self) -> None:
        flaw = find_flaw(
            self.base, self.links, self.feet, self.gains, self.pose, self.soft_limit_factor,
            self.native_orders, self.sources,
        )  # fmt: skip
        if flaw is not None:
            raise MorphologyError(f"robot {self.name!r} {flaw}")

    @cached_property
    def digest(self) -> str:
        """SHA-256 over everything physical, 64 hex digits; names and sources do not count."""
        return definition_digest(self._anonymous())

    def _anonymous(self) -> "Robot":
        return replace(self, name="", title="", sources=dict.fromkeys(self.sources, "-"))

    @property
    def parts(self) -> Parts:
        """What tokens stand for."""
        return "actuators"

    @property
    def num_limbs(self) -> int:
        """Number of tokens, one per actuator."""
        return len(self.links)

    @property
    def joints_per_limb(self) -> int:
        """Actions per token."""
        return 1

    @property
    def simulated_from(self) -> str:
        """Where the simulated body comes from: `BUILT_IN`, or the file it was read from."""
        return BUILT_IN

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Names of the joints in the shared order."""
        return tuple(link.joint.name for link in self.links)

    @property
    def mass(self) -> float:
        """Total mass, kg."""
        return self.base.inertial.mass + sum(link.inertial.mass for link in self.links)

    @cached_property
    def soft_ranges(self) -> tuple[tuple[float, float], ...]:
        """Lower and upper soft limit of every joint in the shared order, rad.

        `feature_range` shrunk about its middle by `soft_limit_factor`, as IsaacLab shrinks the
        joint range.
        """
        ranges = []
        for link in self.links:
            lower, upper = link.joint.feature_range
            middle, half = (lower + upper) / 2, (upper - lower) / 2 * self.soft_limit_factor
            ranges.append((middle - half, middle + half))
        return tuple(ranges)

    def native_order(self, order: str) -> tuple[str, ...]:
        """Return the joint names in the order of other software.

        Raises:
            MorphologyError: this robot has no such order.
        """
        if order not in self.native_orders:
            raise MorphologyError(
                f"robot {self.name!r} has no joint order {order!r}"
                f"{did_you_mean(order, self.native_orders)}"
            )
        return self.native_orders[order]

    def native_places(self, order: str) -> IntArray:
        """Return the permutation p with `native = shared[..., p]`.

        Args:
            order: one of its native orders, e.g. `unitree-sdk`.

        Returns:
            (12,) int64; native slot i holds the joint of shared slot p[i].

        Raises:
            MorphologyError: this robot has no such order.
        """
        places = [self.joint_names.index(name) for name in self.native_order(order)]
        return np.array(places, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class OriginalRobot(Robot):
    """A quadruped whose body is that of a published model file.

    What is simulated (links, joints, inertias, collision shapes) is the file's. Everything else is
    the description's: names, drives, stance and limits, which is what controllers observe.
    """

    body: str
    """The base with its legs as MJCF, names as in the description; see `original.read_original`."""
    origin: str
    """Which file; no part of the digest."""

    @property
    def simulated_from(self) -> str:
        """The file that the simulated body was read from."""
        return self.origin

    def _anonymous(self) -> Robot:
        found = super()._anonymous()
        assert isinstance(found, OriginalRobot)
        return replace(found, origin="")
