"""Context features and graph of quadrupeds: one token per actuator."""

from collections.abc import Sequence

import numpy as np

from gmc_bench.core.types import DoubleArray
from gmc_bench.robots.model import CompiledRobot
from gmc_bench.robots.schema import LEGS, SEGMENTS, Robot

GRAVITY = 9.81  # m/s^2
NUM_ACTUATORS = len(LEGS) * len(SEGMENTS)
ACTUATOR_PARENTS = (-1, 0, 1, 0, 3, 4, 0, 6, 7, 0, 9, 10)
"""Each actuator's parent: thigh under hip, calf under thigh. All hips move against the base, which
has no actuator and so no token: the first hip stands for it as the others' parent."""


def actuator_features(compiled: CompiledRobot) -> dict[str, DoubleArray]:
    """Return the context features of the twelve actuators by name, (12, width) each.

    They are scaled as in `TokenSpec.slices`. Actuators go leg by leg in the order of `LEGS`, each
    from hip to calf.
    """
    robot = compiled.robot
    anchors, axes = compiled.stance_geometry()
    lengths = _link_lengths(robot)
    leg = lengths[1] + lengths[2]
    weight = robot.mass * GRAVITY
    joints = [link.joint for link in robot.links]

    def column(values: Sequence[float]) -> DoubleArray:
        return np.array(values, np.float64)[:, None]

    return {
        "joint_limits": np.array(robot.soft_ranges) / np.pi,
        "default_angle": column(robot.pose.angles) / np.pi,
        "joint_anchor": 2.0 * anchors,
        "joint_axis": axes,
        "torque_limit": column([joint.torque_limit for joint in joints]) / (weight * leg),
        "velocity_limit": column([joint.velocity_limit for joint in joints]) / 30.0,
        "link_mass": 10.0 * column([link.inertial.mass for link in robot.links]) / robot.mass,
        "link_length": column(lengths) / leg,
        "active": np.ones((NUM_ACTUATORS, 1)),
    }


def _link_lengths(robot: Robot) -> list[float]:
    """Return the distance from each joint to the next one, or to the foot, m."""
    lengths = []
    for index in range(NUM_ACTUATORS):
        if index % len(SEGMENTS) < len(SEGMENTS) - 1:
            end = robot.links[index + 1].position
        else:
            end = robot.feet[index // len(SEGMENTS)].position
        lengths.append(float(np.linalg.norm(end)))
    return lengths
