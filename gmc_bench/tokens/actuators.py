"""Constants of robots with one token per actuator, computed once per robot."""

from collections.abc import Sequence

import numpy as np

from gmc_bench.core.errors import TokenOverflowError
from gmc_bench.core.types import DoubleArray
from gmc_bench.robots.bodies import robot_digest
from gmc_bench.robots.model import CompiledRobot
from gmc_bench.robots.schema import LEGS, SEGMENTS, Robot
from gmc_bench.tokens.spec import TokenSpec
from gmc_bench.tokens.table import PARENT_OF_PADDING, MorphologyTable

GRAVITY = 9.81
NUM_ACTUATORS = len(LEGS) * len(SEGMENTS)
ACTUATOR_PARENTS = (-1, 0, 1, 0, 3, 4, 0, 6, 7, 0, 9, 10)
"""Each actuator's parent: thigh under hip, calf under thigh. All hips move against the base, which
has no actuator and so no token: the first hip stands for it as the others' parent."""


def build_actuator_table(robots: Sequence[CompiledRobot], spec: TokenSpec) -> MorphologyTable:
    """Tabulate quadrupeds.

    Args:
        robots: M compiled robots.
        spec: layout of tokens that stand for actuators.

    Returns:
        The table, in the order of `robots`, tokens in the shared order of actuators.

    Raises:
        TokenOverflowError: the layout is one of limbs, or has fewer than twelve slots.
    """
    if spec.parts != "actuators" or spec.max_limbs < NUM_ACTUATORS or spec.joints_per_limb != 1:
        raise TokenOverflowError(
            f"quadrupeds need a layout of at least {NUM_ACTUATORS} tokens for one actuator each, "
            f"got {spec.max_limbs} tokens for {spec.parts} with {spec.joints_per_limb} joints"
        )
    shape = (len(robots), spec.max_limbs)
    context = np.zeros((*shape, spec.num_context), np.float32)
    parents = np.full(shape, PARENT_OF_PADDING, np.int64)
    parents[:, :NUM_ACTUATORS] = ACTUATOR_PARENTS
    padding = np.ones(shape, np.bool_)
    padding[:, :NUM_ACTUATORS] = False
    columns = spec.context_indices
    for row, compiled in enumerate(robots):
        tokens = np.zeros((NUM_ACTUATORS, spec.num_features))
        for name, values in _features(compiled).items():
            if name not in spec.without:
                group = spec.slice(name)
                tokens[:, group.start : group.stop] = values
        context[row, :NUM_ACTUATORS] = tokens[:, columns]
    return MorphologyTable(
        spec=spec,
        names=tuple(compiled.robot.name for compiled in robots),
        digests=tuple(robot_digest(compiled.robot) for compiled in robots),
        context=context,
        limb_padding_mask=padding,
        action_padding_mask=padding[..., None].copy(),
        parents=parents,
        num_limbs=np.full(len(robots), NUM_ACTUATORS, np.int64),
    )


def _features(compiled: CompiledRobot) -> dict[str, DoubleArray]:
    """Return the features of the twelve actuators by name, scaled as in `TokenSpec.slices`."""
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
