"""Quadrupeds as code: descriptions, models without meshes, drives and foot friction."""

from collections.abc import Mapping
from types import MappingProxyType

from gmc_bench.core.errors import UnknownNameError, did_you_mean
from gmc_bench.robots.anymal_b import ANYMAL_B
from gmc_bench.robots.anymal_c import ANYMAL_C
from gmc_bench.robots.go1 import GO1
from gmc_bench.robots.go2 import GO2
from gmc_bench.robots.schema import LEGS, SEGMENTS, SHARED_JOINTS, Robot

__all__ = [
    "ANYMAL_B",
    "ANYMAL_C",
    "GO1",
    "GO2",
    "LEGS",
    "ROBOTS",
    "SEGMENTS",
    "SHARED_JOINTS",
    "Robot",
    "get_robot",
]

ROBOTS: Mapping[str, Robot] = MappingProxyType(
    {robot.name: robot for robot in (GO1, GO2, ANYMAL_B, ANYMAL_C)}
)
"""Every quadruped by id."""


def get_robot(name: str) -> Robot:
    """Return a quadruped by id.

    Raises:
        UnknownNameError: there is none of that name; the message names the closest.
    """
    if name not in ROBOTS:
        raise UnknownNameError(f"unknown robot {name!r}{did_you_mean(name, ROBOTS)}")
    return ROBOTS[name]
